"""Six places are asked the same of the same moments of random stories, and say the same.

The places: SQL views, command line, aggregated API, plugin (what it makes of the API's answer),
console (now, and looked at later as a past moment) and metrics. The questions: what is held,
borrowed, lent and unadmitted, how many are pending in which stage, how many pods of a group run,
positions, reasons, when a group is expected to start, and what ran, was held, wasted, waited for or
unadmitted by a moment of a day.

Ten random stories are told, four of them in `make test` (`TEST_STORIES`: how many in all).
"""

import io
import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from markupsafe import escape

from gatelog import cli
from gatelog.readmodel import usage
from gatelog.readmodel.asked import Asked
from gatelog.readmodel.explain import Explanation, explain, lines
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.rates import unit
from gatelog.readmodel.shared import short_of
from gatelog.readmodel.statements.groups import NOT_FOR_LISTS
from gatelog.serve import spending
from gatelog.serve.api import finding, finding_queues, finding_usage, visibility
from gatelog.serve.api.kinds import BY_PLURAL
from gatelog.serve.api.params import Listing
from gatelog.serve.api.table import table
from gatelog.serve.console import cohort, groups, queues
from gatelog.serve.console import queue as queue_page
from gatelog.serve.console import usage as usage_page
from gatelog.serve.console.group import group as group_page
from gatelog.serve.console.view import PageView
from gatelog.serve.words import amount
from gatelog.viacluster import answers
from podgroup.model.lifecycle import ADMITTED, PENDING, STAGES
from podgroup.model.reasons import effect_of
from podgroup.model.wording import first
from podgroup.state.world import World
from projector import tables
from projector.measures import gauges
from projector.storage.database import writer
from tests.projector.support import Writer
from tests.readmodel.stories import TEAMS, Story, kueue_admits

STORIES = int(os.environ.get("TEST_STORIES", "10"))
BRIEF = 4
"""Stories of `make test`."""
ALL = Listing(limit=1000)
Said = dict[str, Any]
"""What one place says to the questions it answers."""
MICROSECOND = timedelta(microseconds=1)
QUOTA = ("nominal", "held", "borrowed", "lent", "unadmitted")


def day_of(now: datetime) -> tuple[datetime, datetime]:
    begin = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return begin, begin + timedelta(days=1)


def spans_say(
    model: ReadModel, now: datetime, by: str = "namespace", until: datetime | None = None
) -> dict[tuple[str, str], dict[str, float]]:
    """Hours by namespace (or `by`), resource and column, of view v_usage_spans on the day, or in
    it up to a moment."""
    begin, end = day_of(now)
    end = until or end
    shares: dict[tuple[str, str], usage.Share] = {}
    for row in model.dicts("SELECT * FROM v_usage_spans", {}):
        key = row[by], row["resource"]
        cut = [datetime.fromisoformat(str(row[name])) for name in ("from_at", "to_at")]
        lasts = min(cut[1], end) - max(cut[0], begin)
        if lasts <= timedelta():
            continue
        share = shares.setdefault(key, usage.Share(key=key[0], resource=key[1]))
        amount = int(row["amount"]) * (lasts // timedelta(microseconds=1))
        share.spent.add(row["what"], row["why"], amount)
    return {key: hours(share) for key, share in shares.items()}


def hours(share: usage.Share) -> dict[str, float]:
    return {
        word: float(usage.hours(share.resource, amount))
        for word, amount in share.spent.columns.items()
    }


def columns_of(rows: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, float]]:
    return {
        (row["key"], row["resource"]): {word: row[word] for word in usage.COLUMNS} for row in rows
    }


def command_says_usage(
    url: str, now: datetime, until: datetime | None = None
) -> dict[tuple[str, str], dict[str, float]]:
    begin, end = day_of(now)
    period = ["--since", begin.isoformat(), "--until", (until or end).isoformat()]
    with redirect_stdout(io.StringIO()) as out:
        assert cli.run(["usage", *period, "--db", url, "--cluster", "test", "-o", "json"]) == 0
    return columns_of(json.loads(out.getvalue())["rows"])


Start = tuple[datetime | None, datetime | None, str]
"""When a group is expected, in 9 of 10 cases at the latest, and why never."""


