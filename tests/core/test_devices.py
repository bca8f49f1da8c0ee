"""Devices of ResourceClaims as quota: what is charged, who waits and why, who pays for what."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podgroup.log import events as e
from podgroup.log.events import Decision
from podgroup.model.names import PODSET_LABEL
from podgroup.model.objects import (
    DeclaredSet,
    DeviceClassView,
    FlavorQuotas,
    Kind,
    PodClaim,
    Quota,
    ResourceClaimTemplateView,
    ResourceClaimView,
    ResourceGroup,
    kinds_watched,
)
from podgroup.model.policy import Policy
from podgroup.model.quantities import MAX_INT64
from podgroup.state.asked import charge_of, workload
from podgroup.state.quota import Charge
from tests.core.test_due import same
from tests.core.test_laws import reloaded
from tests.support.examples import examples
from tests.support.toy import T0, Toy, taken

GPU, OTHER = "gpu.example.com", "nic.example.com"
POLICY = Policy(device_classes=(f"{GPU}=gpus",))
GPUS = ("f", "gpus")


class Devices(Toy):
    """A toy with 4 gpus, and templates `one` and `two` of so many devices."""

    def __init__(self, policy: Policy = POLICY, gpus: int = 4, **more: Any) -> None:
        super().__init__(100, policy=policy, **more)
        queue = self.world.cluster_queues["cq"]
        cpu = Quota(nominal=100_000)
        given = FlavorQuotas(name="f", resources={"cpu": cpu, "gpus": Quota(nominal=gpus)})
        groups = (ResourceGroup(covered=("cpu", "gpus"), flavors=(given,)),)
        self.put(msgspec.structs.replace(queue, groups=groups))
        self.put(DeviceClassView(uid=GPU, name=GPU, resource_version="", created_at=T0))
        self.template("one", 1)
        self.template("two", 2)

    def put(self, view: Any) -> None:
        view = msgspec.structs.replace(view, resource_version=self.bump())
        self.do(e.ObjectApplied(object=view))

    def template(self, name: str, count: int, of: str = GPU, **more: Any) -> None:
        devices = {of: count} if count else {}
        self.put(
            ResourceClaimTemplateView(
                uid=f"{name}-{self.version}",
                namespace="ns",
                name=name,
                resource_version="",
                devices=devices,
                **more,
            )
        )

    def claim(self, name: str, count: int, namespace: str = "ns", pod: str = "") -> None:
        uid = f"{namespace}/{name}-{self.version}"
        view = ResourceClaimView(
            uid=uid,
            namespace=namespace,
            name=name,
            resource_version="",
            devices={GPU: count},
            pod=self.named(pod).uid if pod else "",
        )
        self.put(view)
        if pod:
            self.change(self.named(pod).uid, generated_claims=(("devices", name),))

    def drop(self, kind: Kind, name: str) -> None:
        known: Any = self.world.objects_of(kind)[("ns", name)]
        self.do(
            e.ObjectDeleted(
                kind=kind,
                namespace="ns",
                name=name,
                uid=known.uid,
                resource_version=self.bump(),
            )
        )

    def asks(self, name: str, template: str = "", claim: str = "", **more: Any) -> None:
        entry = PodClaim(name="devices", template=template, claim=claim)
        more.setdefault("resource_claims", (entry,))
        self.pod(name, devices=True, **more)

    def charged(self) -> int:
        return taken(self.world, "cq").get(GPUS, 0)

    def admitted(self, *names: str) -> bool:
        return all(not self.named(name).gates for name in names)

    def why(self, name: str) -> tuple[str, str]:
        pod = self.world.pods[self.named(name).uid]
        explained = self.world.groups[pod.group].explained
        return explained.reason, explained.message

    def state(self, name: str) -> str:
        return self.world.groups[self.world.pods[self.named(name).uid].group].explained.state


@pytest.fixture
def toy() -> Devices:
    return Devices()


def test_devices_of_templates_are_held_against_quota(toy: Devices) -> None:
    toy.asks("a", "two")
    toy.asks("b", "two")
    toy.asks("c", "one")
    assert toy.admitted("a", "b") and not toy.admitted("c")
    assert toy.charged() == 4
    reason, message = toy.why("c")
    assert reason == "WaitingForQuota" and "gpus" in message
    assert toy.world.pods[toy.named("a").uid].view.requests == {"cpu": 1000, "gpus": 2}
    toy.run("a")
    toy.end("a")
    assert toy.admitted("c") and toy.charged() == 3


def test_a_group_is_charged_for_each_of_its_pods(toy: Devices) -> None:
    for name in ("a", "b", "c"):
        toy.asks(name, "one", group="g", total=3)
    assert toy.admitted("a", "b", "c") and toy.charged() == 3
    toy.run("a", "b", "c")
    toy.end("b")
    assert toy.charged() == 2
    role = next(iter(toy.world.groups[toy.world.pods[toy.named("a").uid].group].roles.values()))
    assert role.requests["gpus"] == 1


def test_without_the_setting_nothing_is_charged_and_the_message_says_so() -> None:
    toy = Devices(Policy())
    toy.asks("a", "two")
    assert toy.admitted("a") and not toy.charged()
    said = next(d.message for d in toy.decisions if d.rule == "admit")
    assert said.endswith("; devices of its resourceClaims are charged to no quota")


def test_with_the_setting_it_says_nothing_of_that(toy: Devices) -> None:
    toy.asks("a", "two")
    assert not any("charged to no quota" in d.message for d in toy.decisions)


def test_requests_of_a_claim_add_up_and_saturate(toy: Devices) -> None:
    toy.template("huge", MAX_INT64)
    entries = tuple(PodClaim(name=name, template="huge") for name in ("x", "y"))
    toy.asks("a", resource_claims=entries)
    assert toy.world.pods[toy.named("a").uid].view.requests["gpus"] == MAX_INT64
    assert toy.why("a")[0] == "ExceedsMaxQuota" and toy.state("a") == "Blocked"
    entries = (PodClaim(name="x", template="one"), PodClaim(name="y", template="two"))
    toy.asks("b", resource_claims=entries)
    assert toy.admitted("b") and toy.charged() == 3


def test_a_class_that_is_not_mapped_blocks_with_its_name(toy: Devices) -> None:
    toy.template("nics", 1, OTHER)
    toy.asks("a", "nics")
    assert toy.state("a") == "Blocked"
    assert toy.why("a") == (
        "DeviceClassNotMapped",
        f"ResourceClaimTemplate nics asks for devices of DeviceClass {OTHER}, which "
        "queueing.device_classes does not name",
    )


def test_what_gives_no_number_blocks_with_its_path(toy: Devices) -> None:
    toy.template("all", 0, problem="spec.spec.devices.requests[0].exactly.allocationMode: All")
    toy.asks("a", "all")
    assert toy.state("a") == "Blocked"
    assert toy.why("a")[0] == "DevicesNotCounted"
    assert toy.why("a")[1].startswith("ResourceClaimTemplate all: spec.spec.devices.req")


@pytest.mark.parametrize("named", [{"template": "late"}, {"claim": "late"}])
def test_what_does_not_exist_yet_is_waited_for(toy: Devices, named: dict[str, str]) -> None:
    toy.asks("a", **named)
    reason, message = toy.why("a")
    assert (reason, toy.state("a")) == ("ResourceClaimNotFound", "Queued")
    assert "spec.resourceClaims[0] names ResourceClaim" in message and "late" in message
    if "template" in named:
        toy.template("late", 2)
    else:
        toy.claim("late", 2)
    assert toy.admitted("a") and toy.charged() == 2


def test_a_template_made_anew_counts_for_who_waits(toy: Devices) -> None:
    toy.asks("first", "two")
    toy.asks("second", "two")
    toy.asks("a", "one")
    toy.asks("b", "one", group="g", total=1)
    toy.drop("ResourceClaimTemplate", "one")
    assert toy.why("a")[0] == toy.why("b")[0] == "ResourceClaimNotFound"
    toy.template("one", 3)
    toy.run("first")
    toy.end("first")
    assert not toy.admitted("a") and not toy.admitted("b") and toy.charged() == 2
    toy.run("second")
    toy.end("second")
    assert toy.admitted("a") and toy.charged() == 3 and not toy.admitted("b")


def test_the_claim_that_came_of_a_larger_template_is_charged(toy: Devices) -> None:
    """kueue#13842: the template is made anew between admission and the pod's claim."""
    toy.asks("a", "one")
    assert toy.admitted("a") and toy.charged() == 1
    toy.drop("ResourceClaimTemplate", "one")
    toy.template("one", 4)
    toy.claim("a-devices", 4, pod="a")
    assert toy.charged() == 4
    toy.run("a")
    reason, message = toy.why("a")
    assert reason == "LargerThanAdmitted"
    assert "it takes 3 gpus of f more than it was given" in message
    toy.asks("b", "two")
    assert not toy.admitted("b")


