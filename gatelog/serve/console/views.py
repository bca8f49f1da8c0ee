"""One function per page: what is asked of the read model, and how it is shown.

Theory. A view gets the questions it may ask and what the address says, and returns data (the page's
JSON) with its HTML. It runs in a thread, so a page is one turn of a connection.

Invariant: lists are pages of at most `ROWS`; a name that is a link leads to a page that is there.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct, structs

from gatelog.readmodel import moments, quota, timeline
from gatelog.readmodel import usage as sums
from gatelog.readmodel.explain import Explanation, explain, lines
from gatelog.readmodel.moments import Asked
from gatelog.readmodel.phrases import QUIET_ACTIONS
from gatelog.readmodel.quota import QuotaRow
from gatelog.readmodel.rates import missing, unit_name
from gatelog.readmodel.rows import LifeRow, WaitRow
from gatelog.readmodel.starts import sentence
from gatelog.readmodel.timeline import plain
from gatelog.serve.api import finding
from gatelog.serve.api.params import Listing, read_place, token
from gatelog.serve.api.selectors import Term, read_labels
from gatelog.serve.api.status import Refused, bad
from gatelog.serve.console import picture
from gatelog.serve.console.html import Html, h, table
from gatelog.serve.words import amount, rfc, span
from podgroup.lifecycle import STAGES, STATES

ROWS = 50
_MOST = 5000
_MOST_CARDS = 200
_STORY = 300
"""Pods up to which a group's story is shown line by line on its page."""
_DRAWN = 20_000
_WINDOWS = {1: "hour", 6: "6 hours", 24: "day", 168: "week"}
"""Windows that are drawn, in hours."""
_FIRST_YEAR = 1971
_DIVIDED = ("namespace", "localqueue", "queue", "flavor")
_PARTS = ("ran", "wasted", "held", "waited")


class Seen(Struct, frozen=True, kw_only=True):
    """What an address says: the moment (None: now), and its parameters."""

    at: datetime | None
    query: Mapping[str, str]
    now: datetime
    quota: bool = True
    """The viewer may see quota: pages of ClusterQueues."""

    @property
    def moment(self) -> datetime:
        """The time that is looked at."""
        return self.at or self.now

    @property
    def offset(self) -> int:
        """Rows to skip."""
        text = self.query.get("offset", "")
        if not text:
            return 0
        if not (text.isascii() and text.isdigit() and len(text) < 9):
            raise bad(f"offset is {text[:40]!r}: a whole number from 0 on is allowed")
        return int(text)

    def link(self, path: str, **query: Any) -> str:
        """Return an address at the same moment."""
        given = {**query, **({"at": rfc(self.at)} if self.at else {})}
        shown = {key: value for key, value in given.items() if value not in ("", None)}
        return path + (f"?{urlencode(shown)}" if shown else "")


class Page(Struct, frozen=True, kw_only=True):
    """A page: its title, its data, and how it is shown."""

    title: str
    data: Any
    body: Html


def when(at: datetime | None, seen: Seen) -> Html:
    """Return a time with how long ago it was."""
    if at is None:
        return h("span", "–")
    ago = span((seen.moment - at).total_seconds())
    return h(
        "time", f"{ago} ago", datetime=rfc(at), title=f"{at:%Y-%m-%d %H:%M:%S} UTC", class_="num"
    )


def clock(at: datetime) -> Html:
    """Return a time in full."""
    return h("time", f"{at:%Y-%m-%d %H:%M:%S}", datetime=rfc(at), class_="num")


def state(word: str) -> Html:
    """Return a state as a mark."""
    return h("span", word, class_="state")


def group_link(seen: Seen, namespace: str, name: str, uid: str = "") -> Html:
    """Return a link to a group."""
    return h("a", f"{namespace}/{name}", href=seen.link(f"/groups/{namespace}/{name}", life=uid))


def queue_link(seen: Seen, name: str) -> Html:
    """Return a ClusterQueue's name, as a link for those who may see it."""
    return h("a", name, href=seen.link(f"/queues/{name}")) if seen.quota else h("span", name)


def pager(seen: Seen, path: str, shown: int, **query: Any) -> Html | None:
    """Return links to the pages before and after."""
    before, behind = seen.offset > 0, shown > ROWS
    if not before and not behind:
        return None
    back = seen.link(path, **query, offset=max(seen.offset - ROWS, 0) or None)
    on = seen.link(path, **query, offset=seen.offset + ROWS)
    return h(
        "p",
        h("a", "← earlier", href=back, rel="prev") if before else None,
        " " if before and behind else None,
        h("a", "further →", href=on, rel="next") if behind else None,
    )


