"""Who took a gate off: we, where that clears the managedFields of the pod, or somebody else."""

import pytest

from podgroup.log import events as e
from tests.support.toy import Toy


@pytest.mark.parametrize(("decided", "by"), [(True, "gatelog"), (False, "")])
def test_a_gate_that_goes_with_the_fields_writers_went_by_our_decision(
    decided: bool, by: str
) -> None:
    toy = Toy(cpu=1 if decided else 0)
    toy.act = False
    pod = toy.pod("a", writer="kubectl", written_at=toy.now)
    assert any(d.command.action == "UngatePod" for d in toy.decisions) is decided
    toy.change(pod.uid, gates=(), writer="", written_at=None)
    (row,) = toy.world.journal.gates.values()
    assert (row.removed_at is not None, row.removed_by) == (True, by)


def test_a_gate_that_leaves_no_trace_was_taken_off_by_nobody_we_know() -> None:
    toy = Toy()
    toy.act = False
    pod = toy.pod("a", writer="kubectl", written_at=toy.now)
    toy.change(pod.uid, gates=())
    (row,) = toy.world.journal.gates.values()
    assert row.removed_by == ""


@pytest.mark.parametrize("first", ["watch", "outcome"])
@pytest.mark.parametrize(("unchanged", "by"), [(False, "gatelog"), (True, "")])
def test_a_gate_that_the_actuator_found_gone_was_taken_off_by_another_client(
    unchanged: bool, by: str, first: str
) -> None:
    """A patch of the gate alone leaves no trace: the decision was taken for its effect."""
    toy = Toy()
    toy.act = False
    pod = toy.pod("a", writer="kubectl", written_at=toy.now)
    (decision,) = (d for d in toy.decisions if d.command.action == "UngatePod")
    done = e.OutcomeRecorded(
        decision=decision.id, group=decision.group, status="applied", uid=pod.uid,
        unchanged=unchanged,
    )  # fmt: skip
    if first == "outcome":
        toy.send(done)
    toy.change(pod.uid, gates=(), writer="", written_at=None)
    if first == "watch":
        toy.send(done)
    (row,) = toy.world.journal.gates.values()
    assert (row.removed_at is not None, row.removed_by) == (True, by)
    toy.send(done)
    (row,) = toy.world.journal.gates.values()
    assert row.removed_by == by, "said once"