def test_the_claim_of_a_gated_pod_counts_before_the_gate_goes(toy: Devices) -> None:
    toy.asks("first", "two")
    toy.asks("second", "two")
    toy.asks("a", "one")
    toy.claim("a-devices", 3, pod="a")
    toy.run("first")
    toy.end("first")
    assert not toy.admitted("a")
    said = "ResourceClaim a-devices of pod a holds 3 gpus, ResourceClaimTemplate one says 1 gpus"
    assert said in toy.why("a")[1]
    toy.run("second")
    toy.end("second")
    assert toy.admitted("a") and toy.charged() == 3


def test_a_claim_that_holds_less_than_its_template_says_is_no_discount(toy: Devices) -> None:
    toy.asks("a", "two")
    toy.claim("a-devices", 1, pod="a")
    assert toy.charged() == 2


def test_what_runs_keeps_its_charge_when_claim_and_template_go(toy: Devices) -> None:
    toy.asks("a", "two")
    toy.claim("a-devices", 3, pod="a")
    toy.run("a")
    assert toy.charged() == 3
    toy.drop("ResourceClaim", "a-devices")
    toy.drop("ResourceClaimTemplate", "two")
    toy.change(toy.named("a").uid, message="still there")
    assert toy.charged() == 3
    toy.end("a")
    assert toy.charged() == 0