def held_text(resources: Mapping[str, Mapping[str, int]]) -> str:
    """Return amounts held."""
    return ", ".join(
        f"{amount(resource, number)} {resource} of {flavor or 'no flavor'}"
        for flavor, held in resources.items()
        for resource, number in held.items()
    )


# Queues.


def queues(asked: Asked, seen: Seen) -> Page:
    """Return ClusterQueues: quota, what is held, who waits."""
    model = asked.model
    objects = finding.all_queues(model)
    stood: dict[str, list[QuotaRow]] = defaultdict(list)
    for one in asked.model.quota("ClusterQueue", at=seen.at, note=asked.note):
        stood[one.name].append(one)
    lengths: dict[str, list[moments.LengthRow]] = defaultdict(list)
    for row in _lengths(asked, seen, ""):
        lengths[row.cluster_queue].append(row)
    cards, data = [], []
    for known in objects[seen.offset : seen.offset + ROWS]:
        queue = finding.cluster_queue(known, (), stood[known.name])
        pending = sum(row.groups for row in lengths[known.name])
        data.append(
            {"name": known.name, "cohort": queue.cohort, "pending": pending, "usage": queue.usage}
        )
        cards.append(
            h(
                "li",
                h("h2", h("a", known.name, href=seen.link(f"/queues/{known.name}"))),
                h("p", f"cohort {queue.cohort}", class_="quiet") if queue.cohort else None,
                [_bar(u.flavor, u.resource, u.held, u.nominal) for u in queue.usage]
                or h("p", "no quota", class_="quiet"),
                [
                    h("p", f"lends {u.lent} {u.resource} ({u.flavor})", class_="quiet")
                    for u in queue.usage
                    if u.lent
                ],
                _wait_line(lengths[known.name], seen),
            )
        )
    waiting = sum(row.groups for rows in lengths.values() for row in rows)
    body = [
        h("h1", "Queues"),
        h("p", f"Pending groups: {waiting:,}. ClusterQueues: {len(objects):,}.", class_="quiet"),
        h("ul", cards, class_="cards")
        if cards
        else h("p", "No ClusterQueue is known yet.", class_="notice"),
        pager(seen, "/", len(objects) - seen.offset),
    ]
    data_ = {"queues": data, "queuesInAll": len(objects), "waiting": waiting}
    return Page(title="Queues", data=data_, body=h("div", body))


def local_queues(asked: Asked, seen: Seen, namespace: str) -> Page:
    """Return the LocalQueues of a namespace: what its groups hold, and who of them waits."""
    objects = finding.all_queues(asked.model, "LocalQueue", namespace)
    stood: dict[str, list[QuotaRow]] = defaultdict(list)
    for one in asked.model.quota("LocalQueue", namespace, at=seen.at, note=asked.note):
        stood[one.name].append(one)
    lengths: dict[str, list[moments.LengthRow]] = defaultdict(list)
    for row in _lengths(asked, seen, namespace):
        lengths[row.queue].append(row)
    waiting = _waiting(asked, seen, "", ROWS + 1, seen.offset, namespace)
    cards, data = [], []
    for known in objects[:_MOST_CARDS]:
        usage = [
            {"flavor": u.flavor, "resource": u.resource, "held": amount(u.resource, u.held)}
            for u in stood[known.name]
            if u.held
        ]
        pending = sum(row.groups for row in lengths[known.name])
        cluster_queue = finding.cluster_queue_of(known)
        data.append(
            {
                "name": known.name,
                "clusterQueue": cluster_queue,
                "pending": pending,
                "usage": usage,
            }
        )
        cards.append(
            h(
                "li",
                h("h2", known.name),
                h("p", "of ClusterQueue ", queue_link(seen, cluster_queue), class_="quiet")
                if cluster_queue
                else None,
                [h("p", f"holds {u['held']} {u['resource']} ({u['flavor']})") for u in usage]
                or h("p", "holds nothing"),
                _wait_line(lengths[known.name], seen),
            )
        )
    body = [
        h("h1", f"Queues of {namespace}"),
        h("ul", cards, class_="cards")
        if cards
        else h("p", f"Namespace {namespace} has no LocalQueue.", class_="notice"),
        h("h2", "Who waits"),
        h("p", _forecast(asked, seen), class_="quiet") if waiting else None,
        _line(waiting, seen),
        pager(seen, "/", len(waiting), namespace=namespace),
    ]
    data_ = {"namespace": namespace, "queues": data, "waiting": waiting[:ROWS]}
    return Page(title=f"Queues of {namespace}", data=data_, body=h("div", body))


