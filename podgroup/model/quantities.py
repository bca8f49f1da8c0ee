"""Resource amounts: what a pod asks for, as whole numbers that can be added and compared.

Quota is counted per pod, and a pod's request is not the plain sum of its containers: init
containers run before the others and sidecars beside both, so the request is the highest
point of that sequence, unless the pod states its own total; overhead comes on top
(Kubernetes: component-helpers ``resource.PodRequests``, which kube-scheduler and Kueue use).

Units: ``cpu`` counts in thousandths, every other resource in whole units (bytes, pieces).
Fractions of a unit round up: a request above zero is never zero.

`amount` and `faults` alone read amounts that people write, wherever they are: in a pod, an
annotation, a Workload or a queue object. The API server checks the amounts of pods alone.

Invariant: sums are exact and rounding happens once, at the end; an amount is an ``int`` between 0
and 2^63-1 whatever the text says. 2^63-1 means that amount or more (`capped`).
"""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Literal

from podgroup.model.quantity_text import (
    MAX_INT64,
    Form,
    QuantityError,
    canonical,
    parse,
    render,
)

__all__ = [
    "MAX_INT64",
    "MOST",
    "MOST_CPU",
    "Amounts",
    "QosClass",
    "QuantityError",
    "amount",
    "beyond_any_node",
    "canonical",
    "capped",
    "effective_requests",
    "faults",
    "format_amount",
    "in_base_units",
    "most",
    "parse",
    "qos_class",
]

_Exact = dict[str, Fraction]
Amounts = dict[str, int]
QosClass = Literal["Guaranteed", "Burstable", "BestEffort"]

MOST_CPU: Final[str] = "1M"
"""The most cores that one container may ask for; usage counts no more of a pod."""
MOST: Final[str] = "1E"
"""The most of anything else, in its units."""

CPU: Final[str] = "cpu"
MEMORY: Final[str] = "memory"
_MILLI: Final[int] = 1000
_NOTHING: Final = Fraction(0)
_BINARY_RESOURCES: Final[frozenset[str]] = frozenset({MEMORY, "ephemeral-storage"})
_HUGEPAGES: Final[str] = "hugepages-"
_LARGEST: Final[tuple[Fraction, Fraction]] = (parse(MOST), parse(MOST_CPU))
"""The most of any other resource, and of cpu."""


def amount(resource: str, text: str) -> int:
    """A quantity as the integer that quota arithmetic uses.

    ``cpu`` in thousandths of a core, anything else in whole units, rounded up and capped at
    2^63-1 (the largest number the API can carry).

    Raises:
        QuantityError: the text is no quantity, or below zero; the message names the resource.
    """
    try:
        value = parse(text)
    except QuantityError as error:
        raise QuantityError(f"resource {resource}: {error}") from None
    if value < 0:
        raise QuantityError(f"resource {resource}: {_below_zero(text)}")
    return _whole(resource, value)


def capped(amount: int) -> int:
    """Return a sum of amounts as it is stored: 2^63-1 means that amount or more."""
    return min(amount, MAX_INT64)


def fault(resource: str, text: Any) -> str:
    """Say what is wrong with an amount that a pod or a podset asks for; "" if nothing is."""
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        return "must be a quantity such as 500m or 2Gi"
    try:
        value = parse(str(text))
    except QuantityError as error:
        return str(error)
    if value < 0:
        return _below_zero(str(text))
    if value > _LARGEST[resource == CPU]:
        return f"{str(text)[:40]!r} is more than any node has: at most {_most(resource)}"
    return ""


def faults(pod_spec: Mapping[str, Any], *, limits: bool) -> Iterator[tuple[str, Any, str]]:
    """Yield each wrong amount of a pod spec: its path in the spec, what it says, and a sentence.

    It reads requests of containers and of the pod itself, the overhead, and `limits`: in a pod, the
    API server has put the limits that count among the requests. The caller refuses a map of
    another type than the API's.
    """
    for path, amounts in _stated(pod_spec, ("requests", "limits") if limits else ("requests",)):
        for resource, text in amounts.items() if isinstance(amounts, Mapping) else ():
            if why := fault(resource, text):
                yield f"{path}[{resource}]", text, why


