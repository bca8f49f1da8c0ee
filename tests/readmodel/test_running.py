"""What is said of pods after their admission, by pod and summed over a group. Both databases."""

from datetime import timedelta
from typing import Any, Final

import msgspec
import pytest

from gatelog.readmodel.explain import explain, lines
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.running import pending
from gatelog.readmodel.timeline import story_lines
from gatelog.serve.api import finding, finding_queues
from gatelog.serve.api.kinds import BY_PLURAL
from gatelog.serve.api.params import Listing
from ingest.translate.pods import PodWire, pod_view
from podgroup.model.objects import Condition, ContainerEnd, ContainerWait, PodView
from podgroup.model.podwaits import WORDINGS, pod_reason, words
from projector.schema import partitions
from projector.schema.running_views import not_running
from projector.upkeep import pruning
from tests.projector.support import Writer
from tests.projector.test_views import ask
from tests.support.toy import Toy

LONG: Final = (
    "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. "
    "no new claims to deallocate, preemption: "
    "0/3 nodes are available: 3 Preemption is not helpful for scheduling."
)
SHORT: Final = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector"
UNSCHEDULABLE: Final = Condition(
    type="PodScheduled", status="False", reason="Unschedulable", message=LONG
)
PULLS: Final = ContainerWait(name="main", reason="ErrImagePull", image="x:1", message="not found")
BACKS_OFF: Final = ContainerWait(
    name="main", reason="ImagePullBackOff", image="x:1", message='Back-off pulling image "x:1"'
)


def waiting(reason: str, message: str = "", init: bool = False) -> tuple[ContainerWait, ...]:
    return (ContainerWait(name="main", reason=reason, message=message, init=init),)


def said(url: str, name: str, toy: Toy) -> list[tuple[str, str]]:
    with ReadModel(url, "test") as model:
        found = explain(model, model.groups("ns", name)[0], toy.now)
        return [(one.label, one.text) for one in lines(found, toy.now)]


STATES: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "no scheduler has looked": ({}, "has no node yet"),
    "no node fits": ({"conditions": (UNSCHEDULABLE,)}, f"fits no node: {SHORT}"),
    "gate of another": ({"gates": ("example.com/g",)}, "is kept by scheduling gate example.com/g"),
    "volumes": ({"node": "n"}, "is being started by its node: images, volumes, network"),
    "image": ({"node": "n", "waiting": (PULLS,)}, "cannot pull image x:1: not found"),
    "image again": ({"node": "n", "waiting": (BACKS_OFF,)}, "cannot pull image x:1"),
    "configuration": (
        {"node": "n", "waiting": waiting("CreateContainerConfigError", 'secret "s" not found')},
        'cannot start container main, whose configuration is wrong: secret "s" not found',
    ),
    "crash loop": (
        {
            "node": "n",
            "phase": "Running",
            "waiting": waiting("CrashLoopBackOff", "back-off 10s restarting failed container"),
            "ends": (ContainerEnd(name="main", exit_code=3, reason="Error", restarts=4),),
        },
        "crashes again and again in container main: exit code 3 (Error)",
    ),
    "init container crashes": (
        {"node": "n", "waiting": waiting("CrashLoopBackOff", init=True)},
        "crashes again and again in init container main",
    ),
    "init containers": (
        {
            "node": "n",
            "conditions": (
                Condition(type="Initialized", status="False", message="incomplete: [fetch]"),
            ),
        },
        "runs its init containers: incomplete: [fetch]",
    ),
    "what a later kubelet may say": (
        {"node": "n", "waiting": waiting("NewTrouble", "so it is")},
        "waits in container main (NewTrouble): so it is",
    ),
    "node is silent": (
        {
            "node": "n",
            "phase": "Running",
            "conditions": (
                Condition(type="Ready", status="False"),
                Condition(type="ContainersReady", status="True"),
            ),
        },
        "is on node n, which does not answer",
    ),
}