def _lengths(asked: Asked, seen: Seen, namespace: str) -> list[moments.LengthRow]:
    query = moments.LENGTHS_AT if seen.at else moments.LENGTHS_NOW
    given = {"queue": "", "namespace": namespace, "limit": finding.MOST_ROWS, "at": seen.moment}
    return asked.rows("how many wait", moments.LengthRow, query, given)


def _wait_line(rows: Iterable[moments.LengthRow], seen: Seen) -> Html:
    """Say how many are pending in which stage, and for how long."""
    found = list(rows)
    since = [row.since for row in found if row.since is not None]
    longest = f", the first for {span((seen.moment - min(since)).total_seconds())}" if since else ""
    count = sum(row.groups for row in found)
    return h("p", f"{count:,} pending{_by_stage(found)}{longest}")


def _by_stage(rows: Iterable[moments.LengthRow]) -> str:
    counts: dict[str, int] = defaultdict(int)
    for row in rows:
        counts[row.stage] += row.groups
    names = [one for one in dict.fromkeys(stage.name for stage in STAGES) if counts[one]]
    parts = ", ".join(f"{counts[name]:,} {name}" for name in names)
    return f" ({parts})" if parts else ""


def _bar(flavor: str, resource: str, used: str, nominal: str) -> Html:
    from podgroup.quantity_text import parse

    words = f"{resource}: {used} of {nominal} ({flavor})"
    return h(
        "div",
        h("span", words, class_="num"),
        picture.bar(float(parse(used)), float(parse(nominal or "0")), words),
    )


def _waiting(
    asked: Asked, seen: Seen, queue: str, limit: int, offset: int, namespace: str = ""
) -> list[moments.WaitingRow]:
    given = {"queue": queue, "namespace": namespace, "limit": limit, "offset": offset}
    query = moments.WAITING_AT if seen.at else moments.WAITING_NOW
    return asked.rows("who waits", moments.WaitingRow, query, {**given, "at": seen.moment})


def _line(waiting: Sequence[moments.WaitingRow], seen: Seen) -> Html:
    """Return who is pending, first those that have a position in the ClusterQueue."""
    rows = [
        [
            str(one.position or "–"),
            group_link(seen, one.namespace, one.name, one.id),
            _start(one, seen),
            one.stage,
            one.reason,
            when(one.since, seen),
            plain(one.message),
            one.queue,
            str(one.priority),
        ]
        for one in waiting[:ROWS]
    ]
    head = [
        "position",
        "group",
        "start",
        "stage",
        "reason",
        "since",
        "why",
        "LocalQueue",
        "priority",
    ]
    return table(head, rows, "In the order of the queue", "nothing is pending")


