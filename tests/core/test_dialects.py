"""Groups that declare sets or roles: KEP-976 story 3 (B9) and its first draft (B10)."""

from typing import Any

import msgspec
import pytest

from podgroup.engine import step
from podgroup.model.commands import CreateWorkload, PodSetSpec, ReportPod
from podgroup.model.names import (
    GROUP_TOTAL_COUNT,
    POD_GROUP_COUNT,
    POD_GROUP_ROLE,
    POD_GROUP_ROLE_COUNT,
    POD_GROUP_ROLES,
    RETRIABLE_IN_GROUP,
)
from podgroup.model.objects import DeclaredSet, Toleration
from podgroup.model.policy import Policy
from tests.core.test_laws import encoded, reloaded
from tests.support.toy import Toy, taken

TEMPLATE = '{"containers":[{"name":"w","resources":{"requests":{"cpu":"2"}}}]}'


def workers(count: int = 3, cpu: int = 2, name: str = "workers", **more: Any) -> DeclaredSet:
    return DeclaredSet(
        name=name, count=count, requests={"cpu": cpu * 1000}, template=TEMPLATE, role="t", **more
    )


DRIVER = DeclaredSet(name="driver")
SETS = (DRIVER, workers())


def driver(toy: Toy, name: str = "d", sets: Any = SETS, **more: Any) -> None:
    toy.pod(name, "g", None, sets=sets, **more)


def worker(toy: Toy, name: str, role: str = "workers", cpu: int = 2, **more: Any) -> None:
    labels = {POD_GROUP_ROLE: role} if role else {}
    toy.pod(name, "g", None, cpu=cpu, labels=labels, **more)


def pod_sets(toy: Toy) -> tuple[PodSetSpec, ...]:
    made = [d.command for d in toy.decisions if isinstance(d.command, CreateWorkload)]
    return made[-1].pod_sets


def told(toy: Toy) -> list[tuple[str, str]]:
    return [
        (d.command.target.name, d.command.reason)
        for d in toy.decisions
        if isinstance(d.command, ReportPod) and d.command.status == "False"
    ]


def seen(toy: Toy) -> dict[str, int]:
    return {name: role.seen for name, role in toy.group("g").roles.items() if role.seen}


def gone(toy: Toy, name: str) -> None:
    """Somebody took a pod away, our finalizer included."""
    uid = toy.named(name).uid
    toy.delete(name)
    toy.change(uid, finalizers=())
    assert uid not in toy.pods


def blocked(toy: Toy) -> tuple[str, str, str]:
    group = toy.group("g")
    return group.explained.state, group.explained.reason, group.explained.message


# -- sets: composition and admission ---


@pytest.mark.parity("B9")
def test_the_driver_alone_makes_the_workload_and_quota_is_held_for_all() -> None:
    toy = Toy(cpu=7)
    driver(toy)
    assert not toy.gated("d")
    group = toy.group("g")
    assert (group.explained.state, group.spec.total, group.composition.total) == ("Admitted", 4, 4)
    assert [(p.name, p.count, p.requests) for p in toy.workloads["g"].pod_sets] == [
        ("driver", 1, {"cpu": 1000}),
        ("workers", 3, {"cpu": 2000}),
    ]
    first, second = pod_sets(toy)
    assert first.sample is not None
    assert (first.sample.name, first.template) == ("d", "")
    assert (second.sample, second.template) == (None, TEMPLATE)
    assert taken(toy.world, "cq")[("f", "cpu")] == 7000
    toy.pod("other")
    assert toy.gated("other"), "the quota of workers that do not exist yet is taken"


@pytest.mark.parity("B9")
def test_a_group_whose_workers_do_not_fit_does_not_start_its_driver() -> None:
    toy = Toy(cpu=6)
    driver(toy)
    assert toy.gated("d")
    assert toy.group("g").explained.wait.reason == "ExceedsMaxQuota"


