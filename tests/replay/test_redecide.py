"""`gatelog replay --redecide`: exactly what was decided differently is found, and nothing else."""

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from gatelog.replay.differing import lines
from podgroup.log.events import Batch, Decision, OutcomeRecorded
from podgroup.log.records import Kept, Timed
from podgroup.model.commands import ReportPod, WriteWorkloadStatus
from podgroup.model.policy import Policy
from projector.replay.fold import Beginning, Difference, Redeciding, Result, fold
from projector.storage.database import writer
from tests.projector.support import busy_toy
from tests.replay.conftest import Ran
from tests.replay.support import Played, ToyLog, log_of
from tests.support.toy import Toy

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


async def folded(log: ToyLog) -> Result:
    return await fold(log.entries(), Beginning("test", "builtin"), redecide=Redeciding())


def differing(result: Result) -> tuple[list[str], list[str]]:
    """(ids made then only, ids made now only)."""
    then = [d.id for found in result.differences for d in found.then]
    now = [d.id for found in result.differences for d in found.now]
    return then, now


async def test_the_same_rules_decide_the_same() -> None:
    log = log_of(busy_toy())
    result = await folded(log)
    assert result.differences == [] and result.messages == len(log.messages)
    assert len(log.decisions) > 20


@pytest.mark.parametrize("rule", ["excess", "ungate", "admit", "finish", "compose", "mirror"])
async def test_a_rule_that_is_called_otherwise_now_is_found_and_nothing_else(rule: str) -> None:
    toy = busy_toy()
    log = log_of(toy)
    changed = [d for d in log.decisions if d.rule == rule]
    assert changed
    renamed = {d.id: f"{d.id}-other" for d in changed}
    log.decisions = [
        msgspec.structs.replace(d, rule="other", id=renamed[d.id]) if d.id in renamed else d
        for d in log.decisions
    ]
    log.messages = [(seq, at, answering(batch, renamed)) for seq, at, batch in log.messages]
    then, now = differing(await folded(log))
    assert then == list(renamed.values())
    assert now == list(renamed)


@pytest.mark.parametrize(
    ("action", "changes"),
    [
        ("UngatePod", {"labels": {"changed": "yes"}}),
        ("AdmitGroup", {"cluster_queue": "elsewhere"}),
        ("CreateWorkload", {"priority": 7}),
    ],
)
async def test_a_rule_that_commands_something_else_now_is_found(
    action: str, changes: dict[str, Any]
) -> None:
    """The same decision by id, but what it writes differs."""
    log = log_of(busy_toy())
    victim = last_with(log.decisions, action)
    other = msgspec.structs.replace(victim.command, **changes)
    place = log.decisions.index(victim)
    log.decisions[place] = msgspec.structs.replace(victim, command=other)
    result = await folded(log)
    first = result.differences[0]
    assert first.position == victim.as_of
    # More may follow in the same place: what was recorded has consequences of its own.
    assert other in [d.command for d in first.then]
    assert victim.command in [d.command for d in first.now]


async def test_another_reason_is_a_difference_and_another_wording_is_none() -> None:
    log = log_of(busy_toy())
    victim = last_with(log.decisions, "UngatePod")
    place = log.decisions.index(victim)
    log.decisions[place] = msgspec.structs.replace(victim, message="in other words")
    assert (await folded(log)).differences == []
    log.decisions[place] = msgspec.structs.replace(victim, reason="Whim")
    assert differing(await folded(log)) == ([victim.id], [victim.id])


def answering(batch: Batch, renamed: dict[str, str]) -> Batch:
    """The batch with outcomes of decisions under their other ids."""
    events = tuple(
        msgspec.structs.replace(event, decision=renamed.get(event.decision, event.decision))
        if isinstance(event, OutcomeRecorded)
        else event
        for event in batch.events
    )
    return msgspec.structs.replace(batch, events=events)


async def test_a_decision_that_was_not_made_then_is_found_where_it_would_be_made() -> None:
    """The last finalizer was left: today's rules want it off, at that place and at later ones."""
    toy = busy_toy()
    log = log_of(toy)
    victim = last_with(log.decisions, "UngatePod")
    log.decisions.remove(victim)
    # Its outcome would speak of something that never was.
    result = await folded(log)
    then, now = differing(result)
    assert then == []
    assert result.differences[0].position == victim.as_of
    assert now[0] == victim.id
    targets = {d.command.target.uid for found in result.differences for d in found.now}
    assert targets == {victim.command.target.uid}


