"""The world: everything known of one cluster, in three layers.

Theory. `Stored` is what a projector writes to its tables and reads back when it starts; a replay is
compared with it. `Indexed` adds what follows from that (see `members` and `quota` as well): indices
are made anew on load and never stored, so they cannot disagree with the stored state. `World` adds
the run: what has changed since rows were written last, and where in a message the fold is.

State changes in place: copying a group of 5,000 pods for each of its events would make the cost of
an event grow with its group. `fold` alone changes the state, and the result depends only on the
state and the event, which is all that "pure" has to mean here.

Invariant: a live pod belongs to exactly one group, `world.groups[pod.group]`.
"""

from datetime import datetime

from msgspec import Struct, field

from podgroup.log.journal import Journal
from podgroup.model.ids import GroupID
from podgroup.model.objects import (
    QUEUE_KINDS,
    AdmissionCheckView,
    ClusterQueueView,
    CohortView,
    DeviceClassView,
    FlavorView,
    LocalQueueView,
    NamespaceView,
    NodeView,
    ObjectKey,
    PriorityClassView,
    QueueObject,
    ResourceClaimTemplateView,
    ResourceClaimView,
    StatefulSetView,
    TopologyView,
    WorkloadPriorityClassView,
    WorkloadView,
)
from podgroup.model.policy import Policy
from podgroup.model.standing import StandingReport
from podgroup.state.group import Group
from podgroup.state.members import Members
from podgroup.state.meta import Meta
from podgroup.state.pod import Pod
from podgroup.state.quota import QueueKey, Quotas
from podgroup.state.sharing import Sharing
from podgroup.state.weights import Weights

Key = tuple[str, str]


class Stored(Struct):
    """The stored state, and what is set for each run (`cluster`, `mode`, `policy`)."""

    cluster: str
    mode: str = "builtin"
    policy: Policy = Policy()
    meta: Meta = field(default_factory=Meta)
    pods: dict[str, Pod] = field(default_factory=dict)
    groups: dict[GroupID, Group] = field(default_factory=dict)
    workloads: dict[Key, WorkloadView] = field(default_factory=dict)
    """Workloads that belong to no group known here."""
    local_queues: dict[Key, LocalQueueView] = field(default_factory=dict)
    cluster_queues: dict[str, ClusterQueueView] = field(default_factory=dict)
    cohorts: dict[str, CohortView] = field(default_factory=dict)
    flavors: dict[str, FlavorView] = field(default_factory=dict)
    topologies: dict[str, TopologyView] = field(default_factory=dict)
    nodes: dict[str, NodeView] = field(default_factory=dict)
    """Nodes, while a flavor names a Topology."""
    checks: dict[str, AdmissionCheckView] = field(default_factory=dict)
    workload_classes: dict[str, WorkloadPriorityClassView] = field(default_factory=dict)
    classes: dict[str, PriorityClassView] = field(default_factory=dict)
    namespaces: dict[str, NamespaceView] = field(default_factory=dict)
    device_classes: dict[str, DeviceClassView] = field(default_factory=dict)
    claim_templates: dict[Key, ResourceClaimTemplateView] = field(default_factory=dict)
    resource_claims: dict[Key, ResourceClaimView] = field(default_factory=dict)
    stateful_sets: dict[Key, StatefulSetView] = field(default_factory=dict)
    others: dict[str, dict[ObjectKey, QueueObject]] = field(default_factory=dict)
    """By kind, objects of kinds without a field here."""
    standings: dict[QueueKey, StandingReport] = field(default_factory=dict)
    """Standings of queues and cohorts as last reported."""

    def objects_of(self, kind: str) -> dict[ObjectKey, QueueObject]:
        """Return the queue objects of a kind by key (`QueueKind.key`)."""
        store = QUEUE_KINDS[kind].store
        if not store:
            return self.others.setdefault(kind, {})
        found: dict[ObjectKey, QueueObject] = getattr(self, store)
        return found


class Indexed(Stored):
    """Indices, which follow from the stored state."""

    members: dict[GroupID, Members] = field(default_factory=dict)
    lives: dict[tuple[str, str, str], GroupID] = field(default_factory=dict)
    """(kind, namespace, name) -> the life that is going on; a single pod's name is its own."""
    by_workload: dict[Key, GroupID] = field(default_factory=dict)
    """Name of a Workload -> the group that has it (`fold.naming`)."""
    rivals: dict[Key, dict[GroupID, None]] = field(default_factory=dict)
    """Name of a Workload -> further groups that wait for the name to be free."""
    expecting: dict[str, tuple[GroupID, str]] = field(default_factory=dict)
    """Decision in flight -> its group and pod ("" for the Workload)."""
    marks: dict[str, QueueKey] = field(default_factory=dict)
    """Decision in flight about the finalizer of an object in use -> the object."""
    weights: dict[str, Weights] = field(default_factory=dict)
    """Namespace -> what its larger pods take; namespaces without larger pods are absent."""
    ending: dict[str, None] = field(default_factory=dict)
    """ClusterQueues that are being deleted."""
    sharing: Sharing = field(default_factory=Sharing)
    quotas: Quotas = field(default_factory=Quotas)


class World(Indexed):
    """Everything known of one cluster."""

    journal: Journal = field(default_factory=Journal)
    gone_pods: dict[str, Pod] = field(default_factory=dict)
    """Pods that left the state since the last journal was taken: their last row is still due."""
    gone_groups: dict[GroupID, Group] = field(default_factory=dict)
    loaded: bool = False
    """The world was read from a database, and queue order is still to be worked out."""
    unannounced: dict[QueueKey, None] = field(default_factory=dict)
    """Queues whose condition Active may have to change; a start looks at all."""
    dirty_groups: dict[GroupID, int] = field(default_factory=dict)
    """Groups to decide on after this message, in order of first touch -> their changes
    (`podgroup.state.changes`)."""
    track_changes: bool = True
    """Rules will run for touched groups; off, no rule needs to know what changed."""
    evaluate_all: bool = False
    """All rules run whatever changed. The result must be the same, at several times the cost; set
    when recorded decisions differ from ours, so that each difference is reported."""
    at: datetime | None = None
    note_ord: int = 0