@pytest.mark.parity("B9")
def test_workers_are_ungated_as_they_come_and_the_group_finishes_with_all() -> None:
    toy = Toy(policy=Policy(wait_for_pods_ready="on"))
    driver(toy)
    toy.run("d")
    for i in range(3):
        worker(toy, f"w{i}")
        assert not toy.gated(f"w{i}")
        assert toy.named(f"w{i}").labels["kueue.x-k8s.io/podset"] == "workers"
        assert toy.group("g").composition.short is None
    toy.run("w0", "w1", "w2")
    assert "PodsReady" in toy.true("g")
    assert {o.name for o in toy.workloads["g"].owners} == {"d", "w0", "w1", "w2"}
    toy.end("w0", "w1")
    assert toy.workloads["g"].reclaimable == {"workers": 2}
    assert taken(toy.world, "cq")[("f", "cpu")] == 3000
    toy.end("d")
    assert toy.group("g").ending.finish is None
    toy.end("w2")
    assert toy.group("g").ending.finish.reason == "Succeeded"
    assert not any(p.finalizers for p in toy.pods.values())
    assert "Finished" in toy.true("g")


@pytest.mark.parity("B9")
def test_a_worker_beyond_the_count_is_deleted_with_an_event_and_counted() -> None:
    toy = Toy()
    driver(toy)
    toy.run("d")
    for i in range(4):
        worker(toy, f"w{i}")
    assert toy.there() == {"d", "w0", "w1", "w2"}
    assert ("w3", "ExcessPodDeleted", "Excess pod deleted") in toy.said
    assert toy.group("g").roles["workers"].excess == 1
    assert not any(toy.gated(f"w{i}") for i in range(3))


@pytest.mark.parity("B9")
def test_workers_that_come_first_wait_and_surplus_goes_when_the_driver_has_spoken() -> None:
    toy = Toy()
    for i in range(4):
        worker(toy, f"w{i}")
    assert toy.group("g").explained.state == "Composing"
    assert toy.group("g").explained.reason == "WaitingForPods"
    driver(toy)
    assert toy.there() == {"d", "w0", "w1", "w2"}
    assert not any(toy.gated(name) for name in toy.there())
    assert seen(toy) == {"driver": 1, "workers": 4}


@pytest.mark.parity("B9")
def test_sets_without_template_are_waited_for_by_name() -> None:
    toy = Toy()
    sets = (DeclaredSet(name="launchers", count=2), workers())
    driver(toy, "l0", sets)
    worker(toy, "w0")
    assert toy.group("g").explained.state == "Composing"
    assert "2 x launchers" in toy.group("g").explained.message
    toy.pod("l1", "g", None, labels={POD_GROUP_ROLE: "launchers"})
    assert not any(toy.gated(name) for name in ("l0", "l1", "w0"))
    assert [p.count for p in pod_sets(toy)] == [2, 3]


@pytest.mark.parity("B9")
def test_pods_of_a_set_that_ask_for_different_amounts_block_it() -> None:
    toy = Toy()
    sets = (DeclaredSet(name="launchers", count=2), workers())
    driver(toy, "l0", sets)
    toy.pod("l1", "g", None, cpu=3, labels={POD_GROUP_ROLE: "launchers"})
    state, reason, message = blocked(toy)
    assert (state, reason) == ("Blocked", "DifferentShapes")
    for word in ("'l0'", "'l1'", "launchers", "cpu: 1 and 3"):
        assert word in message


@pytest.mark.parity("B9")
def test_flavors_are_chosen_for_the_declared_template() -> None:
    toy = Toy()
    sets = (DRIVER, workers(node_selector={"pool": "b"}))
    driver(toy, sets=sets)
    assert toy.gated("d")
    assert toy.group("g").explained.wait.reason == "NoMatchingFlavor"
    assert "flavor f doesn't match node affinity" in toy.group("g").explained.message