def queue(asked: Asked, seen: Seen, name: str) -> Page:
    """Return one ClusterQueue: who waits, who holds, and what was held in the last day."""
    named = finding.queue_objects(asked.model, "ClusterQueue", "", name, limit=1)
    if not named:
        raise Refused(404, f"there is no ClusterQueue {name}")
    (found,) = named
    given = {"queue": name, "at": seen.moment, "limit": ROWS + 1, "offset": seen.offset}
    waiting = _waiting(asked, seen, name, ROWS + 1, seen.offset)
    forecast = _forecast(asked, seen)
    holding = asked.rows("who holds", moments.HoldingRow, moments.HOLDING, given)
    hours = _hours(seen)
    since = seen.moment - timedelta(hours=hours)
    series = _over_time(asked, name, since, seen.moment)
    stood = asked.model.quota("ClusterQueue", name=name, at=seen.at, note=asked.note)
    usage = finding.cluster_queue(found, (), stood)
    step = span((seen.moment - since).total_seconds() / quota.STEPS)
    charts = [
        picture.usage(
            f"{one.resource} ({one.flavor}): held in the {_WINDOWS[hours]} before "
            f"{seen.moment:%Y-%m-%d %H:%M} UTC, as it stood every {step}",
            one,
            since,
            seen.moment,
        )
        for one in series[:8]
    ]
    holders = [
        [
            group_link(seen, one.namespace, one.name, one.id),
            str(one.priority),
            when(one.admitted_at, seen),
            held_text(one.resources),
        ]
        for one in holding[:ROWS]
    ]
    path = f"/queues/{name}"
    others = [
        h(
            "li",
            h("a", f"{words}", href=seen.link(path, hours=one), aria_current=one == hours or None),
        )
        for one, words in _WINDOWS.items()
    ]
    body = [
        h("h1", f"ClusterQueue {name}"),
        h(
            "p",
            f"{usage.strategy}{', cohort ' + usage.cohort if usage.cohort else ''}",
            class_="quiet",
        ),
        table(
            ["flavor and resource", "quota", "held", "borrowed", "idle", "lent of that"],
            [
                [
                    f"{u.resource} of {u.flavor}",
                    *(u.nominal, u.held, u.borrowed or "0", u.idle or "0", u.lent or "0"),
                ]
                for u in usage.usage
            ],
            "Quota at the time" if seen.at else "Quota",
            "no quota",
        ),
        h("h2", "Held over time"),
        h("ul", others, class_="choices", aria_label="Window"),
        [*charts, picture.usage_legend()] if charts else h("p", "nothing", class_="quiet"),
        h("h2", "Who waits"),
        h("p", forecast, class_="quiet") if waiting else None,
        _line(waiting, seen),
        pager(seen, path, max(len(waiting), len(holding)), hours=hours if hours != 24 else None),
        _idle(asked, seen, name),
        h("h2", "Who holds"),
        table(["group", "priority", "since", "holds"], holders, "Oldest admission first", "nobody"),
    ]
    data = {
        "name": name,
        "usage": usage.usage,
        "overTime": {
            "since": since,
            "until": seen.moment,
            "steps": quota.STEPS,
            "series": series,
        },
        "waiting": waiting[:ROWS],
        "holding": holding[:ROWS],
    }
    return Page(title=f"Queue {name}", data=data, body=h("div", body))


def _idle(asked: Asked, seen: Seen, queue: str) -> Html | None:
    """Return who holds quota and runs nothing, as it is now."""
    rows = [] if seen.at else asked.model.idle(queue=queue, limit=ROWS)
    shown = [
        [group_link(seen, one.namespace, one.name), when(one.since, seen), one.message]
        for one in rows
    ]
    if not shown:
        return None
    return h(
        "div",
        h("h2", "Holds quota, runs nothing"),
        table(["group", "since", "why"], shown, "Longest first"),
    )


def _hours(seen: Seen) -> int:
    text = seen.query.get("hours", "") or "24"
    if text not in [str(hours) for hours in _WINDOWS]:
        raise bad(f"hours is {text[:40]!r}: {', '.join(map(str, _WINDOWS))} are allowed")
    return int(text)


def _over_time(asked: Asked, name: str, since: datetime, until: datetime) -> list[quota.Series]:
    """Return what a queue held, borrowed and lent over a window."""
    given = {**quota.window(since, until), "name": name, "limit": finding.MOST_ROWS}
    query = quota.OVER_TIME[asked.model.dialect]
    return quota.over_time(name, asked.rows("quota over time", quota.StepRow, query, given))


def _forecast(asked: Asked, seen: Seen) -> str:
    """Say how old expected starts are."""
    given = {"at": seen.moment, "limit": 1}
    (found,) = asked.rows("forecast", moments.ForecastRow, moments.FORECAST, given)
    if found.at is None:
        return "No forecast was made, so nobody is told a start: an operator runs gatelog forecast."
    ago = span((seen.moment - found.at).total_seconds())
    return (
        f"Starts are of a forecast made {ago} ago; nine times in ten a start is within its range."
    )


def _start(one: moments.WaitingRow, seen: Seen) -> str:
    if one.never is None:
        return "–"
    return sentence(one.expected_at, one.latest_at, one.never, seen.moment)


# Groups.