def test_a_replacement_whose_claim_is_larger_stays_at_its_gate(toy: Devices) -> None:
    for name in ("a", "b"):
        toy.asks(name, "one", group="g", total=2)
        toy.claim(f"{name}-devices", 1, pod=name)
    toy.run("a", "b")
    toy.end("a", phase="Failed")
    toy.drop("ResourceClaimTemplate", "one")
    toy.asks("c", "one", group="g", total=2)
    assert not toy.admitted("c"), "how many devices it would hold is not known"
    toy.template("one", 3)
    assert not toy.admitted("c"), "more than its group was given"
    toy.drop("ResourceClaimTemplate", "one")
    toy.template("one", 1)
    assert toy.admitted("c") and toy.charged() == 2


def test_pods_of_one_role_must_ask_for_equal_amounts(toy: Devices) -> None:
    toy.asks("a", "one", group="g", total=2)
    toy.asks("b", "two", group="g", total=2)
    assert toy.why("a")[0] == "DifferentShapes" and "gpus: 1 and 2" in toy.why("a")[1]


# -- claims that pods share ---


def test_a_shared_claim_counts_once_in_a_group(toy: Devices) -> None:
    toy.claim("shared", 3)
    for name in ("a", "b", "c"):
        toy.asks(name, claim="shared", group="g", total=3)
    assert toy.admitted("a", "b", "c") and toy.charged() == 3
    toy.run("a", "b", "c")
    toy.end("a", "b")
    assert toy.charged() == 3
    toy.end("c")
    assert toy.charged() == 0


