"""The queue cannot be bypassed: one table of refusals, for the webhook and for the policy.

A pod is *marked* when something says that it is in a queue: the queue label, the managed label, our
finalizer, or the annotation of a suspending parent. Its gate is all that keeps it from running, and
it can be put on at creation only (KEP-3521). So a marked pod is created with the gate, only gatelog
takes the gate off, no mark comes off a pod that waits or runs, and no mark that gatelog watches by
is put on a pod that runs. Each row of `RULES` is one conjunction of facts;
`deploy/admission-policy` has them in CEL, written by `validations` and `variables`, and a test goes
through all chains of requests.

Exempt at creation are the kubelet's mirrors of static pods, which run whatever the API says: only a
kubelet's creation counts as a mirror, since any user can write its annotation. So are, for the
queue label alone, pods of owners that Kueue queues as a whole.

Invariant: pure; a fact in Python and the same fact in CEL are equal for every pod.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Final, Literal, NamedTuple

from ingest.webhook.fields import FieldError, annotation_path, forbidden, label_path
from ingest.webhook.pod import Pod
from podgroup.model import names

Exemption = Literal["kubelet", "owner"]

MIRROR_ANNOTATION: Final[str] = "kubernetes.io/config.mirror"
_NODE_USER: Final[str] = "system:node:"
_NODE_GROUP: Final[str] = "system:nodes"

OF_KUBELET: Final[str] = (
    f"request.userInfo.username.startsWith('{_NODE_USER}') && has(request.userInfo.groups) && "
    f"'{_NODE_GROUP}' in request.userInfo.groups && has(object.metadata.annotations) && "
    f"'{MIRROR_ANNOTATION}' in object.metadata.annotations"
)
"""CEL for a mirror of a static pod, made by a kubelet."""
OF_QUEUED_OWNER: Final[str] = (
    f"has(object.metadata.ownerReferences) && has(object.metadata.labels) && "
    f"'{names.PODSET_LABEL}' in object.metadata.labels"
)
"""CEL for a pod that Kueue has let start with its owner, as far as the pod alone shows."""


class Fact(NamedTuple):
    """A fact about a pod: how it is read here, and in CEL over one version of the object."""

    read: Callable[[Pod], bool]
    cel: str


_GATES: Final[str] = "{object}.spec.schedulingGates"
FACTS: Final[dict[str, Fact]] = {
    "Queue": Fact(
        lambda pod: bool(pod.queue),
        f"'{names.QUEUE_NAME}' in {{labels}} && {{labels}}['{names.QUEUE_NAME}'] != ''",
    ),
    "Managed": Fact(
        lambda pod: pod.labels.get(names.MANAGED_LABEL) == names.MANAGED_VALUE,
        f"'{names.MANAGED_LABEL}' in {{labels}} "
        f"&& {{labels}}['{names.MANAGED_LABEL}'] == '{names.MANAGED_VALUE}'",
    ),
    "Finalizer": Fact(
        lambda pod: names.POD_FINALIZER in pod.finalizers,
        "has({object}.metadata.finalizers) "
        f"&& '{names.POD_FINALIZER}' in {{object}}.metadata.finalizers",
    ),
    "Parent": Fact(lambda pod: pod.has_parent, f"'{names.SUSPENDING_PARENT}' in {{annotations}}"),
    "Gate": Fact(
        lambda pod: names.ADMISSION_GATE in pod.gates,
        f"has({_GATES}) && {_GATES}.exists(gate, gate.name == '{names.ADMISSION_GATE}')",
    ),
    "Ended": Fact(
        lambda pod: pod.ended,
        "has({object}.status) && has({object}.status.phase) "
        "&& {object}.status.phase in ['Succeeded', 'Failed']",
    ),
    "Deletion": Fact(
        lambda pod: pod.metadata.deletion_timestamp is not None,
        "has({object}.metadata.deletionTimestamp)",
    ),
}


class Rule(NamedTuple):
    """A row: a request that meets all of it is refused. A fact with ``!`` before it must not hold.

    `old` and `new` are of the pod before and after; a creation has no pod before. `number` is the
    number of the policy's validation, `path` the field that the user sees.
    """

    number: str
    operation: Literal["CREATE", "UPDATE"]
    old: tuple[str, ...]
    new: tuple[str, ...]
    path: str
    detail: str
    exempt: tuple[Exemption, ...] = ()


_LABEL: Final[str] = label_path(names.MANAGED_LABEL)
_SCHEDULING: Final[str] = "spec.schedulingGates"
_COUNTED: Final[str] = (
    "the pod is in a queue, and without the label what it uses would not be counted: delete the "
    "pod to take it out"
)
_GATELOGS: Final[str] = (
    f"only gatelog takes the gate {names.ADMISSION_GATE} off, when there is quota: the pod waits "
    "for it in its queue"
)
_LATE: Final[str] = (
    f"a pod without the gate {names.ADMISSION_GATE} is in no queue, and a gate can be put on at "
    "creation only: delete the pod, and create it with the queue label"
)

_ALONE: Final[str] = (
    f"gatelog puts {names.POD_FINALIZER} on together with its gate and label; alone it keeps the "
    "pod from going, and no part of gatelog sees it: leave it out"
)

_UNMARKED: Final[tuple[str, ...]] = ("Gate", "!Managed", "!Queue", "!Parent")
_LAST: Final[str] = (
    f"without it nothing says whose the gate {names.ADMISSION_GATE} is: delete the pod to take it "
    "out of its queue"
)

RULES: Final[tuple[Rule, ...]] = (
    Rule("VK1", "UPDATE", ("Managed", "Finalizer"), ("!Managed",), _LABEL, _COUNTED),
    Rule("VK2", "UPDATE", ("Managed", "Queue"), ("!Managed", "!Gate", "!Ended"), _LABEL, _COUNTED),
    # A pod at the gate keeps a mark, which guards the gate: once its group is over, gatelog takes
    # the finalizer off, and with the last mark gone a user could let it in.
    Rule("VK14", "UPDATE", ("Managed", "Gate"), _UNMARKED, _LABEL, _COUNTED),
    Rule("VK15", "UPDATE", ("Queue", "Gate"), _UNMARKED, label_path(names.QUEUE_NAME), _LAST),
    Rule(
        "VK3",
        "UPDATE",
        ("Finalizer",),
        ("!Finalizer", "!Deletion", "!Ended"),
        "metadata.finalizers",
        f"gatelog takes {names.POD_FINALIZER} off when the pod has ended: delete the pod to take "
        "it out of its queue",
    ),
    Rule("VK4", "UPDATE", ("Gate", "Managed"), ("!Gate",), _SCHEDULING, _GATELOGS),
    Rule("VK5", "UPDATE", ("Gate", "Queue"), ("!Gate",), _SCHEDULING, _GATELOGS),
    Rule("VK6", "UPDATE", ("Gate", "Parent"), ("!Gate",), _SCHEDULING, _GATELOGS),
    Rule(
        "VK7",
        "UPDATE",
        ("Gate", "Parent"),
        ("Gate", "!Parent"),
        annotation_path(names.SUSPENDING_PARENT),
        "the pod was gated for its parent: give it a queue, or delete it",
    ),
    Rule("VK8", "UPDATE", ("!Managed",), ("Managed", "!Gate", "!Ended"), _LABEL, _LATE),
    Rule(
        "VK9",
        "CREATE",
        (),
        ("Queue", "!Gate"),
        label_path(names.QUEUE_NAME),
        "another policy or webhook named the queue after gatelog had let the pod pass, so it "
        "would run uncounted: put the label on the pod, or on the template it is made from",
        ("kubelet", "owner"),
    ),
    Rule(
        "VK12",
        "CREATE",
        (),
        ("Finalizer", "!Gate"),
        "metadata.finalizers",
        _ALONE,
        ("kubelet", "owner"),
    ),
    Rule(
        "VK13", "UPDATE", ("!Finalizer",), ("Finalizer", "!Managed"), "metadata.finalizers", _ALONE
    ),
    Rule("VK10", "CREATE", (), ("Managed", "!Gate"), _LABEL, _LATE, ("kubelet",)),
    Rule(
        "VK11",
        "CREATE",
        (),
        ("Parent", "!Gate"),
        annotation_path(names.SUSPENDING_PARENT),
        "the pod came out without the gate that it was to wait at for its parent: another policy "
        "or webhook put the annotation on after gatelog had let the pod pass",
        ("kubelet",),
    ),
)


def mirrored(pod: Pod, username: str, groups: Collection[str]) -> bool:
    """Return whether a request is a kubelet's, for its mirror of a static pod."""
    kubelet = username.startswith(_NODE_USER) and _NODE_GROUP in groups
    return kubelet and MIRROR_ANNOTATION in pod.annotations


