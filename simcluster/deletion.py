"""Deleting objects: grace periods, finalizers, preconditions, propagation.

Theory: a deletion is at most two writes. The first marks (deletionTimestamp, grace) when a grace
period or finalizers must be waited for; the second removes. A pod that was never bound has no
grace: it is marked and removed in one request, and watchers see both.

Invariant: an object with finalizers, or with grace left, is never removed here.
"""

import asyncio
import calendar
import time
from typing import Any

import msgspec

from simcluster import objects
from simcluster.errors import ApiError, Obj, bad_request, conflict, forbidden, status_success
from simcluster.requests import Options, Target
from simcluster.store import Rec
from simcluster.writes import Writes

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_PROTECTED = ("default", "kube-system", "kube-public")


class DeleteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a DELETE, or its query parameters."""

    grace_s: int | None = None
    uid: str | None = None
    version: str | None = None
    propagation: str = ""
    dry_run: bool = False

    def as_object(self, grace_s: int | None) -> Obj:
        """As an admission webhook sees it, with the grace period decided."""
        found: Obj = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
        if grace_s is not None:
            found["gracePeriodSeconds"] = grace_s
        conditions = {"uid": self.uid, "resourceVersion": self.version}
        if any(conditions.values()):
            found["preconditions"] = {k: v for k, v in conditions.items() if v}
        if self.propagation:
            found["propagationPolicy"] = self.propagation
        return found


def parse(body: bytes, query: dict[str, str]) -> DeleteOptions:
    """Options from body and query. Raises 400."""
    given: Any = {}
    if body.strip():
        try:
            given = msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(given, dict):
        raise bad_request("json: cannot unmarshal into Go value of type v1.DeleteOptions")
    grace = given.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    conditions = given.get("preconditions") or {}
    return DeleteOptions(
        grace_s=None if grace is None else int(grace),
        uid=conditions.get("uid"),
        version=conditions.get("resourceVersion"),
        propagation=given.get("propagationPolicy") or query.get("propagationPolicy") or "",
        dry_run=bool(given.get("dryRun") or query.get("dryRun")),
    )


class Deletions:
    """Deletes through the same store and admission as writes."""

    def __init__(self, writes: Writes) -> None:
        self.writes = writes

    async def delete(self, target: Target, asked: DeleteOptions, options: Options) -> Rec | Obj:
        """Delete one object: the object, or a ``Status``, as the kind answers.

        Raises 404, 409 (preconditions) and what webhooks say.
        """
        writes = self.writes
        while True:
            rec = writes.existing(target)
            _check(target, rec, asked)
            grace = _grace(target, rec.obj, asked)
            review = writes.admission.review(target, "DELETE", target.name, options)
            review = {**review, "options": asked.as_object(grace)}
            await writes.admission.validate(review, None, rec.obj, options)
            if writes.table(target).get(rec.namespace, rec.name) is rec:
                return self._now(target, rec, asked, grace)

    async def insist(self, target: Target, asked: DeleteOptions, options: Options) -> None:
        """Delete as a controller does: again where the server failed; any other answer ends it."""
        while True:
            try:
                await self.delete(target, asked, options)
            except ApiError as error:
                if error.code >= 500:
                    await asyncio.sleep(0.05)
                    continue
            return

    def _now(self, target: Target, rec: Rec, asked: DeleteOptions, grace: int | None) -> Rec | Obj:
        """The synchronous part: mark, remove, or leave alone."""
        table, store = self.writes.table(target), self.writes.store
        if target.route.resource.key == ("", "namespaces"):
            return self._namespace(rec, asked)
        meta = dict(rec.obj["metadata"])
        finalizers = _finalizers(meta, asked)
        pending = bool(finalizers)
        changed = self._mark(meta, grace, pending)
        if finalizers != (meta.get("finalizers") or []):
            meta["finalizers"] = finalizers
            meta = {k: v for k, v in meta.items() if v != []}
            changed = True
        if asked.dry_run:
            marked = Rec({**rec.obj, "metadata": meta}, rec.namespace, rec.name, rec.version)
            return self._answer(target, marked, removed=not pending and not grace)
        if changed and (pending or grace is not None):
            rec = store.put(table, {**rec.obj, "metadata": meta}, rec)
        if pending or (meta.get("deletionGracePeriodSeconds") or 0) > 0:
            return rec
        return self._answer(target, store.remove(table, rec), removed=True)

    def _mark(self, meta: Obj, grace: int | None, pending: bool) -> bool:
        """Set or shorten the deletion; whether anything changed."""
        if grace is None and not pending:
            return False
        wanted = grace or 0
        old = meta.get("deletionGracePeriodSeconds")
        if "deletionTimestamp" in meta:
            if old is None or wanted >= old:
                return False
            began = calendar.timegm(time.strptime(meta["deletionTimestamp"], "%Y-%m-%dT%H:%M:%SZ"))
            stamp = time.gmtime(began - _wrapped(old) + _wrapped(wanted))
            meta["deletionTimestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", stamp)
        else:
            meta["deletionTimestamp"] = self.writes.clock.now(_wrapped(wanted))
            if "generation" in meta:
                meta["generation"] += 1
        meta["deletionGracePeriodSeconds"] = wanted
        return True

    def _namespace(self, rec: Rec, asked: DeleteOptions) -> Rec:
        if rec.name in _PROTECTED:
            raise forbidden("namespaces", "", rec.name, "this namespace may not be deleted")
        if "deletionTimestamp" in rec.obj["metadata"]:
            return rec
        meta = {**rec.obj["metadata"], "deletionTimestamp": self.writes.clock.now()}
        obj = {**rec.obj, "metadata": meta, "status": {"phase": "Terminating"}}
        if asked.dry_run:
            return Rec(obj, "", rec.name, rec.version)
        return self.writes.store.put(self.writes.store.tables["", "namespaces"], obj, rec)

    def _answer(self, target: Target, rec: Rec, *, removed: bool) -> Rec | Obj:
        resource = target.route.resource
        if resource.returns_object or not removed:
            return rec
        block: Obj = {"name": rec.name, "kind": resource.plural, "uid": rec.uid}
        if target.route.group:
            block = {"name": rec.name, "group": target.route.group, **block}
        return status_success(block)

    def remove_empty_namespace(self, rec: Rec) -> None:
        """Last step of a namespace's deletion: the object itself."""
        store = self.writes.store
        table = store.tables["", "namespaces"]
        obj = {**rec.obj, "spec": {}}
        store.remove(table, store.put(table, obj, rec))