def foretold(url: str, model: ReadModel, now: datetime) -> None:
    """Estimate the start of each group that is pending, in place of what was estimated before."""
    own = {"cluster": "test", "shard": 0, "as_of_seq": 1}
    forecast = own | {"at": now, "plays": 20, "took_ms": 5, "groups": 1, "drawn_from": {}}
    rows = []
    for number, row in enumerate(model.dicts("SELECT * FROM v_why_pending", {})):
        whole = now.replace(microsecond=0)  # the API writes seconds
        starts = [whole + timedelta(minutes=number * n) for n in (1, 1, 2)]
        kept = ("group_id", "namespace", "name", "queue", "cluster_queue", "priority")
        given = own | {name: row[name] for name in kept} | {"given_at": now, "position": 0}
        given |= dict(zip(("expected_at", "earliest_at", "latest_at"), starts, strict=True))
        if number % 4 == 3:
            given |= dict.fromkeys(("expected_at", "earliest_at", "latest_at"))
        never = "pods are missing" if number % 4 == 3 else ""
        rows.append(given | {"never": never, "came": ""})
    engine = writer(url)
    with engine.begin() as connection:
        connection.execute(sa.delete(tables.forecasts))
        connection.execute(sa.insert(tables.forecasts), [forecast])
        before = tables.estimates.update().where(tables.estimates.c.replaced_at.is_(None))
        connection.execute(before.values(replaced_at=now))
        if rows:
            connection.execute(sa.insert(tables.estimates), rows)
    engine.dispose()


def views_say(model: ReadModel) -> Said:
    def ask(query: str) -> list[dict[str, Any]]:
        return model.dicts(query, {})

    quota = {
        row["name"]: tuple(amount("cpu", row[word]) for word in QUOTA)
        for row in ask("SELECT * FROM v_quota WHERE kind = 'ClusterQueue' AND resource = 'cpu'")
    }
    pending: Counter[tuple[str, str]] = Counter()
    by_local: Counter[str] = Counter()
    for row in ask("SELECT * FROM v_pending"):
        pending[row["cluster_queue"], row["stage"]] += row["groups"]
        by_local[row["queue"]] += row["groups"]
    waits = ask("SELECT * FROM v_why_pending")
    return {
        "quota": {name: quota[name] for name in TEAMS},
        "pending": dict(pending),
        "pending by LocalQueue": dict(by_local),
        "held by LocalQueue": {
            row["name"]: (amount("cpu", row["held"]), amount("cpu", row["unadmitted"]))
            for row in ask("SELECT * FROM v_quota WHERE kind = 'LocalQueue' AND resource = 'cpu'")
            if row["held"] or row["unadmitted"]
        },
        "pods": {
            r["id"]: f"{r['pods_running'] + r['pods_succeeded']}/{r['total_count']}"
            for r in ask("SELECT * FROM groups WHERE gone_at IS NULL")
        },
        "positions": {r["group_id"]: r["position"] for r in ask("SELECT * FROM v_queue_position")},
        "reasons": {row["group_id"]: row["reason"] for row in waits},
        "starts": {
            row["group_id"]: (instant(row["expected_at"]), instant(row["latest_at"]), row["never"])
            for row in ask("SELECT * FROM v_expected_starts")
        },
    }


def instant(told: Any) -> datetime | None:
    return None if told is None else datetime.fromisoformat(str(told))


def command_line_says(model: ReadModel) -> Said:
    queues = model.queues("", 1000)
    rows = [one for one in queues if one.kind == "ClusterQueue" and one.name in TEAMS]
    listed = model.listed("", limit=1000)
    groups = {(one.namespace, one.name): one.id for one in listed}
    pending = {groups[one.namespace, one.name]: one for one in model.pending()}
    return {
        "pods": {one.id: one.pods for one in listed},
        "pending by LocalQueue": {
            one.name: one.pending for one in queues if one.kind == "LocalQueue" and one.pending
        },
        "held": {one.name: amount("cpu", one.held.get("f", {}).get("cpu", 0)) for one in rows},
        "unadmitted": {
            one.name: amount("cpu", one.unadmitted.get("f", {}).get("cpu", 0)) for one in rows
        },
        "starts": {
            i: (one.expected_at, one.latest_at, one.never)
            for i in pending
            if (one := model.expected(i)) is not None
        },
        "pending in all": {one.name: one.pending for one in rows},
        "positions": {i: one.position for i, one in pending.items() if one.position is not None},
        "position of each": {i: p for i in pending if (p := model.position(i)) is not None},
        "reasons": {identity: one.reason for identity, one in pending.items()},
    }


