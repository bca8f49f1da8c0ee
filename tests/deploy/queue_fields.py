"""Every field of the spec of ClusterQueue, LocalQueue and Cohort, and what holds gatelog to it.

`FIELDS` has what the installed CRDs have, by kind and path (each item of a list is `[]`): a value
for it, and the test in which it decides, or the recorded case that ends otherwise without it. A
field that is not there is named in the object's condition `Active`, as ignored.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.deploy.schemas import nodes

KINDS = {"clusterqueues": "ClusterQueue", "localqueues": "LocalQueue", "cohorts": "Cohort"}


class Field(NamedTuple):
    """`held_by` is a test; or a case of `tests/oracle`, and the field as cases spell it.

    `unless` says when the object's condition `Active` names the field as ignored.
    """

    value: Any
    held_by: tuple[str, str]
    unless: str = ""


CORE = "tests/core/"
FIELDS_TEST = f"{CORE}test_queue_fields.py"
QUOTA = "resourceGroups[].flavors[].resources[]"
_IN_CASES = "resourceGroups.*.flavors.*.quotas.*"
_LENDS = (f"{CORE}test_shared_quota.py", "test_a_team_borrows_what_others_lend_and_gives_it_back")
_GROUPS = ("k100042", f"{_IN_CASES}.nominal")
_COHORT = ("k101731", f"{_IN_CASES}.nominal")
_ALONE = "`cohortName` is not set"
_ROOT = "`parentName` is not set"
_NO_SHARES = "`queueing.fair_sharing` is not set"
_NO_USE = "`queueing.usage_half_life_s` is not set"
_SELECTS = (f"{CORE}test_quota_options.py", "test_an_unselected_namespace_waits_for_its_labels")
_LEAST = (f"{CORE}test_usage_sharing.py", "test_who_used_least_lately_comes_first")

FIELDS: dict[tuple[str, str], Field] = {
    ("ClusterQueue", "resourceGroups[].coveredResources"): Field(["memory"], _GROUPS),
    ("ClusterQueue", "resourceGroups[].flavors[].name"): Field("other", _GROUPS),
    ("ClusterQueue", f"{QUOTA}.name"): Field("memory", _GROUPS),
    ("ClusterQueue", f"{QUOTA}.nominalQuota"): Field("7", _GROUPS),
    ("ClusterQueue", f"{QUOTA}.borrowingLimit"): Field(
        "7", ("k100908", f"{_IN_CASES}.borrowingLimit"), _ALONE
    ),
    ("ClusterQueue", f"{QUOTA}.lendingLimit"): Field("1", _LENDS, _ALONE),
    ("ClusterQueue", "namespaceSelector.matchLabels"): Field({"a": "b"}, _SELECTS),
    ("ClusterQueue", "namespaceSelector.matchExpressions[].key"): Field("team", _SELECTS),
    ("ClusterQueue", "namespaceSelector.matchExpressions[].operator"): Field("NotIn", _SELECTS),
    ("ClusterQueue", "namespaceSelector.matchExpressions[].values"): Field(["b"], _SELECTS),
    ("ClusterQueue", "queueingStrategy"): Field("StrictFIFO", ("k104324", "strategy")),
    ("ClusterQueue", "cohortName"): Field("other", ("k100042", "cohort")),
    ("ClusterQueue", "flavorFungibility.whenCanBorrow"): Field(
        "TryNextFlavor", ("k100908", "flavorFungibility.whenCanBorrow")
    ),
    ("ClusterQueue", "flavorFungibility.whenCanPreempt"): Field(
        "MayStopSearch", ("k100908", "flavorFungibility.whenCanPreempt")
    ),
    ("ClusterQueue", "flavorFungibility.preference"): Field(
        "PreemptionOverBorrowing",
        (FIELDS_TEST, "test_the_preference_chooses_between_two_flavors"),
    ),
    ("ClusterQueue", "preemption.withinClusterQueue"): Field(
        "LowerPriority", ("k100908", "preemption.withinClusterQueue")
    ),
    ("ClusterQueue", "preemption.reclaimWithinCohort"): Field(
        "Any", ("k100474", "preemption.reclaimWithinCohort")
    ),
    ("ClusterQueue", "preemption.borrowWithinCohort.policy"): Field(
        "LowerPriority",
        ("k102161", "preemption.borrowWithinCohort.policy"),
        "`queueing.fair_sharing` is set",
    ),
    ("ClusterQueue", "preemption.borrowWithinCohort.maxPriorityThreshold"): Field(
        7,
        (FIELDS_TEST, "test_the_threshold_spares_whom_a_borrower_would_preempt"),
        "`queueing.fair_sharing` is set",
    ),
    ("ClusterQueue", "fairSharing.weight"): Field("3", ("k101346", "weight"), _NO_SHARES),
    ("ClusterQueue", "admissionScope.admissionMode"): Field(
        "UsageBasedAdmissionFairSharing", _LEAST, _NO_USE
    ),
    ("ClusterQueue", "admissionChecksStrategy.admissionChecks[].name"): Field(
        "other", (f"{CORE}test_checks.py", "test_nothing_starts_before_every_check_is_ready")
    ),
    ("ClusterQueue", "admissionChecksStrategy.admissionChecks[].onFlavors"): Field(
        ["f"], (f"{CORE}test_checks.py", "test_a_check_may_be_for_some_flavors_only")
    ),
    ("ClusterQueue", "stopPolicy"): Field("Hold", ("k101086", "stopPolicy")),
    ("LocalQueue", "clusterQueue"): Field("other", _LEAST),
    ("LocalQueue", "stopPolicy"): Field("Hold", ("k100042", "stopPolicy")),
    ("LocalQueue", "fairSharing.weight"): Field(
        "3",
        (f"{CORE}test_usage_sharing.py", "test_a_larger_weight_gets_more"),
        f"{_NO_USE}, or the ClusterQueue's `admissionScope` does not ask for it",
    ),
    ("Cohort", "parentName"): Field("other", ("k100699", "parent")),
    ("Cohort", "resourceGroups[].coveredResources"): Field(["memory"], _COHORT),
    ("Cohort", "resourceGroups[].flavors[].name"): Field("other", _COHORT),
    ("Cohort", f"{QUOTA}.name"): Field("memory", _COHORT),
    ("Cohort", f"{QUOTA}.nominalQuota"): Field("7", _COHORT),
    ("Cohort", f"{QUOTA}.borrowingLimit"): Field(
        "7", (FIELDS_TEST, "test_a_cohort_borrows_and_lends_up_to_its_limits"), _ROOT
    ),
    ("Cohort", f"{QUOTA}.lendingLimit"): Field(
        "1", (FIELDS_TEST, "test_a_cohort_borrows_and_lends_up_to_its_limits"), _ROOT
    ),
    ("Cohort", "fairSharing.weight"): Field(
        "3", (FIELDS_TEST, "test_a_cohort_of_more_weight_gets_more"), _NO_SHARES
    ),
}


def paths() -> Iterator[tuple[str, str]]:
    """Yield kind and path of each field of a spec that an operator can set, as the CRDs have it."""
    for plural, kind in KINDS.items():
        for path, node in nodes(plural):
            inner = path.removeprefix(f"{plural}.spec.")
            leaf = "properties" not in node and "properties" not in node.get("items", {})
            if inner != path and leaf and not (path.endswith(("[]", "{}"))):
                yield kind, inner


def table() -> str:
    """The table of the page about queues: the fields that are ignored somewhere, and where."""
    lines = ["| kind | field | ignored where |", "|---|---|---|"]
    lines += [
        f"| {kind} | `{path.replace(QUOTA + '.', '')}` | {field.unless} |"
        for (kind, path), field in FIELDS.items()
        if field.unless
    ]
    return "\n".join(lines)
