"""Defaults that the server fills into a pod, and the shape of its answer.

Theory: a pod passes three stages before it is stored: scheme defaults (container fields, policies),
built-in admission (tolerations for node trouble, priority) and the registry (status, QoS class,
the SchedulingGated condition). The stages are separate because managed fields record only the
first, and mutating webhooks run after the second.

Invariant: every function is idempotent and shares unchanged parts.
"""

from fractions import Fraction
from typing import Any

from simcluster.errors import ApiError, Obj, forbidden
from simcluster.quantity import QuantityError, canonical, parse

GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"
_TROUBLE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_PRIORITIES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}
_DROP_EMPTY = (
    "schedulingGates",
    "nodeSelector",
    "tolerations",
    "initContainers",
    "volumes",
    "imagePullSecrets",
    "affinity",
)
_KEEP_EMPTY = frozenset({"containers", "securityContext"})


def _resources(found: Obj) -> Obj:
    """Canonical quantities; requests default to limits."""
    limits, requests = found.get("limits"), found.get("requests")
    if not limits and not requests:
        return found
    copy = dict(found)
    if limits:
        copy["limits"] = {k: _quantity(v) for k, v in limits.items()}
        missing = {k: v for k, v in copy["limits"].items() if k not in (requests or {})}
        requests = {**(requests or {}), **missing}
    if requests:
        copy["requests"] = {k: _quantity(v) for k, v in requests.items()}
    return copy


def _quantity(value: Any) -> str:
    try:
        return canonical(str(value))
    except QuantityError as error:
        raise ApiError(
            400, "BadRequest", f'Pod in version "v1" cannot be handled as a Pod: {error}'
        ) from None


def _container(container: Any) -> Any:
    if not isinstance(container, dict):
        raise ApiError(
            400,
            "BadRequest",
            'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal into Go '
            "struct field PodSpec.spec.containers of type v1.Container",
        )
    found = {k: v for k, v in container.items() if v is not None}
    found["resources"] = _resources(found.get("resources") or {})
    found.setdefault("terminationMessagePath", "/dev/termination-log")
    found.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in found:
        image = str(found.get("image", ""))
        tag = image.rpartition("/")[2].partition(":")[2]
        always = tag in ("", "latest") and "@" not in image
        found["imagePullPolicy"] = "Always" if always else "IfNotPresent"
    ports = found.get("ports")
    if ports:
        found["ports"] = [p if "protocol" in p else {**p, "protocol": "TCP"} for p in ports]
    return found


def defaulted(pod: Obj) -> Obj:
    """Stage one: scheme defaults. Raises 400 for texts that are no quantity."""
    given = pod.get("spec") or {}
    spec: Obj = {k: v for k, v in given.items() if v not in (None, {}, []) or k in _KEEP_EMPTY}
    for name in ("containers", "initContainers"):
        if spec.get(name):
            spec[name] = [_container(item) for item in spec[name]]
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("enableServiceLinks", True)
    if "serviceAccountName" in spec:
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    return {**pod, "spec": spec, "status": pod.get("status") or {}}


def trimmed(pod: Obj) -> Obj:
    """A pod after an update: empty optional lists and maps vanish, new containers get defaults."""
    spec = pod["spec"]
    empty = [name for name in _DROP_EMPTY if name in spec and not spec[name]]
    if empty:
        spec = {k: v for k, v in spec.items() if k not in empty}
        pod = {**pod, "spec": spec}
    raw = [c for c in spec.get("containers") or () if "imagePullPolicy" not in c]
    return defaulted(pod) if raw else pod


def admitted(pod: Obj, priorities: dict[str, int]) -> Obj:
    """Stage two: built-in admission plugins. ``priorities``: values of PriorityClass objects.

    Raises 403 when the priority class does not exist.
    """
    spec = dict(pod["spec"])
    spec["tolerations"] = tolerated(spec.get("tolerations") or [])
    name = spec.get("priorityClassName")
    if name:
        value = priorities.get(name, _PRIORITIES.get(name))
        if value is None:
            why = f"no PriorityClass with name {name} was found"
            raise forbidden("pods", "", pod["metadata"].get("name", ""), why)
        spec["priority"] = value
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    return {**pod, "spec": spec}


def tolerated(tolerations: list[Obj]) -> list[Obj]:
    """Tolerations with the two defaults of DefaultTolerationSeconds (also on updates)."""
    missing = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in _TROUBLE
        if not any(
            t.get("key") in (key, None, "") and t.get("effect") in ("NoExecute", None, "")
            for t in tolerations
        )
    ]
    return [*tolerations, *missing] if missing else tolerations


def registered(pod: Obj, now: str) -> Obj:
    """Stage three: the first status of a new pod."""
    status: Obj = {"phase": "Pending"}
    if pod["spec"].get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": now,
                "reason": "SchedulingGated",
                "message": GATED_MESSAGE,
            }
        ]
    status["qosClass"] = qos(pod["spec"])
    return {**pod, "status": status}


def qos(spec: Obj) -> str:
    """Guaranteed, Burstable or BestEffort, by cpu and memory of all containers."""
    some, guaranteed = False, True
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            asked, most = requests.get(name), limits.get(name)
            some = some or (asked or most) not in (None, "0")
            guaranteed = guaranteed and most is not None and asked == most
    if not some:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def typed_status(status: Obj) -> Obj:
    """Pod conditions as the typed API gives them back: ``lastProbeTime`` is always there."""
    conditions = status.get("conditions")
    if not conditions or all("lastProbeTime" in c for c in conditions):
        return status
    full = [c if "lastProbeTime" in c else {"lastProbeTime": None, **c} for c in conditions]
    return {**status, "conditions": full}


def requests_of(spec: Obj) -> dict[str, Fraction]:
    """What the scheduler counts: sum of containers, at least the largest init container."""
    total: dict[str, Fraction] = {}
    for container in spec.get("containers") or ():
        for name, text in ((container.get("resources") or {}).get("requests") or {}).items():
            amount = parse(text)
            total[name] = total[name] + amount if name in total else amount
    for container in spec.get("initContainers") or ():
        for name, text in ((container.get("resources") or {}).get("requests") or {}).items():
            total[name] = max(total.get(name, Fraction(0)), parse(text))
    for name, text in (spec.get("overhead") or {}).items():
        total[name] = total.get(name, Fraction(0)) + parse(text)
    return total
