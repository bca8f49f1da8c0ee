"""Creating objects: the first half of the server's write pipeline.

Theory: defaults, field management, built-in admission, mutating webhooks, registry, validation,
validating webhooks, storage: in this order, because what managedFields say and what a webhook
sees depend on it.

Invariant: without webhooks a create runs without suspension, so it is atomic.
"""

from simcluster import fields, kinds, managed, objects, poddefaults
from simcluster.errors import Obj, already_exists, bad_request, forbidden, not_found
from simcluster.names import generated
from simcluster.pipeline import Pipeline
from simcluster.requests import Options, Target
from simcluster.store import Rec


class Creates(Pipeline):
    """Creates objects."""

    async def create(self, target: Target, given: Obj, options: Options) -> Rec:
        """Create an object. Raises 400, 403, 404, 409, 422."""
        obj = self._received(target, given, options)
        resource = target.route.resource
        self._open_namespace(target, obj)
        meta = obj["metadata"]
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = self._generated(target, meta["generateName"])
        obj = self.shaped(resource, obj, options) if resource.plural == "pods" else obj
        obj = kinds.defaulted(resource, obj)
        obj = self._customised(target, obj, options)
        obj = self._created_fields(target, obj, options)
        if resource.plural == "pods":
            obj = poddefaults.admitted(obj, self.priorities)
        obj = objects.stored(target.route, obj)
        review = self.admission.review(target, "CREATE", meta.get("name", ""), options)
        changed = await self.admission.mutate(review, obj, None, options)
        if changed is not obj:
            obj = {**changed, "metadata": objects.cleaned(changed["metadata"])}
            obj = kinds.defaulted(resource, obj) if resource.plural == "pods" else obj
        obj = kinds.registered(target.route, obj, self.clock.now())
        system: Obj = {"uid": objects.new_uid(), "creationTimestamp": self.clock.now()}
        if resource.generation:
            system["generation"] = 1
        obj = {**obj, "metadata": {**obj["metadata"], **system}}
        causes = kinds.create_causes(resource, obj, target.route.group == "events.k8s.io")
        self.refuse(resource, obj["metadata"].get("name") or "", causes)
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

    def _created_fields(self, target: Target, obj: Obj, options: Options) -> Obj:
        resource = target.route.resource
        base = kinds.baseline(resource)
        seen = {k: v for k, v in obj.items() if not (k == "status" and target.route.has_status)}
        old = fields.tracked({}, base, None)
        new = fields.tracked(seen, base, None)
        now = self.clock.now()
        if options.applying:
            owned = {k: v for k, v in fields.leaves(new, apply=True).items() if v}
            entries = managed.after_apply(
                [], managed.Applied(owned, {}), options.writer(target, "Apply"), now
            )
        else:
            entries = managed.after_update([], old, new, options.writer(target), now)
        if entries:
            obj = {**obj, "metadata": {**obj["metadata"], "managedFields": entries}}
        return obj

    def _customised(self, target: Target, obj: Obj, options: Options) -> Obj:
        """A custom object by its schema; a create never sets a status that has its endpoint."""
        resource = target.route.resource
        if not resource.custom:
            return obj
        obj = self.shaped(resource, obj, options)
        if target.route.has_status and "status" in obj:
            obj = {k: v for k, v in obj.items() if k != "status"}
        return obj
