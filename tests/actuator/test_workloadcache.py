"""Copies of Workloads: bounded, dropped when they may be wrong, not used where they never fit."""

from actuator.replies import Reply
from actuator.workloadcache import COPY_BYTES, LARGEST_BYTES, MAX_BYTES, WorkloadCache
from podgroup.model.commands import ObjectRef


def ref(name: str = "w", uid: str = "") -> ObjectRef:
    return ObjectRef(kind="Workload", namespace="team", name=name, uid=uid)


def reply(uid: str = "u", size: int = 10, status: int = 200) -> Reply:
    return Reply(verb="PATCH", path="/w", status=status, body=b"x" * size, uid=uid)


def test_the_last_answer_is_kept_for_the_life_it_shows() -> None:
    seen = WorkloadCache()
    first, second = reply(), reply()
    seen.note(ref(), first)
    seen.note(ref(), second)
    assert seen.recall(ref()) is second
    assert seen.recall(ref(uid="u")) is second
    assert seen.recall(ref(uid="of another life")) is None


def test_a_failure_and_a_deletion_leave_no_copy() -> None:
    for worse in (reply(status=409), reply(status=404, uid=""), reply(uid="")):
        seen = WorkloadCache()
        seen.note(ref(), reply())
        seen.note(ref(), worse)
        assert seen.recall(ref()) is None
    seen = WorkloadCache()
    seen.note(ref(), reply())
    seen.note(ref(), reply(), gone=True)
    assert seen.recall(ref()) is None


def test_copies_are_bounded_by_their_bytes() -> None:
    seen, size = WorkloadCache(), 100_000
    room = size + COPY_BYTES
    count = 2 * MAX_BYTES // room
    for number in range(count):
        seen.note(ref(f"w{number}"), reply(size=size))
    kept = [n for n in range(count) if seen.recall(ref(f"w{n}")) is not None]
    assert kept == list(range(count - MAX_BYTES // room, count))
    seen.note(ref("large"), reply(size=LARGEST_BYTES + 1))
    assert seen.recall(ref("large")) is None


def test_where_others_write_too_copies_are_not_tried_any_more() -> None:
    seen = WorkloadCache()
    seen.note(ref(), reply())
    for _ in range(20):
        seen.guess.learn(False)
    assert sum(seen.recall(ref()) is not None for _ in range(64)) == 2