def groups(asked: Asked, seen: Seen) -> Page:
    """Return groups that were searched for."""
    query = seen.query
    namespace, name = query.get("namespace", "").strip(), query.get("name", "").strip()
    word, label, reason = (query.get(key, "").strip() for key in ("state", "label", "reason"))
    terms = [("status.state", word), ("status.waiting.reason", reason)]
    listing = Listing(
        limit=ROWS,
        after=read_place(query.get("after", "")),
        labels=read_labels(label),
        fields=tuple(Term(key, "in", (value,)) for key, value in terms if value),
    )
    also: list[str] = []
    given: dict[str, Any] = {}
    if name:
        # Letter by letter, whatever order of letters the database has.
        also.append("substr(g.name, 1, :length) = :begins")
        given |= {"begins": name, "length": len(name)}
    if seen.at is not None:
        also.append("g.created_at <= :at AND (g.gone_at IS NULL OR g.gone_at > :at)")
        given["at"] = seen.at
    gone = query.get("gone", "") in ("1", "on", "true") or seen.at is not None
    rows, behind = finding.lives(
        asked.model, namespace, listing, ROWS, also=also, values=given, gone=gone, note=asked.note
    )
    shown = [
        [
            group_link(seen, one.namespace, one.name, one.id),
            state(one.state),
            one.queue or "–",
            f"{one.pods_running + one.pods_succeeded}/{one.total_count or one.pods_seen}",
            one.wait_reason or one.reason or "–",
            when(one.created_at, seen),
        ]
        for one in rows
    ]
    chosen = {"namespace": namespace, "name": name, "state": word, "label": label, "reason": reason}
    chosen["gone"] = "1" if gone and seen.at is None else ""
    on = seen.link("/groups", **chosen, after=token(behind)) if behind else ""
    body = [
        h("h1", "Groups"),
        _search(seen, chosen),
        h("p", h("a", f"Queues of {namespace}", href=seen.link("/", namespace=namespace)))
        if namespace
        else None,
        table(
            ["group", "state", "queue", "pods", "reason", "created"],
            shown,
            "By namespace and name; states are those of now",
            "Nothing was found. A name is sought by its beginning; what is gone only if asked for.",
        ),
        h("p", h("a", "further →", href=on, rel="next")) if on else None,
    ]
    return Page(
        title="Groups",
        data={"groups": [finding.podgroup(one) for one in rows]},
        body=h("div", body),
    )


def _search(seen: Seen, chosen: Mapping[str, str]) -> Html:
    def field(name: str, label: str, **more: Any) -> Html:
        return h("label", label, h("input", name=name, value=chosen.get(name, ""), **more))

    states = [h("option", "any", value="")] + [
        h("option", word, value=word, selected=chosen["state"] == word) for word in STATES
    ]
    return h(
        "form",
        field("namespace", "namespace", autocapitalize="off"),
        field("name", "name begins with", autocapitalize="off"),
        field("label", "labels", placeholder="team=red", autocapitalize="off"),
        field("reason", "waits for", placeholder="WaitingForQuota", autocapitalize="off"),
        h("label", "state", h("select", states, name="state")),
        h(
            "label",
            "what is gone, too",
            h("input", type="checkbox", name="gone", value="1", checked=bool(chosen["gone"])),
        ),
        h("input", type="hidden", name="at", value=rfc(seen.at)) if seen.at else None,
        h("button", "Search", type="submit"),
        method="get",
        action="/groups",
        role="search",
    )


def group(asked: Asked, seen: Seen, namespace: str, name: str) -> Page:
    """Return a group: its picture, decisions, waits, who stood in the way, and its pods."""
    life = _life(asked, seen, namespace, name)
    begin = life.created_at
    end = min(life.gone_at or life.finished_at or seen.moment, seen.moment)
    last = [life.finished_at, life.gone_at]
    end = max([end, *(min(at, seen.moment) for at in last if at is not None), begin])
    given: dict[str, Any] = {"group_id": life.id, "limit": _DRAWN, "offset": 0}
    pods = [
        pod
        for pod in asked.rows("pods", picture.PodRow, moments.PODS, given)
        if pod.created_at <= seen.moment
    ]
    waits = [w for w in asked.model.waits(life.id) if w.from_at <= seen.moment]
    decided = asked.rows(
        "decisions", moments.DecidedRow, moments.DECIDED, {**given, "limit": _MOST}
    )
    decided = [one for one in decided if one.first_at <= seen.moment]
    window = {
        "since": begin,
        "until": seen.moment,
        "group_id": life.id,
        "namespace": "",
        "limit": ROWS,
    }
    preempted = asked.rows("preemptions", moments.PreemptedRow, moments.PREEMPTED, window)
    estimates = asked.rows(
        "expected starts it was told",
        moments.EstimateRow,
        moments.ESTIMATES,
        {"group_id": life.id, "at": seen.moment, "limit": ROWS},
    )
    title = f"{life.namespace}/{life.name}"
    body = [
        h("h1", title),
        _standing(life, explain(asked.model, life, seen.now), seen),
        h("h2", "Timeline"),
        picture.timeline(f"Timeline of {title}", pods, waits, begin, end),
        h("h2", "Why"),
        table(
            ["rule", "what", "why", "times", "first", "last"],
            [
                [
                    one.rule,
                    one.action,
                    plain(one.message) + (f" ({one.rejected} refused)" if one.rejected else ""),
                    str(one.decisions),
                    clock(one.first_at),
                    clock(one.last_at),
                ]
                for one in decided
                if one.action not in QUIET_ACTIONS
            ],
            "Decisions, by rule, in the order they began; what only mirrors them is in the JSON",
            "nothing was decided yet",
        ),
        h("h2", "Waits"),
        _wait_table(waits, seen),
        _estimates(estimates, seen),
        h("h2", "Who stood in the way"),
        _preemptions(preempted, seen, life.id),
        _story(asked, life, seen) if life.pods_seen <= _STORY else None,
        h("h2", f"Pods ({len(pods):,})"),
        _pods(pods, seen, title, life.id),
    ]
    data = {
        "group": finding.podgroup(life),
        "waits": waits,
        "decisions": decided,
        "preemptions": preempted,
        "estimates": estimates,
        "pods": pods[seen.offset : seen.offset + ROWS],
        "podsInAll": len(pods),
    }
    return Page(title=title, data=data, body=h("div", body))


