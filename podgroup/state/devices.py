"""Devices: requests of pods by ResourceClaims, counted as the resources that quota covers (DRA).

Theory. A pod names in spec.resourceClaims which claims it needs; other objects have the number of
devices and their DeviceClass. `Policy.device_classes` says as which resource a class counts, and
from there on devices are requests like any other: `counted` puts them into the `requests` of a
view, so roles, quota, charges and tables need not know of claims.

A claim made from a template belongs to one pod. It counts as the larger of the template's present
number and the claim's: pods do not run with a template that was deleted and created anew with
another count. Once the pod is past its gate the claim alone counts. A claim that pods name
themselves may belong to many pods, so it is no pod's request: it counts once, with the group that
pays for it (`state.sharing`, `paid_claims`).

A container may also request devices as an extended resource that a DeviceClass declares. Where that
class is mapped such a request counts as the resource of the class, once.

Invariant: the devices of a pod past its gate are never counted as fewer than before.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from podgroup.model.ids import GroupID
from podgroup.model.names import PENDING_MISCONFIGURED
from podgroup.model.objects import (
    DeclaredSet,
    DeviceClassView,
    PodClaim,
    PodView,
    ResourceClaimTemplateView,
    ResourceClaimView,
)
from podgroup.model.policy import Policy, counts_devices, resource_of_classes
from podgroup.model.quantities import MAX_INT64
from podgroup.model.reasons import (
    CLAIM_NOT_FOUND,
    DEVICE_CLASS_NOT_MAPPED,
    DEVICES_NOT_COUNTED,
)
from podgroup.model.wording import quantity
from podgroup.state.group import Group
from podgroup.state.sharing import Key, Rank
from podgroup.state.world import World

IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
"""Begins the extended resource that every DeviceClass has; the class's name follows."""

Amounts = Mapping[str, int]
Generated = Iterable[tuple[str, str]]
"""An entry of spec.resourceClaims, and the ResourceClaim that was made for it."""
_T = TypeVar("_T", PodView, DeclaredSet)


class Source(NamedTuple):
    """An object with the request of an entry of spec.resourceClaims; `view` None: it is missing."""

    kind: str
    name: str
    view: ResourceClaimView | ResourceClaimTemplateView | None

    @property
    def named(self) -> str:
        """The object, for people."""
        return f"{self.kind} {self.name}"


def _as_kueue(world: World) -> bool:
    return world.policy.compatibility == "kueue"


def counting(world: World) -> bool:
    """Tell whether devices count against quota."""
    return counts_devices(world.mode, world.policy)


def counted(world: World, view: PodView, known: PodView | None = None) -> PodView:
    """Return a pod with its devices among its requests; `known`: its view before, past its gate."""
    made = _counted(world, view.namespace, view, view.generated_claims, known)
    sets = counted_sets(world, view.namespace, view.sets)
    return made if sets is made.sets else replace(made, sets=sets)


def counted_sets(
    world: World, namespace: str, sets: tuple[DeclaredSet, ...]
) -> tuple[DeclaredSet, ...]:
    """Return declared sets with their devices among their requests; the same without devices."""
    found = tuple([_counted(world, namespace, one, ()) for one in sets])
    return sets if found == sets else found


def uncounted(world: World, namespace: str, asked: PodView | DeclaredSet) -> tuple[str, str] | None:
    """Say why the number of devices that a pod requests is unknown: reason and sentence."""
    if not counting(world):
        return None
    made: Generated = ()
    if isinstance(asked, PodView):
        made = asked.generated_claims
        if asked.devices and not asked.resource_claims:
            said = "spec.resourceClaims was not read when the pod was seen last"
            return CLAIM_NOT_FOUND, f"{said}; any change of the pod has it read"
    classes = resource_of_classes(world.policy.device_classes)
    of = "" if isinstance(asked, PodView) else f"set {asked.name}: "
    for index, entry in enumerate(asked.resource_claims):
        path = f"{of}spec.resourceClaims[{index}]"
        found = list(_sources(world, namespace, entry, made))
        if entry.claim and _as_kueue(world):
            said = "ResourceClaims are not counted with queueing.compatibility kueue, templates are"
            return PENDING_MISCONFIGURED, f"{path}.resourceClaimName: {said}"
        if found and all(one.view is None for one in found):
            said = f"{path} names {found[0].named}, which does not exist in namespace {namespace}"
            return CLAIM_NOT_FOUND, said
        for one in found:
            view = one.view
            if view is None:
                continue
            if view.problem:
                return DEVICES_NOT_COUNTED, f"{of}{one.named}: {view.problem}"
            for name in sorted(view.devices):
                if name not in classes:
                    said = f"{of}{one.named} asks for devices of DeviceClass"
                    said += f" {name}, which queueing.device_classes does not name"
                    return DEVICE_CLASS_NOT_MAPPED, said
    return None


def differing(world: World, view: PodView) -> str:
    """Say where a pod's ResourceClaim differs from its template's present state; "" nowhere."""
    for entry in view.resource_claims:
        sources = _sources(world, view.namespace, entry, view.generated_claims)
        known = [(one, one.view) for one in sources if one.view is not None]
        if not entry.template or len(known) != 2:
            continue
        (template, says), (claim, holds) = (
            (one, resources(world.policy, seen.devices)) for one, seen in known
        )
        if says != holds:
            return (
                f"{claim.named} of pod {view.name} holds {_amounts(holds)}, {template.named} says "
                f"{_amounts(says)}: the larger is charged"
            )
    return ""


