"""Who took a gate off: we, where that clears the managedFields of the pod, or somebody else."""

import pytest

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
