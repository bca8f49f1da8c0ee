"""Groups of StatefulSets and LeaderWorkerSets: one pod is enough, and they are as large as wanted.

The law at the end plays any order of scaling, deaths and other work: what is past its gate is
charged, what is charged is within quota, and a restart or a look at everything changes nothing.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatelog.trial.state import decidable
from podgroup.admission.holding import growth_id
from podgroup.fold import account
from podgroup.log import events as e
from podgroup.model import commands as c
from podgroup.model.objects import (
    WATCHED_KINDS,
    DeviceClassView,
    FlavorQuotas,
    PodClaim,
    Quota,
    ResourceClaimView,
    ResourceGroup,
)
from podgroup.model.policy import Policy
from podgroup.model.topology import TopologyAssignment, TopologyDomain, both, fewer
from podgroup.rules import decides_by
from podgroup.state.facts import grows
from tests.core.test_due import same
from tests.core.test_laws import reloaded
from tests.support.examples import examples
from tests.support.owned import OWNED, Owners
from tests.support.toy import T0, taken


def resized(toy: Owners) -> list[dict[str, int]]:
    """What groups were resized to, in order."""
    return [dict(d.command.counts) for d in toy.decisions if isinstance(d.command, c.ResizeGroup)]


def test_the_first_pod_of_a_stateful_set_brings_quota_for_all() -> None:
    """It makes its pods one after the other: to wait for all of them were to wait for ever."""
    toy = Owners(cpu=3)
    toy.scale("web", 3)
    assert [p.phase for p in toy.of("web")] == ["Running"] * 3
    assert toy.charged() == 3 and toy.group("web").explained.state == "Running"
    (admitted,) = (d for d in toy.decisions if isinstance(d.command, c.AdmitGroup))
    assert admitted.message == "fits the quota of ClusterQueue cq: 3 pods of role main in f"


def test_no_pod_of_a_stateful_set_starts_before_all_have_quota() -> None:
    toy = Owners(cpu=3)
    toy.pod("other", cpu=1)
    toy.scale("web", 3)
    assert toy.waiting() == ["web-0"] and toy.charged() == 1
    wait = toy.group("web").explained.wait
    assert wait.message.startswith("needs 3 cpu; 2 are free in ClusterQueue cq")
    toy.run("other")
    toy.end("other")
    toy.reconcile("web")
    assert toy.charged() == 3 and not toy.waiting()


@pytest.mark.parity("B36")
def test_growth_is_charged_before_its_pods_pass() -> None:
    toy = Owners(cpu=4)
    toy.scale("web", 2)
    toy.pod("other", cpu=1)
    toy.run("other")
    toy.scale("web", 4)
    group = toy.group("web")
    assert resized(toy) == [{"main": 3}], "each pod is of use by itself"
    assert toy.waiting() == ["web-3"] and toy.charged() == 4
    assert group.explained.state == "Running"
    assert group.explained.message.startswith(
        "admitted by ClusterQueue cq; StatefulSet web wants 4 of role main in place of 3, and "
        "those that are more wait: needs 1 cpu; 0 are free in ClusterQueue cq"
    )
    toy.wait(5)
    said = [(name, reason) for name, reason, _ in toy.said if name == "web-3"]
    assert ("web-3", "ScaleUpPending") in said
    toy.end("other")
    toy.reconcile("web")
    assert resized(toy) == [{"main": 3}, {"main": 4}] and not toy.waiting() and toy.charged() == 4
    assert not [d for d in toy.decisions if d.rule in ("evict", "excess", "unadmit")]


def test_shrinking_frees_quota_once_what_ran_has_ended() -> None:
    toy = Owners(cpu=4)
    toy.scale("web", 4)
    toy.pod("waits", cpu=2)
    toy.slow = True
    toy.scale("web", 1)
    assert toy.charged() == 4 and toy.gated("waits"), "what still runs is charged"
    toy.end("web-3", "web-2")
    assert not toy.gated("waits") and toy.charged() == 4
    toy.end("web-1")
    assert toy.charged() == 3 and [p.name for p in toy.of("web")] == ["web-0"]


def sharing(**more: Any) -> Owners:
    """Sets whose pods take a core each, and all of them the two devices of one ResourceClaim."""
    gpu, shared = "gpu.example.com", {"namespace": "ns", "name": "shared"}
    policy = msgspec.structs.replace(OWNED, device_classes=(f"{gpu}=gpus",), **more)
    toy = Owners(policy=policy)
    quotas = {"cpu": Quota(nominal=10_000), "gpus": Quota(nominal=2)}
    groups = (
        ResourceGroup(covered=tuple(quotas), flavors=(FlavorQuotas(name="f", resources=quotas),)),
    )
    queue = msgspec.structs.replace(
        toy.world.cluster_queues["cq"], groups=groups, resource_version=toy.bump()
    )
    claim = ResourceClaimView(uid="shared", resource_version=toy.bump(), devices={gpu: 2}, **shared)
    kind = DeviceClassView(uid=gpu, name=gpu, resource_version=toy.bump(), created_at=T0)
    toy.do(*(e.ObjectApplied(object=view) for view in (queue, kind, claim)))
    toy.fields = {"resource_claims": (PodClaim(name="d", claim="shared"),), "devices": True}
    return toy


def test_what_pods_share_stays_charged_while_their_set_shrinks_and_grows() -> None:
    toy = sharing()
    for replicas in (3, 2, 1, 4):
        toy.scale("web", replicas)
        assert not toy.waiting()
        assert taken(toy.world, "cq") == {("f", "cpu"): replicas * 1000, ("f", "gpus"): 2}
        (given,) = toy.group("web").quota.holding.admission.assignments
        assert given.usage == {"cpu": replicas * 1000, "gpus": 2} and given.shared == {"gpus": 2}


def test_a_group_of_another_size_pays_for_claims_and_runs_since_it_began() -> None:
    """After a restart as before: another size is no other beginning."""
    toy = sharing(least_run_s=600)
    toy.scale("web", 2)
    toy.scale("later", 1)
    toy.wait(300)
    for replicas in (3, 1):
        toy.scale("web", replicas)
        again = decidable(reloaded(toy.world))
        web = toy.group("web").id
        for world in (toy.world, again):
            assert world.sharing.payer(("ns", "shared")) == web
        held = [w.quotas.scheduler.cache.reservations.admitted[web] for w in (toy.world, again)]
        assert held[0].began == held[1].began


def test_a_set_scaled_to_nothing_gives_all_back_and_is_admitted_anew_from_there() -> None:
    toy = Owners(cpu=2)
    toy.scale("web", 2)
    toy.scale("web", 0)
    assert toy.charged() == 0 and not toy.workloads and not toy.world.groups
    toy.pod("other", cpu=2)
    toy.scale("web", 2)
    assert toy.waiting() == ["web-0"] and toy.charged() == 2
    toy.run("other")
    toy.end("other")
    toy.reconcile("web")
    assert not toy.waiting() and toy.charged() == 2


def test_a_set_that_waits_asks_for_what_it_wants_by_now() -> None:
    toy = Owners(cpu=2)
    toy.scale("web", 3)
    assert toy.group("web").explained.reason == "ExceedsMaxQuota"
    toy.scale("web", 2)
    assert not toy.waiting() and toy.charged() == 2
    assert [d.command.assignments for d in toy.decisions if d.rule == "resize"] == [None]  # type: ignore[union-attr]


@pytest.mark.parity("B38")
def test_a_roll_out_of_a_set_of_one_keeps_its_quota_though_another_waits() -> None:
    """Between the two pods there is none, and the one that waits would have its place."""
    toy = Owners(cpu=1)
    toy.scale("web", 1)
    toy.pod("waits", cpu=1)
    first = toy.group("web").id
    toy.delete("web-0")
    assert not toy.of("web") and toy.charged() == 1 and toy.gated("waits")
    toy.reconcile("web")
    assert toy.group("web").id == first and not toy.gated("web-0") and toy.gated("waits")
    toy.remove("web")
    assert not toy.gated("waits") and "web" not in toy.workloads


def test_a_pod_that_takes_more_after_a_roll_out_waits_and_says_so() -> None:
    toy = Owners(cpu=4)
    toy.scale("web", 2)
    toy.scale("web", 2, cpu=2)
    toy.delete("web-1")
    toy.reconcile("web")
    toy.wait(5)
    assert toy.waiting() == ["web-1"] and toy.charged() == 2
    (said,) = (message for name, reason, message in toy.said if reason == "LargerThanDeclared")
    assert "cpu 1" in said or "cpu 2" in said
    toy.scale("web", 0)
    toy.scale("web", 2)
    assert not toy.waiting() and toy.charged() == 4


def test_growth_preempts_as_its_group_would_and_never_its_own_group() -> None:
    toy = Owners(cpu=4, within="LowerOrNewerEqualPriority")
    toy.classes["web"] = "high"
    toy.scale("web", 2)
    toy.pod("lower", cpu=2)
    toy.run("lower")
    toy.scale("web", 3)
    (evicted,) = (d for d in toy.decisions if isinstance(d.command, c.EvictGroup))
    assert isinstance(evicted.command, c.EvictGroup)
    assert (evicted.name, evicted.command.preempted_by) == ("lower", toy.group("web").id)
    toy.reconcile("web")
    assert toy.charged() == 3 and not toy.gated("web-2")


def test_who_gave_way_to_growth_gave_way_to_its_group() -> None:
    """So is it known after a restart: neither preempts the other in turn."""
    toy = Owners(cpu=4, within="LowerOrNewerEqualPriority")
    toy.classes["web"] = "high"
    toy.scale("web", 2)
    toy.pod("lower", cpu=2)
    toy.run("lower")
    toy.slow = True  # it goes on running while it is evicted
    toy.scale("web", 3)
    lower, web = (toy.group(name).id for name in ("lower", "web"))
    restarted = account.known(toy.world).scheduler
    for scheduler in (toy.world.quotas.scheduler, restarted):
        preemptions = scheduler.cache.preemptions
        assert preemptions.exempt(growth_id(web)) == preemptions.exempt(web) == {lower}
        assert preemptions.exempt(lower) == {web}


def test_what_grows_and_is_preempted_waits_for_all_of_it() -> None:
    toy = Owners(cpu=4)
    toy.scale("web", 3)
    toy.pod("other", cpu=1)
    toy.run("other")
    toy.scale("web", 4)
    assert grows(toy.group("web"))
    toy.pod("urgent", cpu=3, labels={"kueue.x-k8s.io/priority-class": "high"})
    toy.reconcile("web")
    group = toy.group("web")
    assert group.quota.holding is None and group.composition.total == 4 and not grows(group)
    assert group.explained.wait.message.startswith("needs 4 cpu")


@pytest.mark.parity("B37")
def test_a_replica_of_a_leader_worker_set_is_one_group_of_two_roles() -> None:
    toy = Owners(cpu=5)
    toy.leader("llm", 0, size=4, cpu=2)
    assert toy.waiting() == ["llm-0"]
    wait = toy.group("llm-0").explained.wait
    assert wait.message == "LeaderWorkerSet llm: the replica waits for its first worker"
    toy.worker("llm", 0, 1, size=4)
    assert not toy.waiting() and toy.charged() == 5, "two workers are yet to come, and have quota"
    toy.worker("llm", 0, 2, size=4)
    toy.leader("llm", 1, size=4, cpu=2)
    toy.worker("llm", 1, 1, size=4)
    assert toy.waiting() == ["llm-1", "llm-1-1"], "no replica starts in part"
    toy.worker("llm", 0, 3, size=4)
    assert toy.waiting() == ["llm-1", "llm-1-1"] and toy.charged() == 5


def test_a_leader_alone_is_a_replica() -> None:
    toy = Owners()
    toy.leader("llm", 0, size=1)
    assert not toy.waiting() and toy.charged() == 1


def test_a_replica_that_is_made_again_keeps_its_quota() -> None:
    """Where a pod of it fails all are deleted (`RecreateGroupOnPodRestart`)."""
    toy = Owners(cpu=2)
    toy.scale("llm", 0)  # the StatefulSet of the leaders
    toy.sets["llm"] = msgspec.structs.replace(
        toy.sets["llm"], replicas=1, resource_version=toy.bump()
    )
    toy.do(e.ObjectApplied(object=toy.sets["llm"]))
    toy.leader("llm", 0, size=2)
    toy.worker("llm", 0, 1, size=2)
    toy.run("llm-0", "llm-0-1")
    toy.pod("waits", cpu=1)
    toy.delete("llm-0-1")
    toy.delete("llm-0")
    assert toy.charged() == 2 and toy.gated("waits")
    toy.leader("llm", 0, size=2)
    toy.worker("llm", 0, 1, size=2)
    assert toy.waiting() == ["waits"]


def test_a_replica_that_is_rolled_out_larger_waits_for_the_rest() -> None:
    toy = Owners(cpu=3)
    toy.leader("llm", 0, size=2)
    toy.worker("llm", 0, 1, size=2)
    toy.run("llm-0", "llm-0-1")
    toy.pod("other", cpu=1)
    for index in (1, 2):
        toy.worker("llm", 0, index + 1, size=3)
    assert toy.group("llm-0").composition.wanted == (("worker", 2),)
    assert toy.waiting() == ["llm-0-2", "llm-0-3"]
    toy.run("other")
    toy.end("other")
    assert toy.charged() == 3 and resized(toy) == [{"worker": 2}]


def test_a_set_that_is_not_known_is_named_with_what_to_do() -> None:
    toy = Owners()
    toy.pod(
        "web-0",
        "web",
        None,
        labels={"kueue.x-k8s.io/pod-group-role": "main"},
        annotations={"gatelog.io/pod-group-owner": "StatefulSet/web"},
    )
    group = toy.group("web")
    assert (group.explained.state, group.explained.reason) == ("Blocked", "StatefulSetNotFound")
    said = "StatefulSet web, which the pods are of, is not known: it says how many they are"
    assert group.explained.message == said
    toy.scale("web", 1)
    assert not toy.waiting()


@pytest.mark.parametrize("said", ["", "StatefulSet", "Deployment/web", "LeaderWorkerSet/llm/0"])
def test_an_owner_that_cannot_be_is_a_bad_declaration(said: str) -> None:
    toy = Owners()
    toy.pod("p", "g", None, annotations={"gatelog.io/pod-group-owner": said})
    assert toy.group("g").explained.reason == "BadDeclaration"


def test_pods_of_two_owners_are_no_group() -> None:
    toy = Owners()
    toy.leader("web", 0, size=3)
    toy.scale("web-0", 2)
    wait = toy.group("web-0").explained.wait
    assert wait.reason == "DifferentDialects"
    assert wait.message.endswith("different owners: LeaderWorkerSet web and StatefulSet web-0")


@pytest.mark.parametrize(
    "policy", [Policy(), msgspec.structs.replace(OWNED, compatibility="kueue")]
)
def test_without_the_setting_and_as_kueue_decides_no_group_is_resized(policy: Policy) -> None:
    """Kueue scales a StatefulSet to nothing and from there, and no other way."""
    toy = Owners(cpu=4, policy=policy)
    toy.scale("web", 2)
    toy.scale("web", 3)
    assert toy.waiting() == ["web-2"] and toy.charged() == 2 and not resized(toy)
    toy.wait(5)
    assert ("web-2", "WaitingForPlace") in [(name, reason) for name, reason, _ in toy.said]
    toy.scale("web", 0)
    toy.scale("web", 3)
    assert not toy.waiting() and toy.charged() == 3


def test_in_kueue_mode_kueue_decides_about_the_size_of_the_first_moment() -> None:
    toy = Owners(mode="kueue")
    toy.scale("web", 2)
    assert [(one.name, one.count) for one in toy.workloads["web"].pod_sets] == [("main", 2)]
    assert toy.waiting() == ["web-0"]
    toy.admit("web")
    toy.reconcile("web")
    assert not toy.waiting()
    toy.scale("web", 3)
    toy.wait(5)
    assert toy.waiting() == ["web-2"] and not resized(toy)
    assert ("web-2", "WaitingForPlace") in [(name, reason) for name, reason, _ in toy.said]
    toy.scale("web", 0)
    assert not toy.workloads


def test_stateful_sets_are_listed_first_where_the_setting_names_a_kind() -> None:
    assert decides_by("builtin", Policy(), "1").kinds == WATCHED_KINDS
    assert decides_by("builtin", OWNED, "1").kinds == ("StatefulSet", *WATCHED_KINDS)


def test_places_are_taken_from_the_end_and_added_to() -> None:
    def place(**counts: int) -> TopologyAssignment:
        some = (TopologyDomain(values=(name,), count=n) for name, n in counts.items())
        return TopologyAssignment(levels=("rack",), domains=tuple(some))

    assert fewer(place(a=2, b=2), 3) == place(a=2, b=1)
    assert fewer(place(a=2, b=2), 2) == place(a=2)
    assert both(place(a=2, b=2), place(b=1, c=1)) == place(a=2, b=3, c=1)
    assert both(place(a=1), None) == place(a=1)


verbs = st.one_of(
    st.tuples(st.just("scale"), st.sampled_from(["web", "db"]), st.integers(0, 4)),
    st.tuples(st.just("delete"), st.sampled_from(["web", "db"]), st.integers(0, 3)),
    st.tuples(st.just("other"), st.sampled_from(["high", "low"]), st.integers(1, 2)),
    st.tuples(st.just("end"), st.just(""), st.integers(0, 3)),
    st.tuples(st.just("replica"), st.just("llm"), st.integers(0, 3)),
    st.tuples(st.just("turn"), st.sampled_from(["web", "db"]), st.just(0)),  # of the controller
    st.tuples(st.just("quota"), st.just(""), st.integers(2, 6)),
)


@examples(60, brief=25)
@given(st.lists(verbs, min_size=3, max_size=25), st.booleans())
def test_what_runs_is_charged_and_within_quota_in_any_order(
    story: list[tuple[str, str, int]], fifo: bool
) -> None:
    toy = Owners(cpu=5, strategy="StrictFIFO" if fifo else "BestEffortFIFO")
    quota = 5
    for serial, (verb, name, n) in enumerate(story):
        if verb == "scale":
            toy.scale(name, n)
        elif verb == "delete" and name in toy.sets and toy.of(name):
            toy.delete(toy.of(name)[n % len(toy.of(name))].name)
        elif verb == "other":
            toy.pod(f"o{serial}", cpu=n, labels={"kueue.x-k8s.io/priority-class": name})
        elif verb == "end":
            for pod in [p for p in toy.pods.values() if p.name.startswith("o") and not p.gates][:n]:
                if pod.phase == "Pending":
                    toy.run(pod.name)
                toy.end(pod.name)
        elif verb == "replica" and f"llm-{n}" not in toy.there():
            toy.leader("llm", n, size=2)
            toy.worker("llm", n, 1, size=2)
        elif verb == "quota" and n > quota:
            quota = n
            toy.do(e.ObjectApplied(object=toy.cluster_queue(n)))
        for known in toy.sets:
            toy.reconcile(known)
        runs = [p for p in toy.pods.values() if not p.gates and p.phase in ("Pending", "Running")]
        assert sum(p.requests["cpu"] for p in runs) <= toy.charged() * 1000
        assert toy.charged() <= quota
        assert not toy.world.journal.parked
    same(toy.messages, "builtin", OWNED, restart=7)