def _life(asked: Asked, seen: Seen, namespace: str, name: str) -> LifeRow:
    uid = seen.query.get("life", "")
    fields = [Term("metadata.uid", "in", (uid,))] if uid else []
    if uid:
        rows, _ = finding.lives(
            asked.model, namespace, Listing(fields=tuple(fields)), 1, note=asked.note
        )
        found = rows[0] if rows else None
    else:
        found = finding.life(asked.model, namespace, name)
    if found is None:
        raise Refused(
            404,
            f"there is no group or pod {namespace}/{name}, and there was none that is remembered",
        )
    return found


def _standing(life: LifeRow, why: Explanation, seen: Seen) -> Html:
    what = "single pod" if life.kind == "single" else f"group of {life.total_count:,} pods"
    cluster_queue = (
        [" of ClusterQueue ", queue_link(seen, life.cluster_queue)] if life.cluster_queue else None
    )
    return h(
        "div",
        h(
            "p",
            state(life.state),
            f" {what}, queue {life.queue or '(none)'}",
            cluster_queue,
            f", priority {life.priority}, created ",
            when(life.created_at, seen),
        ),
        [
            h("p", h("b", f"{one.label}: ") if one.label else None, one.text)
            for one in lines(why, seen.now, own_only=not seen.quota)
        ],
        h(
            "p",
            "States and counts are those of now; the picture ends at the time you chose.",
            class_="quiet",
        )
        if seen.at
        else None,
    )


def _estimates(rows: Iterable[moments.EstimateRow], seen: Seen) -> Html | None:
    def came(one: moments.EstimateRow) -> str:
        if one.came_at is None or one.came_at > seen.moment:
            return "it waits still"
        return f"{one.came} at {one.came_at:%Y-%m-%d %H:%M:%S}"

    shown = [
        [
            clock(one.given_at),
            clock(one.expected_at) if one.expected_at else "–",
            clock(one.latest_at) if one.latest_at else "–",
            plain(one.never) or "–",
            came(one),
        ]
        for one in rows
    ]
    if not shown:
        return None
    head = ["told", "to start", "nine in ten by", "never while", "what came"]
    return h("div", h("h2", "When it was expected to start"), table(head, shown, "Newest first"))


def _wait_table(waits: Iterable[WaitRow], seen: Seen) -> Html:
    rows = [
        [
            one.reason,
            clock(one.from_at),
            span(((one.to_at or seen.moment) - one.from_at).total_seconds())
            + ("" if one.to_at else ", and still"),
            plain(one.message),
        ]
        for one in waits
    ]
    return table(["reason", "since", "for", "in words"], rows, "Newest first", "it never waited")


