"""What is decided on: workloads, what they hold, and how the deciding is set.

Theory. Deciding knows nothing of pods, logs or groups' lives. Queues, cohorts, flavors and nodes
are the views that the log has of them. What asks for quota the caller describes in these values:
Kueue's Workload, reduced to what decides. A *workload* is what elsewhere is a group or a single
pod. Amounts are the integers of `model.quantities`: cpu in thousandths, everything else in whole
units; an amount of 2^63-1 or more is without limit. Times are seconds after any fixed moment, the
same one for all values; only order and differences count.

Invariant: values of this module never change; two that are equal decide alike.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from podgroup.model.least_run import Times
from podgroup.model.objects import NodeTerm, Toleration
from podgroup.model.reasons import PLAIN, Effect
from podgroup.model.topology import NOTHING_ASKED, TopologyAssignment, TopologyRequest

FlavorResource = tuple[str, str]
"""A flavor's name and a resource: what quota is counted by."""

Requests = tuple[tuple[str, int], ...]
"""Resource and amount, each resource once."""

Strategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]


class PodSet(Struct, frozen=True, kw_only=True):
    """Pods of one shape. `requests` is per pod; `count` leaves out pods that are over.

    `devices` is per pod as well, and nothing that nodes say they have. `shared` is for all pods
    together, however many they are.

    `flavors`: resource and flavor, where the pods run in some already; others will not do.
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
    """That a workload was evicted: when, what follows from why, and in words."""

    at: float
    effect: Effect = PLAIN
    message: str = ""


class Workload(Struct, frozen=True, kw_only=True):
    """A workload that asks for quota.

    `id` tells it from all others, `uid` breaks ties and is shown to people. `waiting_until` is when
    its back-off is over; None: it is not to be tried before it is submitted anew. `invalid` says
    what is wrong with it, "" if nothing. `fixed`: it holds quota and is never asked to give it
    back. `unadmitted`: it runs without quota, and takes what its own ClusterQueue has and no more.
    `priority_class` is its WorkloadPriorityClass, by name.
    `run_s` is for how many seconds at most it holds quota once it is admitted, None for any time.
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
    """What a podset got: a flavor per resource, how much of each in all, and its place."""

    name: str
    count: int
    flavors: Mapping[str, str] = {}
    usage: Mapping[str, int] = {}
    topology: TopologyAssignment | None = None


class Reservation(Struct, frozen=True, kw_only=True):
    """What a workload holds, where, since when, and by when it gives it back (None: any time)."""

    cluster_queue: str
    at: float
    pod_sets: tuple[PodSetAssignment, ...] = ()
    ends_by: float | None = None


class UsageSharing(Struct, frozen=True, kw_only=True):
    """Admission fair sharing: how fast use is forgotten, and how often it is looked at."""

    half_life_s: float = 0
    sampling_s: float = 300
    weights: tuple[tuple[str, float], ...] = ()


class Configuration(Struct, frozen=True, kw_only=True):
    """What Kueue keeps in its configuration. `fair_strategies` None: shares do not decide.

    `least_run` is how long workloads run before they give way, where their class says nothing.

    `as_kueue`: everything is decided exactly as Kueue's scheduler does it, weak points included.
    Where that makes a difference the row of docs/differences.md stands beside it (`# Q1`).
    `longest_wait_s`: who has waited for so many seconds is reserved a start; 0: none is.
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