def why_says(model: ReadModel, now: datetime) -> Said:
    """What `why` of command line, plugin and the page of a group are made of."""
    pending = [one for one in model.listed("", limit=1000) if one.state in PENDING]
    found = {one.id: explain(model, one, now) for one in pending}
    return {
        "positions": {i: one.position for i, one in found.items() if one.position is not None},
        "reasons": {i: one.group.wait_reason or one.group.reason for i, one in found.items()},
        "starts": {
            i: (start.expected_at, start.latest_at, start.never)
            for i, one in found.items()
            if (start := one.expected) is not None
        },
    }


def api_says(model: ReadModel) -> Said:
    queues, _ = finding_queues.cluster_queues_page(model, "", ALL)
    mine = [one for one in queues if one.metadata.name in TEAMS]
    positions, _ = finding.positions_page(model, "", ALL)
    groups, _ = finding.groups_page(model, "", ALL)
    _, texts = plugin_says("clusterqueueusages", mine, answers.CLUSTER_QUEUES)
    local, _ = finding_queues.queues_page(model, "ns", ALL)
    _, pods = plugin_says("podgroups", groups, ("Name", "Pods"))
    named = {one.status.workload or one.metadata.name: one.metadata.uid for one in groups}
    return {
        "quota": {one.metadata.name: shown(u) for one in mine for u in one.usage},
        "pods": dict(
            zip([one.metadata.uid for one in groups], [one[-1] for one in pods], strict=True)
        ),
        "held by LocalQueue": {
            one.metadata.name: (u.held, u.unadmitted or "0") for one in local for u in one.usage
        },
        "pending by LocalQueue": {
            one.metadata.name: one.groups.pending for one in local if one.groups.pending
        },
        "positions as Kueue shows them": {
            named[one.metadata.name]: one.position_in_cluster_queue
            for queue in TEAMS
            for one in visibility.pending(model, "clusterqueues", "", queue, 1000, 0).items
        },
        "pending": {
            (one.metadata.name, stage): count
            for one in mine
            for stage in dict.fromkeys(stage.name for stage in STAGES)
            if (count := getattr(one.groups, stage))
        },
        "pending in all": {one.metadata.name: one.groups.pending for one in mine},
        "pending by the plugin": {name: int(pending) for _, name, pending, *_ in texts},
        "held by the plugin": {name: usage.split()[1] for _, name, *_, usage in texts},
        "positions": {
            one.metadata.uid: one.position.position_in_cluster_queue for one in positions
        },
        "reasons": {
            one.metadata.uid: one.status.waiting.reason if one.status.waiting else one.status.reason
            for one in groups
            if one.status.state in PENDING
        },
        "starts": {
            one.metadata.uid: (
                instant(start.time),
                instant(start.latest_time),
                start.message.partition("until this is fixed: ")[2],
            )
            for one in groups
            if (start := one.status.expected_start) is not None
        },
    }


def shown(u: Any) -> tuple[str, ...]:
    return u.nominal, u.held, u.borrowed or "0", u.lent or "0", u.unadmitted or "0"