async def test_a_decision_too_many_then_is_found_alone() -> None:
    """A report on a pod, which changes nothing that others depend on."""
    toy = busy_toy()
    log = log_of(toy)
    like = last_with(log.decisions, "UngatePod")
    extra = msgspec.structs.replace(
        like,
        id="d1-whim",
        number=like.number + 1,
        rule="whim",
        command=ReportPod(target=like.command.target, status="True", reason="x", message="y"),
    )
    log.decisions.append(extra)
    result = await folded(log)
    assert differing(result) == (["d1-whim"], [])
    assert result.differences[0].position == like.as_of


async def test_by_other_settings_rules_are_due_of_what_those_read() -> None:
    """That all pods are ready is no news by the log's settings, and is by the other ones."""
    off = Policy(wait_for_pods_ready="off")
    toy = Toy(mode="kueue", policy=off)
    toy.pod("a", "g", 1)
    toy.admit("g")
    toy.run("a")
    beginning = Beginning("test", "kueue", off)
    by = Redeciding(by=Policy(wait_for_pods_ready="auto"))
    result = await fold(log_of(toy).entries(), beginning, redecide=by)
    said = [condition for found in result.differences for condition in conditions(found.now)]
    assert ("PodsReady", "True") in said


def conditions(decisions: Iterable[Decision]) -> list[tuple[str, str]]:
    writes = [d.command for d in decisions if isinstance(d.command, WriteWorkloadStatus)]
    return [(condition.type, condition.status) for one in writes for condition in one.conditions]


def last_with(decisions: list[Decision], action: str) -> Decision:
    found = [d for d in decisions if type(d.command).__name__ == action]
    assert found
    return found[-1]


def test_the_command_says_what_differs(gatelog: Callable[..., Ran], simple: Played) -> None:
    """A decision the stream does not have, known to the database as not sent yet."""
    code, out, _ = gatelog("replay", "--redecide", *simple.options)
    assert code == 0 and "no decisions differ" in out

    engine = writer(simple.url)
    with engine.begin() as connection:
        last = (
            connection.execute(sa.text("SELECT * FROM decisions ORDER BY number DESC LIMIT 1"))
            .mappings()
            .one()
        )
        what = "SELECT number, as_of_seq FROM"
        both = f"{what} decisions UNION {what} conclusions"
        number, place = connection.execute(sa.text(f"{both} ORDER BY number DESC LIMIT 1")).one()
        command = {"action": "EmitEvent", "target": json.loads(last["command"])["target"]}
        added = {
            **last,
            "id": "d1-whim",
            "number": number + 1,
            "as_of_seq": place,
            "rule": "whim",
            "message": "because of a whim",
            "command": json.dumps(command),
        }
        names = ", ".join(added)
        marks = ", ".join(f":{name}" for name in added)
        connection.execute(sa.text(f"INSERT INTO decisions ({names}) VALUES ({marks})"), added)
    engine.dispose()
    code, out, _ = gatelog("replay", "--redecide", *simple.options)
    assert code == 1
    told = [line for line in out.splitlines() if line.startswith("seq ")]
    assert len(told) == 1
    assert told[0].startswith(f"seq {place}  then  ")
    assert "whim: EmitEvent" in told[0] and told[0].endswith("because of a whim")
    assert "1 decisions differ" in out


def test_differences_name_groups_and_no_key_of_a_record() -> None:
    why = Kept("g1", cluster_queue="cq", victims=("g2",), head=True)
    timed = Timed("g1", "requeue", datetime(2026, 1, 1, tzinfo=UTC))
    said = Difference(7, (), (), (why,), (timed,), {"g1": "ns/big", "g2": "ns/small"})
    assert list(lines(said)) == [
        "seq 7  then  ns/big  kept: cluster queue cq, victims ns/small, head yes",
        "seq 7  now   ns/big  timed: purpose requeue, at 2026-01-01 00:00:00Z",
    ]
