"""No field of a queue or cohort is ignored in silence: it decides, or condition Active names it."""

import ast
from copy import deepcopy
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ingest.kinds import watched_kinds
from podgroup.log import events as e
from podgroup.model.objects import ClusterQueueView, CohortView, FlavorQuotas, Quota, ResourceGroup
from podgroup.model.policy import Policy
from podgroup.rules.helpers.activity import cluster_queue_active, cohort_active, local_queue_active
from tests.core.test_quota_options import Tree, queue
from tests.core.test_shared_quota import team, two_teams
from tests.deploy.queue_fields import FIELDS, KINDS, QUOTA, paths
from tests.oracle.case import read
from tests.oracle.compare import decided
from tests.oracle.play import Play
from tests.oracle.without import without
from tests.support.offers import Cohort, Fungibility, Preemption
from tests.support.toy import Toy

ROOT = Path(__file__).parents[2]
META = {"uid": "u", "name": "q", "namespace": "ns", "resourceVersion": "1"}
GROUP = {
    "coveredResources": ["cpu"],
    "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "2"}]}],
}
BASE: dict[str, dict[str, Any]] = {
    "ClusterQueue": {
        "resourceGroups": [GROUP],
        "namespaceSelector": {
            "matchExpressions": [{"key": "a", "operator": "In", "values": ["c"]}]
        },
        "admissionChecksStrategy": {"admissionChecks": [{"name": "c"}]},
    },
    "LocalQueue": {"clusterQueue": "cq"},
    "Cohort": {"resourceGroups": [GROUP]},
}
CASES = {one.id: one for one in read(ROOT / "tests/oracle/cases.jsonl.gz")}


def view(kind: str, spec: dict[str, Any]) -> Any:
    row = next(row for row in watched_kinds("") if row.kind == kind)
    event = row.translator.listed(msgspec.json.encode({"metadata": META, "spec": spec}), "")
    assert isinstance(event, e.ObjectApplied), event
    return event.object