def _preemptions(rows: Iterable[moments.PreemptedRow], seen: Seen, mine: str = "") -> Html:
    shown = [
        [
            clock(one.issued_at),
            group_link(seen, one.victim_namespace, one.victim, one.victim_id),
            group_link(seen, one.preemptor_namespace, one.preemptor, one.preemptor_id),
            str(one.priority),
            plain(one.message),
        ]
        for one in rows
    ]
    empty = "nobody preempted it, and it preempted nobody" if mine else "nobody was preempted"
    return table(
        ["when", "had to go", "for", "of priority", "why"],
        shown,
        "Preemptions, newest first",
        empty,
    )


def _story(asked: Asked, life: LifeRow, seen: Seen) -> Html:
    lines = [line for line in timeline.tell(asked.model.entries(life.id)) if line.at <= seen.moment]
    rows = [
        [
            clock(line.at),
            line.state or "",
            line.text(),
            f"{line.rule}: {line.because()}" if line.rule else line.because(),
        ]
        for line in lines
    ]
    return h(
        "div",
        h("h2", "Story"),
        table(["when", "state", "what", "why"], rows, "Everything that happened, in order"),
    )


def _pods(pods: list[picture.PodRow], seen: Seen, title: str, uid: str) -> Html:
    rows = [
        [
            one.name,
            one.phase,
            one.node or "–",
            one.fate or "–",
            one.exit_reason or "–",
            when(one.created_at, seen),
            when(one.started_at, seen),
        ]
        for one in pods[seen.offset : seen.offset + ROWS]
    ]
    head = ["pod", "phase", "node", "fate", "ended by", "created", "started"]
    shown = len(pods) - seen.offset
    return h(
        "div", table(head, rows, "By creation"), pager(seen, f"/groups/{title}", shown, life=uid)
    )


# The rest.


def preemptions(asked: Asked, seen: Seen) -> Page:
    """Return who was preempted in the week before the moment."""
    namespace = seen.query.get("namespace", "")
    given = {
        "since": seen.moment - timedelta(days=7),
        "until": seen.moment,
        "group_id": "",
        "namespace": namespace,
    }
    rows = asked.rows(
        "preemptions", moments.PreemptedRow, moments.PREEMPTED, {**given, "limit": ROWS * 2}
    )
    body = [
        h("h1", "Preemptions"),
        h("p", "In the seven days before, a hundred at most.", class_="quiet"),
        _preemptions(rows, seen),
    ]
    return Page(title="Preemptions", data={"preemptions": rows}, body=h("div", body))


def usage(asked: Asked, seen: Seen) -> Page:
    """Return resource-hours by namespace on the day of the moment."""
    namespace = seen.query.get("namespace", "")
    day = seen.moment.date()
    by = seen.query.get("by", "").strip() or "namespace"
    since = datetime(day.year, day.month, day.day, tzinfo=UTC)
    until = min(since + timedelta(days=1), seen.now)
    shares, unpriced, query, given = finding.spent_by(asked.model, by, since, until, namespace)
    asked.note(f"usage of a day by {by}", query, given)
    rates = asked.model.rates
    shown = [
        [
            one.key or "–",
            f"{one.resource}, {unit_name(one.resource)}",
            *(_hours_of(one.resource, number) for number in _parts(one)),
            f"{sums.money(one.cost):,.2f}" if rates else None,
        ][: 7 if rates else 6]
        for one in [*shares, *(_all_of(one) for one in sums.totals(shares) if len(shares) > 1)]
    ]
    head = [by, "resource", "ran", "of that wasted", "held, not run", "waited"]
    head += [f"cost {rates.currency}".rstrip()] if rates else []
    choices = [
        h(
            "li",
            h(
                "a",
                one,
                href=seen.link("/usage", namespace=namespace, by=one),
                aria_current="true" if one == by else None,
            ),
        )
        for one in _DIVIDED
    ]

    def other(to: date) -> str:
        return (
            seen.link("/usage", namespace=namespace, by=by)
            if to == seen.now.date()
            else (
                "/usage?"
                + urlencode(
                    {
                        "at": f"{to}T23:59:59Z",
                        **({"namespace": namespace} if namespace else {}),
                        **({"by": by} if by != "namespace" else {}),
                    }
                )
            )
        )

    body = [
        h("h1", f"Usage on {day}"),
        h(
            "p",
            "What pods asked for, times hours: while they ran, and while they held quota and did "
            "not run. Waiting takes nothing. Days are UTC.",
            class_="quiet",
        ),
        h("ul", choices, class_="choices", aria_label="Divided by"),
        h(
            "p",
            h("a", "← day before", href=other(day - timedelta(days=1)), rel="prev"),
            " ",
            h("a", "day after →", href=other(day + timedelta(days=1)), rel="next")
            if day < seen.now.date()
            else None,
        ),
        table(head, shown, f"{day}, by {by}", "nothing ran, held or waited"),
        h("p", _cost_note(rates is not None, unpriced), class_="quiet"),
    ]
    data = {
        "day": day.isoformat(),
        "by": by,
        "currency": rates.currency if rates else None,
        "usage": [
            {
                "key": one.key,
                "resource": one.resource,
                "unit": unit_name(one.resource),
                **{
                    word: float(sums.hours(one.resource, number))
                    for word, number in zip(_PARTS, _parts(one), strict=True)
                },
                "cost": float(sums.money(one.cost)) if rates else None,
            }
            for one in shares
        ],
    }
    return Page(title=f"Usage on {day}", data=data, body=h("div", body))


