"""From rows to a story: what is said once, what is left out, and that order does not matter."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gatelog.readmodel.timeline import (
    StoryLine,
    TimelineEntry,
    duration,
    listed,
    plain,
    raw,
    story_lines,
)
from podgroup.model.wording import shown

T0 = datetime(2026, 1, 1, tzinfo=UTC)
IDENTITY = "5945be8e-7829-4091-a22a-22d3017e874e"


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


class Story:
    """Writes entries as the read model has them, one message after the other."""

    def __init__(self) -> None:
        self.entries: list[TimelineEntry] = []

    def add(self, seq: int, source: str, kind: str, **more: Any) -> "Story":
        more.setdefault("at", at(seq * 0.01))
        count = len(self.entries)
        self.entries.append(TimelineEntry(seq=seq, ord=count, source=source, kind=kind, **more))
        return self

    def told(self) -> list[tuple[str, str, str]]:
        return [(line.state, line.text(), line.because()) for line in story_lines(self.entries)]


def seen(story: Story, seq: int, *pods: str) -> Story:
    for pod in pods:
        story.add(seq, "history", "PodSeen", reason="gated", pod=pod)
    return story


def test_pods_that_do_the_same_share_a_line() -> None:
    story = seen(seen(Story(), 1, "a"), 2, "b")
    for number, pod in enumerate(("a", "b")):
        message = f"pod {pod} may start: admitted by ClusterQueue cq"
        story.add(
            3, "decision", "UngatePod", rule="ungate", pod=pod, message=message, status="applied"
        )
        story.add(4 + number, "history", "GateRemoved", message="by gatelog", pod=pod)
    assert story.told() == [
        ("", "created a, b", "gated"),
        ("", "ungate a, b", "each pod may start: admitted by ClusterQueue cq"),
        ("", "ungated a, b", "by gatelog"),
    ]


def test_one_pod_is_named() -> None:
    story = Story().add(
        1, "decision", "UngatePod", rule="ungate", pod="a", message="pod a may start", status=""
    )
    assert story.told() == [("", "ungate a", "pod a may start")]


def test_a_decision_speaks_for_the_note_that_repeats_it() -> None:
    story = Story()
    story.add(1, "history", "GroupFinished", reason="Succeeded", message="all done")
    story.add(1, "history", "QuotaReleased", reason="Finished")
    story.add(1, "decision", "FinishGroup", rule="finish", reason="Succeeded", message="all done")
    assert story.told() == [("", "finished: Succeeded", "all done")]
    alone = Story().add(1, "history", "GroupFinished", reason="Succeeded", message="all done")
    assert alone.told() == [("", "finished", "Succeeded: all done")]


def test_a_group_is_complete_once_though_its_workload_is_a_decision_of_its_own() -> None:
    story = Story().add(1, "decision", "ComposeGroup", rule="compose", message="all there")
    story.add(1, "decision", "CreateWorkload", rule="compose", message="all there")
    assert story.told() == [("", "group complete", "all there")]


def test_the_state_stands_on_the_last_line_of_its_message() -> None:
    story = seen(Story(), 1, "a")
    story.add(1, "history", "StateChanged", reason="Queued")
    story.add(1, "decision", "CreateWorkload", rule="compose", message="all there")
    story.add(2, "history", "StateChanged", reason="Finished", message="was Queued")
    assert story.told() == [
        ("", "created a", "gated"),
        ("Queued", "group complete", "all there"),
        ("Finished", "", ""),
    ]


def test_lines_are_not_shared_across_what_happened_to_the_same_pod_between() -> None:
    story = Story()
    for seq, kind, pod in (
        (1, "PodRunning", "a"),
        (2, "PodFailed", "a"),
        (3, "PodSeen", "b"),
        (4, "PodRunning", "b"),
    ):
        story.add(seq, "history", kind, pod=pod)
    assert [text for _, text, _ in story.told()] == [
        "running a",
        "failed a",
        "created b",
        "running b",
    ]


def test_lines_are_not_shared_over_a_pause() -> None:
    story = Story().add(1, "history", "PodRunning", pod="a", at=at(0))
    story.add(2, "history", "PodRunning", pod="b", at=at(0.2))
    story.add(3, "history", "PodRunning", pod="c", at=at(0.4))
    story.add(4, "history", "PodRunning", pod="d", at=at(2))
    assert [text for _, text, _ in story.told()] == ["running a, b, c", "running d"]


def test_a_short_wait_is_not_told_and_a_long_or_lasting_one_is() -> None:
    def wait(until: float | None) -> list[tuple[str, str, str]]:
        end = None if until is None else at(until)
        story = Story().add(
            0, "wait", "Waiting", reason="WaitingForQuota", message="no room", until=end
        )
        return story.told()

    assert wait(0.01) == []
    assert wait(4) == [("", "waits (4.00 s)", "WaitingForQuota: no room")]
    assert wait(None) == [("", "waits (still)", "WaitingForQuota: no room")]


def test_failed_attempts_and_refusals_are_told() -> None:
    story = Story()
    story.add(1, "outcome", "UngatePod", status="retrying", message="HTTP 500", pod="a")
    story.add(2, "decision", "UpdateWorkload", rule="own", status="rejected", message="no")
    story.add(3, "decision", "UpdateWorkload", rule="own", status="applied", message="yes")
    assert story.told() == [
        ("", "UngatePod trying again a", "HTTP 500"),
        ("", "UpdateWorkload (refused by the API server)", "no"),
    ]


def test_kinds_nobody_thought_of_are_told_by_name() -> None:
    assert Story().add(1, "history", "Teleported", pod="a", message="to mars").told() == [
        ("", "Teleported a", "to mars")
    ]
    text = "Rejected {not a field}"
    assert Story().add(1, "history", text, message="x").told() == [("", text, "x")]


def test_order_of_rows_does_not_matter_and_every_row_has_a_raw_line() -> None:
    story = seen(Story(), 1, "a", "b")
    for seq in range(2, 30):
        story.add(seq, "history", "PodRunning", pod=f"p{seq % 5}")
        story.add(seq, "decision", "FinalizePod", rule="release", pod=f"p{seq}", message="over")
        story.add(seq, "history", "StateChanged", reason=f"s{seq}")
    expected = story.told()
    for seed in range(5):
        random.Random(seed).shuffle(story.entries)
        assert story.told() == expected
    assert len(raw(story.entries)) == len(story.entries)


def test_ids_of_groups_are_left_out_for_people() -> None:
    for right in ("priority 1 over 0", "reclaims nominal quota for ClusterQueue cq"):
        said = f"preempted by ns/h (group single-{IDENTITY}) ({right}) in /cq: by its policy"
        assert plain(said) == f"preempted by ns/h ({right}): by its policy"
    kueues = (
        "Preempted to accommodate a workload (UID: 1-2, JobUID: UNKNOWN) due to reclamation within "
        "the cohort; preemptor path: /lab/red; preemptee path: /lab/blue"
    )
    assert plain(kueues) == "preempted for another group: reclamation within the cohort"
    assert StoryLine(at=T0, what="x", why=said).because() == plain(said)


def test_only_our_own_reasons_are_cut_where_the_words_of_kueue_begin() -> None:
    ours, theirs = "preempted by ns/h — Preempted to", "disk full — see the wiki"
    story = Story()
    story.add(1, "history", "PodFailed", reason="Error", message=theirs, pod="a")
    story.add(2, "history", "GroupEvicted", reason="Preempted", message=ours)
    story.add(3, "decision", "EvictGroup", rule="preempt", message=ours, status="applied")
    story.add(4, "wait", "", reason="NoFit", message="needs 4 cpu — couldn't assign")
    story.add(5, "outcome", "DeletePod", status="rejected", message=theirs)
    assert [why for _, _, why in story.told()] == [
        f"Error: {theirs}",
        "Preempted: preempted by ns/h",
        "preempted by ns/h",
        "NoFit: needs 4 cpu",
        theirs,
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.00 s"),
        (0.004, "0.00 s"),
        (9.99, "9.99 s"),
        (9.996, "10.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 m"),
        (250, "4 m 10 s"),
        (3600, "1 h"),
        (7505, "2 h 5 m"),
        (86_400 * 3 + 3600 * 4, "3 d 4 h"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_amounts_are_quantities_as_people_write_them() -> None:
    for resource, value, text in (
        ("cpu", 1500, "1.5"),
        ("memory", 64 * 2**20, "64Mi"),
        ("memory", 1000, "1k"),
        ("nvidia.com/gpu", 8, "8"),
    ):
        assert shown(resource, value) == text


def test_long_lists_are_cut() -> None:
    names = [f"p{n}" for n in range(0, 1000, 2)]
    assert listed(names[:4]) == "p0, p2, p4, p6"
    assert listed(names) == "p0, p2, p4 and 497 more"


def test_names_that_count_on_are_joined() -> None:
    assert listed(["w-0", "w-1", "w-2", "w-3"]) == "w-0…3"
    assert listed(["w-9", "w-10", "w-11", "w-12", "x"]) == "w-9…12, x"
    assert listed(["w-0", "w-2", "w-4"]) == "w-0, w-2, w-4"
    assert listed(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
    assert listed(["w-1", "w-2", "w-3"]) == "w-1, w-2, w-3"
