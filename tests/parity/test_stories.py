"""Users, Kueue's scheduler and time, as Hypothesis has them act: nothing fails, nothing sticks."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podgroup.engine import Then, decide, new_world, step
from podgroup.log.journal import At
from podgroup.model.names import MAX_EXEC_SECONDS, PREBUILT_WORKLOAD, PRIORITY_CLASS, QUEUE_NAME
from podgroup.model.objects import Condition
from podgroup.model.policy import Policy
from podgroup.state.changes import EVERYTHING
from tests.core.test_laws import encoded
from tests.support.examples import examples
from tests.support.toy import Toy

VERBS = [
    *("create", "create", "create", "admit", "admit", "run", "run"),
    *("succeed", "fail", "delete", "evict", "withdraw", "finish", "deactivate", "activate"),
    *("queue", "class", "bound", "open", "foreign", "drop", "vanish", "wait", "long"),
]
stories = st.lists(
    st.tuples(st.sampled_from(VERBS), st.sampled_from("abc"), st.integers(0, 7)),
    min_size=1,
    max_size=50,
)
SIZES = {"a": 2, "b": 1, "c": 0}
POLICY = Policy(
    label_keys_to_copy=("team",), pods_ready_timeout_s=60, requeuing_backoff_s=5, requeuing_limit=1
)


def pick(items: list[Any], number: int) -> Any:
    return items[number % len(items)] if items else None


def act(toy: Toy, verb: str, group: str, number: int, serial: int) -> None:
    pod = pick([p for p in toy.pods.values() if p.name.startswith(group)], number)
    workload = pick([w for w in toy.workloads if w.startswith((group, f"pod-{group}"))], number)
    if verb == "create":
        labels = {"team": "xy"[number % 2]} if number > 5 else {}
        if group == "b":
            labels[PREBUILT_WORKLOAD] = "b"
        name = "" if group == "c" else group
        toy.pod(f"{group}{serial}", name, SIZES[group], cpu=1 + number % 2, labels=labels)
    elif verb == "foreign" and group not in toy.workloads:
        toy.workload(group, ("r1", 1 + number % 2))
    elif verb in ("wait", "long"):
        toy.wait(10 if verb == "wait" else 1000)
    elif workload is not None and verb in ("admit", "evict", "withdraw", "finish", "drop"):
        change_workload(toy, verb, workload, number)
    elif workload is not None and verb in ("deactivate", "activate"):
        toy.say(workload, active=verb == "activate")
    elif pod is not None and pod.deleted_at is None:
        change_pod(toy, verb, pod, number)


def change_workload(toy: Toy, verb: str, name: str, number: int) -> None:
    if verb == "drop":
        if toy.workloads[name].deleted_at is None:
            toy.delete_workload(name)
    elif verb == "finish":
        toy.say(name, Condition(type="Finished", status="True", reason="Failed", message="m"))
    elif toy.world.mode == "builtin":
        return
    elif verb == "admit":
        if "Finished" not in toy.true(name):
            toy.admit(name)
    elif verb == "evict":
        toy.evict(name, ("Preempted", "PodsReadyTimeout", "DeactivatedDueToX")[number % 3])
    else:
        lost = [
            Condition(type=kind, status="False", reason="NoReservation")
            for kind in ("QuotaReserved", "Admitted")
        ]
        toy.say(name, *lost, cluster_queue="", assignments=())


def change_pod(toy: Toy, verb: str, pod: Any, number: int) -> None:
    relabels = {
        "queue": {QUEUE_NAME: ("lq", "other")[number % 2]},
        "class": {PRIORITY_CLASS: ("high", "low", "none")[number % 3]},
        "bound": {MAX_EXEC_SECONDS: ("5", "50")[number % 2]},
    }
    if verb in relabels:
        toy.change(pod.uid, labels=pod.labels | relabels[verb])
    elif verb == "run" and not pod.gates and pod.phase == "Pending":
        toy.run(pod.name)
    elif verb in ("succeed", "fail") and pod.phase == "Running":
        toy.end(pod.name, phase="Succeeded" if verb == "succeed" else "Failed")
    elif verb == "delete":
        toy.delete(pod.name)
    elif verb == "open":
        toy.change(pod.uid, gates=())
    elif verb == "vanish":
        toy.change(pod.uid, finalizers=(), deleted_at=toy.now, phase="Failed")


def play(story: Any, mode: str) -> Toy:
    toy = Toy(cpu=3, mode=mode, policy=POLICY)
    for serial, (verb, group, number) in enumerate(story):
        act(toy, verb, group, number, serial)
        assert not toy.world.journal.parked, toy.world.journal.parked
    return toy


def clear_away(toy: Toy) -> None:
    """Everything is deleted; what others made they take away themselves."""
    for _ in range(4):
        for view in list(toy.pods.values()):
            if view.uid in toy.pods and view.deleted_at is None:
                toy.delete(view.name)
        toy.wait(40)
        for name in list(toy.workloads):
            if name in toy.workloads and toy.workloads[name].deleted_at is None:
                toy.delete_workload(name)
        toy.wait(40)


STORY = examples(60, brief=30)
modes = st.sampled_from(["kueue", "builtin"])


@STORY
@given(stories, modes)
def test_a_replay_finds_no_difference_and_another_look_decides_nothing(
    story: Any, mode: str
) -> None:
    toy = play(story, mode)
    made: dict[int, dict[str, Any]] = {}
    for decision in toy.world.journal.decisions:
        made.setdefault(decision.as_of, {})[decision.id] = decision
    said = {one.as_of: one for one in toy.world.journal.concluded}
    again = new_world("test", mode, POLICY)
    for position, at, batch in toy.messages:
        found = step(again, position, at, batch, Then(made.get(position, {}), said.get(position)))
        assert not found.only_now and not found.only_then
        assert not found.said_now and not found.said_then
    assert encoded(again) == encoded(toy.world)
    before = len(toy.world.journal.decisions)
    toy.world.dirty_groups.update(dict.fromkeys(toy.world.groups, EVERYTHING))
    decide(toy.world, At(toy.position, toy.now))
    assert toy.world.journal.decisions[before:] == []


@STORY
@given(stories, modes)
def test_nothing_fails_and_nothing_sticks(story: Any, mode: str) -> None:
    toy = play(story, mode)
    clear_away(toy)
    assert not toy.pods
    assert not toy.world.groups
    assert not toy.world.expecting
    assert not toy.world.quotas.charges