def _wrapped(seconds: int) -> int:
    """Return seconds as Go adds them: as nanoseconds in 64 bits, so 292 years on is 1734."""
    return ((seconds * 10**9 + 2**63) % 2**64 - 2**63) // 10**9


def _check(target: Target, rec: Rec, asked: DeleteOptions) -> None:
    resource, meta = target.route.resource, rec.obj["metadata"]
    if asked.uid is not None and asked.uid != meta["uid"]:
        why = (
            f"the UID in the precondition ({asked.uid}) does not match the UID in record "
            f"({meta['uid']}). The object might have been deleted and then recreated"
        )
        raise conflict(resource.kind, resource.group, rec.name, why)
    if asked.version is not None and asked.version != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({asked.version}) does not match the "
            f"ResourceVersion in record ({meta['resourceVersion']}). The object might have "
            "been modified"
        )
        raise conflict(resource.kind, resource.group, rec.name, why)


def _grace(target: Target, obj: Obj, asked: DeleteOptions) -> int | None:
    """Seconds of grace for kinds that have it; ``None`` for the others."""
    if not target.route.resource.graceful:
        return None
    spec, meta = obj["spec"], obj["metadata"]
    grace = asked.grace_s
    if "deletionTimestamp" in meta and grace is None:
        return int(meta.get("deletionGracePeriodSeconds") or 0)
    if grace is None:
        grace = spec.get("terminationGracePeriodSeconds", 30)
    phase = (obj.get("status") or {}).get("phase")
    if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    return 1 if grace < 0 else int(grace)


def _finalizers(meta: Obj, asked: DeleteOptions) -> list[str]:
    """Finalizers, with the propagation policy's added or taken away."""
    found = list(meta.get("finalizers") or ())
    if not asked.propagation:
        return found
    found = [f for f in found if f not in (ORPHAN, FOREGROUND)]
    match asked.propagation:
        case "Orphan":
            found.append(ORPHAN)
        case "Foreground":
            found.append(FOREGROUND)
        case "Background":
            pass
        case other:
            raise bad_request(f'invalid propagationPolicy "{other}"')
    return found


__all__ = ["DeleteOptions", "Deletions", "objects", "parse"]
