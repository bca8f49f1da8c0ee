"""Values of admission: workloads, what they hold, and the configuration.

Theory. Admission knows no pods, logs or lives of groups. Queues, cohorts, flavors and nodes are the
views of the log. The caller describes requests for quota by these values: Kueue's Workload, reduced
to the fields that decide. A *workload* is a group or a single pod. Amounts are the integers of
`model.quantities`: cpu in thousandths, everything else in whole units; an amount of 2^63-1 or more
is without limit. Times are seconds after any fixed time, the same for all values; only order and
differences count.

Invariant: values of this module never change; equal values decide alike.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from podgroup.model.least_run import Times
from podgroup.model.objects import NodeTerm, Toleration
from podgroup.model.reasons import PLAIN, Effect
from podgroup.model.topology import NOTHING_ASKED, TopologyAssignment, TopologyRequest

FlavorResource = tuple[str, str]
"""A flavor's name and a resource, by which quota is counted."""

Requests = tuple[tuple[str, int], ...]
"""Resource and amount, each resource once."""

Strategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]


class PodSet(Struct, frozen=True, kw_only=True):
    """Pods of one shape. `requests` is per pod; `count` leaves out pods that are over.

    `devices` is per pod as well, and nodes do not state their amounts. `shared` is for all pods
    together, however many they are.

    `flavors`: resource and flavor, for pods that have to run in these flavors, as others do.
    """

    name: str
    count: int
    requests: Requests = ()
    devices: Requests = ()
    shared: Requests = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    node_terms: tuple[NodeTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: TopologyRequest = NOTHING_ASKED
    flavors: tuple[tuple[str, str], ...] = ()


class Eviction(Struct, frozen=True):
    """The eviction of a workload: when, the effect of its reason, and its message."""

    at: float
    effect: Effect = PLAIN
    message: str = ""


class Workload(Struct, frozen=True, kw_only=True):
    """A workload that requests quota.

    `id` identifies it, `uid` breaks ties and is shown to people. `waiting_until` is when its
    back-off is over; None: it is not tried before it is submitted anew. `invalid` names its fault,
    "" if it has none. `fixed`: it holds quota and is never preempted. `unadmitted`: it runs without
    quota, and takes only quota of its own ClusterQueue. `priority_class` is its
    WorkloadPriorityClass, by name. `run_s` is for how many seconds at most it holds quota once
    admitted, None without a bound.
    """

    id: str
    uid: str
    namespace: str
    queue: str
    created: float
    priority: int = 0
    pod_sets: tuple[PodSet, ...] = ()
    owner_uid: str = ""
    evicted: Eviction | None = None
    waiting_until: float | None = 0
    invalid: str = ""
    fixed: bool = False
    unadmitted: bool = False
    priority_class: str = ""
    run_s: float | None = None


class PodSetAssignment(Struct, frozen=True, kw_only=True):
    """What a podset got: per resource a flavor and an amount for all its pods; and its places."""

    name: str
    count: int
    flavors: Mapping[str, str] = {}
    usage: Mapping[str, int] = {}
    topology: TopologyAssignment | None = None


class Reservation(Struct, frozen=True, kw_only=True):
    """Quota of a workload: where, since when, and by when it is given back (None: no bound)."""

    cluster_queue: str
    at: float
    pod_sets: tuple[PodSetAssignment, ...] = ()
    ends_by: float | None = None


class UsageSharing(Struct, frozen=True, kw_only=True):
    """Admission fair sharing: how fast use is forgotten, and how often it is sampled."""

    half_life_s: float = 0
    sampling_s: float = 300
    weights: tuple[tuple[str, float], ...] = ()


class Configuration(Struct, frozen=True, kw_only=True):
    """What Kueue keeps in its configuration. `fair_strategies` None: shares do not decide.

    `least_run` is the least run time of workloads whose priority class has none.

    `as_kueue`: everything is decided exactly as Kueue's scheduler does it, weak points included.
    Where that makes a difference a comment names the row of docs/differences.md (`# Q1`).
    `longest_wait_s`: a start is reserved for a workload that has waited for so many seconds; 0:
    never.
    """

    fair_strategies: tuple[Strategy, ...] | None = None
    usage_sharing: UsageSharing | None = None
    requeue_by: Literal["Eviction", "Creation"] = "Eviction"
    as_kueue: bool = False
    least_run: Times = ()
    longest_wait_s: float = 0

    @property
    def fair_sharing(self) -> bool:
        """Whether shares decide between ClusterQueues."""
        return self.fair_strategies is not None