def plugin_says(
    plural: str, found: list[Any], columns: tuple[str, ...]
) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of the plugin, of the table that the server sends."""
    sent = msgspec.json.decode(msgspec.json.encode(table(BY_PLURAL[plural], found, "", "1")))
    return answers.texts(answers.rows(sent), columns, everywhere=True)


def console_says(model: ReadModel, now: datetime, at: datetime | None) -> Said:
    def page(name: str) -> dict[str, Any]:
        seen = PageView(at=at, query={}, now=now)
        return dict(queue_page.queue(Asked(model), seen, name).data)

    seen = PageView(at=at, query={}, now=now)
    overview = queues.queues(Asked(model), seen).data
    local = queues.local_queues(Asked(model), seen, "ns").data["queues"]
    states = groups.groups(Asked(model), seen).data["states"]
    (pool,) = cohort.cohorts(Asked(model), seen).data["cohorts"]
    pages = {name: page(name) for name in TEAMS}
    waiting = {name: found["waiting"] for name, found in pages.items()}
    ends = {name: one for name, found in pages.items() for one in found["overTime"]["series"]}
    stages = Counter((name, one.stage) for name, rows in waiting.items() for one in rows)
    rows = [one for some in waiting.values() for one in some]
    return {
        "quota": {name: shown(u) for name, found in pages.items() for u in found["usage"]},
        "quota at the end of the chart": {
            name: tuple(amount("cpu", getattr(one, word)[-1]) for word in QUOTA)
            for name, one in ends.items()
        },
        "pending": dict(stages),
        "pending in all": {
            one["name"]: one["pending"] for one in overview["queues"] if one["name"] in TEAMS
        },
        "pending by LocalQueue": {one["name"]: one["pending"] for one in local if one["pending"]},
        "pending of all queues": sum(states.get(word, 0) for word in PENDING),
        "held by LocalQueue": {
            one["name"]: (u["held"], u["unadmitted"]) for one in local for u in one["usage"]
        },
        "quota in the cohort": {
            one.name: tuple(amount("cpu", getattr(one, word)) for word in QUOTA)
            for one in pool["members"]
            if one.kind == "ClusterQueue"
        },
        "positions": {one.id: one.position for one in rows if one.position is not None},
        "reasons": {one.id: one.reason for one in rows},
        "starts": {
            one.id: (one.expected_at, one.latest_at, one.never)
            for one in rows
            if one.never is not None
        },
    }


def usage_agrees(url: str, model: ReadModel, now: datetime) -> dict[str, float]:
    """Hold command line, API, plugin and console against the view; return the columns' sums."""
    wanted = spans_say(model, now)
    begin, end = day_of(now)
    assert command_says_usage(url, now) == wanted
    page = usage_page.usage(Asked(model), PageView(at=now, query={}, now=end))
    assert page.data["day"] == begin.date().isoformat()
    assert columns_of(list(page.data["usage"])) == wanted
    days = finding_usage.usage_of(model, "", begin.date().isoformat())
    assert {
        (day.metadata.namespace, u.resource): {word: getattr(u, word) for word in usage.COLUMNS}
        for day in days
        for u in day.usage
    } == wanted
    head, lines = plugin_says("namespaceusages", days, answers.DAYS)
    words = [head.index(word.upper()) for word in usage.COLUMNS]
    assert {(line[0], line[2]): [float(line[n]) for n in words] for line in lines} == {
        key: [round(n, 3) for n in one.values()] for key, one in wanted.items()
    }
    assert metrics_say_usage(model, end) == spans_say(model, now, "cluster_queue")
    return {word: sum(one[word] for one in wanted.values()) for word in usage.COLUMNS}


def usage_agrees_by(url: str, model: ReadModel, at: datetime) -> None:
    """Hold command line and metrics against the view, of the day of a moment up to then."""
    assert command_says_usage(url, at, at) == spans_say(model, at, until=at), at
    by_queue = spans_say(model, at, "cluster_queue", at)
    assert metrics_say_usage(model, at + MICROSECOND) == by_queue, at


def metrics_say_usage(model: ReadModel, end: datetime) -> dict[tuple[str, str], dict[str, float]]:
    """The metric of the day that ends, in hours of what people call one."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for (queue, resource, what), seconds in spending.today(model, end - MICROSECOND).items():
        one = 1.0 if resource == "cpu" else float(unit(resource))
        found.setdefault((queue, resource), {})[what] = round(seconds / one / 3600, 6)
    return found


def metrics_say(world: World) -> Said:
    stages: Counter[tuple[str, str]] = Counter()
    reasons: Counter[str] = Counter()
    for (queue, stage, reason), count in gauges.pending_groups(world).items():
        stages[queue, stage] += int(count)
        reasons[reason] += int(count)
    used, apart = gauges.quota_used(world), gauges.quota_unadmitted(world)
    return {
        "pending": dict(stages),
        "held": {name: amount("cpu", used[name, "f", "cpu"] * 1000) for name in TEAMS},
        "unadmitted": {n: amount("cpu", apart.get((n, "f", "cpu"), 0) * 1000) for n in TEAMS},
        "how often each reason": dict(reasons),
    }


def agreed(said: Said, model: ReadModel, world: World, now: datetime, at: datetime | None) -> None:
    """Hold all places against what the views said."""
    held = {name: quota[1] for name, quota in said["quota"].items()}
    in_all = {
        name: sum(n for (queue, _), n in said["pending"].items() if queue == name) for name in TEAMS
    }
    wanted = {
        **said,
        "held": held,
        "unadmitted": {name: quota[4] for name, quota in said["quota"].items()},
        "pending in all": in_all,
        "pending by the plugin": in_all,
        "held by the plugin": {n: f"{q[1]}/{q[0]}" for n, q in said["quota"].items()},
        "position of each": said["positions"],
        "quota at the end of the chart": said["quota"],
        "quota in the cohort": said["quota"],
        "pending of all queues": sum(said["pending"].values()),
        "positions as Kueue shows them": {i: n - 1 for i, n in said["positions"].items()},
        "how often each reason": dict(Counter(said["reasons"].values())),
    }
    places: list[tuple[str, Said]] = [("console", console_says(model, now, at))]
    if at is None:
        places += [
            ("command line", command_line_says(model)),
            ("why", why_says(model, now)),
            ("aggregated API and plugin", api_says(model)),
        ]
    if at is None and world.mode == "builtin":  # in kueue mode the books of quota are Kueue's
        places.append(("metrics", metrics_say(world)))
    for place, found in places:
        for question, answer in found.items():
            assert answer == wanted[question], f"{place}: {question}"


def case_of(model: ReadModel, found: Explanation, now: datetime, at: datetime | None) -> None:
    """Hold what the console's page of a group says first against the lines of `why`."""
    seen = PageView(at=at, query={"life": found.group.id}, now=now)
    said = lines(found, seen.moment)
    until = next(n for n in range(1, len(said) + 1) if n == len(said) or said[n].label)
    page = group_page(Asked(model), seen, found.group.namespace, found.group.name)
    for one in said[:until]:
        assert str(escape(one.text.rstrip("."))) in page.body, found.group.title


