"""What single kinds do beyond being stored: defaults, first status, validation, isolation.

Theory: three moments of a write ask the kind: ``defaulted`` (before field management),
``registered`` (a new object's first status) and ``causes`` (may it be stored so). Kinds not
mentioned here are stored as given.

Invariant: no function here looks at other objects; what depends on the rest of the cluster is in
``writes`` and the controllers.
"""

from simcluster import events, poddefaults, podrules
from simcluster.errors import Cause, Obj
from simcluster.names import metadata_causes
from simcluster.resources import Resource, Route

_CRD_GROUP = "apiextensions.k8s.io"


def baseline(resource: Resource) -> Obj:
    """The empty object of a kind: what is present before anything was written."""
    if resource.custom:
        return {}
    if resource.key == ("", "pods"):
        return {"spec": {"containers": None}, "status": {}}
    if resource.key == ("", "events"):
        return {"involvedObject": {}, "source": {}, "regarding": {}, "deprecatedSource": {}}
    return {part: {} for part in resource.typed_parts}


def defaulted(resource: Resource, obj: Obj) -> Obj:
    """A new object with scheme defaults."""
    match resource.plural:
        case "pods":
            return poddefaults.defaulted(obj)
        case "namespaces":
            meta = obj["metadata"]
            own = {"kubernetes.io/metadata.name": meta.get("name", "")}
            meta = {**meta, "labels": {**(meta.get("labels") or {}), **own}}
            return {**obj, "metadata": meta}
        case "mutatingwebhookconfigurations" | "validatingwebhookconfigurations":
            hooks = [_webhook(hook) for hook in obj.get("webhooks") or ()]
            return {**obj, "webhooks": hooks}
        case "priorityclasses":
            return {"preemptionPolicy": "PreemptLowerPriority", **obj}
        case "nodes":
            return {**obj, "spec": obj.get("spec") or {}, "status": obj.get("status") or {}}
        case _:
            return obj


def _webhook(hook: Obj) -> Obj:
    defaults: Obj = {
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "timeoutSeconds": 10,
    }
    return {**defaults, **hook}


def registered(route: Route, obj: Obj, now: str) -> Obj:
    """A new object's status, in place of any status in the request."""
    resource = route.resource
    if resource.plural == "pods":
        return poddefaults.registered(obj, now)
    if resource.plural == "namespaces":
        return {**obj, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    if resource.group == _CRD_GROUP:
        return {**obj, "status": _established(obj, now)}
    if resource.plural == "nodes":
        return obj
    if route.has_status:
        return {k: v for k, v in obj.items() if k != "status"} | (
            {} if resource.custom else {"status": {}}
        )
    return obj


def _established(crd: Obj, now: str) -> Obj:
    def condition(kind: str, reason: str, message: str) -> Obj:
        return {
            "type": kind,
            "status": "True",
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }

    spec = crd.get("spec") or {}
    return {
        "acceptedNames": spec.get("names") or {},
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition(
                "Established", "InitialNamesAccepted", "the initial names have been accepted"
            ),
        ],
        "storedVersions": [v["name"] for v in spec.get("versions") or () if v.get("storage")],
    }


def create_causes(resource: Resource, obj: Obj, new_events: bool) -> list[Cause]:
    """Findings in a new object."""
    found = metadata_causes(obj["metadata"], label_name=resource.plural == "namespaces")
    if resource.plural == "pods":
        found += podrules.create_causes(obj)
    elif resource.plural == "events":
        found += events.causes(obj, new_events)
    elif resource.group == _CRD_GROUP:
        spec = obj.get("spec") or {}
        names = spec.get("names") or {}
        if obj["metadata"].get("name") != f"{names.get('plural')}.{spec.get('group')}":
            text = 'must be spec.names.plural+"."+spec.group'
            found.append(Cause.invalid("metadata.name", f'"{obj["metadata"].get("name")}"', text))
        if not spec.get("versions"):
            found.append(Cause.required("spec.versions"))
    return found


def typed(resource: Resource, obj: Obj) -> Obj:
    """An updated object as the typed API would give it back."""
    if resource.plural == "pods":
        obj = poddefaults.trimmed(obj)
        status = obj.get("status") or {}
        shown = poddefaults.typed_status(status)
        return obj if shown is status else {**obj, "status": shown}
    return obj


def custom_resource(crd: Obj) -> Resource:
    """The kind a CustomResourceDefinition defines, storage version first."""
    spec = crd["spec"]
    names = spec["names"]
    served = [v for v in spec["versions"] if v.get("served", True)]
    served.sort(key=lambda v: not v.get("storage"))
    storage = served[0]
    return Resource(
        group=spec["group"],
        versions=tuple(v["name"] for v in served),
        plural=names["plural"],
        kind=names["kind"],
        namespaced=spec.get("scope", "Namespaced") == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        status="status" in (storage.get("subresources") or {}),
        whole=tuple(v["name"] for v in served if "status" not in (v.get("subresources") or {})),
        custom=True,
        generation=True,
        unconditional=False,
        typed_parts=(),
        schema=(storage.get("schema") or {}).get("openAPIV3Schema"),
    )