def test_a_claim_that_groups_share_is_paid_by_the_first(toy: Devices) -> None:
    toy.claim("shared", 3)
    toy.asks("a", claim="shared")
    toy.asks("b", claim="shared")
    toy.asks("c", "one")
    assert toy.admitted("a", "b", "c") and toy.charged() == 4
    toy.run("a", "b")
    toy.end("a")
    assert toy.charged() == 4, "who shares it pays now"
    toy.end("b")
    assert toy.charged() == 1


def test_a_pod_that_names_a_claim_twice_holds_it_once(toy: Devices) -> None:
    toy.claim("shared", 2)
    entries = tuple(PodClaim(name=name, claim="shared") for name in ("x", "y"))
    toy.asks("a", resource_claims=entries)
    assert toy.admitted("a") and toy.charged() == 2


def test_claims_of_one_name_in_two_namespaces_are_two(toy: Devices) -> None:
    toy.claim("shared", 2)
    toy.claim("shared", 4, "other")
    toy.asks("a", claim="shared")
    assert toy.charged() == 2
    toy.asks("x", claim="shared", namespace="other", labels={"kueue.x-k8s.io/queue-name": "lq"})
    assert not toy.admitted("x") and toy.charged() == 2


def test_a_shared_claim_deleted_under_its_pods_stays_charged(toy: Devices) -> None:
    toy.claim("shared", 3)
    toy.asks("a", claim="shared")
    toy.run("a")
    toy.drop("ResourceClaim", "shared")
    toy.change(toy.named("a").uid, message="still there")
    assert toy.charged() == 3


def test_a_shared_claim_made_anew_with_more_is_charged_and_said(toy: Devices) -> None:
    toy.claim("shared", 1)
    toy.asks("a", claim="shared")
    toy.asks("b", claim="shared")
    toy.run("a", "b")
    toy.drop("ResourceClaim", "shared")
    toy.claim("shared", 4)
    assert toy.charged() == 4
    reason, message = toy.why("a")
    assert reason == "LargerThanAdmitted"
    assert "it takes 3 gpus of f more than it was given" in message
    assert toy.why("b")[0] == "", "it pays for none"
    toy.asks("c", "one")
    assert not toy.admitted("c")


def test_a_shared_claim_too_large_for_what_is_left_is_waited_for(toy: Devices) -> None:
    toy.asks("first", "two")
    toy.claim("shared", 3)
    toy.asks("a", claim="shared")
    assert not toy.admitted("a") and toy.why("a")[0] == "WaitingForQuota"
    toy.run("first")
    toy.end("first")
    assert toy.admitted("a") and toy.charged() == 3


def test_pods_that_ran_before_are_charged_for_their_claim_once(toy: Devices) -> None:
    toy.claim("shared", 3)
    entry = PodClaim(name="devices", claim="shared")
    for name in ("a", "b"):
        toy.pod(
            name,
            "g",
            2,
            gated=False,
            labels={PODSET_LABEL: "r1"},
            resource_claims=(entry,),
            devices=True,
            node="node",
            phase="Running",
        )
    assert toy.charged() == 3
    toy.end("a")
    assert toy.charged() == 3


def test_an_admission_of_before_the_log_holds_its_claim_once(toy: Devices) -> None:
    toy.claim("shared", 3)
    for name in ("a", "b"):
        toy.asks(name, claim="shared", group="g", total=2)
    toy.run("a", "b")
    there = Devices()
    there.claim("shared", 3)
    there.pods, there.last = dict(toy.pods), dict(toy.last)
    there.version = toy.version + 100
    there.put_workload(toy.workloads["g"])
    for pod in toy.pods.values():
        there.do(e.PodApplied(pod=msgspec.structs.replace(pod, resource_version=there.bump())))
    assert there.charged() == 3
    (group,) = there.world.groups.values()
    assert group.quota.holding is not None and group.quota.holding.decided_by == "adopted"
    there.end("a", "b")
    assert there.charged() == 0