@pytest.mark.parametrize("state", STATES)
def test_a_pod_that_is_admitted_and_does_not_run_says_why(url: str, state: str) -> None:
    fields, expected = STATES[state]
    toy = Toy()
    toy.pod("p", gates=("kueue.x-k8s.io/admission", "example.com/g"))
    toy.change(toy.named("p").uid, **({"gates": ()} | fields))
    Writer(url).feed(toy.messages)
    told = said(url, "p", toy)
    assert told[0][0] == "now" and told[0][1].startswith(expected), told
    assert "quota granted" in told[0][1] and told[1][0] == "it takes"
    assert not any("waits for nothing" in text for _, text in told)
    (row,) = ask(url, "SELECT * FROM v_not_running")
    assert row["says"].startswith(expected) and row["it_takes"] == told[1][1]


def test_a_group_is_told_in_one_sentence_and_history_keeps_what_was(url: str) -> None:
    toy = Toy(cpu=40)
    for n in range(34):
        toy.pod(f"g-{n}", "g", 34)
    toy.run(*(f"g-{n}" for n in range(31)))
    for n in (31, 32):
        toy.change(toy.named(f"g-{n}").uid, node="n", waiting=(PULLS,))
        toy.change(toy.named(f"g-{n}").uid, waiting=(BACKS_OFF,))
    toy.change(toy.named("g-33").uid, conditions=(UNSCHEDULABLE,))
    writer = Writer(url).feed(toy.messages)
    text = said(url, "g", toy)[0][1]
    expected = f"31 run, 2 cannot pull image x:1: not found, 1 fits no node: {SHORT}"
    assert text.startswith(expected)
    with ReadModel(url, "test") as model:
        (row,) = pending(model.standing_still(toy.now, "", 10))
        assert (row.name, row.reason, row.message) == ("g", "ImagePullBackOff", expected)
        entries = model.entries(model.groups("ns", "g")[0].id)
        told = [(line.text(), line.because()) for line in story_lines(entries)]
        assert (
            "g-33 still waits",
            f"Unschedulable: pod g-33 fits no node: {SHORT}",
        ) in told
        assert any(text.startswith("g-31, g-32 still wait") for text, _ in told), told
    for n in (31, 32):
        toy.change(toy.named(f"g-{n}").uid, waiting=())
        toy.run(f"g-{n}")
    toy.run("g-33")
    writer.feed([m for m in toy.messages if m[0] > writer.world.meta.position])
    assert said(url, "g", toy)[0][1].startswith("it waits for nothing: ")
    rows = ask(url, "SELECT * FROM pod_waits ORDER BY from_seq")
    assert [(row["reason"], row["to_at"] is None) for row in rows] == [
        ("ImagePullBackOff", False),
        ("ImagePullBackOff", False),
        ("Unschedulable", False),
    ]


def test_a_crashing_pod_is_not_counted_among_those_that_run(url: str) -> None:
    toy = Toy()
    for n in range(2):
        toy.pod(f"g-{n}", "g", 2)
    toy.run("g-0", "g-1")
    toy.change(toy.named("g-1").uid, waiting=waiting("CrashLoopBackOff"))
    Writer(url).feed(toy.messages)
    assert said(url, "g", toy)[0][1].startswith("1 runs, 1 crashes again and again in container")


def test_the_first_seconds_of_a_pod_write_no_row(url: str) -> None:
    toy = Toy()
    toy.pod("p")
    gated = Condition(type="PodScheduled", status="False", reason="SchedulingGated")
    toy.change(toy.named("p").uid, conditions=(gated,))
    toy.change(toy.named("p").uid, node="n", conditions=())
    toy.run("p")
    Writer(url).feed(toy.messages)
    assert ask(url, "SELECT * FROM pod_waits") == []


def test_a_finalizer_of_another_is_what_an_ended_pod_waits_for() -> None:
    toy = Toy()
    view = msgspec.structs.replace(
        toy.pod("p"),
        gates=(),
        phase="Succeeded",
        deleted_at=toy.now + timedelta(seconds=1),
        finalizers=("kueue.x-k8s.io/managed", "example.com/f"),
    )
    reason = pod_reason(view)
    assert reason is not None and words(*reason, 1) == (
        "has ended and is kept by finalizer example.com/f"
    )