def put(spec: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    found = deepcopy(spec)
    at: Any = found
    *way, last = path.split(".")
    for name in way:
        inner = at.setdefault(name.removesuffix("[]"), [{}] if name.endswith("[]") else {})
        at = inner[0] if name.endswith("[]") else inner
    at[last] = value
    return found


def test_the_table_has_every_field_that_can_be_set() -> None:
    assert sorted(FIELDS) == sorted(paths())


@pytest.mark.parametrize(("kind", "path"), FIELDS)
def test_every_field_is_read_and_held_by_something(kind: str, path: str) -> None:
    field = FIELDS[kind, path]
    plain, changed = view(kind, BASE[kind]), view(kind, put(BASE[kind], path, field.value))
    assert changed != plain and not changed.unread
    where, what = field.held_by
    if where.endswith(".py"):
        tree = ast.parse((ROOT / where).read_text())
        assert what in {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    else:
        case = CASES[where].case
        assert decided(Play(without(case, kind, what)).run()) != decided(Play(case).run())


@pytest.mark.parametrize("kind", KINDS.values())
def test_what_nobody_reads_is_named(kind: str) -> None:
    spec = put(BASE[kind], "concurrentAdmissionPolicy.migration.mode", "RetainFirstAdmission")
    path = "resourceGroups[].flavors[].later" if kind != "LocalQueue" else "later"
    found = view(kind, put(spec, path, [1]))
    assert found.unread == tuple(sorted(("concurrentAdmissionPolicy", path)))
    toy = two_teams()
    said = f"; ignored fields: concurrentAdmissionPolicy (unknown to gatelog), {path} (unknown"
    if kind == "ClusterQueue":
        found = msgspec.structs.replace(found, checks=())
        assert said in cluster_queue_active(toy.world, found)[2]
    elif kind == "Cohort":
        assert said in cohort_active(toy.world, found)[2]
    else:
        found = msgspec.structs.replace(found, cluster_queue="red")
        assert said in local_queue_active(toy.world, found)[2]


@pytest.mark.parametrize("fair", [False, True])
def test_what_settings_leave_out_is_named(fair: bool) -> None:
    strategies = ("LessThanInitialShare",) if fair else ()
    toy = Toy(policy=Policy(fair_sharing=strategies))
    team(toy, "red", 4)
    red: ClusterQueueView = toy.world.cluster_queues["red"]
    heavy = msgspec.structs.replace(red, weight_nano=3, max_priority_threshold=1)
    said = cluster_queue_active(toy.world, heavy)[2]
    assert ("fairSharing.weight (queueing.fair_sharing is not set)" in said) is not fair
    borrows = "preemption.borrowWithinCohort (queueing.fair_sharing is set)"
    assert (borrows in said) is fair
    whoever = msgspec.structs.replace(red, borrow_within_cohort="LowerPriority")
    assert (borrows in cluster_queue_active(toy.world, whoever)[2]) is fair
    assert "borrowWithinCohort" not in cluster_queue_active(toy.world, red)[2]
    lab = view("Cohort", {"fairSharing": {"weight": "2"}})
    assert ("fairSharing.weight" in cohort_active(toy.world, lab)[2]) is not fair
    local = view("LocalQueue", {"clusterQueue": "red", "fairSharing": {"weight": "2"}})
    assert (
        "fairSharing.weight (queueing.usage_half_life_s" in local_queue_active(toy.world, local)[2]
    )
    toy.world.policy = Policy(usage_half_life_s=60)
    assert "(the ClusterQueue's admissionScope" in local_queue_active(toy.world, local)[2]


@pytest.mark.parametrize("limit", ["borrowingLimit", "lendingLimit"])
def test_limits_of_who_has_nobody_to_share_with_are_named(limit: str) -> None:
    toy, path = Toy(), f"{QUOTA}.{limit}"
    team(toy, "red", 4)
    for kind, field in (("ClusterQueue", "cohort"), ("Cohort", "parent")):
        plain = view(kind, BASE[kind])
        limited = view(kind, put(BASE[kind], path, "1"))

        def said(queue: Any, of: str = kind, **changes: Any) -> str:
            if of == "Cohort":
                return cohort_active(toy.world, msgspec.structs.replace(queue, **changes))[2]
            idle = msgspec.structs.replace(queue, checks=(), **changes)
            return cluster_queue_active(toy.world, idle)[2]

        assert f"; ignored fields: {limit} ({field}Name is not set)" in said(limited)
        assert "ignored fields" not in said(limited, **{field: "lab"})
        assert "ignored fields" not in said(plain)


def test_the_preference_chooses_between_two_flavors() -> None:
    def flavor(preference: Any) -> str:
        search = Fungibility(when_can_borrow="TryNextFlavor", preference=preference)
        lower = Preemption(within_cluster_queue="LowerPriority")
        quotas = {"borrowed": {"cpu": 0}, "taken": {"cpu": 1}}
        tree = Tree(
            queue("q", quotas, cohort="c", fungibility=search, preemption=lower),
            queue("r", {"borrowed": {"cpu": 1}}, cohort="c"),
        )
        tree.submit("filler", "r")
        tree.submit("low", "q")
        tree.settle()
        tree.cache.remove("filler")
        tree.submit("high", "q", priority=1)
        head = next(one for one in tree.decide().heads if one.id == "high")
        return head.pod_sets[0].flavors["cpu"]

    assert flavor("BorrowingOverPreemption") == "borrowed"
    assert flavor("PreemptionOverBorrowing") == "taken"


def test_the_threshold_spares_whom_a_borrower_would_preempt() -> None:
    def victims(threshold: int | None) -> list[tuple[str, str]]:
        ways = Preemption(
            reclaim_within_cohort="Any",
            borrow_within_cohort="LowerPriority",
            max_priority_threshold=threshold,
        )
        tree = Tree(
            queue("q", {"f": {"cpu": 1}}, cohort="c", preemption=ways),
            queue("r", {"f": {"cpu": 1}}, cohort="c"),
            queue("idle", {"f": {"cpu": 1}}, cohort="c"),
        )
        for number in range(3):
            tree.submit(f"r{number}", "r", priority=2)
        tree.settle()
        tree.submit("high", "q", priority=9, requests={"cpu": 2})
        return tree.settle()

    assert victims(None)
    assert not victims(1), "a borrower takes nobody above the threshold"


def cohort(name: str, parent: str = "", weight: int = 1, cpu: int = 0, **limits: int) -> CohortView:
    quota = FlavorQuotas(name="f", resources={"cpu": Quota(nominal=cpu, **limits)})
    groups = (ResourceGroup(covered=("cpu",), flavors=(quota,)),)
    return Cohort(name=name, parent=parent, groups=groups, weight=Fraction(weight))


def test_a_cohort_borrows_and_lends_up_to_its_limits() -> None:
    def taken(**limits: int) -> int:
        tree = Tree(
            queue("a", {"f": {"cpu": 2}}, cohort="left"),
            queue("b", {"f": {"cpu": 2}}, cohort="right"),
        )
        borrowing = {k: v for k, v in limits.items() if k == "borrowing_limit"}
        lending = {k: v for k, v in limits.items() if k == "lending_limit"}
        tree.cache.apply(cohort("left", "top", **borrowing))
        tree.cache.apply(cohort("right", "top", **lending))
        for number in range(6):
            tree.submit(f"a{number}", "a")
        tree.settle()
        return len(tree.holding)

    assert taken() == 4
    assert taken(borrowing_limit=1) == 3
    assert taken(lending_limit=0) == 2


def test_a_cohort_of_more_weight_gets_more() -> None:
    def left(weight: int) -> int:
        tree = Tree(
            queue("a", {"f": {"cpu": 0}}, cohort="left"),
            queue("b", {"f": {"cpu": 0}}, cohort="right"),
            fair=True,
        )
        tree.cache.apply(cohort("top", cpu=5))
        tree.cache.apply(cohort("left", "top", weight))
        tree.cache.apply(cohort("right", "top"))
        for number in range(6):
            for name in ("b", "a"):
                tree.submit(f"{name}{number}", name)
        tree.settle()
        return sum(name.startswith("a") for name in tree.holding)

    assert (left(1), left(2)) == (2, 3)
