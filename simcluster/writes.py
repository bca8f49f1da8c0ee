"""Creating and updating objects: the server's write pipeline.

Theory: defaults, field management, built-in admission, mutating webhooks, registry, validation,
validating webhooks, storage: in this order, because what managedFields say and what a webhook
sees depend on it. Between reading an object and storing it webhooks may be awaited; if the object
changed meanwhile the whole update is repeated on the new value, as the server does.

Invariant: without webhooks a write runs without suspension, so it is atomic; with them the stored
object is still the one the update was computed from.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from simcluster import fields, kinds, managed, objects, poddefaults, podrules, schema
from simcluster.admission import Admission
from simcluster.errors import (
    ApiError,
    Cause,
    Obj,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
)
from simcluster.names import changeable_causes, generated
from simcluster.objects import Clock
from simcluster.requests import Options, Target
from simcluster.resources import Catalogue, Resource
from simcluster.store import Rec, Store, Table

ATTEMPTS = 5
Mutate = Callable[[Obj], Obj]


class Writes:
    """The write pipeline over one store."""

    def __init__(self, store: Store, catalogue: Catalogue, admission: Admission, seed: int) -> None:
        self.store = store
        self.catalogue = catalogue
        self.admission = admission
        self.clock = Clock()
        self.random = random.Random(seed)
        self.priorities: dict[str, int] = {}

    def table(self, target: Target) -> Table:
        """The table a target lives in."""
        return self.store.table(target.route.resource)

    def existing(self, target: Target) -> Rec:
        """The stored object. Raises 404."""
        rec = self.table(target).get(target.namespace, target.name)
        if rec is None:
            raise not_found(target.plural, target.route.group, target.name)
        return rec

    # -- create ------------------------------------------------------------------------------

    async def create(self, target: Target, given: Obj, options: Options) -> Rec:
        """Create an object. Raises 400, 403, 404, 409, 422."""
        obj = self._received(target, given, options)
        resource = target.route.resource
        self._open_namespace(target, obj)
        meta = obj["metadata"]
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = self._generated(target, meta["generateName"])
        obj = kinds.defaulted(resource, obj)
        obj = self._shaped(resource, obj, options)
        obj = self._created_fields(target, obj, options)
        if resource.plural == "pods":
            obj = poddefaults.admitted(obj, self.priorities)
        obj = objects.stored(target.route, obj)
        review = self.admission.review(target, "CREATE", meta.get("name", ""), options)
        changed = await self.admission.mutate(review, obj, None, options)
        if changed is not obj:
            obj = {**changed, "metadata": objects.cleaned(changed["metadata"])}
            obj = kinds.defaulted(resource, obj) if resource.plural == "pods" else obj
        obj = kinds.registered(resource, obj, self.clock.now())
        system: Obj = {"uid": objects.new_uid(), "creationTimestamp": self.clock.now()}
        if resource.generation:
            system["generation"] = 1
        obj = {**obj, "metadata": {**obj["metadata"], **system}}
        causes = kinds.create_causes(resource, obj, target.route.group == "events.k8s.io")
        self._refuse(resource, obj["metadata"].get("name") or "", causes)
        await self.admission.validate(review, obj, None, options)
        name = obj["metadata"]["name"]
        if self.table(target).get(target.namespace, name) is not None:
            raise already_exists(resource.plural, target.route.group, name)
        if options.dry_run:
            return Rec(obj, target.namespace, name, 0)
        return self.store.put(self.table(target), obj, None)

    def _received(self, target: Target, given: Obj, options: Options) -> Obj:
        resource = target.route.resource
        kind = given.get("kind") or resource.kind
        version = given.get("apiVersion") or target.route.api_version
        if (kind, version) != (resource.kind, target.route.api_version):
            raise bad_request(
                f"the API version in the data ({version}) does not match the expected API "
                f"version ({target.route.api_version})"
                if kind == resource.kind
                else f"the object provided is unrecognized (must be of type {resource.kind}): "
                f"got kind {kind}"
            )
        meta = given.get("metadata") or {}
        if not isinstance(meta, dict):
            raise bad_request("json: cannot unmarshal into Go struct field .metadata")
        if meta.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        namespace = meta.get("namespace") or ""
        if namespace and namespace != target.namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on "
                "the request"
            )
        meta = {k: v for k, v in objects.cleaned(meta).items() if k not in objects.OWNED}
        meta.pop("uid", None)
        if target.namespace:
            meta["namespace"] = target.namespace
        return objects.headed({**given, "metadata": meta}, resource.kind, version)

    def _open_namespace(self, target: Target, obj: Obj) -> None:
        """The namespace must exist and not be going away (NamespaceLifecycle admission)."""
        if not target.namespace:
            if target.route.resource.namespaced:
                raise bad_request("namespace is required")
            return
        space = self.store.tables["", "namespaces"].get("", target.namespace)
        if space is None:
            raise not_found("namespaces", "", target.namespace)
        if "deletionTimestamp" in space.obj["metadata"]:
            why = (
                f"unable to create new content in namespace {target.namespace} because it is "
                "being terminated"
            )
            cause: Obj = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {target.namespace} is being terminated",
                "field": "metadata.namespace",
            }
            name = obj["metadata"].get("name", "")
            raise forbidden(target.plural, target.route.group, name, why, [cause])

    def _generated(self, target: Target, prefix: str) -> str:
        table = self.table(target)
        for _ in range(8):
            name = generated(prefix, self.random)
            if table.get(target.namespace, name) is None:
                return name
        raise already_exists(target.plural, target.route.group, prefix)

    def _shaped(self, resource: Resource, obj: Obj, options: Options) -> Obj:
        """A custom object by its schema: pruned, defaulted, checked."""
        if not resource.custom:
            return obj
        obj, unknown, causes = schema.shape(obj, resource.schema)
        if unknown and options.field_validation == "Strict":
            names = ", ".join(f'unknown field "{path}"' for path in unknown)
            raise bad_request(f"strict decoding error: {names}")
        if options.field_validation == "Warn":
            options.warnings.extend(f'unknown field "{path}"' for path in unknown)
        self._refuse(resource, obj["metadata"].get("name") or "", causes)
        if resource.status and "status" in obj:
            obj = {k: v for k, v in obj.items() if k != "status"}
        return obj

    def _created_fields(self, target: Target, obj: Obj, options: Options) -> Obj:
        resource = target.route.resource
        base = kinds.baseline(resource)
        seen = {k: v for k, v in obj.items() if not (k == "status" and resource.status)}
        old = fields.tracked({}, base, None)
        new = fields.tracked(seen, base, None)
        now = self.clock.now()
        if options.applying:
            owned = {k: v for k, v in fields.leaves(new, apply=True).items() if v}
            entries = managed.after_apply([], owned, options.writer(target, "Apply"), now)
        else:
            entries = managed.after_update([], old, new, options.writer(target), now)
        if entries:
            obj = {**obj, "metadata": {**obj["metadata"], "managedFields": entries}}
        return obj

    def _refuse(self, resource: Resource, name: str, causes: list[Cause]) -> None:
        if causes:
            raise invalid(resource.kind, resource.group, name, causes)

    # -- update ------------------------------------------------------------------------------

    async def update(
        self,
        target: Target,
        mutate: Mutate,
        options: Options,
        *,
        replace: bool = False,
        applied: Callable[[], fields.Fields] | None = None,
    ) -> Rec:
        """Change an object by ``mutate`` (its view to the wanted view).

        ``replace``: the wanted view came whole from a client (PUT). ``applied``: after ``mutate``
        ran, the set a server-side apply owns. Raises what ``mutate`` raises, 404, 409, 422.
        """
        for _ in range(ATTEMPTS):
            rec = self.existing(target)
            current = objects.view(target.route, rec.obj)
            wanted = mutate(current)
            self._preconditions(target, current, wanted, replace)
            done = await self._finish(target, rec, current, wanted, options, applied)
            if done is not None:
                return done
        raise conflict(target.plural, target.route.group, target.name)

    def _preconditions(self, target: Target, current: Obj, wanted: Obj, replace: bool) -> None:
        old, new = current["metadata"], wanted.get("metadata") or {}
        resource = target.route.resource
        version = new.get("resourceVersion") or ""
        if version in ("", "0"):
            if replace and not resource.unconditional:
                text = "must be specified for an update"
                cause = Cause.invalid("metadata.resourceVersion", "0x0", text)
                raise invalid(resource.kind, resource.group, target.name, [cause])
        elif version != old["resourceVersion"]:
            raise conflict(target.plural, target.route.group, target.name)
        uid = new.get("uid")
        if replace and uid and uid != old["uid"]:
            key = "/".join(p for p in (target.plural, target.namespace, target.name) if p)
            why = (
                f"StorageError: invalid object, Code: 4, Key: /registry/{key}, ResourceVersion: "
                f"0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in "
                f"object meta: {old['uid']}"
            )
            raise conflict(target.plural, target.route.group, target.name, why)

    async def _finish(
        self,
        target: Target,
        rec: Rec,
        current: Obj,
        wanted: Obj,
        options: Options,
        applied: Callable[[], fields.Fields] | None,
    ) -> Rec | None:
        """Carry one attempt through; ``None`` when the object changed under it."""
        resource, table = target.route.resource, self.table(target)
        causes = _metadata_causes(current["metadata"], wanted.get("metadata") or {})
        obj = self._isolated(target, current, wanted, options)
        if obj == current and applied is None:
            self._refuse(resource, target.name, causes)
            return rec
        obj = self._updated_fields(target, current, obj, options, applied)
        if obj == current and not causes:
            return rec
        obj = objects.stored(target.route, obj)
        if resource.plural == "pods" and not target.subresource:
            obj = _tolerated(obj)
        review = self.admission.review(target, "UPDATE", target.name, options)
        obj = await self.admission.mutate(review, obj, rec.obj, options)
        if resource.generation and not target.subresource and _substance(obj, rec.obj):
            generation = rec.obj["metadata"].get("generation", 0) + 1
            obj = {**obj, "metadata": {**obj["metadata"], "generation": generation}}
        causes += changeable_causes(obj["metadata"])
        if resource.plural == "pods" and not target.subresource:
            causes += podrules.update_causes(rec.obj, obj)
        self._refuse(resource, target.name, causes)
        await self.admission.validate(review, obj, rec.obj, options)
        if table.get(rec.namespace, rec.name) is not rec:
            return None
        if options.dry_run:
            return Rec(obj, rec.namespace, rec.name, rec.version)
        if _gone(rec.obj["metadata"], obj["metadata"]):
            self.store.remove(table, rec)
            return Rec(obj, rec.namespace, rec.name, rec.version)
        return self.store.put(table, obj, rec)

    def _isolated(self, target: Target, current: Obj, wanted: Obj, options: Options) -> Obj:
        """What of the wanted object this endpoint may change; the rest stays as stored."""
        resource = target.route.resource
        old, meta = current["metadata"], wanted.get("metadata") or {}
        meta = objects.cleaned(meta)
        for key in (*objects.OWNED, "uid", "resourceVersion", "name", "namespace", "generateName"):
            if key in old:
                meta[key] = old[key]
            else:
                meta.pop(key, None)
        if meta == old:
            meta = old
        if target.subresource == "status":
            if resource.custom:
                meta = old
            elif "ownerReferences" in old or "ownerReferences" in meta:
                meta = {**meta, "ownerReferences": old.get("ownerReferences")}
                meta = {k: v for k, v in meta.items() if v is not None}
            obj = {**current, "metadata": meta}
            if wanted.get("status") is None:
                obj.pop("status", None)
            else:
                obj["status"] = wanted["status"]
            if resource.plural == "pods":
                qos = (current.get("status") or {}).get("qosClass")
                obj["status"] = {**(obj.get("status") or {}), "qosClass": qos}
        else:
            obj = objects.headed({**wanted, "metadata": meta}, resource.kind, current["apiVersion"])
            if resource.status:
                obj.pop("status", None)
                if "status" in current:
                    obj["status"] = current["status"]
            if resource.plural == "namespaces":
                obj["spec"] = current["spec"]
        if resource.custom:
            return self._shaped_update(target, obj, options)
        return kinds.typed(resource, obj)

    def _shaped_update(self, target: Target, obj: Obj, options: Options) -> Obj:
        obj, unknown, causes = schema.shape(obj, target.route.resource.schema)
        if unknown and options.field_validation == "Strict":
            names = ", ".join(f'unknown field "{path}"' for path in unknown)
            raise bad_request(f"strict decoding error: {names}")
        if options.field_validation == "Warn":
            options.warnings.extend(f'unknown field "{path}"' for path in unknown)
        self._refuse(target.route.resource, target.name, causes)
        return obj

    def _updated_fields(
        self,
        target: Target,
        current: Obj,
        obj: Obj,
        options: Options,
        applied: Callable[[], fields.Fields] | None,
    ) -> Obj:
        resource = target.route.resource
        parts = ("status", "metadata") if target.subresource == "status" else None
        base = kinds.baseline(resource) if parts is None else None
        old = fields.tracked(current, base, parts)
        new = fields.tracked(obj, base, parts)
        if parts is None and resource.status:
            old.pop("status", None)
            new.pop("status", None)
        entries = current["metadata"].get("managedFields") or []
        now = self.clock.now()
        if applied is None:
            after = managed.after_update(entries, old, new, options.writer(target), now)
        else:
            writer = options.writer(target, "Apply")
            after = managed.after_apply(entries, _restricted(applied(), target), writer, now)
        if after is entries:
            return obj
        meta = {**obj["metadata"], "managedFields": after}
        return {**obj, "metadata": {k: v for k, v in meta.items() if v != []}}


def _restricted(owned: fields.Fields, target: Target) -> fields.Fields:
    """What of an apply counts on this endpoint: status there, everything else here."""
    if target.subresource == "status":
        return {k: v for k, v in owned.items() if k == "f:status"}
    if target.route.resource.status:
        return {k: v for k, v in owned.items() if k != "f:status"}
    return owned


def _metadata_causes(old: Obj, new: Obj) -> list[Cause]:
    """Changes of metadata nobody may make; the server checks twice and says so twice."""
    found: list[Cause] = []
    for key in ("name", "namespace", "uid"):
        if new.get(key) and new[key] != old.get(key):
            text = "field is immutable"
            found.append(Cause.invalid(f"metadata.{key}", f'"{new[key]}"', text))
    if "deletionTimestamp" in old:
        before = old.get("finalizers") or []
        added = [f for f in new.get("finalizers") or () if f not in before]
        if added:
            names = ", ".join(f'"{name}"' for name in added)
            text = (
                "no new finalizers can be added if the object is being deleted, found new "
                f"finalizers []string{{{names}}}"
            )
            found.append(Cause.forbidden("metadata.finalizers", text))
    return [cause for cause in found for _ in range(2)]


def _tolerated(pod: Obj) -> Obj:
    tolerations = pod["spec"].get("tolerations") or []
    full = poddefaults.tolerated(tolerations)
    return pod if full is tolerations else {**pod, "spec": {**pod["spec"], "tolerations": full}}


def _substance(new: Obj, old: Obj) -> bool:
    """Whether anything but metadata and status differs."""
    skip = ("metadata", "status")
    keys = (new.keys() | old.keys()) - set(skip)
    return any(new.get(k) is not old.get(k) and new.get(k) != old.get(k) for k in keys)


def _gone(old: Obj, new: Obj) -> bool:
    """A deleted object whose grace is over goes with its last finalizer."""
    return (
        "deletionTimestamp" in old
        and not new.get("finalizers")
        and old.get("deletionGracePeriodSeconds") == 0
    )


__all__ = ["ApiError", "Writes"]
