"""Updating objects: the second half of the server's write pipeline.

Theory: an update computes the wanted object from the stored one, keeps what the endpoint may not
touch, and passes field management, webhooks and validation. Between reading and storing webhooks
may be awaited; if the object changed meanwhile the whole update is repeated on the new value, as
the server does.

Invariant: the stored object is still the one the update was computed from when it is replaced.
"""

from collections.abc import Callable

import msgspec

from simcluster import fields, kinds, managed, objects, poddefaults, podrules, workloadrules
from simcluster.creates import Creates
from simcluster.errors import Cause, Obj, conflict, invalid
from simcluster.managed import Applied, Writer
from simcluster.names import changeable_causes
from simcluster.requests import Options, Target
from simcluster.resizing import resize_causes, resized
from simcluster.store import Rec

ATTEMPTS = 5
_KEPT = (*objects.OWNED, "uid", "resourceVersion", "name", "namespace", "generateName")
Mutate = Callable[[Obj], Obj]


class Writes(Creates):
    """Creates and updates objects."""

    async def update(
        self,
        target: Target,
        mutate: Mutate,
        options: Options,
        *,
        replace: bool = False,
        applied: Callable[[], Applied] | None = None,
    ) -> Rec:
        """Change an object by ``mutate`` (its view to the wanted view).

        ``replace``: the wanted view came whole from a client (PUT). ``applied``: after ``mutate``
        ran, what a server-side apply means for ownership. Raises what ``mutate`` raises, 404,
        409, 422.
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

    def status(self, key: tuple[str, str], rec: Rec, status: Obj, writer: Writer) -> Rec:
        """Replace a status as a component of the cluster does: only where it differs."""
        old = rec.obj
        if old.get("status") == status:
            return rec
        meta = old["metadata"]
        if entries := meta.get("managedFields"):
            entries = managed.after_update(
                entries,
                fields.tracked(old, None, ("status",)),
                fields.tracked({**old, "status": status}, None, ("status",)),
                writer,
                self.clock.now(),
            )
            meta = {**meta, "managedFields": entries}
        obj = {**old, "metadata": meta, "status": status}
        return self.store.put(self.store.tables[key], obj, rec)

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
        applied: Callable[[], Applied] | None,
    ) -> Rec | None:
        """Carry one attempt through; ``None`` when the object changed under it."""
        resource, table = target.route.resource, self.table(target)
        causes = _metadata_causes(current["metadata"], wanted.get("metadata") or {})
        obj = self._isolated(target, current, wanted, options)
        if obj == current and applied is None:
            self.refuse(resource, target.name, causes)
            return rec
        obj = self._updated_fields(target, current, obj, options, applied)
        if obj == current and not causes:
            return rec
        obj = objects.stored(target.route, obj)
        if resource.plural == "pods" and not target.subresource:
            obj = _tolerated(obj)
        review = self.admission.review(target, "UPDATE", target.name, options)
        obj = await self.admission.mutate(review, obj, rec.obj, options)
        if resource.generation and target.subresource != "status" and _substance(obj, rec.obj):
            generation = rec.obj["metadata"].get("generation", 0) + 1
            obj = {**obj, "metadata": {**obj["metadata"], "generation": generation}}
        causes += changeable_causes(obj["metadata"], rec.obj["metadata"])
        if resource.kind == "Workload" and resource.group == "kueue.x-k8s.io":
            kueue = not self.store.table(resource).defined
            causes += workloadrules.update_causes(rec.obj, obj, kueue=kueue)
        if resource.plural == "pods" and not target.subresource:
            causes += podrules.update_causes(rec.obj, obj)
        if target.subresource == "resize":
            causes += resize_causes(rec.obj, obj)
        self.refuse(resource, target.name, causes)
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
        """The wanted object with changes that this endpoint may make; the rest stays as stored."""
        resource = target.route.resource
        old, meta = current["metadata"], wanted.get("metadata") or {}
        if not target.subresource and managed.cleared(meta) and "managedFields" in old:
            old = {key: value for key, value in old.items() if key != "managedFields"}
        if meta is not old:
            meta = objects.cleaned(meta, old)
            for key in _KEPT:
                if key in old:
                    meta[key] = old[key]
                else:
                    meta.pop(key, None)
            if meta == old:
                meta = old
        if target.subresource == "resize":
            return self.shaped(resource, resized(current, wanted), options, current)
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
        return kinds.typed(resource, self.shaped(resource, obj, options, current))

    def _updated_fields(
        self,
        target: Target,
        current: Obj,
        obj: Obj,
        options: Options,
        applied: Callable[[], Applied] | None,
    ) -> Obj:
        resource = target.route.resource
        entries = obj["metadata"].get("managedFields") or []
        if applied is None and not entries:
            return obj  # no manager's fields are tracked any more
        parts = ("status", "metadata") if target.subresource == "status" else None
        base = kinds.baseline(resource) if parts is None else None
        old = fields.tracked(current, base, parts)
        new = fields.tracked(obj, base, parts)
        if parts is None and resource.status:
            old.pop("status", None)
            new.pop("status", None)
        now = self.clock.now()
        if applied is None:
            after = managed.after_update(entries, old, new, options.writer(target), now)
        else:
            writer = options.writer(target, "Apply")
            if not entries:
                first = msgspec.structs.replace(
                    options.writer(target), manager=managed.BEFORE_FIRST_APPLY
                )
                entries = managed.after_update([], {}, old, first, now)
            counted = _restricted(applied(), target)
            after = managed.after_apply(entries, counted, writer, now)
        if after is obj["metadata"].get("managedFields"):
            return obj
        meta = {**obj["metadata"], "managedFields": after}
        return {**obj, "metadata": {k: v for k, v in meta.items() if v != []}}


def _restricted(applied: Applied, target: Target) -> Applied:
    """The part of an apply that counts on this endpoint: status there, all other fields here."""
    if target.subresource == "status":
        return applied.restricted(lambda key: key == "f:status")
    if target.route.resource.status:
        return applied.restricted(lambda key: key != "f:status")
    return applied


def _metadata_causes(old: Obj, new: Obj) -> list[Cause]:
    """Changes of metadata that are never allowed; the server checks twice and says so twice."""
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
    """Whether a deleted object whose grace is over goes, as its last finalizer did."""
    return (
        "deletionTimestamp" in old
        and not new.get("finalizers")
        and old.get("deletionGracePeriodSeconds") == 0
    )
