"""What keeps an ungated pod from running: its reason, and the words for one pod and for several.

Theory. Behind our gate others decide: controllers with gates of their own, the scheduler,
the kubelet, finalizers. Each leaves a field on the pod: a gate, a condition, the state of a
container. The reason of a pod is what would have to end first.

Reasons are Kubernetes' own words where it has them. `subject` is what the reason is about (an
image, a container, a gate), `message` what was said of the subject. Pods that wait for the same are
listed together, so neither names the pod.

Invariant: pure; decided by fields, messages are only handed on.
"""

from typing import Final, NamedTuple

from podgroup.model.limits import cut
from podgroup.model.names import ADMISSION_GATE, ELASTIC_JOB_GATE, POD_FINALIZER, TOPOLOGY_GATE
from podgroup.model.objects import (
    BACK_OFF_PULLING,
    CRASHING,
    ENDED,
    PULL_FAILED,
    ContainerWait,
    PodView,
)

OURS: Final = frozenset((ADMISSION_GATE, TOPOLOGY_GATE, ELASTIC_JOB_GATE))
"""Gates that gatelog or Kueue removes: the group says what a pod with such a gate waits for."""
_GATED: Final = "SchedulingGated"
"""The API server's reason for a pod with gates; it stays until the scheduler has looked."""
_AFTERWARDS: Final = (" no new claims to deallocate", " preemption: ")
"""After these kube-scheduler says what would not help either: to take devices back, and
preemption, node by node."""

NOT_SCHEDULED: Final = "NotScheduled"
STARTING: Final = "Starting"
"""`NotScheduled` and `Starting` are the first seconds of any pod. No interval is kept of them, as
the pod's times say it."""


INITIALIZING: Final = "Initializing"


class PodReason(NamedTuple):
    """Why an ungated pod does not run."""

    reason: str
    subject: str = ""
    message: str = ""


class Wording(NamedTuple):
    """What is said of one pod and of several, with the subject in place of {}; and what helps."""

    one: str
    many: str
    takes: str
    image: bool = False
    """The subject is an image."""


_PULL: Final = (
    "an image of that name at its registry, the right to pull it, and a registry that answers"
)
WORDINGS: Final = {
    "OtherGate": Wording(
        "is kept by scheduling gate {}",
        "are kept by scheduling gate {}",
        "that the controller whose gate it is removes it: gatelog touches no gate of others, and "
        "the quota stays taken until then, or until queueing.pods_ready_timeout_s is over",
    ),
    NOT_SCHEDULED: Wording(
        "has no node yet: no scheduler has said why",
        "have no node yet: no scheduler has said why",
        "a scheduler that takes them: the one that spec.schedulerName names must be up",
    ),
    "Unschedulable": Wording(
        "fits no node",
        "fit no node",
        "a node that fits: the scheduler names what each lacks (kubectl describe pod)",
    ),
    STARTING: Wording(
        "is being started by its node: images, volumes, network",
        "are being started by their nodes: images, volumes, network",
        "that the kubelet starts them: its Events say what it waits for (kubectl describe pod)",
    ),
    BACK_OFF_PULLING: Wording("cannot pull image {}", "cannot pull image {}", _PULL, image=True),
    "InvalidImageName": Wording(
        "names image {}, which is no name of an image",
        "name image {}, which is no name of an image",
        "another image: pods of this template cannot start",
        image=True,
    ),
    "ErrImageNeverPull": Wording(
        "needs image {} on its node and may not pull it",
        "need image {} on their nodes and may not pull it",
        "that the image is on the node, or another imagePullPolicy",
        image=True,
    ),
    "CreateContainerConfigError": Wording(
        "cannot start {}, whose configuration is wrong",
        "cannot start {}, whose configuration is wrong",
        "the Secret, ConfigMap or key that the message names; the kubelet tries again by itself",
    ),
    CRASHING: Wording(
        "crashes again and again in {}",
        "crash again and again in {}",
        "a container that goes on running: kubectl logs --previous says how it ended",
    ),
    INITIALIZING: Wording(
        "runs its init containers",
        "run their init containers",
        "that the init containers end (kubectl logs -c)",
    ),
    "NodeUnreachable": Wording(
        "is on node {}, which does not answer",
        "are on node {}, which does not answer",
        "that the node answers, or kubectl delete node if it is gone for good",
    ),
    "Finalizer": Wording(
        "has ended and is kept by finalizer {}",
        "have ended and are kept by finalizer {}",
        "that the controller whose finalizer it is removes it",
    ),
}
"""By reason, in the order in which a pod meets them."""
OTHERWISE: Final = Wording(
    "waits in {}",
    "wait in {}",
    "what the message says; the kubelet tries again by itself (kubectl describe pod)",
)
"""For a reason of the kubelet or the scheduler that is not in the table."""