@pytest.mark.parity("B9")
def test_groups_of_the_same_sets_but_other_templates_do_not_share_an_answer() -> None:
    toy = Toy()
    odd = msgspec.structs.replace(workers(node_selector={"pool": "b"}), role="odd")
    toy.pod("hog", cpu=10)
    toy.run("hog")
    toy.pod("a", "ga", None, sets=(DRIVER, odd))
    toy.pod("b", "gb", None, sets=SETS)
    toy.end("hog")
    assert toy.gated("a")
    assert not toy.gated("b")


# -- sets: whose pod is it ---


@pytest.mark.parity("B9")
def test_the_example_of_the_kep_works_although_its_label_is_singular() -> None:
    toy = Toy()
    driver(toy, sets=(DRIVER, workers(cpu=1)))
    worker(toy, "job-worker-1", "worker", cpu=1)
    assert not toy.gated("job-worker-1")
    assert toy.world.pods[toy.named("job-worker-1").uid].role == "workers"


@pytest.mark.parity("B9")
@pytest.mark.parametrize("role", ["t", "other"], ids=["same-hash", "same-requests"])
@pytest.mark.parity("B9")
def test_a_worker_without_label_is_known_by_its_shape(role: str) -> None:
    toy = Toy()
    driver(toy)
    toy.pod("w0", "g", None, cpu=2, role=role)
    assert not toy.gated("w0")
    assert toy.group("g").roles["workers"].seen == 1


@pytest.mark.parity("B9")
def test_sets_of_equal_shape_are_filled_one_after_the_other() -> None:
    toy = Toy()
    driver(toy, sets=(DRIVER, workers(1, name="a"), workers(1, name="b")))
    for i in range(3):
        worker(toy, f"w{i}", "")
    assert toy.there() == {"d", "w0", "w1"}
    assert toy.group("g").roles["a"].seen == 2, "the third is excess"
    assert toy.group("g").roles["b"].seen == 1


@pytest.mark.parity("B9")
def test_a_pod_of_the_drivers_shape_is_of_the_drivers_set() -> None:
    toy = Toy()
    driver(toy)
    toy.run("d")
    toy.pod("d2", "g", None)
    assert toy.there() == {"d"}, "a second driver is beyond the count"


@pytest.mark.parity("B9")
@pytest.mark.parametrize(
    ("role", "cpu", "reason", "words"),
    [
        (
            "wrkers",
            2,
            "UnknownRole",
            ("pod odd of role wrkers", "role driver, pods of role workers"),
        ),
        ("", 5, "UnknownRole", ("pod odd of role r5", "role driver, pods of role workers")),
        (
            "workers",
            5,
            "LargerThanDeclared",
            ("asks for cpu 5", "declared for pods of role workers"),
        ),
    ],
)
@pytest.mark.parity("B7")
def test_a_pod_without_a_place_stays_gated_and_is_told_why(
    role: str, cpu: int, reason: str, words: tuple[str, ...]
) -> None:
    toy = Toy()
    driver(toy)
    worker(toy, "odd", role, cpu)
    toy.wait(6)
    assert toy.gated("odd")
    assert told(toy) == [("odd", reason)]
    assert all(word in toy.events[-1][2] for word in words)
    worker(toy, "w0")
    assert not toy.gated("w0"), "it takes nobody's place"


@pytest.mark.parity("B9")
def test_a_label_that_is_mended_gives_the_pod_its_place() -> None:
    toy = Toy()
    driver(toy)
    worker(toy, "w0", "wrkers")
    assert toy.gated("w0")
    w0 = toy.named("w0")
    toy.change(w0.uid, labels={**w0.labels, POD_GROUP_ROLE: "workers"})
    assert not toy.gated("w0")
    assert seen(toy) == {"driver": 1, "workers": 1}


# -- sets: failures, eviction, loss ---


