"""Six places are asked the same of the same moments of random stories, and say the same.

The places: SQL views, command line, aggregated API, plugin (what it makes of the API's answer),
console (now, and looked at later as a past moment) and metrics. The questions: what is held,
borrowed and lent, how many are pending in which stage, positions, and reasons.

`GATELOG_STORIES` is how many random stories are told (4).
"""

import os
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.moments import Asked
from gatelog.serve.api import finding
from gatelog.serve.api.params import Listing
from gatelog.serve.console import views
from gatelog.serve.words import amount
from gatelog.viacluster import answers
from podgroup.lifecycle import PENDING, STAGES
from podgroup.state import World
from projector.measures import gauges
from tests.projector.support import Writer
from tests.readmodel.stories import TEAMS, Story

STORIES = int(os.environ.get("GATELOG_STORIES", "4"))
ALL = Listing(limit=1000)
Said = dict[str, Any]
"""What one place says to the questions it answers."""


def views_say(model: ReadModel) -> Said:
    def ask(query: str) -> list[dict[str, Any]]:
        return model.dicts(query, {})

    quota = {
        row["name"]: tuple(
            amount("cpu", row[word]) for word in ("nominal", "held", "borrowed", "lent")
        )
        for row in ask("SELECT * FROM v_quota WHERE kind = 'ClusterQueue' AND resource = 'cpu'")
    }
    pending: Counter[tuple[str, str]] = Counter()
    for row in ask("SELECT * FROM v_pending"):
        pending[row["cluster_queue"], row["stage"]] += row["groups"]
    waits = ask("SELECT * FROM v_why_pending")
    return {
        "quota": {name: quota[name] for name in TEAMS},
        "pending": dict(pending),
        "positions": {r["group_id"]: r["position"] for r in ask("SELECT * FROM v_queue_position")},
        "reasons": {row["group_id"]: row["reason"] for row in waits},
    }


def command_line_says(model: ReadModel) -> Said:
    queues = [one for one in model.queues("", 1000) if one.name in TEAMS]
    rows = [one for one in queues if one.kind == "ClusterQueue"]
    groups = {(one.namespace, one.name): one.id for one in model.listed("", limit=1000)}
    pending = {groups[one.namespace, one.name]: one for one in model.pending()}
    return {
        "held": {one.name: amount("cpu", one.held.get("f", {}).get("cpu", 0)) for one in rows},
        "pending in all": {one.name: one.pending for one in rows},
        "positions": {i: one.position for i, one in pending.items() if one.position is not None},
        "position of each": {i: p for i in pending if (p := model.position(i)) is not None},
        "reasons": {identity: one.reason for identity, one in pending.items()},
    }


def api_says(model: ReadModel) -> Said:
    queues, _ = finding.cluster_queues_page(model, "", ALL)
    mine = [one for one in queues if one.metadata.name in TEAMS]
    positions, _ = finding.positions_page(model, "", ALL)
    groups, _ = finding.groups_page(model, "", ALL)
    table = [line.split() for line in answers.cluster_queues(plain(mine)).splitlines()[1:]]
    return {
        "quota": {
            one.metadata.name: (u.nominal, u.held, u.borrowed or "0", u.lent or "0")
            for one in mine
            for u in one.usage
        },
        "pending": {
            (one.metadata.name, stage): count
            for one in mine
            for stage in dict.fromkeys(stage.name for stage in STAGES)
            if (count := getattr(one.groups, stage))
        },
        "pending in all": {one.metadata.name: one.groups.pending for one in mine},
        "pending by the plugin": {name: int(pending) for name, pending, *_ in table},
        "held by the plugin": {cells[0]: cells[cells.index("cpu") + 1] for cells in table},
        "positions": {
            one.metadata.uid: one.position.position_in_cluster_queue for one in positions
        },
        "reasons": {
            one.metadata.uid: one.status.waiting.reason if one.status.waiting else one.status.reason
            for one in groups
            if one.status.state in PENDING
        },
    }


def plain(found: list[Any]) -> list[Any]:
    """Objects as the plugin gets them."""
    return [msgspec.json.decode(msgspec.json.encode(one)) for one in found]


def console_says(model: ReadModel, now: datetime, at: datetime | None) -> Said:
    def page(name: str) -> dict[str, Any]:
        seen = views.Seen(at=at, query={}, now=now)
        return dict(views.queue(Asked(model), seen, name).data)

    overview = views.queues(Asked(model), views.Seen(at=at, query={}, now=now)).data
    pages = {name: page(name) for name in TEAMS}
    waiting = {name: found["waiting"] for name, found in pages.items()}
    ends = {name: one for name, found in pages.items() for one in found["overTime"]["series"]}
    stages = Counter((name, one.stage) for name, rows in waiting.items() for one in rows)
    rows = [one for some in waiting.values() for one in some]
    return {
        "quota": {
            name: (u.nominal, u.held, u.borrowed or "0", u.lent or "0")
            for name, found in pages.items()
            for u in found["usage"]
        },
        "quota at the end of the chart": {
            name: tuple(
                amount("cpu", getattr(one, word)[-1])
                for word in ("nominal", "held", "borrowed", "lent")
            )
            for name, one in ends.items()
        },
        "pending": dict(stages),
        "pending in all": {
            one["name"]: one["pending"] for one in overview["queues"] if one["name"] in TEAMS
        },
        "positions": {one.id: one.position for one in rows if one.position is not None},
        "reasons": {one.id: one.reason for one in rows},
    }


def metrics_say(world: World) -> Said:
    stages: Counter[tuple[str, str]] = Counter()
    reasons: Counter[str] = Counter()
    for (queue, stage, reason), count in gauges.pending_groups(world).items():
        stages[queue, stage] += int(count)
        reasons[reason] += int(count)
    used = gauges.quota_used(world)
    return {
        "pending": dict(stages),
        "held": {name: amount("cpu", used[name, "f", "cpu"] * 1000) for name in TEAMS},
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
        "pending in all": in_all,
        "pending by the plugin": in_all,
        "held by the plugin": {n: f"{q[1]}/{q[0]}" for n, q in said["quota"].items()},
        "position of each": said["positions"],
        "quota at the end of the chart": said["quota"],
        "how often each reason": dict(Counter(said["reasons"].values())),
    }
    places: list[tuple[str, Said]] = [("console", console_says(model, now, at))]
    if at is None:
        places += [
            ("command line", command_line_says(model)),
            ("aggregated API and plugin", api_says(model)),
            ("metrics", metrics_say(world)),
        ]
    for place, found in places:
        for question, answer in found.items():
            assert answer == wanted[question], f"{place}: {question}"


def told(seed: int, writer: Writer) -> Iterator[Any]:
    fed = 0
    for toy in Story(seed).moments():
        writer.feed(toy.messages[fed:])
        fed = len(toy.messages)
        yield toy


@pytest.mark.parametrize("seed", range(STORIES))
def test_all_places_say_the_same(url: str, seed: int) -> None:
    writer, was = Writer(url), []
    with ReadModel(url, "test") as model:
        for toy in told(seed, writer):
            now = toy.now.astimezone(UTC)
            said = views_say(model)
            agreed(said, model, toy.world, now, None)
            was.append((now, said))
        for at, said in was[:-1]:
            console = console_says(model, now, at)
            assert console["quota"] == said["quota"]
            assert console["pending"] == said["pending"]
            assert console["reasons"] == said["reasons"]
    borrowed = [quota for _, said in was for quota in said["quota"].values() if quota[2] != "0"]
    assert borrowed, "a story in which nobody borrows asks little"