def after_admission(model: ReadModel, now: datetime) -> Said:
    """What views say of pods after admission, and of what let groups in; held against `explain`.

    Of a moment each place sums by reason: `why` of command line, plugin, API and the group's page.
    The lists of API and plugin count the pods, and console and `why` say the same words.
    """
    waits: Counter[tuple[str, str, str]] = Counter()
    for row in model.dicts("SELECT * FROM v_not_running", {}):
        waits[row["group_id"], row["reason"], row["subject"]] += 1
    counted: Counter[str] = Counter()
    for (identity, reason, _), pods in waits.items():
        counted[identity] += pods if f"'{reason}'" not in NOT_FOR_LISTS else 0
    listed, _ = finding.groups_page(model, "", ALL)
    _, texts = plugin_says("podgroups", listed, ("Name", "Not-Running"))
    for one, (*_, cell) in zip(listed, texts, strict=True):
        pods = counted[one.metadata.uid]
        assert one.status.pods_waiting is None or one.status.pods_waiting.pods == pods
        assert cell == (str(pods) if pods else "<none>"), one.metadata.name
    causes: dict[str, set[str]] = {}
    latest = """SELECT * FROM v_admission_causes c WHERE c.number = (
        SELECT max(a.number) FROM admissions a
         WHERE a.cluster = c.cluster AND a.group_id = c.group_id)"""
    for row in model.dicts(latest, {}):
        causes.setdefault(row["group_id"], set()).add(row["says"])
    groups = [one for one in model.listed("", limit=1000) if one.state in ADMITTED]
    for one in groups:
        found = explain(model, one, now)
        told = {(one.id, row.reason, row.subject): row.pods for row in found.not_running}
        assert told == {key: pods for key, pods in waits.items() if key[0] == one.id}, one.title
        assert {cause.says for cause in found.let_in_by} == causes[one.id], one.title
        case_of(model, found, now, None)
    known = {one.id for one in groups}
    return {
        "after admission": {key: pods for key, pods in waits.items() if key[0] in known},
        "let in": {one: said for one, said in causes.items() if one in known},
    }


def after_admission_then(said: Said, model: ReadModel, at: datetime, now: datetime) -> None:
    """Hold what is said later of a moment against what was said then.

    What happened at the very moment was not known then: a deletion bears the time of its request.
    """
    at_once = "SELECT group_id FROM pods WHERE :at IN (started_at, ended_at, deleted_at)"
    changing = {row["group_id"] for row in model.dicts(at_once, {"at": at})}
    groups = {one.id: one for one in model.listed("", gone=True, limit=1000)}
    for identity, causes in said["let in"].items():
        found = explain(model, groups[identity], at, past=True)
        assert found.group.state in ADMITTED, found.group.title
        told = {(identity, row.reason, row.subject): row.pods for row in found.not_running}
        then = {key: n for key, n in said["after admission"].items() if key[0] == identity}
        assert told == then or identity in changing, found.group.title
        assert {cause.says for cause in found.let_in_by} == causes, found.group.title
        case_of(model, found, now, at)


