"""Following the record: random stories are followed to their end, whatever happens in them."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gatelog.whatif import reading
from podgroup.log import events as e
from podgroup.model.commands import AdmitGroup, EvictGroup, ReleaseQuota
from podgroup.model.names import PRIORITY_CLASS
from podgroup.rules import decides_by
from projector.replay.files import Export, FileLog
from tests.core.test_checks import check
from tests.golden.rows import logs
from tests.readmodel.stories import TEAMS, Story
from tests.support.toy import Toy
from tests.whatif.logs import log_of_toy
from tests.whatif.unchanged import beside_nothing, change, exact, played

CHECK = "prov"


def told(seed: int, path: Path, steps: int = 150) -> Toy:
    """Write a story as a log: preemption, deletions, changes of quota, checks, stops, restarts."""
    story = Story(seed)
    chance = random.Random(seed)
    check(story.toy, CHECK)
    for toy in story.moments(steps):
        if chance.random() < 0.1:  # a projector that starts says by what it decides
            policy = replace(toy.world.policy, status_interval_s=chance.choice((0, 1, 2)))
            toy.do(decides_by("builtin", policy, "another"))
        if chance.random() < 0.1:  # a watch that lost its place
            toy.send(e.RelistStarted(kind="Pod", relist="again"))
            for view in list(toy.pods.values()):
                toy.send(e.PodApplied(pod=view, relist="again"))
            version = toy.bump()
            toy.do(e.RelistCompleted(kind="Pod", relist="again", resource_version=version))
        if chance.random() < 0.3:
            stop = chance.choice(("None", "None", "Hold", "HoldAndDrain"))
            queue(toy, chance.choice(TEAMS), stop_policy=stop)
        if chance.random() < 0.3:
            queue(toy, chance.choice(TEAMS), checks=chance.choice(((), (CHECK,))))
        answer(toy, chance)
    log_of_toy(toy, path)
    return toy


def queue(toy: Toy, name: str, **fields: Any) -> None:
    """Change a ClusterQueue."""
    known = toy.world.cluster_queues[name]
    toy.do(e.ObjectApplied(object=replace(known, resource_version=toy.bump(), **fields)))


def answer(toy: Toy, chance: random.Random) -> None:
    """Let the controller of the check say something of some that are asked."""
    for name in sorted(toy.workloads):
        workload = toy.workloads.get(name)
        if workload is not None and workload.checks and chance.random() < 0.6:
            state = chance.choices(("Ready", "Retry", "Rejected"), (8, 1, 1))[0]
            said = tuple(replace(one, state=state) for one in workload.checks)
            toy.put_workload(replace(workload, checks=said))
            toy.settle()


@pytest.mark.parametrize("seed", range(16))
def test_a_random_story_is_followed_to_its_end(seed: int, tmp_path: Path) -> None:
    told(seed, log := tmp_path / "story.jsonl.gz")
    past, found = beside_nothing(log, tmp_path)
    assert past.then.admissions >= 5
    exact(past, found)


def test_what_follows_is_counted_as_folded(tmp_path: Path) -> None:
    """By that number the journal is taken, which would grow with the log otherwise."""
    told(3, log := tmp_path / "story.jsonl.gz")
    past, found = beside_nothing(log, tmp_path)
    assert found.events >= past.events > 0


def test_the_stories_have_all_of_it(tmp_path: Path) -> None:
    actions: dict[str, int] = {}
    for seed in range(10):
        toy = told(seed, tmp_path / "story.jsonl.gz")
        for decision in toy.decisions:
            actions[decision.rule] = actions.get(decision.rule, 0) + 1
    assert actions["preempt"] > 20
    assert actions["drain"] > 10
    assert actions["review"] > 5


@pytest.mark.parametrize("seed", [*range(9), 17])
def test_a_story_on_other_quota_ends_and_says_who_left(seed: int, tmp_path: Path) -> None:
    """Rules, positions and versions of the play hold together, whatever leaves when."""
    told(seed, log := tmp_path / "story.jsonl.gz")
    past, found = played(log, change("clusterqueue/blue:cpu=9"))
    assert found.departures and found.other is not None
    left = {one.group for one in found.departures}
    then, now = past.then.starts, found.other.starts
    assert then is not None and now is not None
    for key in then.keys() - left:
        if key in now:
            assert now[key].at == then[key].at


def test_a_priority_leaves_with_the_groups_that_have_it(tmp_path: Path) -> None:
    """Who has the class leaves as it is composed; who has none leaves only if that matters."""
    told(3, log := tmp_path / "story.jsonl.gz")
    past, found = played(log, change("workloadpriorityclass/low:value=-5"))
    assert found.departures
    named = {
        seen.group
        for seen in past.gathered.pods.values()
        if seen.born.labels.get(PRIORITY_CLASS) == "low"
    }
    composed = {one.group for one in found.departures if one.concluded == "ComposeGroup"}
    assert composed and composed <= named


def otherwise(log: Path, to: Path, every: int) -> int:
    """Write a log whose record lacks some decisions on quota, as other rules had made it."""
    lacking = 0

    async def copy() -> None:
        nonlocal lacking
        found = FileLog(log)
        with Export(to, found.header) as export:
            number = 0
            async for entry in found.entries():
                kept = {}
                for key, decision in entry.recorded.items():
                    if isinstance(decision.command, AdmitGroup | EvictGroup | ReleaseQuota):
                        number += 1
                        if number % every == 0:
                            lacking += 1
                            continue
                    kept[key] = decision
                concluded = entry.concluded
                if concluded is not None:  # how many decisions are between records is other now
                    records = tuple(r for r in concluded.records if not isinstance(r, int))
                    concluded = replace(concluded, records=records)
                export.add(replace(entry, recorded=kept, concluded=concluded))

    asyncio.run(copy())
    return lacking


@pytest.mark.parametrize("every", [2, 3])
@pytest.mark.parametrize("seed", [1, 4])
def test_the_record_holds_where_today_s_rules_conclude_otherwise(
    seed: int, every: int, tmp_path: Path
) -> None:
    """A log that other rules have decided is followed to its end, too."""
    told(seed, log := tmp_path / "story.jsonl.gz")
    other = tmp_path / "other.jsonl.gz"
    assert otherwise(log, other, every) > 3
    past, found = beside_nothing(other, tmp_path)
    assert asyncio.run(reading.baseline(past, 1 << 60)).differing
    exact(past, found)


def test_a_day_that_other_rules_have_decided_is_followed(tmp_path: Path) -> None:
    (day,) = logs("teams43")
    other = tmp_path / "other.jsonl.gz"
    assert otherwise(day, other, 3) > 100
    exact(*beside_nothing(other, tmp_path))