def test_devices_are_nothing_that_nodes_are_asked_for(toy: Devices) -> None:
    toy.claim("shared", 1)
    entries = (PodClaim(name="own", template="two"), PodClaim(name="all", claim="shared"))
    toy.asks("a", resource_claims=entries)
    (group,) = toy.world.groups.values()
    (asked,) = workload(toy.world, group).pod_sets
    assert asked.requests == (("cpu", 1000),)
    assert (asked.devices, asked.shared) == ((("gpus", 2),), (("gpus", 1),))
    assert toy.charged() == 3


# -- extended resources ---


def test_an_extended_resource_of_a_mapped_class_counts_as_its_devices(toy: Devices) -> None:
    toy.put(
        DeviceClassView(
            uid=GPU, name=GPU, resource_version="", created_at=T0, extended_resource="example.com/g"
        )
    )
    toy.pod("a", requests={"cpu": 1000, "example.com/g": 3})
    assert toy.admitted("a") and toy.charged() == 3
    assert toy.world.pods[toy.named("a").uid].view.requests == {"cpu": 1000, "gpus": 3}
    toy.pod("b", requests={"cpu": 1000, f"deviceclass.resource.kubernetes.io/{GPU}": 1})
    assert toy.admitted("b") and toy.charged() == 4
    toy.pod("c", requests={"cpu": 1000, "example.com/g": 1})
    assert toy.why("c")[0] == "WaitingForQuota"


def test_of_two_classes_the_newer_one_gives_an_extended_resource(toy: Devices) -> None:
    for name, age in ((GPU, 0), (OTHER, 1)):
        toy.put(
            DeviceClassView(
                uid=name,
                name=name,
                resource_version="",
                created_at=T0 + timedelta(seconds=age),
                extended_resource="example.com/g",
            )
        )
    toy.pod("a", requests={"cpu": 1000, "example.com/g": 1})
    assert not toy.admitted("a") and "example.com/g" in toy.why("a")[1]


# -- settings, modes ---


def test_as_kueue_claims_by_name_are_refused() -> None:
    toy = Devices(msgspec.structs.replace(POLICY, compatibility="kueue"))
    toy.claim("shared", 1)
    toy.asks("a", claim="shared")
    assert toy.why("a")[0] == "Misconfigured" and toy.state("a") == "Blocked"
    toy.asks("b", "one")
    assert toy.admitted("b") and toy.charged() == 1


def test_as_kueue_a_template_is_charged_and_not_what_came_of_it() -> None:
    toy = Devices(msgspec.structs.replace(POLICY, compatibility="kueue"))
    toy.asks("a", "one")
    toy.drop("ResourceClaimTemplate", "one")
    toy.template("one", 4)
    toy.claim("a-devices", 4, pod="a")
    assert toy.charged() == 1 and toy.why("a")[0] == ""


def test_a_setting_that_comes_later_counts_what_is_there() -> None:
    toy = Devices(Policy())
    toy.asks("a", "two")
    toy.run("a")
    toy.asks("b", "two", settle=False)
    toy.world.policy = POLICY
    said = toy.settings()
    toy.world.policy = Policy()
    toy.do(said)
    for kind in kinds_watched("builtin", POLICY):
        if kind not in toy.world.meta.synced:
            known = toy.world.objects_of(kind).values()
            toy.send(
                e.RelistStarted(kind=kind, relist=kind),
                *(e.ObjectApplied(object=one, relist=kind) for one in known),
                e.RelistCompleted(kind=kind, relist=kind, resource_version=toy.bump()),
            )
    toy.settle()
    assert toy.charged() == 4
    toy.asks("c", "one")
    assert toy.why("c")[0] == "WaitingForQuota"


def test_sets_with_templates_ask_for_their_devices(toy: Devices) -> None:
    claims = (PodClaim(name="devices", template="two"),)
    worker = DeclaredSet(
        name="worker",
        count=2,
        requests={"cpu": 1000},
        role="w",
        template='{"containers":[]}',
        resource_claims=claims,
    )
    driver = DeclaredSet(name="driver", count=1)
    toy.pod("d", group="g", total=None, sets=(driver, worker))
    assert toy.admitted("d") and toy.charged() == 4