@pytest.mark.parity("B9")
def test_a_failed_worker_is_missed_and_its_replacement_sets_it_free() -> None:
    toy = Toy()
    driver(toy)
    worker(toy, "w0")
    toy.run("d", "w0")
    toy.end("w0", phase="Failed")
    assert "WaitingForReplacementPods" in toy.true("g")
    assert toy.held("w0")
    worker(toy, "w1")
    assert not toy.gated("w1")
    assert not toy.held("w0")
    assert "WaitingForReplacementPods" not in toy.true("g")


@pytest.mark.parity("B9")
def test_workers_not_yet_created_are_not_missing() -> None:
    toy = Toy()
    driver(toy)
    toy.run("d")
    worker(toy, "w0")
    toy.run("w0")
    assert toy.condition("g", "WaitingForReplacementPods") == ("", "", "")
    toy.end("w0")
    gone(toy, "w0")
    assert toy.condition("g", "WaitingForReplacementPods") == ("", "", "")


@pytest.mark.parity("B9")
def test_an_evicted_group_starts_again_with_its_driver_alone() -> None:
    toy = Toy(cpu=7)
    driver(toy)
    worker(toy, "w0")
    worker(toy, "w1")
    toy.run("d", "w0", "w1")
    toy.pod("urgent", cpu=7, labels={"kueue.x-k8s.io/priority-class": "high"})
    assert not toy.gated("urgent")
    assert toy.condition("g", "WaitingForReplacementPods")[0] == "True"
    toy.run("urgent")
    for name in ("w0", "w1"):
        assert name not in toy.there(), "nobody has to replace them"
    driver(toy, "d2")
    assert toy.gated("d2")
    assert toy.condition("g", "WaitingForReplacementPods")[0] == "False"
    toy.end("urgent")
    assert not toy.gated("d2")
    toy.run("d2")
    worker(toy, "w2")
    assert not toy.gated("w2")


@pytest.mark.parity("B9")
def test_under_kueue_the_same_pods_start_stop_and_start_again() -> None:
    toy = Toy(mode="kueue")
    driver(toy)
    assert toy.gated("d")
    toy.admit("g")
    assert not toy.gated("d")
    worker(toy, "w0")
    worker(toy, "odd", cpu=9)
    assert not toy.gated("w0")
    assert toy.gated("odd")
    toy.run("d", "w0")
    toy.evict("g")
    assert toy.stopped("d")[0] == "WorkloadEvictedDueToPreempted"
    assert toy.condition("g", "WaitingForReplacementPods")[0] == "True"
    assert not toy.workloads["g"].cluster_queue
    driver(toy, "d2")
    assert toy.condition("g", "WaitingForReplacementPods")[0] == "False"
    toy.admit("g")
    worker(toy, "w1")
    assert not toy.gated("d2")
    assert not toy.gated("w1")


@pytest.mark.parity("B9")
def test_a_driver_that_ends_first_leaves_its_declaration_behind() -> None:
    toy = Toy()
    driver(toy)
    worker(toy, "w0")
    toy.run("d", "w0")
    toy.end("d")
    gone(toy, "d")
    worker(toy, "w1")
    worker(toy, "w2")
    worker(toy, "w3")
    assert toy.there() == {"w0", "w1", "w2"}
    toy.run("w1", "w2")
    toy.end("w0", "w1", "w2")
    assert toy.group("g").ending.finish.reason == "Succeeded"
    assert toy.group("g").ending.finish.message == "Pods succeeded: 4/4."


@pytest.mark.parity("B9")
def test_a_driver_that_must_not_be_retried_ends_the_group_without_the_rest() -> None:
    toy = Toy()
    driver(toy, annotations={RETRIABLE_IN_GROUP: "false"})
    worker(toy, "w0")
    toy.run("d", "w0")
    toy.end("w0")
    toy.end("d", phase="Failed")
    assert toy.group("g").ending.finish.reason == "Failed"
    assert not toy.held("d")
    assert not toy.held("w0")