def waits_in_words(url: str, model: ReadModel, now: datetime, at: datetime | None) -> int:
    """Hold what lists say of waits for quota against `why`; return of how many groups it was."""
    past = at is not None
    listed = model.listed("", gone=past, limit=1000)
    wanted = {}
    for group in listed:
        found = explain(model, group, at or now, past=past)
        if found.shared.short and not effect_of(found.group.wait_reason).postponed:
            wanted[group.id] = "; ".join(short_of(found.group.wait_reason, found.shared.short))
    seen = PageView(at=at, query={"gone": "1"} if past else {}, now=now)
    rows = groups.groups(Asked(model), seen).data["groups"]
    waits = {one.metadata.uid: one.status.waiting for one in rows}
    assert {i: first(waits[i].message) for i in wanted if i in waits} == wanted, at
    for name in TEAMS:
        of_queue = queue_page.queue(Asked(model), PageView(at=at, query={}, now=now), name).data
        for one in of_queue["waiting"]:
            assert first(one.message) == wanted.get(one.id, first(one.message)), (at, one)
    if at is None:
        pending = {one.id: first(one.message) for one in model.pending()}
        assert {i: pending[i] for i in wanted} == wanted
        with redirect_stdout(io.StringIO()) as out:
            assert cli.run(["list", "groups", "--db", url, "--cluster", "test", "-o", "json"]) == 0
        messages = {one["id"]: first(one["wait_message"]) for one in json.loads(out.getvalue())}
        assert {i: messages[i] for i in wanted} == wanted
    return len(wanted)


def agreed_then(said: Said, console: Said) -> None:
    """Hold what the console says later of a moment against what the views said then.

    The order by use, and who had preempted others, is not kept: positions may differ.
    """
    for question in (
        *("quota", "pending", "pending by LocalQueue", "held by LocalQueue", "reasons", "starts"),
    ):
        assert console[question] == said[question], question
    assert console["quota in the cohort"] == said["quota"]
    assert console["pending of all queues"] == sum(said["pending"].values())


def told(seed: int, writer: Writer) -> Iterator[Any]:
    fed = 0
    for toy in Story(seed).moments():
        writer.feed(toy.messages[fed:])
        fed = len(toy.messages)
        yield toy


@pytest.mark.slow_with("postgresql", "the same on the other database; make test plays it on one")
@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(seed, marks=pytest.mark.slow("more stories") if seed >= BRIEF else ())
        for seed in range(STORIES)
    ],
)
def test_all_places_say_the_same(url: str, seed: int) -> None:
    writer, was, short = Writer(url), [], 0
    with ReadModel(url, "test") as model:
        for toy in told(seed, writer):
            now = toy.now.astimezone(UTC)
            foretold(url, model, now)
            said = views_say(model)
            agreed(said, model, toy.world, now, None)
            said |= after_admission(model, now)
            short += waits_in_words(url, model, now, None)
            claims = model.dicts("SELECT id FROM groups WHERE precedence > 0", {})
            by_use = any(one.usage_based for one in toy.world.cluster_queues.values())
            was.append((now, said, not claims and not by_use))
        for at, said, in_order in was[:-1]:
            then = console_says(model, now, at)
            agreed_then(said, then)
            after_admission_then(said, model, at, now)
            waits_in_words(url, model, now, at)
            assert not in_order or then["positions"] == said["positions"]
            usage_agrees_by(url, model, at)
        spent = usage_agrees(url, model, now)
    assert all(spent[word] for word in ("held", "waited", "unadmitted")), spent
    borrowed = [quota for _, said, _ in was for quota in said["quota"].values() if quota[2] != "0"]
    assert short, "a story in which nothing waits for quota asks little"
    assert borrowed, "a story in which nobody borrows asks little"


def test_all_places_say_the_same_where_kueue_admits(url: str) -> None:
    writer, fed, was = Writer(url), 0, []
    with ReadModel(url, "test") as model:
        for toy in kueue_admits():
            writer.feed(toy.messages[fed:])
            fed, now = len(toy.messages), toy.now.astimezone(UTC)
            foretold(url, model, now)
            said = views_say(model)
            agreed(said, model, toy.world, now, None)
            was.append((now, said))
        for at, said in was[:-1]:
            then = console_says(model, now, at)
            agreed_then(said, then)
            assert then["positions"] == said["positions"]  # all of one priority, none preempts
            usage_agrees_by(url, model, at)
        spent = usage_agrees(url, model, now)
    assert max(said["quota"]["red"][2] for _, said in was) == "2", "red borrowed"
    assert all(spent[word] for word in ("running", "held", "waited")), spent
