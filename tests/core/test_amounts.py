"""Amounts that people write: none is credit, whatever it says and wherever it is written."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ingest.kinds import watched_kinds
from ingest.translate.podsets import parse_sets
from podgroup.log import events as e
from podgroup.model import quantities as q
from podgroup.model.names import POD_GROUP_SETS, PREBUILT_WORKLOAD
from podgroup.model.objects import FlavorQuotas, Quota, ResourceGroup, WorkloadView
from tests.support.toy import Toy

CASES = Path(__file__).parent / "cases"
META = {
    "uid": "u",
    "name": "q",
    "namespace": "ns",
    "resourceVersion": "1",
    "creationTimestamp": "2026-01-01T00:00:00Z",
}
NEGATIVE = ["-1", "-100", "-0.5m", "-1E", "-1e30", "-8Ei", "-9223372036854775809"]
NONSENSE = ["", "lots", "1 cpu", "NaN", "0x10"]
QUOTAS = ("nominalQuota", "borrowingLimit", "lendingLimit")


def view(kind: str, spec: dict[str, Any], **more: Any) -> Any:
    row = next(row for row in watched_kinds("") if row.kind == kind)
    raw = msgspec.json.encode({"metadata": META, "spec": spec, **more})
    event = row.translator.listed(raw, "")
    assert isinstance(event, e.ObjectApplied | e.WorkloadApplied), event
    return event.workload if isinstance(event, e.WorkloadApplied) else event.object


def reason(toy: Toy, group: str) -> tuple[str, str]:
    wait = toy.group(group).explained.wait
    return (wait.reason, wait.message) if wait is not None else ("", "")


# -- declarations ---


def test_the_case_of_a_negative_declaration_is_no_credit() -> None:
    """`kubectl apply` of the case: once it let six pods of 2 CPU run in a queue of 2."""
    driver, worker = yaml.safe_load_all((CASES / "negative-declared.yaml").read_text())
    text = driver["metadata"]["annotations"][POD_GROUP_SETS]
    declared = parse_sets(text)
    (error,) = declared.errors
    field = "[1].template.spec.containers[0].resources.requests.cpu"
    assert (error.line, error.field) == (9, field)
    toy = Toy(2)
    toy.pod(
        "driver",
        "credit",
        None,
        2,
        sets=declared.sets,
        sets_key=declared.key,
        sets_problem=declared.problem,
    )
    for number in range(6):
        toy.pod(f"{worker['metadata']['name'][:-1]}{number}", cpu=2)
    assert reason(toy, "credit") == (
        "BadSets",
        f"pod driver: annotation {POD_GROUP_SETS}: line 9, column {error.column}: {field}: "
        "'-100' is below zero: an amount is 0 or more",
    )
    assert [toy.gated(f"free{n}") for n in range(6)] == [False, True, True, True, True, True]


PLACES = {
    "requests": "spec: {containers: [{name: c, resources: {requests: {cpu: AMOUNT}}}]}",
    "limits": "spec: {containers: [{name: c, resources: {limits: {cpu: AMOUNT}}}]}",
    "bare requests": "spec: {containers: [{name: c, requests: {cpu: AMOUNT}}]}",
    "init": "spec: {containers: [{name: c}], initContainers: [{name: i, resources: "
    "{requests: {cpu: AMOUNT}}}]}",
    "pod": "spec: {containers: [{name: c}], resources: {requests: {cpu: AMOUNT}}}",
    "overhead": "spec: {containers: [{name: c}], overhead: {cpu: AMOUNT}}",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("text", [*NEGATIVE, *NONSENSE, "1.1M", "1E", "1e90"])
def test_no_place_of_a_template_takes_an_amount_that_cannot_be(place: str, text: str) -> None:
    template = PLACES[place].replace("AMOUNT", f'"{text}"')
    declared = parse_sets(f"- name: a\n  template:\n    {template}\n")
    assert not declared.sets
    (error,) = declared.errors
    assert (error.line, error.field.endswith(".cpu")) == (3, True)
    assert repr(text) in error.message or "more than any node has: at most 1M" in error.message


@given(st.sampled_from([*PLACES]), st.text(max_size=12) | st.integers().map(str))
def test_whatever_a_template_says_it_never_asks_for_less_than_nothing(
    place: str, text: str
) -> None:
    spec = yaml.safe_load(PLACES[place].replace("AMOUNT", "0"))["spec"]
    text_of = (
        msgspec.json.encode(spec).decode().replace(":0", ":" + msgspec.json.encode(text).decode())
    )
    declared = parse_sets(f'[{{"name":"a","template":{{"spec":{text_of}}}}}]')
    for one in declared.sets:
        assert all(0 <= amount <= q.MAX_INT64 for amount in one.requests.values())
    spec = msgspec.json.decode(text_of)
    try:
        requests = q.effective_requests(spec)
    except q.QuantityError:
        return
    assert all(0 <= amount <= q.MAX_INT64 for amount in requests.values())


# -- Workloads that somebody writes by hand ---


def by_hand(amount: str, count: int = 2, **more: Any) -> WorkloadView:
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": amount}}}]}
    sets = [{"name": "r1", "count": count, "template": {"spec": spec}}]
    found = view("Workload", {"queueName": "lq", "podSets": sets, **more})
    assert isinstance(found, WorkloadView)
    return found


@pytest.mark.parametrize("text", [*NEGATIVE, "1.1M", "5E"])
def test_a_workload_by_hand_says_what_it_cannot_ask_for(text: str) -> None:
    found = by_hand(text)
    path = "spec.podSets[0].template.spec.containers[0].resources.requests[cpu]"
    assert found.problem.startswith(f"{path}: {text!r} is ")
    assert min(found.pod_sets[0].requests.values()) >= 0


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"count": -3}, "spec.podSets[0].count is -3, it must be an integer from 0 to 2147483647"),
        ({"count": 2**40}, f"spec.podSets[0].count is {2**40}, it must be"),
        ({"maximumExecutionTimeSeconds": -1}, "spec.maximumExecutionTimeSeconds is -1, it must be"),
        ({"maximumExecutionTimeSeconds": 2**62}, "spec.maximumExecutionTimeSeconds is 46116"),
    ],
)
def test_counts_and_seconds_of_a_workload_are_bounded(more: dict[str, Any], problem: str) -> None:
    found = by_hand("1", **more)
    assert found.problem.startswith(problem)
    assert 0 <= found.pod_sets[0].count < 2**31
    assert found.max_execution_s is None or 0 < found.max_execution_s < 2**31


def test_the_status_of_a_workload_is_no_credit() -> None:
    given_ = {"name": "r1", "count": -4, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "-8"}}
    status = {
        "admission": {"clusterQueue": "cq", "podSetAssignments": [given_]},
        "reclaimablePods": [{"name": "r1", "count": -7}],
        "accumulatedPastExecutionTimeSeconds": -(2**60),
        "requeueState": {"count": -1},
    }
    found = view("Workload", {"podSets": []}, status=status)
    assert (found.assignments[0].usage, found.assignments[0].count) == ({"cpu": 0}, 0)
    assert (found.reclaimable, found.executed_s, found.requeue.count) == ({"r1": 0}, 0, 0)


def test_a_group_waits_for_a_workload_that_asks_for_less_than_nothing() -> None:
    toy = Toy(2)
    wrong = by_hand("-100").pod_sets
    problem = by_hand("-100").problem
    toy.workload("hand", problem=problem)
    toy.put_workload(msgspec.structs.replace(toy.workloads["hand"], pod_sets=wrong))
    toy.pod("a", "hand", 2, labels={PREBUILT_WORKLOAD: "hand"}, role="r1")
    toy.pod("b", "hand", 2, labels={PREBUILT_WORKLOAD: "hand"}, role="r1")
    word, message = reason(toy, "hand")
    assert (word, "cpu]: '-100' is below zero" in message) == ("BadWorkload", True)
    assert toy.gated("a") and toy.gated("b")
    toy.pod("neighbour", cpu=2)
    assert not toy.gated("neighbour")
    toy.pod("second", cpu=2)
    assert toy.gated("second"), "the Workload was credit"
    toy._delete(toy.named("neighbour").uid)
    toy._delete(toy.named("second").uid)
    toy.settle()
    right = by_hand("1").pod_sets
    toy.put_workload(msgspec.structs.replace(toy.workloads["hand"], pod_sets=right, problem=""))
    toy.settle()
    assert not toy.gated("a") and not toy.gated("b")


# -- queue objects ---


def queue_spec(field: str, value: Any) -> dict[str, Any]:
    quota = {"name": "cpu", "nominalQuota": "2", field: value}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [quota]}]}
    return {"namespaceSelector": {}, "cohortName": "lab", "resourceGroups": [group]}


@pytest.mark.parametrize("kind", ["ClusterQueue", "Cohort"])
@pytest.mark.parametrize("field", QUOTAS)
@pytest.mark.parametrize("text", [*NEGATIVE, *NONSENSE, -2])
def test_a_quota_that_cannot_be_is_said_and_counts_as_none(
    kind: str, field: str, text: Any
) -> None:
    found = view(kind, queue_spec(field, text))
    path = f"spec.resourceGroups[0].flavors[f].resources[cpu].{field}: resource cpu: "
    assert found.problem.startswith(f"{path}{str(text)[:40]!r} is ")
    quota = found.groups[0].flavors[0].resources["cpu"]
    assert min(quota.nominal, quota.borrowing_limit or 0, quota.lending_limit or 0) >= 0


@pytest.mark.parametrize("kind", ["ClusterQueue", "Cohort", "LocalQueue"])
@pytest.mark.parametrize("text", [*NEGATIVE, *NONSENSE, "1n", -1])
def test_a_weight_that_cannot_be_is_said_and_counts_as_one(kind: str, text: Any) -> None:
    found = view(kind, {"clusterQueue": "cq", "fairSharing": {"weight": text}})
    assert found.problem.startswith("spec.fairSharing.weight: ")
    assert found.weight_nano == 10**9


def test_a_huge_weight_is_a_number_that_can_be_stored() -> None:
    found = view("ClusterQueue", {"fairSharing": {"weight": "1e90"}})
    assert (found.problem, found.weight_nano) == ("", q.MAX_INT64)


@pytest.mark.parametrize("text", ["1E", "9e15", "9223372036854775807m", "8Ei", "1e90"])
def test_a_quota_beyond_64_bits_is_no_mistake(text: str) -> None:
    found = view("ClusterQueue", queue_spec("nominalQuota", text))
    assert found.problem == ""
    assert found.groups[0].flavors[0].resources["cpu"].nominal <= q.MAX_INT64


def test_a_queue_with_a_negative_quota_is_inactive_and_says_which_field() -> None:
    toy = Toy(2)
    toy.pod("runs", cpu=2)
    wrong = view("ClusterQueue", queue_spec("nominalQuota", "-5"))
    known = toy.world.cluster_queues["cq"]
    toy.do(
        e.ObjectApplied(
            object=msgspec.structs.replace(
                wrong, name="cq", uid=known.uid, resource_version=toy.bump()
            )
        )
    )
    path = "spec.resourceGroups[0].flavors[f].resources[cpu].nominalQuota"
    status, word, message = toy.world.cluster_queues["cq"].active
    assert (status, word) == ("False", "InvalidField")
    assert f"{path}: resource cpu: '-5' is below zero" in message
    toy.pod("waits", "later", 1)
    word, message = reason(toy, "later")
    assert (word, path in message) == ("ClusterQueueInactive", True)
    assert not toy.gated("runs") and toy.gated("waits")
    toy.do(e.ObjectApplied(object=msgspec.structs.replace(known, resource_version=toy.bump())))
    toy.end("runs")
    assert not toy.gated("waits")
    assert toy.world.cluster_queues["cq"].active[0] == "True"


def test_a_cohort_with_a_negative_quota_says_so_and_its_queues_go_on() -> None:
    toy = Toy(2)
    known = toy.world.cluster_queues["cq"]
    wrong = view("Cohort", queue_spec("nominalQuota", "-5"))
    toy.do(
        e.ObjectApplied(
            object=msgspec.structs.replace(known, cohort="q", resource_version=toy.bump())
        ),
        e.ObjectApplied(object=msgspec.structs.replace(wrong, resource_version=toy.bump())),
    )
    status, word, message = toy.world.cohorts["q"].active
    assert (status, word) == ("False", "InvalidField")
    assert "nominalQuota: resource cpu: '-5' is below zero" in message
    toy.pod("a", cpu=2)
    toy.pod("b", cpu=1)
    assert not toy.gated("a") and toy.gated("b")


LARGE = st.sampled_from([1, 2**62 - 1, 2**62, q.MAX_INT64 - 2, q.MAX_INT64 - 1])
ASKED = st.lists(st.sampled_from([1, 2**61, 2**62, q.MAX_INT64 - 1, q.MAX_INT64]), max_size=5)


@given(st.lists(LARGE, min_size=1, max_size=3), ASKED)
def test_what_is_admitted_in_a_tree_of_large_quotas_is_never_more_than_they_are(
    quotas: list[int], asked: list[int]
) -> None:
    """2^63-1 may be any larger amount that was cut: it fits nowhere where there is a limit."""
    toy = Toy()
    known = toy.world.cluster_queues["cq"]
    for number, quota in enumerate(quotas):
        flavor = FlavorQuotas(name="f", resources={"cpu": Quota(nominal=quota)})
        one = msgspec.structs.replace(
            known,
            name=f"cq{number}" if number else "cq",
            uid=f"cq{number}" if number else known.uid,
            cohort="all",
            resource_version=toy.bump(),
            groups=(ResourceGroup(covered=("cpu",), flavors=(flavor,)),),
        )
        toy.do(e.ObjectApplied(object=one))
    for number, amount in enumerate(asked):
        toy.pod(f"p{number}", requests={"cpu": amount})
    admitted = [amount for n, amount in enumerate(asked) if not toy.gated(f"p{n}")]
    assert q.MAX_INT64 not in admitted
    assert sum(admitted) <= sum(quotas)
    fits = [amount for amount in asked if amount <= sum(quotas) and amount != q.MAX_INT64]
    assert bool(admitted) == bool(fits)


@pytest.mark.parametrize(("quota", "fit"), [("8Ei", 3), ("9223372036854775807", 3), ("9e18", 0)])
def test_an_amount_beyond_64_bits_fits_where_there_is_no_limit_as_with_kueue(
    quota: str, fit: int
) -> None:
    """Kueue: resources.AmountFromQuantity takes a quota of 2^63-1 and more for none."""
    toy = Toy()
    known = toy.world.cluster_queues["cq"]
    nominal = Quota(nominal=q.amount("memory", quota))
    flavor = FlavorQuotas(name="f", resources={"cpu": Quota(nominal=9000), "memory": nominal})
    group = ResourceGroup(covered=("cpu", "memory"), flavors=(flavor,))
    toy.do(
        e.ObjectApplied(
            object=msgspec.structs.replace(known, groups=(group,), resource_version=toy.bump())
        )
    )
    for name, text in (("a", "11.8E"), ("b", "12E"), ("c", "8Ei")):
        toy.pod(name, requests={"memory": q.amount("memory", text)})
    assert sum(not toy.gated(name) for name in "abc") == fit