def _parts(one: sums.Share) -> tuple[int, int, int, int]:
    """Return what ran, what of that was wasted, what was held without running, what waited."""
    spent = one.spent
    wasted, held = sum(spent.wasted.values()), sum(spent.held.values())
    return spent.running + wasted, wasted, held, spent.waited


def _all_of(one: sums.Share) -> sums.Share:
    return structs.replace(one, key="all")


def _hours_of(resource: str, number: int) -> Html:
    return h("span", f"{sums.hours(resource, number):,.2f}", class_="num")


def _cost_note(priced: bool, unpriced: Sequence[tuple[str, str]]) -> str:
    if not priced:
        return "What it cost is shown where rates are set (serve.rates_file)."
    if not unpriced:
        return "Cost is of all that was taken: what ran, and what was held without running."
    return f"There is {missing(unpriced)}."


def operators(asked: Asked, seen: Seen) -> Page:
    """Return what operators look at: how far the projector is, what is parked, what is missing."""
    given = {"limit": ROWS}
    shards = asked.rows("checkpoints", moments.ShardRow, moments.SHARDS, given)
    parked = asked.rows("parked", moments.ParkedRow, moments.PARKED, given)
    gaps = asked.rows("beginnings of the log", moments.GapRow, moments.GAPS, given)
    unresolved = asked.rows(
        "decisions without outcome", moments.UnresolvedRow, moments.UNRESOLVED, given
    )
    body = [
        h("h1", "Health"),
        h("h2", "Projector"),
        table(
            ["shard", "position", "mode", "newest event", "last written"],
            [
                [str(s.shard), f"{s.seq:,}", s.mode, when(s.at, seen), when(s.written_at, seen)]
                for s in shards
            ],
            "Checkpoints",
            "No projector has written to this database yet.",
        ),
        h("h2", "Parked"),
        table(
            ["position", "when", "reason", "object", "why"],
            [
                [f"{p.seq}/{p.ord}", when(p.at, seen), p.reason, p.object or "–", plain(p.message)]
                for p in parked
            ],
            "Parked until a person releases it (gatelog parked)",
            "nothing is parked",
        ),
        h("h2", "Decisions without outcome"),
        table(
            ["action", "how many", "oldest"],
            [[u.action, str(u.decisions), when(u.oldest, seen)] for u in unresolved],
            "Under way, or nobody carries them out",
            "none",
        ),
        h("h2", "Beginnings of the log"),
        table(
            ["shard", "number", "when", "why", "may be missing"],
            [[str(g.shard), str(g.number), when(g.at, seen), g.reason, _missing(g)] for g in gaps],
            "Newest first",
            "one, without gaps",
        ),
    ]
    data = {"shards": shards, "parked": parked, "unresolved": unresolved, "epochs": gaps}
    return Page(title="Health", data=data, body=h("div", body))


def _missing(gap: moments.GapRow) -> str:
    if gap.lost_from is None:
        return "nothing"
    return f"positions {gap.lost_from} to {gap.lost_to if gap.lost_to is not None else '?'}"


def read_moment(text: str, now: datetime) -> datetime | None:
    """Return the time that an address chose, None for now; without a zone it is UTC.

    Raises:
        Refused: 400, it is no time, or lies ahead.
    """
    if not text.strip():
        return None
    try:
        at = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise bad(f"at is {text[:40]!r}: a time such as 2026-11-22T10:00:00Z is allowed") from None
    if at.year < _FIRST_YEAR:
        raise bad(f"at is {text[:40]!r}: a time from {_FIRST_YEAR} on is allowed")
    if at > now:
        return None
    return at