@pytest.mark.parity("B9")
def test_a_log_that_was_lost_is_made_up_for_from_workload_and_labels() -> None:
    toy = Toy()
    driver(toy)
    worker(toy, "w0", "worker")
    toy.run("d", "w0")
    toy.end("d")
    gone(toy, "d")
    again = Toy(ready=False)
    again.version, again.pods, again.workloads = toy.version, toy.pods, toy.workloads
    again.setup(10, "BestEffortFIFO", "LowerPriority")
    for view in again.workloads.values():
        again.put_workload(view)
    for uid in list(again.pods):
        again.change(uid)
    group = again.group("g")
    assert group.quota.holding is not None
    assert again.world.pods[again.named("w0").uid].role == "workers"
    again.pod("w1", "g", None, cpu=2, labels={POD_GROUP_ROLE: "workers"})
    assert not again.gated("w1")
    driver(again, "d2")
    assert group.spec.sets == SETS
    assert not again.gated("d2")


@pytest.mark.parity("B9")
@pytest.mark.parity("B8")
def test_sets_changed_on_a_composed_group_are_told_and_not_obeyed() -> None:
    toy = Toy()
    driver(toy)
    more = (DRIVER, workers(9))
    toy.change(toy.named("d").uid, sets=more, sets_key=repr(more))
    assert ("d", "TotalCountChanged") in [(name, reason) for name, reason, _ in toy.said]
    assert "9 x workers" in toy.events[-1][2]
    for i in range(4):
        worker(toy, f"w{i}")
    assert toy.there() == {"d", "w0", "w1", "w2"}


@pytest.mark.parity("B9")
def test_sets_corrected_before_composition_are_taken() -> None:
    toy = Toy()
    bad = (DeclaredSet(name="boss", count=2), workers())
    driver(toy, sets=bad)
    worker(toy, "w0")
    assert toy.gated("d")
    toy.change(toy.named("d").uid, sets=SETS, sets_key=repr(SETS))
    assert not toy.gated("d")
    assert not toy.gated("w0")
    assert seen(toy) == {"driver": 1, "workers": 1}


# -- contradictions ---


def test_sets_that_could_not_be_read_block_the_group_and_say_where() -> None:
    toy = Toy()
    driver(toy, sets=(), sets_key="bad", sets_problem="line 2, column 3: [0].count: must be 1")
    toy.wait(6)
    state, reason, message = blocked(toy)
    assert (state, reason) == ("Blocked", "BadSets")
    assert "pod d" in message
    assert "line 2, column 3: [0].count" in message
    assert told(toy) == [("d", "BadSets")]


@pytest.mark.parametrize("first", ["good", "bad"])
def test_sets_that_could_not_be_read_contradict_nobody(first: str) -> None:
    """Of two drivers the one with the mistake is named, with its line and column, and alone."""
    toy = Toy()
    sets: dict[str, Any] = {
        "good": {"sets": (DeclaredSet(name="workers", count=2),)},
        "bad": {"sets": (), "sets_key": "bad", "sets_problem": "line 2, column 3: [0].count: no"},
    }
    for name in (first, *({*sets} - {first})):
        driver(toy, name, **sets[name])
    toy.wait(6)
    state, reason, message = blocked(toy)
    assert (state, reason) == ("Blocked", "BadSets")
    assert "pod bad: annotation" in message and "line 2, column 3" in message
    assert "'good'" not in message


NOTES = {
    "total": {GROUP_TOTAL_COUNT: "2"},
    "count": {POD_GROUP_COUNT: "2"},
    "roles": {POD_GROUP_ROLES: "2"},
}