def pod_reason(view: PodView) -> PodReason | None:
    """Return why an ungated pod does not run; None: it runs, has ended, or is gated.

    The reasons of a pod's first seconds are among them: see `STARTING`.
    """
    if view.deleted_at is not None:
        kept = [name for name in view.finalizers if name != POD_FINALIZER] if view.ended else []
        return PodReason("Finalizer", ", ".join(kept)) if kept else None
    if view.phase in ENDED or (view.gates and not OURS.isdisjoint(view.gates)):
        return None
    if view.gates:
        return PodReason("OtherGate", ", ".join(view.gates))
    if not view.node:
        return _unscheduled(view)
    for one in view.waiting:
        return _container(view, one)
    if view.phase == "Pending":
        return _starting(view)
    # A kubelet gives a reason; the node controller, for a silent node, changes the status alone.
    silent = running = False
    for said in view.conditions:
        if said.type == "Ready":
            silent = said.status == "False" and not said.reason
        elif said.type == "ContainersReady":
            running = said.status == "True"
    return PodReason("NodeUnreachable", view.node) if silent and running else None


def _unscheduled(view: PodView) -> PodReason | None:
    for one in view.conditions:
        if one.type != "PodScheduled":
            continue
        if one.status == "False" and one.reason not in ("", _GATED):
            said = one.message
            for begin in _AFTERWARDS:
                said = said.partition(begin)[0]
            return PodReason(one.reason, "", said.rstrip(" .,"))
    return None


def _container(view: PodView, waits: ContainerWait) -> PodReason:
    reason = BACK_OFF_PULLING if waits.reason == PULL_FAILED else waits.reason
    known = WORDINGS.get(reason, OTHERWISE)
    kind = "init container" if waits.init else "container"
    subject = waits.image if known.image and waits.image else f"{kind} {waits.name}"
    message = waits.message
    if reason == CRASHING:
        ends = (end for end in view.ends if end.name == waits.name)
        message = next((f"exit code {end.exit_code} ({end.reason})" for end in ends), "")
    elif waits.reason == BACK_OFF_PULLING:
        message = ""  # it says no more than that, and that it waits: why was said before
    return PodReason(reason, subject, cut(message))


def _starting(view: PodView) -> PodReason | None:
    for one in view.conditions:
        if one.type == "Initialized" and one.status == "False":
            return PodReason(INITIALIZING, "", one.message)
    return None


def words(reason: str, subject: str, message: str, pods: int) -> str:
    """Say why pods do not run: `cannot pull image X: not found`."""
    wording = WORDINGS.get(reason, OTHERWISE)
    said = (wording.one if pods == 1 else wording.many).replace("{}", subject)
    if wording is OTHERWISE:
        said = f"{said} ({reason})" if subject else f"{'is' if pods == 1 else 'are'} {reason}"
    return f"{said}: {message}" if message else said


def takes(reason: str) -> str:
    """Say what ends the wait."""
    return WORDINGS.get(reason, OTHERWISE).takes