def _stated(pod_spec: Mapping[str, Any], kinds: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    bearers: list[tuple[str, Any]] = [("resources", pod_spec.get("resources"))]
    for key in ("containers", "initContainers"):
        for number, container in enumerate(pod_spec.get(key) or ()):
            bearers.append((f"{key}[{number}].resources", container.get("resources")))
    for path, resources in bearers:
        if isinstance(resources, Mapping):
            yield from ((f"{path}.{kind}", resources.get(kind)) for kind in kinds)
    yield "overhead", pod_spec.get("overhead")


def _below_zero(text: str) -> str:
    return f"{text[:40]!r} is below zero: an amount is 0 or more"


def _most(resource: str) -> str:
    return MOST_CPU if resource == CPU else MOST


def beyond_any_node(requests: Mapping[str, int]) -> bool:
    """Tell whether a pod of these requests asks for more than the webhook admits."""
    return any(value > most(resource) for resource, value in requests.items())


def most(resource: str) -> int:
    """Return the most of a resource that a pod may ask for, as `amount` counts it."""
    return amount(resource, _most(resource))


@lru_cache(10_000)
def format_amount(resource: str, amount: int) -> str:
    """The canonical text of an amount: memory and storage in ``Ki``.. if even, the rest decimal.

    The inverse of `amount`: ``amount(r, format_amount(r, a)) == a``.
    """
    if resource == CPU:
        return render(Fraction(amount, _MILLI), Form.DECIMAL)
    binary = resource in _BINARY_RESOURCES or resource.startswith(_HUGEPAGES)
    # Without a binary suffix the text would be read as decimal and printed another way next time.
    binary = binary and amount % 1024 == 0
    return render(Fraction(amount), Form.BINARY if binary else Form.DECIMAL)


def in_base_units(resource: str, amount: int) -> float:
    """Return an amount in cores, bytes or pieces, as metrics have it."""
    return amount / _MILLI if resource == CPU else float(amount)


def effective_requests(pod_spec: Mapping[str, Any]) -> Amounts:
    """What one pod of this spec takes from a queue, per resource (see the module for units).

    The larger of (containers and sidecars together) and the peak while init containers run;
    a pod-level request replaces it for cpu, memory and huge pages; overhead is added. A limit
    replaces an absent request, as API-server defaulting does. An amount below zero counts as none
    (`faults` finds it).

    Pods are resized in place (KEP-1287): until the kubelet has done what is asked, a container
    takes what it was granted. As for kube-scheduler, the larger of request and grant counts, and
    the grant alone where the kubelet has said that it can never grant the request.

    Args:
        pod_spec: ``spec`` of a pod or of a pod template, as decoded from JSON. In it and in its
            containers `granted` may be a list of maps like `requests`: what the status says was
            allocated and is in use; `infeasible` in it: no request beyond that is ever granted.

    Raises:
        QuantityError: a quantity is malformed; the message names the resource.
    """
    final = bool(pod_spec.get("infeasible"))
    total = _container_requests(pod_spec, final)
    for resource, value in _pod_level_requests(pod_spec, total).items():
        total[resource] = value
    _add(total, _exact(pod_spec.get("overhead")))
    return {resource: _whole(resource, total[resource]) for resource in sorted(total)}


def qos_class(pod_spec: Mapping[str, Any]) -> QosClass:
    """Quality-of-service class that the kubelet gives a pod of this spec.

    Kubernetes: only cpu and memory count, zero counts as unset; Guaranteed needs both limits
    in every container (or at pod level) and requests equal to them.

    Raises:
        QuantityError: a quantity is malformed; the message names the resource.
    """
    pod_level = pod_spec.get("resources") or {}
    requests: _Exact = {}
    limits: _Exact = {}
    guaranteed = True
    for bearer in _bearers(pod_spec, pod_level):
        own_limits = _qos_resources(_exact(bearer.get("limits")))
        _add(requests, _qos_resources(_requests_of(bearer)))
        _add(limits, own_limits)
        guaranteed = guaranteed and own_limits.keys() == {CPU, MEMORY}
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _bearers(
    pod_spec: Mapping[str, Any], pod_level: Mapping[str, Any]
) -> Iterable[Mapping[str, Any]]:
    """The ``resources`` objects that decide the class: the pod's own, else every container's."""
    if _supported(pod_level.get("requests")) or _supported(pod_level.get("limits")):
        yield pod_level
        return
    for key in ("containers", "initContainers"):
        for container in pod_spec.get(key) or ():
            yield container.get("resources") or {}


def _container_requests(pod_spec: Mapping[str, Any], final: bool) -> _Exact:
    running: _Exact = {}
    for container in pod_spec.get("containers") or ():
        _add(running, _taken(_requests_of(container.get("resources")), container, final))
    sidecars: _Exact = {}
    peak: _Exact = {}
    for container in pod_spec.get("initContainers") or ():
        own = _taken(_requests_of(container.get("resources")), container, final)
        if container.get("restartPolicy") == "Always":
            # A sidecar keeps running: it counts beside the containers and beside later init steps.
            _add(running, own)
            _add(sidecars, own)
            _raise_to(peak, sidecars)
        else:
            _add(own, sidecars)
            _raise_to(peak, own)
    _raise_to(running, peak)
    return running


def _pod_level_requests(pod_spec: Mapping[str, Any], below: _Exact) -> _Exact:
    resources = pod_spec.get("resources") or {}
    requests = _exact(_supported(resources.get("requests")))
    for resource, value in _exact(_supported(resources.get("limits"))).items():
        # With containers that ask for it themselves, their sum is the pod's default.
        if resource not in requests and resource not in below:
            requests[resource] = value
    return _taken(requests, pod_spec, bool(pod_spec.get("infeasible"))) if requests else requests


def _taken(asked: _Exact, bearer: Mapping[str, Any], final: bool) -> _Exact:
    """The amount that counts of a request, given the grant; `final`: no more will be granted."""
    granted: _Exact = {}
    for given in bearer.get("granted") or ():
        _raise_to(granted, _exact(given))
    if final:
        return asked | granted
    _raise_to(asked, granted)
    return asked


def _requests_of(resources: Mapping[str, Any] | None) -> _Exact:
    resources = resources or {}
    return _exact(resources.get("limits")) | _exact(resources.get("requests"))


def _exact(quantities: Mapping[str, Any] | None) -> _Exact:
    exact: _Exact = {}
    for resource, text in (quantities or {}).items():
        try:
            # A manifest may say cpu: 1 without quotes. Amounts below zero are never credit.
            exact[resource] = max(_NOTHING, parse(str(text)))
        except QuantityError as error:
            raise QuantityError(f"resource {resource}: {error}") from None
    return exact


def _qos_resources(exact: _Exact) -> _Exact:
    return {r: v for r, v in exact.items() if r in (CPU, MEMORY) and v > 0}


def _supported(quantities: Mapping[str, Any] | None) -> dict[str, Any]:
    """The resources that a pod may state for itself as a whole."""
    return {
        r: v
        for r, v in (quantities or {}).items()
        if r in (CPU, MEMORY) or r.startswith(_HUGEPAGES)
    }


def _add(total: _Exact, more: _Exact) -> None:
    for resource, value in more.items():
        total[resource] = total.get(resource, _NOTHING) + value


def _raise_to(total: _Exact, floor: _Exact) -> None:
    for resource, value in floor.items():
        total[resource] = max(total.get(resource, value), value)


def _whole(resource: str, value: Fraction) -> int:
    scaled = value * _MILLI if resource == CPU else value
    rounded = -(-scaled.numerator // scaled.denominator)
    return min(rounded, MAX_INT64)