def test_a_restart_knows_who_pays(toy: Devices) -> None:
    toy.claim("shared", 3)
    toy.asks("a", claim="shared")
    toy.asks("b", claim="shared")
    again = reloaded(toy.world)
    assert again.sharing == toy.world.sharing
    assert taken(again, "cq") == taken(toy.world, "cq")


# -- whatever happens, in whatever order ---


class Rough(Devices):
    """Users who do anything: templates and claims come, go and change under pods that use them."""

    def __init__(self) -> None:
        super().__init__()
        self.serial = 0

    def play(self, verb: str, which: int, count: int) -> None:
        self.serial += 1
        name = ("one", "two")[which % 2]
        before = len(self.decisions)
        getattr(self, f"do_{verb}")(name, which, count)
        self.settle()
        self.check(self.decisions[before:])

    def check(self, decided: list[Decision]) -> None:
        """What is charged follows from the state, and no admission took more than there was."""
        world = self.world
        for group in world.groups.values():
            holding = group.quota.holding
            known = world.quotas.charges.get(group.id)
            if holding is not None:
                assert known == charge_of(world, group, holding), group.name
        taken_by = {
            d.group
            for d in decided
            if d.rule == "admit" and self._own(world.quotas.charges.get(d.group))
        }
        assert not taken_by or self.charged() <= 4

    @staticmethod
    def _own(charge: Charge | None) -> int:
        return charge.usage.get(GPUS, 0) if charge is not None else 0

    def do_template(self, name: str, _: int, count: int) -> None:
        self.do_drop(name, 0, 0)
        self.template(name, count)

    def do_drop(self, name: str, which: int, _: int) -> None:
        kind: Kind = "ResourceClaim" if which % 3 == 1 else "ResourceClaimTemplate"
        if ("ns", name) in self.world.objects_of(kind):
            self.drop(kind, name)

    def do_claim(self, name: str, _: int, count: int) -> None:
        if ("ns", name) not in self.world.resource_claims:
            self.claim(name, count)

    def do_ask(self, name: str, which: int, count: int) -> None:
        by = {"claim": name} if which % 3 == 0 else {"template": name}
        size = 1 + count % 3
        group: dict[str, Any] = {} if size == 1 else {"group": f"g{self.serial}", "total": size}
        for number in range(size):
            self.asks(f"p{self.serial}-{number}", **by, **group)

    def do_generate(self, _: str, which: int, count: int) -> None:
        open_ = [
            pod
            for pod in self.pods.values()
            if not pod.generated_claims and any(one.template for one in pod.resource_claims)
        ]
        if open_:
            pod = open_[which % len(open_)]
            self.claim(f"{pod.name}-claim", count, pod=pod.name)

    def do_run(self, _: str, which: int, __: int) -> None:
        there = [pod.name for pod in self.pods.values() if not pod.gates and pod.phase == "Pending"]
        if there:
            self.run(there[which % len(there)])

    def do_end(self, _: str, which: int, count: int) -> None:
        there = [pod.name for pod in self.pods.values() if pod.phase == "Running"]
        if there:
            self.end(there[which % len(there)], phase="Failed" if count == 3 else "Succeeded")

    def do_delete(self, _: str, which: int, __: int) -> None:
        if self.pods:
            self.delete(list(self.pods.values())[which % len(self.pods)].name)


VERBS = ("template", "drop", "claim", *["ask"] * 3, "generate", *["run"] * 2, "end", "delete")
some = st.integers(0, 5)
programs = st.lists(st.tuples(st.sampled_from(VERBS), some, some), min_size=5, max_size=40)


@examples(60, brief=25)
@given(program=programs)
def test_charges_follow_from_the_state_and_rules_at_rest_say_nothing(program: Any) -> None:
    rough = Rough()
    for step in program:
        rough.play(*step)
    same(rough.messages, "builtin", POLICY, restart=8)