def test_what_containers_wait_for_reaches_the_log_and_nothing_does_while_they_start() -> None:
    def translated(*states: dict[str, Any]) -> tuple[ContainerWait, ...]:
        statuses = [{"name": f"c{n}", "image": "x:1", "state": s} for n, s in enumerate(states)]
        wire = {
            "metadata": {
                "uid": "u",
                "namespace": "ns",
                "name": "p",
                "resourceVersion": "1",
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "status": {"phase": "Pending", "containerStatuses": statuses},
        }
        raw = msgspec.json.encode(wire)
        view = pod_view(msgspec.json.decode(raw, type=PodWire), raw, "kueue")
        return msgspec.msgpack.decode(msgspec.msgpack.encode(view), type=PodView).waiting

    assert translated({"waiting": {"reason": "ContainerCreating"}}, {"running": {}}) == ()
    assert translated(
        {"waiting": {"reason": "ErrImagePull", "message": "m"}},
        {"waiting": {"reason": "CrashLoopBackOff", "message": "b"}},
    ) == (
        ContainerWait(name="c0", reason="ErrImagePull", message="m", image="x:1"),
        ContainerWait(name="c1", reason="CrashLoopBackOff", message="b"),
    )


def test_words_are_the_same_of_one_and_of_many_and_every_reason_has_advice() -> None:
    for reason, wording in WORDINGS.items():
        assert wording.takes and "'" not in wording.one + wording.many + wording.takes
        assert ("{}" in wording.one) == ("{}" in wording.many), reason


def test_restarts_of_a_crash_loop_are_looked_past_and_pruned_while_the_pod_lives(url: str) -> None:
    toy = Toy()
    toy.pod("a")
    toy.run("a")
    for _ in range(3):
        toy.change(toy.named("a").uid, waiting=waiting("CrashLoopBackOff"))
        toy.change(toy.named("a").uid, waiting=())
        toy.wait(2 * 7 * 86_400)
    toy.change(toy.named("a").uid, waiting=waiting("CrashLoopBackOff"))
    Writer(url).feed(toy.messages)
    if url.startswith("sqlite"):
        plan = [str(row["detail"]) for row in ask(url, f"EXPLAIN QUERY PLAN {not_running()}")]
        assert any(one.startswith("SEARCH w USING INDEX ix_pod_waits_open") for one in plan), plan
    before = partitions.week_of(toy.now)
    went = {one.table: one.rows for one in pruning.prune(url, before)}
    assert went["pod_waits"] == 3 and "pods" not in went
    (left,) = ask(url, "SELECT * FROM pod_waits")
    assert left["to_at"] is None
    assert "crash" in said(url, "a", toy)[0][1]


def test_lists_of_the_api_tell_of_pods_after_their_admission(url: str) -> None:
    """`kubectl get podgroups` says why pods do not run, and queues how long groups waited."""
    toy = Toy(cpu=4)
    for index in range(3):
        toy.pod(f"a{index}", "a", 3)
    toy.pod("waits", cpu=2)
    toy.run("a0")
    toy.unfit("a1")
    toy.unfit("a2")
    toy.wait(600)
    toy.end("a0")
    toy.pod("later")
    Writer(url).feed(toy.messages)
    with ReadModel(url, "test") as model:
        found, _ = finding.groups_page(model, "ns", Listing(limit=10))
        group = next(one for one in found if one.metadata.name == "a")
        shown = {one.name: one.cell(group) for one in BY_PLURAL["podgroups"].shown}
        assert (shown["Why"], shown["Not-Running"]) == ("Unschedulable", "2")
        (queue,), _ = finding_queues.cluster_queues_page(model, "", Listing(limit=10))
        shown = {one.name: one.cell(queue) for one in BY_PLURAL["clusterqueueusages"].shown}
        assert shown["Wait-P50"] == "0s" and shown["Wait-P90"] == "10m"
        assert queue.waits is not None and (queue.waits.waits, queue.waits.still) == (3, 1)
