"""Values nobody should send, folded and decided on: one group is held, the others go on."""

import random
from datetime import UTC, datetime

import msgspec
import pytest

from podgroup.log.codec import decode_batch, encode_batch
from podgroup.log.events import Batch, DeltaRefused, PodApplied, Undecodable
from podgroup.model.commands import CreateWorkload
from podgroup.model.names import (
    EVENT_ERR_WORKLOAD_COMPOSE,
    GROUP_NAME,
    GROUP_TOTAL_COUNT,
    MAX_EXEC_SECONDS,
    ROLE_HASH,
)
from podgroup.model.objects import NodeTerm, Requirement
from podgroup.model.policy import Policy
from podgroup.state.members import Flag
from tests.support.toy import Toy


def reason(toy: Toy, group: str) -> tuple[str, str]:
    wait = toy.group(group).explained.wait
    return (wait.reason, wait.message) if wait is not None else ("", "")


@pytest.mark.parametrize("text", ["three", "0", "-1", "", "1.5", "2147483648", "9" * 5000, "３"])
@pytest.mark.parity("C-93")
def test_a_total_count_that_is_none(text: str) -> None:
    toy = Toy()
    toy.pod("odd", "odd-group", text)
    toy.pod("even", "even-group", 1)
    why, message = reason(toy, "odd-group")
    assert why == "BadTotalCount"
    assert "pod odd" in message
    assert GROUP_TOTAL_COUNT in message
    assert len(message) < 250
    assert not toy.gated("even")


@pytest.mark.parity("B34")
@pytest.mark.parametrize("workloads", ["all", "groups"])
@pytest.mark.parametrize("mode", ["builtin", "kueue"])
def test_a_pod_of_a_podgroup_of_kubernetes_does_not_start_alone(workloads: str, mode: str) -> None:
    """KEP-4671: two gangs that are admitted pod by pod could hold half of the quota each."""
    toy = Toy(mode=mode, policy=Policy(workloads=workloads))
    toy.pod("one", scheduling_group="gang")
    why, message = reason(toy, "one")
    assert (why, toy.group("one").explained.state) == ("UnreadPodGroup", "Blocked")
    assert "pod one: spec.schedulingGroup names PodGroup gang" in message
    assert toy.gated("one") and not toy.workloads
    toy.wait(5)
    (said,) = (
        text
        for name, event, text in toy.said
        if (name, event) == ("one", EVENT_ERR_WORKLOAD_COMPOSE)
    )
    assert f"label {GROUP_NAME}: gang and annotation {GROUP_TOTAL_COUNT}" in said
    # With a group of ours, the group is what is admitted together.
    toy.pod("two", "ours", 1, scheduling_group="gang")
    assert reason(toy, "ours")[0] != "UnreadPodGroup"


@pytest.mark.parametrize("role", ["No Hash!", "UPPER", "x" * 64, "-a", "a/b"])
def test_a_role_no_podset_can_be_named_after(role: str) -> None:
    toy = Toy()
    toy.pod("good", "odd-group", 2, role="good")
    toy.pod("odd", "odd-group", 2, role=role)
    why, message = reason(toy, "odd-group")
    assert why == "BadRoleHash"
    assert "pod odd" in message
    assert ROLE_HASH in message
    assert "CreateWorkload" not in [type(d.command).__name__ for d in toy.decisions]
    toy._delete(toy.named("odd").uid)
    toy.settle()
    toy.pod("better", "odd-group", 2, role="better")
    assert reason(toy, "odd-group") == ("", "")
    assert not toy.gated("good")


@pytest.mark.parametrize("name", ["Bad_Name", "a..b", "-a", "a" * 254])
def test_a_group_no_workload_can_be_named_after(name: str) -> None:
    toy = Toy()
    toy.pod("odd", name, 1)
    why, message = reason(toy, name)
    assert why == "BadGroupName"
    assert "pod odd" in message
    assert GROUP_NAME in message


def test_seconds_beyond_what_a_workload_takes_are_no_limit() -> None:
    toy = Toy()
    toy.pod("long", labels={MAX_EXEC_SECONDS: "9" * 30})
    (command,) = [d.command for d in toy.decisions if isinstance(d.command, CreateWorkload)]
    assert command.max_execution_s is None
    assert not toy.gated("long")


@pytest.mark.parametrize("bound", ["many", "", "1.5"])
def test_an_affinity_that_compares_with_a_word(bound: str) -> None:
    """The API server takes any text as bound of Gt and Lt."""
    toy = Toy()
    term = NodeTerm(expressions=(Requirement(key="pool", operator="Gt", values=(bound,)),))
    toy.pod("odd", "odd-group", 1, node_terms=(term,))
    assert reason(toy, "odd-group")[0] == "NoMatchingFlavor"
    assert not toy.group("odd-group").parked