def device_resources(world: World) -> Collection[str]:
    """Return the resources as which devices count: no node states its amount of them."""
    return resource_of_classes(world.policy.device_classes).values() if counting(world) else ()


def resources(policy: Policy, devices: Amounts) -> dict[str, int]:
    """Return devices as amounts of resources; devices of unmapped classes count as nothing."""
    classes = resource_of_classes(policy.device_classes)
    found: dict[str, int] = {}
    for name, amount in devices.items():
        if name in classes:
            _add(found, classes[name], amount)
    return found


def claims_named(view: PodView) -> set[Key]:
    """Return the ResourceClaims that a pod names itself; other pods may name them as well."""
    return {(view.namespace, one.claim) for one in view.resource_claims if one.claim}


def rank_of(group: Group) -> Rank | None:
    """Return the rank by which a group pays for claims; None if the group holds no quota."""
    holding = group.quota.holding
    if holding is None:
        return None
    counted_then = any(one.shared for one in holding.admission.assignments)
    return holding.begin.seq, not counted_then, group.id


def held_by(world: World, key: Key) -> dict[str, int]:
    """Return a ResourceClaim as amounts of resources."""
    claim = world.resource_claims.get(key)
    return resources(world.policy, claim.devices) if claim is not None else {}


def paid_claims(world: World, group: GroupID) -> dict[str, int]:
    """Return the amounts of shared claims that a group pays for, or would pay for if admitted.

    One group pays for a claim: the first group that holds quota and names the claim.
    """
    found: dict[str, int] = {}
    for key in sorted(world.sharing.claims_of(group)):
        if world.sharing.payer(key) in ("", group):
            for resource, amount in held_by(world, key).items():
                _add(found, resource, amount)
    return found


def _counted(
    world: World,
    namespace: str,
    asked: _T,
    made: Generated,
    known: PodView | None = None,
) -> _T:
    own = bare(asked)
    counts = counting(world)
    more = _renamed(world, own) if counts else {}
    for entry in asked.resource_claims if counts else ():
        if not entry.template or (known is not None and _as_kueue(world)):
            continue
        largest: dict[str, int] = {}
        sources = _sources(world, namespace, entry, made)
        views = [one.view for one in sources if one.view is not None]
        for view in views[-1:] if known is not None else views:
            for resource, amount in resources(world.policy, view.devices).items():
                largest[resource] = max(amount, largest.get(resource, 0))
        for resource, amount in largest.items():
            _add(more, resource, amount)
    for resource, amount in known.device_requests.items() if known is not None else ():
        if amount > 0:
            more[resource] = max(amount, more.get(resource, 0))
    if not more and not asked.device_requests:
        return asked
    requests = dict(own)
    for resource in sorted(more):
        requests[resource] = min(requests.get(resource, 0) + more[resource], MAX_INT64)
        if not requests[resource]:
            del requests[resource]
    given = {name: requests.get(name, 0) - own.get(name, 0) for name in sorted(more)}
    return replace(asked, requests=requests, device_requests=given)


def bare(asked: PodView | DeclaredSet) -> Amounts:
    """Return what a pod requests without its devices."""
    if not asked.device_requests:
        return asked.requests
    found = dict(asked.requests)
    for resource, amount in asked.device_requests.items():
        found[resource] = found.get(resource, 0) - amount
        if not found[resource]:
            del found[resource]
    return found


def _renamed(world: World, own: Amounts) -> dict[str, int]:
    """Return how requests for extended resources of mapped DeviceClasses change the requests."""
    more: dict[str, int] = {}
    for resource, amount in own.items():
        if "/" not in resource or not amount:
            continue
        name = _class_of(world, resource)
        wanted = resource_of_classes(world.policy.device_classes).get(name, resource)
        if wanted != resource:
            _add(more, wanted, amount)
            more[resource] = more.get(resource, 0) - amount
    return more


def _class_of(world: World, resource: str) -> str:
    """Return the DeviceClass that an extended resource requests, "" if there is none.

    Of several the newest, of equally new classes the first by name, as kube-scheduler chooses.
    """
    if resource.startswith(IMPLICIT) and not _as_kueue(world):
        name = resource.removeprefix(IMPLICIT)
        return name if name in world.device_classes else ""
    best: DeviceClassView | None = None
    for name in sorted(world.device_classes):
        one = world.device_classes[name]
        if one.extended_resource == resource:
            best = one if best is None or one.created_at > best.created_at else best
    return best.name if best is not None else ""


def _sources(world: World, namespace: str, entry: PodClaim, made: Generated) -> Iterator[Source]:
    """Yield the objects with the request of an entry: a claim, or a template and its claim."""
    name = entry.claim
    if entry.template:
        template = world.claim_templates.get((namespace, entry.template))
        yield Source("ResourceClaimTemplate", entry.template, template)
        # Kueue charges what the template says, whatever the claim says.
        name = "" if _as_kueue(world) else dict(made).get(entry.name, "")
    if name:
        yield Source("ResourceClaim", name, world.resource_claims.get((namespace, name)))


def _amounts(amounts: Amounts) -> str:
    return ", ".join(f"{quantity(r, amounts[r])} {r}" for r in sorted(amounts)) or "none"


def _add(found: dict[str, int], resource: str, amount: int) -> None:
    found[resource] = min(found.get(resource, 0) + amount, MAX_INT64)
