"""Parts of pods that say the same are one object, and no view says anything else for it."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from bench.story import CLUSTER, Story
from podgroup.engine import Stored, load_world, new_world, read_back, step
from podgroup.log.codec import decode_batch
from podgroup.log.events import PodApplied
from podgroup.model.interning import (
    MOST,
    intern,
    intern_map,
    intern_time,
    joining,
    renewed,
    resembling,
    shared,
)
from podgroup.model.objects import Condition, PodView
from podgroup.state.pod import Pod
from podgroup.state.world import World


def _half_way() -> tuple[World, dict[str, PodView]]:
    """Fold a story until the last pod runs; also the views as decoded, untouched by any fold."""
    world, last = new_world(CLUSTER), dict[str, PodView]()
    for message in Story(4, 6).messages:
        for event in decode_batch(message.body).events:
            if isinstance(event, PodApplied):
                last[event.pod.uid] = event.pod
        step(world, message.position, message.at, decode_batch(message.body))
        if len(last) == 24 and all(view.phase == "Running" for view in last.values()):
            break
    return world, last


def test_pods_of_a_group_share_what_they_say_and_say_what_was_sent() -> None:
    world, sent = _half_way()
    assert {uid: pod.view for uid, pod in world.pods.items()} == sent
    for group in world.groups.values():
        views = [world.pods[uid].view for uid in world.pods if world.pods[uid].group == group.id]
        assert len(views) == 6
        for field in ("labels", "annotations", "requests", "finalizers", "conditions", "node"):
            assert len({id(getattr(view, field)) for view in views}) == 1, field


def test_a_world_read_back_shares_again() -> None:
    world, sent = _half_way()
    groups, pods = list(world.groups.values()), list(world.pods.values())
    stored = msgspec.json.decode(msgspec.json.encode(pods), type=list[Pod])
    read = [read_back(pod) for pod in stored]
    again = load_world(CLUSTER, world.mode, Stored(world.meta, groups, read))
    assert {uid: pod.view for uid, pod in again.pods.items()} == sent
    for field in ("labels", "annotations", "requests"):
        assert len({id(getattr(pod.view, field)) for pod in again.pods.values()}) <= len(groups)


def test_what_is_written_differently_is_not_shared() -> None:
    zulu = datetime(2026, 1, 1, 12, tzinfo=UTC)
    east = zulu.astimezone(timezone(timedelta(hours=2)))
    assert intern_time(zulu).isoformat() == zulu.isoformat()
    assert intern_time(east).isoformat() == east.isoformat()
    assert list(intern_map({"a": "1", "b": "2"})) == ["a", "b"]
    assert list(intern_map({"b": "2", "a": "1"})) == ["b", "a"]


def test_a_condition_that_changed_is_told_and_the_others_are_kept() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)

    def view(version: str, *conditions: Condition) -> PodView:
        return PodView(
            uid="u",
            namespace="ns",
            name="p",
            resource_version=version,
            created_at=at,
            conditions=conditions,
        )

    def condition(kind: str, status: str) -> Condition:
        return Condition(type=kind, status=status, at=at)

    before = shared(view("1", condition("PodScheduled", "True"), condition("Ready", "False")))
    wanted = view("2", condition("PodScheduled", "True"), condition("Ready", "True"))
    after = view("2", condition("PodScheduled", "True"), condition("Ready", "True"))
    made = renewed(after, before)
    assert made == wanted
    assert made.conditions[0] is before.conditions[0]


CREATED = datetime(2026, 1, 1, tzinfo=UTC)
POD = PodView(
    uid="u",
    namespace="ns",
    name="p",
    resource_version="1",
    created_at=CREATED,
    labels={"a": "1", "b": "2"},
    annotations={"x": "1", "y": "2"},
    requests={"cpu": 1000},
    phase="Pending",
)
READY = Condition(type="Ready", status="True")


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"node": "n"},
        {"phase": "Running", "conditions": (READY,), "started_at": CREATED},
        {"phase": "Failed", "reason": "Evicted", "message": "m"},
        {"gates": ("g",), "labels": {"a": "1", "b": "3"}, "writer": "w", "written_at": CREATED},
        {"finalizers": ("f",), "deleted_at": CREATED, "grace_s": 30},
        {"labels": {"b": "2", "a": "1"}},
    ],
)
def test_a_changed_view_shares_the_rest_and_says_what_was_sent(change: dict[str, Any]) -> None:
    sent = msgspec.structs.replace(POD, resource_version="2", **change)
    made = renewed(msgspec.json.decode(msgspec.json.encode(sent), type=PodView), POD)
    assert made == sent
    for field in ("uid", "name", "annotations", "requests", "created_at"):
        assert getattr(made, field) is getattr(POD, field), field


@pytest.mark.parametrize(
    "change",
    [
        {"requests": {"cpu": 2000}},
        {"node": "n", "finalizers": ("f",)},
        {"role": "r"},
        {"created_at": CREATED.astimezone(timezone(timedelta(hours=2)))},
    ],
)
def test_a_view_of_which_more_changed_is_left_to_the_general_way(change: dict[str, Any]) -> None:
    sent = msgspec.structs.replace(POD, resource_version="2", **change)
    assert renewed(sent, POD) is None


def test_another_pod_shares_what_is_written_the_same() -> None:
    other = msgspec.structs.replace(POD, uid="v", name="q", resource_version="2")
    made = resembling(msgspec.json.decode(msgspec.json.encode(other), type=PodView), POD)
    assert made == other
    assert made.labels is POD.labels
    turned = msgspec.structs.replace(other, annotations={"y": "2", "x": "1"})
    assert resembling(turned, POD) is None
    assert list(turned.annotations) == ["y", "x"]
    assert resembling(msgspec.structs.replace(other, phase="Running"), POD) is None


def test_the_first_of_a_group_shares_with_the_one_before_it_and_says_what_was_sent() -> None:
    sent = msgspec.structs.replace(POD, labels={"a": "1"}, requests={"cpu": 1, "memory": 2})
    turned = msgspec.structs.replace(sent, uid="w", requests={"memory": 2, "cpu": 1})
    other = msgspec.structs.replace(sent, uid="v", name="q", priority_class="high")
    made = [
        joining(msgspec.json.decode(msgspec.json.encode(view), type=PodView), None)
        for view in (sent, sent, turned, other)
    ]
    assert made == [sent, sent, turned, other]
    assert made[0].labels is made[1].labels is made[2].labels is made[3].labels
    assert made[0].requests is made[1].requests
    assert [next(iter(view.requests)) for view in made[1:3]] == ["cpu", "memory"]


def test_the_table_is_bounded_and_goes_on_after_it_was_full() -> None:
    for number in range(MOST + 10):
        assert intern(f"text {number}") == f"text {number}"
    first = "".join(["te", "xt"])
    assert intern("".join(["t", "ext"])) is intern(first)
