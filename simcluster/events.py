"""Events have two shapes over one stored object: core/v1 and events.k8s.io/v1.

Theory: the server stores one Event; the newer group renames fields and keeps the old ones under
``deprecated*``. Both directions are plain renames plus the fields each typed API always prints.

Invariant: ``to_core(to_new(e)) == e`` for a stored event.
"""

from simcluster.errors import Cause, Obj

_RENAMED = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_BACK = {core: new for new, core in _RENAMED.items()}
_CORE_ALWAYS: Obj = {
    "involvedObject": {},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
_NEW_ALWAYS: Obj = {
    "eventTime": None,
    "regarding": {},
    "deprecatedSource": {},
    "deprecatedFirstTimestamp": None,
    "deprecatedLastTimestamp": None,
}


def full(event: Obj) -> Obj:
    """A core event with the fields the typed API always prints."""
    return {**event, **{k: v for k, v in _CORE_ALWAYS.items() if event.get(k) is None}}


def to_core(event: Obj) -> Obj:
    """events.k8s.io/v1 to the stored form."""
    found = {_RENAMED.get(key, key): value for key, value in event.items()}
    found["apiVersion"] = "v1"
    return full(found)


def to_new(event: Obj) -> Obj:
    """The stored form to events.k8s.io/v1."""
    found = {_BACK.get(key, key): value for key, value in event.items()}
    found["apiVersion"] = "events.k8s.io/v1"
    for key in ("reportingController", "reportingInstance"):
        if found.get(key) == "":
            del found[key]
    return {**found, **{k: v for k, v in _NEW_ALWAYS.items() if found.get(k) is None}}


_LIMITS = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
"""In bytes, though the API server says characters; of events that have an eventTime."""


def causes(event: Obj, new_api: bool) -> list[Cause]:
    """Findings in a stored event; the newer API demands more."""
    found: list[Cause] = []
    regarded = event["involvedObject"].get("namespace") or "default"
    namespace = event["metadata"].get("namespace", "")
    if regarded != namespace:
        text = "does not match event.namespace"
        found.append(Cause.invalid("involvedObject.namespace", f'"{regarded}"', text))
    found += _lengths(event)
    if new_api:
        if event.get("type") not in ("Normal", "Warning"):
            text = f"has invalid value: {event.get('type', '')}"
            found.append(Cause.invalid("type", '""', text))
        names = ("eventTime", "reportingComponent", "reportingInstance", "action", "reason")
        for name in names:
            if not event.get(name):
                found.append(Cause.required(_BACK.get(name, name)))
    return found


def _lengths(event: Obj) -> list[Cause]:
    if not event.get("eventTime"):
        return []
    return [
        Cause.invalid(name, '""', f"can have at most {most} characters")
        for name, most in _LIMITS.items()
        if len((event.get(name) or "").encode()) > most
    ]