def bypasses(old: Pod | None, new: Pod, exempt: Collection[Exemption] = ()) -> Iterator[FieldError]:
    """Yield an error for each thing by which a request would get a pod past its queue.

    Args:
        old: the pod before; None for a creation, after all mutation.
        new: the pod after.
        exempt: what may excuse a creation.
    """
    said: set[str] = set()
    for rule in RULES:
        if (rule.operation == "CREATE") is not (old is None) or rule.path in said:
            continue
        if not set(rule.exempt).isdisjoint(exempt):
            continue
        if (old is None or _all(rule.old, old)) and _all(rule.new, new):
            said.add(rule.path)
            yield forbidden(rule.path, rule.detail)


def _all(facts: tuple[str, ...], pod: Pod) -> bool:
    return all(FACTS[fact.lstrip("!")].read(pod) is not fact.startswith("!") for fact in facts)


def variables() -> list[dict[str, str]]:
    """The facts as variables of the policy: ``hasGate`` of the new pod, ``hadGate`` of the old."""
    found = []
    for word, fact in FACTS.items():
        new = fact.cel.format(
            object="object", labels="variables.labels", annotations="variables.annotations"
        )
        found.append({"name": f"has{word}", "expression": new})
        if any(word in (one.lstrip("!") for one in rule.old) for rule in RULES):
            old = fact.cel.format(
                object="oldObject",
                labels="variables.oldLabels",
                annotations="variables.oldAnnotations",
            )
            found.append({"name": f"had{word}", "expression": f"!variables.created && ({old})"})
    found.append({"name": "ofKubelet", "expression": OF_KUBELET})
    found.append({"name": "ofQueuedOwner", "expression": OF_QUEUED_OWNER})
    return found


def validations() -> list[dict[str, str]]:
    """The rows as validations of the policy, with their numbers as key ``number``."""
    excuses = {"kubelet": "variables.ofKubelet", "owner": "variables.ofQueuedOwner"}
    found = []
    for rule in RULES:
        passes = ["!variables.created" if rule.operation == "CREATE" else "variables.created"]
        passes += [_unless("had", fact) for fact in rule.old]
        passes += [_unless("has", fact) for fact in rule.new]
        passes += [excuses[one] for one in rule.exempt]
        message = f"{rule.path}: Forbidden: {rule.detail}"
        expression = " || ".join(passes)
        found.append({"number": rule.number, "expression": expression, "message": message})
    return found


def _unless(tense: str, fact: str) -> str:
    word = fact.lstrip("!")
    return f"{'' if fact.startswith('!') else '!'}variables.{tense}{word}"
