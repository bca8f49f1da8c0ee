"""Keys: every label and annotation of a pod that gatelog reads or writes, in one table.

Theory. A key is known by four parts that know nothing of each other: ingest lets it into the log,
the fold and rules read it there, webhook and policies judge it at the API server, and a single pod
with some of them needs a Workload. Each reads here what it has to know. tests/core/test_keys.py
compares the table with the code, both ways, and with the policies.

Invariant: annotations under Kueue's two prefixes enter the log whether they are in the table or
not, so that a later gatelog can read them of an old log; another prefix needs its entry.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from podgroup.model import names
from podgroup.model.limits import ANNOTATION_BYTES, ANNOTATIONS_BYTES

KUEUE: Final = "Kueue"
KEP: Final = "KEP-976"
"""The keys of a dialect that Kueue describes and never built (docs/dialects.md)."""
OURS: Final = "gatelog"
LWS: Final = "LeaderWorkerSet"


class Key(Struct, frozen=True, kw_only=True):
    """A key of a pod's labels or annotations, what it `says`, and which parts look at it.

    A key that is both is read as an annotation first. `core`: fold or rules read it in the log.
    `door`: webhook and policies judge it. `written`: gatelog writes it to pods;
    `ungating`: as it takes its gate off. `workload`: a single pod with it needs its Workload, which
    another client is to see or to write. `moves`: a change of the key goes to the webhook, by
    whichever client. `dialect` is the dialect of declaring a group that has the key, "" any; `size`
    marks the key that states how large the group is. `bytes` is the longest annotation that is
    taken. `prefix`: `name` is what such keys begin with.
    """

    name: str
    says: str
    label: bool = False
    annotation: bool = False
    of: str = KUEUE
    core: bool = False
    door: bool = False
    written: bool = False
    ungating: bool = False
    workload: bool = False
    moves: bool = False
    dialect: str = ""
    size: bool = False
    bytes: int = ANNOTATION_BYTES
    prefix: bool = False

    def borne(self, labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
        """Tell whether a pod bears the key; of a key that may be both, "" does not count."""
        if self.label and self.annotation:
            return bool(names.annotation_or_label(self.name, labels, annotations))
        return self.name in (labels if self.label else annotations)


def _label(name: str, says: str, **more: bool | str) -> Key:
    return Key(name=name, says=says, label=True, **more)  # type: ignore[arg-type] # fields of Key


def _note(name: str, says: str, **more: bool | str | int) -> Key:
    return Key(name=name, says=says, annotation=True, **more)  # type: ignore[arg-type] # see above


def _topology(name: str, says: str, *, ungating: bool = False) -> Key:
    return _note(name, says, core=True, door=True, written=ungating, ungating=ungating)


KEYS: Final = (
    # -- queue ----------------------------------------------------------------------------------
    _label(names.QUEUE_NAME, "its LocalQueue", core=True, door=True, written=True, moves=True),
    _label(
        names.PRIORITY_CLASS,
        "its WorkloadPriorityClass",
        core=True,
        door=True,
        written=True,
        moves=True,
    ),
    _label(
        names.MAX_EXEC_SECONDS,
        "how many seconds it may run: then its group is deactivated",
        core=True,
        door=True,
        workload=True,
        moves=True,
    ),
    _note(
        names.ADMISSION_GATED_BY,
        "who else has to agree before its group is admitted",
        core=True,
        door=True,
        workload=True,
        moves=True,
    ),
    _label(
        names.MANAGED_LABEL,
        "`true`: gatelog queues it",
        core=True,
        door=True,
        written=True,
    ),
    _note(names.SUSPENDING_PARENT, "it waits for a parent, with or without a queue", door=True),
    _note(names.ELASTIC_JOB, "refused: a plain pod is no elastic job", door=True),
    _note(
        names.PROVREQ_PREFIX,
        "parameters of a ProvisioningRequest, copied to the Workload",
        core=True,
        door=True,
        prefix=True,
    ),
    # -- group ----------------------------------------------------------------------------------
    Key(
        name=names.GROUP_NAME,
        says="its group",
        label=True,
        annotation=True,
        core=True,
        door=True,
        moves=True,
    ),
    Key(
        name=names.PREBUILT_WORKLOAD,
        says="the Workload of its group, which someone else makes",
        label=True,
        annotation=True,
        core=True,
        door=True,
        workload=True,
        moves=True,
    ),
    _note(
        names.GROUP_TOTAL_COUNT,
        "how many pods the group has",
        core=True,
        door=True,
        moves=True,
        dialect="total",
        size=True,
    ),
    _note(
        names.POD_GROUP_SETS,
        "sets of pods, some of which are created later",
        of=KEP,
        core=True,
        door=True,
        dialect="sets",
        size=True,
        bytes=ANNOTATIONS_BYTES,
    ),
    _note(
        names.POD_GROUP_COUNT,
        "how many pods of one shape the group has",
        of=KEP,
        core=True,
        door=True,
        dialect="count",
        size=True,
    ),
    _note(
        names.POD_GROUP_ROLES,
        "how many roles the group has",
        of=KEP,
        core=True,
        door=True,
        dialect="roles",
        size=True,
    ),
    _note(
        names.POD_GROUP_ROLE_COUNT,
        "how many pods its role has",
        of=KEP,
        core=True,
        door=True,
        dialect="roles",
    ),
    _label(names.POD_GROUP_ROLE, "its role or set", of=KEP, core=True, door=True),
    _note(
        names.GROUP_OWNER,
        "whose pods make up the group: `StatefulSet/NAME`, or `LeaderWorkerSet/NAME/SIZE`",
        of=OURS,
        core=True,
        door=True,
        written=True,
        dialect="owner",
        size=True,
    ),
    _label(names.LWS_NAME, "its LeaderWorkerSet", of=LWS, door=True),
    _note(names.LWS_SIZE, "how many pods a replica of it has", of=LWS, door=True),
    _note(names.LWS_LEADER, "the leader of its replica; a leader has none", of=LWS, door=True),
    _note(
        names.ROLE_HASH,
        "its role, where it names none: a hash of its shape",
        core=True,
        door=True,
        written=True,
        ungating=True,
    ),
    _note(names.FAST_ADMISSION, "`true`: the group is queued with its first pod", core=True),
    _note(
        names.SERVING,
        "`true`: the group never ends, and places are taken again",
        core=True,
        door=True,
        written=True,
    ),
    _note(
        names.RETRIABLE_IN_GROUP,
        "`false`: the group ends when nothing of it runs",
        core=True,
        door=True,
    ),
    # -- places on nodes --------------------------------------------------------------------------
    _topology(names.TOPOLOGY_REQUIRED, "all pods of the role in one domain of that level"),
    _topology(names.TOPOLOGY_PREFERRED, "the same, or in as few domains as there can be"),
    _topology(names.TOPOLOGY_UNCONSTRAINED, "`true`: any nodes that have room", ungating=True),
    _topology(names.SLICE_REQUIRED, "each slice of the role in one domain of that level"),
    _topology(names.SLICE_SIZE, "pods of a slice"),
    _topology(names.SLICE_CONSTRAINTS, "slices of slices, as JSON"),
    _topology(names.PODSET_GROUP_NAME, "roles with the same name share a domain"),
    _label(names.POD_INDEX, "its number in the group", core=True, door=True, written=True),
    _note(names.POD_INDEX_LABEL, "another label that has its number", door=True),
    _note(names.POD_INDEX_OFFSET, "from which number on the group counts", core=True),
    # -- what gatelog says of an admission --------------------------------------------------------
    _label(names.PODSET_LABEL, "its podset", core=True, door=True, written=True, ungating=True),
    _label(
        names.LOCAL_QUEUE_LABEL, "the LocalQueue it was admitted by", written=True, ungating=True
    ),
    _label(
        names.CLUSTER_QUEUE_LABEL,
        "the ClusterQueue it was admitted by",
        written=True,
        ungating=True,
    ),
    _note(names.WORKLOAD_ANNOTATION, "its Workload", written=True, ungating=True),
    _note(
        names.SLICE_NAME,
        "the first of the Workloads of an elastic job",
        written=True,
        ungating=True,
    ),
)
"""The table; docs/dialects.md has it."""

NEED_A_WORKLOAD: Final = tuple(key for key in KEYS if key.workload)
UNGATING: Final = frozenset(key.name for key in KEYS if key.ungating)
_PREFIXES: Final = (names.PREFIX, names.PROVREQ_PREFIX)
_KNOWN: Final = {key.name: key for key in KEYS if not key.prefix}
_KEPT: Final = frozenset(key.name for key in KEYS if key.annotation and key.core)


def enters_log(annotation: str) -> bool:
    """Tell whether an annotation of a pod or Workload is kept in its view."""
    return annotation.startswith(_PREFIXES) or annotation in _KEPT


def is_ours(key: str) -> bool:
    """Tell whether a pod that is too large keeps a label or annotation before all others."""
    return key.startswith(names.PREFIX) or key in _KNOWN


def bound_of(annotation: str) -> int:
    """Return how many bytes of an annotation are taken at most."""
    known = _KNOWN.get(annotation)
    return ANNOTATION_BYTES if known is None else known.bytes
