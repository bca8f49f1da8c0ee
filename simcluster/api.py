"""The verbs of the API on one target: what a request does and what it answers.

Theory: HTTP has been taken apart (``requests``); here a verb meets the store through the write
pipeline, lists and deletions, and the answer becomes bytes. Watches are opened here and pumped by
the server.

Invariant: every method either answers or raises ``ApiError``; none writes to the connection.
"""

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from simcluster import lists, managed, objects
from simcluster.access import User, user_info
from simcluster.deletion import DeleteOptions, Deletions, parse
from simcluster.errors import (
    ApiError,
    Obj,
    bad_request,
    forbidden,
    not_found,
    status_success,
)
from simcluster.mutations import APPLY, apply_body, mutation
from simcluster.pods import PodWrites
from simcluster.requests import Options, Target, body_object, options
from simcluster.settings import Settings
from simcluster.store import Rec, Store
from simcluster.writes import Writes

_encode = msgspec.json.Encoder().encode

Answer = tuple[int, bytes]
Ask = Callable[[Obj], Obj]
"""Status of a review, from its spec."""


class Api:
    """Verbs over one store."""

    def __init__(
        self,
        store: Store,
        writes: Writes,
        deletions: Deletions,
        pods: PodWrites,
        settings: Settings,
    ) -> None:
        self.store = store
        self.writes = writes
        self.deletions = deletions
        self.pods = pods
        self.settings = settings
        self.logs: dict[tuple[str, str, str, bool], str] = {}
        """What containers have written, by namespace, pod, container, and whether before a
        restart; tests put it there."""

    async def get(self, target: Target, query: Mapping[str, str], as_metadata: bool) -> Answer:
        """Read one object. Raises 404, 504."""
        await self._reach(query)
        rec = self.writes.existing(target)
        if target.subresource == "log":
            return self._log(rec, query)
        if as_metadata:
            return 200, _encode(objects.partial(rec))
        return 200, objects.encoded(target.route, rec)

    def _log(self, rec: Rec, query: Mapping[str, str]) -> Answer:
        """Return the log of a pod's container. Raises 400 as the kubelet's API does."""
        names = [container["name"] for container in rec.obj["spec"]["containers"]]
        container = query.get("container") or names[0]
        if container not in names:
            text = f"container {container} is not valid for pod {rec.name}"
            raise bad_request(text)
        key = rec.namespace, rec.name, container, query.get("previous") == "true"
        if key[3] and key not in self.logs:
            raise bad_request(
                f'previous terminated container "{container}" in pod "{rec.name}" not found'
            )
        lines = self.logs.get(key, "").splitlines(keepends=True)
        tail = query.get("tailLines")
        return 200, "".join(lines[max(0, len(lines) - int(tail)) :] if tail else lines).encode()

    async def list(self, target: Target, query: Mapping[str, str], as_metadata: bool) -> Answer:
        """Read a collection. Raises 400, 410, 422, 504."""
        await self._reach(query)
        page = lists.page(self.store, target, query, self.settings.snapshots)
        return 200, lists.encoded(target, page, as_metadata)

    async def _reach(self, query: Mapping[str, str]) -> None:
        """Wait a little for a version of the future, then say it is too large."""
        version = lists.wanted_version(query)
        if not await self.reached(version):
            raise lists.too_large(version, self.store.version)

    async def reached(self, version: int) -> bool:
        """Wait a little for a version; return whether the store has reached it."""
        ends = asyncio.get_running_loop().time() + self.settings.future_version_wait_s
        while version > self.store.version:
            if asyncio.get_running_loop().time() >= ends:
                return False
            await asyncio.sleep(0.02)
        return True

    async def create(self, target: Target, body: bytes, options: Options) -> Answer:
        """POST to a collection or to a pod's subresource."""
        if target.subresource:
            return await self._pod_action(target, body, options)
        if target.name:
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method")
        given = body_object(body, target.route.resource.kind)
        rec = await self.writes.create(target, given, options)
        return 201, objects.encoded(target.route, rec)

    async def _pod_action(self, target: Target, body: bytes, options: Options) -> Answer:
        given = body_object(body, target.subresource.title())
        pod = Target(target.route, target.namespace, target.name)
        if target.subresource == "binding":
            node = (given.get("target") or {}).get("name") or ""
            self.pods.bind(self.writes.existing(pod), node)
        elif target.subresource == "eviction":
            raw = _encode(given.get("deleteOptions") or {})
            await self.deletions.delete(pod, parse(raw, {}), options)
        else:
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method")
        return 201, _encode(status_success(code=201))

    async def replace(self, target: Target, body: bytes, options: Options) -> Answer:
        """PUT an object. Raises 400, 404, 409, 422."""
        resource = target.route.resource
        given = body_object(body, resource.kind)
        meta = given.get("metadata") or {}
        name = meta.get("name") or target.name
        if name != target.name:
            raise bad_request(
                f"the name of the object ({name}) does not match the name on the URL "
                f"({target.name})"
            )
        if given.get("kind", resource.kind) != resource.kind:
            raise bad_request(
                f"the object provided is unrecognized (must be of type {resource.kind})"
            )
        missing = self.writes.table(target).get(target.namespace, target.name) is None
        if missing and resource.create_on_update and not meta.get("uid"):
            fresh = {**given, "metadata": {**meta, "name": name, "resourceVersion": ""}}
            rec = await self.writes.create(target, fresh, options)
            return 201, objects.encoded(target.route, rec)
        rec = await self.writes.update(target, lambda _: given, options, replace=True)
        return 200, objects.encoded(target.route, rec)

    async def patch(
        self, target: Target, content_type: str, body: bytes, options: Options
    ) -> Answer:
        """PATCH an object in one of four ways. Raises 400, 404, 409, 415, 422."""
        if content_type == APPLY:
            return await self._apply(target, body, options)
        mutate = mutation(content_type, body, custom=target.route.resource.custom)
        rec = await self.writes.update(target, mutate, options)
        return 200, objects.encoded(target.route, rec)

    async def _apply(self, target: Target, body: bytes, options: Options) -> Answer:
        sent = apply_body(body)
        resource = target.route.resource
        if sent.get("kind") != resource.kind:
            raise bad_request(f"invalid object type: {sent.get('apiVersion')}/{sent.get('kind')}")
        writer = options.writer(target, "Apply")
        table = self.writes.table(target)
        if table.get(target.namespace, target.name) is None:
            if target.subresource:
                raise not_found(target.plural, target.route.group, target.name)
            given = {**sent, "metadata": {**(sent.get("metadata") or {}), "name": target.name}}
            options.applying = True
            rec = await self.writes.create(target, given, options)
            return 201, objects.encoded(target.route, rec)
        applied = managed.Applied({}, {})

        def mutate(current: Obj) -> Obj:
            nonlocal applied
            merged, applied = managed.apply(current, sent, writer, options.force)
            claims = {
                key: value
                for key, value in (sent.get("metadata") or {}).items()
                if key in ("uid", "resourceVersion") and value
            }
            return {**merged, "metadata": {**merged["metadata"], **claims}}

        rec = await self.writes.update(target, mutate, options, applied=lambda: applied)
        return 200, objects.encoded(target.route, rec)

    async def delete(
        self, target: Target, body: bytes, query: Mapping[str, str], user: User
    ) -> Answer:
        """DELETE one object."""
        asked = parse(body, dict(query))
        options = Options(dry_run=asked.dry_run, user=user)
        done = await self.deletions.delete(target, asked, options)
        if isinstance(done, Rec):
            return 200, objects.encoded(target.route, done)
        return 200, _encode(done)

    async def delete_collection(
        self, target: Target, body: bytes, query: Mapping[str, str], user: User
    ) -> Answer:
        """DELETE everything a list with the same parameters would return; answers that list."""
        asked = parse(body, dict(query))
        selecting = {k: v for k, v in query.items() if k in ("labelSelector", "fieldSelector")}
        if target.plural == "namespaces":
            raise forbidden("namespaces", "", "", "deletecollection is not supported")
        page = lists.page(self.store, target, selecting, self.settings.snapshots)
        answer = lists.encoded(target, page, False)
        for rec in page.items:
            one = Target(target.route, rec.namespace, rec.name)
            single = DeleteOptions(
                grace_s=asked.grace_s,
                uid=rec.uid,
                propagation=asked.propagation,
                dry_run=asked.dry_run,
            )
            try:
                options = Options(dry_run=asked.dry_run, user=user)
                await self.deletions.delete(one, single, options)
            except ApiError as error:
                if error.code != 404:
                    raise
        return 200, answer

    def review(self, kind: str, version: str, body: bytes, user_agent: str, status: Ask) -> Answer:
        """Answer a review: its spec, with the status that `status` gives for it."""
        spec = body_object(body, kind).get("spec") or {}
        writer = managed.Writer(options({}, user_agent).manager, version)
        entries = managed.after_update(
            [], {"spec": {}}, {"spec": spec}, writer, self.writes.clock.now()
        )
        answer: Obj = {
            "kind": kind,
            "apiVersion": version,
            "metadata": {"managedFields": entries},
            "spec": spec,
            "status": status(spec),
        }
        return 201, _encode(answer)

    def subject_review(self, user: User) -> Answer:
        """SelfSubjectReview: the user that sent the request."""
        answer: Obj = {
            "kind": "SelfSubjectReview",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"creationTimestamp": self.writes.clock.now()},
            "status": {"userInfo": user_info(user)},
        }
        return 201, _encode(answer)
