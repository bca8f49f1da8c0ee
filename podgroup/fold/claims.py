"""Fold of requests by ResourceClaims: which pods a claim, a template or a class concerns.

Theory. A view is given its devices as it is folded (`state.devices.counted`). When an object with
their number comes, changes or goes, the pods that name the object are counted anew, as if they had
been resized: history says so, a waiting group requests the new amounts, and an admitted group is
charged what is above its admission.

Invariant: the requests of every live pod are what `counted` makes of them now; a pod past its gate
has at least what it had.
"""

from podgroup.fold import queues
from podgroup.fold.change import take_over
from podgroup.fold.group import spec
from podgroup.fold.sharing import ask_anew, joined
from podgroup.log.events import ObjectApplied, ObjectDeleted
from podgroup.log.journal import At
from podgroup.model.ids import PodUID
from podgroup.model.objects import (
    DEVICE_KINDS,
    DeclaredSet,
    PodView,
    QueueObject,
    ResourceClaimTemplateView,
    ResourceClaimView,
    kind_of,
)
from podgroup.state.asked import sample_of
from podgroup.state.devices import counted, counted_sets, counting
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.pod import Pod
from podgroup.state.sharing import Sharing
from podgroup.state.world import World


def seen(world: World, view: PodView) -> PodView:
    """Return a pod with its devices among its requests, as far as they are known."""
    if not (counting(world) or view.device_requests):
        return view
    known = world.pods.get(view.uid)
    return counted(world, view, known.view if known is not None and _live(world, known) else None)


def object_applied(world: World, here: At, event: ObjectApplied) -> None:
    """Fold a created, changed or listed object, and count the devices that it states."""
    view = event.object
    if queues.object_applied(world, here, view, event.relist) and kind_of(view) in DEVICE_KINDS:
        _recount(world, here, view)


def object_deleted(world: World, here: At, event: ObjectDeleted) -> None:
    """Fold the end of an object, and count devices without it."""
    gone = queues.object_deleted(world, here, event)
    if gone is not None and event.kind in DEVICE_KINDS:
        _recount(world, here, gone)


def recount_all(world: World, here: At) -> None:
    """Count the devices of all pods anew, since classes now count as other resources."""
    world.sharing = Sharing()
    for pod in world.pods.values():
        joined(world, world.groups[pod.group], pod.view)
    _count_pods(world, here, list(world.pods.values()))


def _recount(world: World, here: At, view: QueueObject) -> None:
    """Count the requests of pods anew that name an object which came, changed or went."""
    if not counting(world):
        return
    if isinstance(view, ResourceClaimView):
        for identity in list(world.sharing.naming((view.namespace, view.name))):
            ask_anew(world, identity)
        pod = world.pods.get(view.pod)
        _count_pods(world, here, [pod] if pod is not None else [])
        return
    pods = list(world.pods.values())
    if isinstance(view, ResourceClaimTemplateView):
        pods = [pod for pod in pods if _names(pod.view, view.namespace, view.name)]
    _count_pods(world, here, pods)


def _names(view: PodView, namespace: str, template: str) -> bool:
    if view.namespace != namespace:
        return False
    entries = [*view.resource_claims, *(one for s in view.sets for one in s.resource_claims)]
    return any(one.template == template for one in entries)


def _count_pods(world: World, here: At, pods: list[Pod]) -> None:
    touched = dict.fromkeys(pod.group for pod in pods)
    views: dict[str, PodView] = {}
    for pod in pods:
        view = counted(world, pod.view, pod.view if _live(world, pod) else None)
        if view != pod.view:
            views[pod.view.uid] = view
    for identity in touched:
        _ask(world, world.groups[identity], views)
    for uid, view in views.items():
        pod = world.pods[PodUID(uid)]
        take_over(world, here, world.groups[pod.group], pod, view, False)
    for identity in touched:
        ask_anew(world, identity)


def _ask(world: World, group: Group, views: dict[str, PodView]) -> None:
    """Let the roles of a group without quota request what their pods request now."""
    spec.recounted(group, counted_sets(world, group.namespace, group.spec.sets))
    if group.quota.holding is not None:
        return
    for role in group.roles.values():
        shown = sample_of(world, group, role)
        if isinstance(shown, PodView) and shown.uid in views:
            role.requests = views[shown.uid].requests
        elif isinstance(shown, DeclaredSet):
            role.requests = shown.requests


def _live(world: World, pod: Pod) -> bool:
    return bool(world.members[pod.group].flags[pod.view.uid] & Flag.LIVE)