def test_a_pod_that_moves_to_another_group_opens_a_life_of_its_own() -> None:
    """The first pod of a group gave the group its id; elsewhere it must not give it again."""
    toy = Toy()
    first = toy.pod("first", "old", 3)
    toy.pod("second", "old", 3)
    toy.change(first.uid, labels={**first.labels, GROUP_NAME: "new"})
    old, new = toy.group("old"), toy.group("new")
    assert old.id != new.id
    held = {pod.view.name: pod.group for pod in toy.world.pods.values()}
    assert held == {"first": new.id, "second": old.id}
    toy.change(first.uid, labels=first.labels)
    assert {g.name for g in toy.world.groups.values()} == {"old"}
    assert {p.group for p in toy.world.pods.values()} == {old.id}


def test_a_time_without_an_offset_is_not_taken() -> None:
    toy = Toy()
    view = toy.pod("good", "group", 2)
    whole = msgspec.json.decode(encode_batch(Batch(source="watch", events=(PodApplied(pod=view),))))
    whole["events"][0]["pod"]["created_at"] = datetime(2026, 1, 1).isoformat()  # noqa: DTZ001
    (event,) = decode_batch(msgspec.json.encode(whole)).events
    assert isinstance(event, Undecodable)
    assert "created_at" in event.error


def test_a_refused_pod_is_set_aside_under_its_group() -> None:
    toy = Toy()
    toy.pod("good", "group", 2)
    refused = DeltaRefused(
        kind="Pod",
        namespace="ns",
        name="bad",
        uid="u-bad",
        resource_version=toy.bump(),
        field="spec",
        message="no",
        group="group",
    )
    toy.send(refused, msgspec.structs.replace(refused, name="other", uid="u-o", group="unknown"))
    first, second = toy.world.journal.parked
    assert first.group == toy.group("group").id
    assert second.group == "unknown"
    assert reason(toy, "group")[0] == "WaitingForPods"


def test_rules_that_fail_for_a_group_stop_that_group_alone() -> None:
    """A state that cannot be stands in for a bug of ours."""
    toy = Toy()
    broken = toy.pod("broken", "broken-group", 2)
    toy.world.members[toy.group("broken-group").id].sets[Flag.INACTIVE] = {"unknown": None}
    toy.change(broken.uid, labels={**broken.labels, "x": "y"})
    toy.pod("fine", "fine-group", 1)
    assert toy.group("broken-group").parked
    assert toy.group("broken-group").explained.state == "Blocked"
    assert reason(toy, "broken-group")[0] == "Parked"
    (row,) = toy.world.journal.parked
    assert (row.reason, row.group) == ("RulesFailed", toy.group("broken-group").id)
    assert row.object == "group ns/broken-group"
    toy.change(broken.uid, labels={**broken.labels, "x": "z"})
    assert len(toy.world.journal.parked) == 1, "said once"
    assert not toy.gated("fine")


def test_nothing_decodable_gets_out_of_a_step() -> None:
    """Random values of the right type in random fields: folded, decided, or set aside."""
    texts = ["", "x", "\0", "a/b", "9" * 5000, "-1", "No Hash!", "Failed", "Succeeded", "g1"]
    numbers = [0, -1, 2**31, 2**64, 10**30]
    moments = [datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)]
    rnd = random.Random(7)
    for _ in range(300):
        toy = Toy(cpu=4)
        toy.act = False  # what is decided about forged pods cannot be carried out
        for i in range(8):
            view = toy.pod(f"p{i}", rnd.choice(["", "g1", "g2"]), rnd.choice([1, 2, 3]))
            fields = {
                name: rnd.choice(kind)
                for name in rnd.sample(view.__struct_fields__, 3)
                if (value := getattr(view, name)) is not None
                and (kind := _values(value, texts, numbers, moments))
            }
            changed = msgspec.structs.replace(view, **{**fields, "resource_version": toy.bump()})
            batch = decode_batch(
                encode_batch(Batch(source="watch", events=(PodApplied(pod=changed),)))
            )
            toy.send(*batch.events)
        assert not [row for row in toy.world.journal.parked if row.reason == "RulesFailed"]


def _values(value: object, *kinds: list) -> list:
    match value:
        case str():
            return kinds[0]
        case bool():
            return [True, False]
        case int():
            return kinds[1]
        case datetime():
            return kinds[2]
        case _:
            return []
