"""A Workload that writes do not find, though the watch never said that it is gone."""

from podgroup.log import events as e
from tests.support.toy import Toy


def unfound(toy: Toy) -> bool:
    """Let the next write to the Workload not find it; whether there was one."""
    writes = [d for d in toy.queue if d.command.target.kind == "Workload"]
    toy.queue.clear()
    for one in writes[:1]:
        toy.send(e.OutcomeRecorded(decision=one.id, group=one.group, status="obsolete"))
    return bool(writes)


def test_the_first_time_it_is_tried_again_the_second_time_it_is_gone() -> None:
    toy = Toy()
    toy.pod("a", "g", 1)
    toy.run("a")
    toy.act = False
    toy.end("a")
    assert unfound(toy)
    assert toy.group("g").mirror.workload is not None, "it may have been a moment's answer"
    toy.wait(31)
    assert unfound(toy)
    assert toy.group("g").mirror.workload is None
