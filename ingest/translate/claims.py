"""ResourceClaims, their templates and DeviceClasses (resource.k8s.io/v1) become their views.

Of a claim's spec only the number of devices by class is kept: drivers' own parameters and selectors
do not enter the log. Kubernetes has more ways to ask than by number: for all devices
(allocationMode All), or for the first of several alternatives (firstAvailable). The number of
devices of such a request is known only once they are allocated; the view names the request's field,
and counts allocated devices. Requests with admin access take no device from other pods.

Invariant: counts are from 0 to 2^63-1; equal specs give equal views.
"""

from collections.abc import Sequence

from ingest.translate.fields import ObjectWire, Wire
from podgroup.model import objects
from podgroup.model.limits import OBJECT_NAME
from podgroup.model.quantities import capped

_EXACT = "ExactCount"
_POD = "Pod"


class _Exact(Wire, frozen=True):
    device_class_name: str = ""
    allocation_mode: str = ""
    count: int | None = None
    admin_access: bool | None = None


class _Alternative(Wire, frozen=True):
    name: str = ""
    device_class_name: str = ""


class _Request(Wire, frozen=True):
    name: str = ""
    exactly: _Exact | None = None
    first_available: tuple[_Alternative, ...] | None = None


class _Devices(Wire, frozen=True):
    requests: tuple[_Request, ...] | None = None


class _ClaimSpec(Wire, frozen=True):
    devices: _Devices | None = None


class _Result(Wire, frozen=True):
    request: str = ""
    admin_access: bool | None = None


class _Results(Wire, frozen=True):
    results: tuple[_Result, ...] | None = None


class _Allocation(Wire, frozen=True):
    devices: _Results | None = None


class _ClaimStatus(Wire, frozen=True):
    allocation: _Allocation | None = None


class ResourceClaimWire(ObjectWire, frozen=True):
    """resource.k8s.io/v1 ResourceClaim."""

    spec: _ClaimSpec = _ClaimSpec()
    status: _ClaimStatus = _ClaimStatus()


class _TemplateSpec(Wire, frozen=True):
    spec: _ClaimSpec = _ClaimSpec()


class ResourceClaimTemplateWire(ObjectWire, frozen=True):
    """resource.k8s.io/v1 ResourceClaimTemplate."""

    spec: _TemplateSpec = _TemplateSpec()


class _ClassSpec(Wire, frozen=True):
    extended_resource_name: str | None = None


class DeviceClassWire(ObjectWire, frozen=True):
    """resource.k8s.io/v1 DeviceClass."""

    spec: _ClassSpec = _ClassSpec()


def resource_claim_view(wire: ResourceClaimWire) -> objects.ResourceClaimView:
    """Return the view of a ResourceClaim."""
    meta = wire.metadata
    allocation = wire.status.allocation or _Allocation()
    allocated = (allocation.devices or _Results()).results or ()
    devices, problem = _devices(wire.spec, "spec", allocated)
    owner = next(
        (o.uid for o in meta.owner_references or () if o.controller and o.kind == _POD), ""
    )
    return objects.ResourceClaimView(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        resource_version=meta.resource_version,
        devices=devices,
        problem=problem,
        pod=owner,
    )


def claim_template_view(wire: ResourceClaimTemplateWire) -> objects.ResourceClaimTemplateView:
    """Return the view of a ResourceClaimTemplate."""
    meta = wire.metadata
    devices, problem = _devices(wire.spec.spec, "spec.spec", ())
    return objects.ResourceClaimTemplateView(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        resource_version=meta.resource_version,
        devices=devices,
        problem=problem,
    )


def device_class_view(wire: DeviceClassWire) -> objects.DeviceClassView:
    """Return the view of a DeviceClass."""
    meta = wire.metadata
    return objects.DeviceClassView(
        uid=meta.uid,
        name=meta.name,
        resource_version=meta.resource_version,
        created_at=meta.created_at,
        extended_resource=wire.spec.extended_resource_name or "",
    )


def _devices(
    spec: _ClaimSpec, path: str, allocated: Sequence[_Result]
) -> tuple[dict[str, int], str]:
    """Return how many devices of each class a claim asks for, and a field without a number."""
    found: dict[str, int] = {}
    problem = ""
    for index, request in enumerate((spec.devices or _Devices()).requests or ()):
        at = f"{path}.devices.requests[{index}]"
        exact = request.exactly
        wrong = ""
        if request.first_available is not None:
            wrong = f"{at}.firstAvailable: alternatives are not counted"
        elif exact is None:
            wrong = f"{at}: neither exactly nor firstAvailable, as no request may be"
        elif exact.admin_access:
            continue
        elif exact.allocation_mode not in ("", _EXACT):
            mode = exact.allocation_mode[:OBJECT_NAME]
            wrong = f"{at}.exactly.allocationMode: {mode} gives no number of devices"
        elif exact.count is not None and exact.count < 0:
            wrong = f"{at}.exactly.count: is {exact.count}, it must be at least 1"
        else:
            _add(found, exact.device_class_name, 1 if exact.count is None else exact.count)
        if wrong:
            problem = problem or wrong
            for name in _allocated(request, allocated):
                _add(found, name, 1)
    return dict(sorted(found.items())), problem


def _allocated(request: _Request, allocated: Sequence[_Result]) -> list[str]:
    """Return the class of each device that was allocated for a request."""
    classes = {
        f"{request.name}/{one.name}": one.device_class_name for one in request.first_available or ()
    }
    if request.exactly is not None:
        classes[request.name] = request.exactly.device_class_name
    return [classes[r.request] for r in allocated if r.request in classes and not r.admin_access]


def _add(found: dict[str, int], name: str, count: int) -> None:
    if name:
        found[name] = capped(found.get(name, 0) + count)