@pytest.mark.parametrize("one", ["sets", "total", "count", "roles"])
@pytest.mark.parametrize("other", ["sets", "total", "count", "roles"])
@pytest.mark.parity("B1", "B9", "B10")
def test_pods_that_use_different_dialects_are_both_named(one: str, other: str) -> None:
    if one == other:
        return
    toy = Toy()
    for name, dialect in (("p0", one), ("p1", other)):
        more: dict[str, Any] = {"sets": (DeclaredSet(name="x", count=2),)}
        if dialect != "sets":
            more = {"annotations": NOTES[dialect]}
        toy.pod(name, "g", None, settle=False, labels={POD_GROUP_ROLE: name}, **more)
    toy.settle()
    if toy.group("g").composition.done:
        # A count of one shape is complete with its first pod; what comes later has no say.
        assert one == "count"
        return
    state, reason, message = blocked(toy)
    assert (state, reason) == ("Blocked", "DifferentDialects")
    assert "'p0'" in message
    assert "'p1'" in message


def test_one_pod_that_states_two_dialects_is_named() -> None:
    toy = Toy()
    driver(toy, annotations={GROUP_TOTAL_COUNT: "4"})
    state, reason, message = blocked(toy)
    assert (state, reason) == ("Blocked", "DifferentDialects")
    assert "'d'" in message
    assert "pod-group-sets" in message
    assert "pod-group-total-count" in message


@pytest.mark.parity("B1")
def test_pods_that_declare_different_sets_are_both_named() -> None:
    toy = Toy()
    two = DeclaredSet(name="launchers", count=2)
    driver(toy, "l0", (two, workers(3)))
    driver(toy, "l1", (two, workers(4)))
    state, reason, message = blocked(toy)
    assert (state, reason) == ("Blocked", "DifferentSets")
    for word in ("'l0'", "'l1'", "3 x workers", "4 x workers"):
        assert word in message


def test_a_total_count_group_with_a_pod_that_has_a_role_label_only_is_blocked_as_before() -> None:
    toy = Toy()
    toy.pod("p0", "g", 2)
    worker(toy, "p1")
    assert blocked(toy)[:2] == ("Blocked", "DifferentTotalCounts")


# -- the first draft ---


@pytest.mark.parity("B10")
def test_a_declared_count_composes_after_its_first_pod() -> None:
    toy = Toy()
    for i in range(4):
        toy.pod(f"p{i}", "g", None, annotations={POD_GROUP_COUNT: "3"})
        assert [(p.name, p.count) for p in toy.workloads["g"].pod_sets] == [("r1", 3)]
    assert toy.there() == {"p0", "p1", "p2"}
    toy.run("p0", "p1", "p2")
    toy.end("p0", "p1", "p2")
    assert toy.group("g").ending.finish.message == "Pods succeeded: 3/3."


@pytest.mark.parity("B10")
def test_a_declared_count_knows_one_shape() -> None:
    toy = Toy(cpu=1)
    toy.pod("hog")
    toy.run("hog")
    toy.act = False
    notes = {POD_GROUP_COUNT: "3"}
    toy.pod("p0", "g", None, annotations=notes)
    toy.pod("p1", "g", None, cpu=2, annotations=notes)
    toy.act = True
    toy.settle()
    toy.wait(6)
    assert [(p.name, p.count) for p in toy.workloads["g"].pod_sets] == [("r1", 3)]
    toy = Toy()
    toy.pod("p0", "g", None, annotations=notes)
    toy.pod("p1", "g", None, cpu=2, annotations=notes)
    toy.wait(6)
    assert told(toy) == [("p1", "UnknownRole")]


def draft(toy: Toy, name: str, role: str, count: int | str = 1, *, roles: str = "2", **more: Any):
    notes = {POD_GROUP_ROLES: roles, POD_GROUP_ROLE_COUNT: str(count)}
    toy.pod(name, "g", None, labels={POD_GROUP_ROLE: role}, annotations=notes, **more)


@pytest.mark.parity("B10")
def test_declared_roles_compose_after_one_pod_of_each() -> None:
    toy = Toy()
    draft(toy, "d", "driver")
    assert blocked(toy)[:2] == ("Composing", "WaitingForPods")
    draft(toy, "w0", "worker", 3, cpu=2)
    assert [(p.name, p.count, p.requests) for p in toy.workloads["g"].pod_sets] == [
        ("driver", 1, {"cpu": 1000}),
        ("worker", 3, {"cpu": 2000}),
    ]
    for i in (1, 2, 3):
        draft(toy, f"w{i}", "worker", 3, cpu=2)
    assert toy.there() == {"d", "w0", "w1", "w2"}
    assert not any(toy.gated(name) for name in toy.there())
    toy.run("d", "w0", "w1", "w2")
    toy.end("w0", phase="Failed")
    assert "WaitingForReplacementPods" in toy.true("g")
    draft(toy, "w4", "worker", 3, cpu=2)
    assert not toy.held("w0")
    toy.run("w4")
    toy.end("d", "w1", "w2", "w4")
    assert toy.group("g").ending.finish.reason == "Succeeded"


@pytest.mark.parity("B10")
def test_a_role_count_that_is_not_given_is_one() -> None:
    toy = Toy()
    for name in ("a", "b"):
        toy.pod(
            name,
            "g",
            None,
            labels={POD_GROUP_ROLE: name},
            annotations={POD_GROUP_ROLES: "2"},
        )
    assert [p.count for p in pod_sets(toy)] == [1, 1]


@pytest.mark.parity("B10")
def test_a_pod_of_one_role_too_many_or_too_large_has_no_place() -> None:
    toy = Toy()
    draft(toy, "d", "driver")
    draft(toy, "w0", "worker", 3)
    draft(toy, "x", "extra")
    draft(toy, "big", "worker", 3, cpu=4)
    toy.wait(6)
    assert sorted(told(toy)) == [("big", "LargerThanDeclared"), ("x", "UnknownRole")]


@pytest.mark.parity("B10")
@pytest.mark.parametrize(
    ("pods", "reason", "words"),
    [
        ([("a", "x", 2, "2"), ("b", "x", 3, "2"), ("c", "y", 1, "2")], "DifferentRoles", "2 and 3"),
        ([("a", "x", 1, "2"), ("b", "y", 1, "3")], "DifferentRoles", "2 and 3"),
        ([("a", "x", 0, "1")], "BadDeclaration", "pod-group-role-count is '0'"),
        ([("a", "X_1", 1, "1")], "BadDeclaration", "'X_1'"),
        ([("a", "x", 1, "19")], "BadDeclaration", "from 1 to 18"),
        ([("a", "x", 1, "two")], "BadDeclaration", "'two'"),
    ],
)
def test_bad_roles_block_the_group(pods: list[Any], reason: str, words: str) -> None:
    toy = Toy()
    for name, role, count, roles in pods:
        draft(toy, name, role, count, roles=roles)
    assert blocked(toy)[:2] == ("Blocked", reason)
    assert words in blocked(toy)[2]


@pytest.mark.parity("B10")
def test_a_bad_count_blocks_the_group() -> None:
    toy = Toy()
    toy.pod("p", "g", None, annotations={POD_GROUP_COUNT: "0"})
    assert blocked(toy)[:2] == ("Blocked", "BadDeclaration")


# -- laws ---


def test_a_story_of_sets_replays_reloads_and_flavors_know_tolerations() -> None:
    toy = Toy(cpu=20)
    worker(toy, "early")
    driver(toy, sets=(DRIVER, workers(tolerations=(Toleration(key="k", operator="Exists"),))))
    toy.run("d", "early")
    worker(toy, "odd", "nowhere")
    toy.end("early", phase="Failed")
    worker(toy, "w0")
    assert encoded(reloaded(toy.world)) == encoded(toy.world)
    again = Toy(ready=False).world
    for position, at, batch in toy.messages:
        step(again, position, at, batch)
    assert again.journal.decisions == toy.world.journal.decisions
    assert encoded(again) == encoded(toy.world)
