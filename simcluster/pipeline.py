"""The shared base of creates and updates: the store, the clock, schemas, refusals.

Theory: a write pipeline is a base with the parts every write needs, on which ``creates`` and
``writes`` build; this module stores nothing.

Invariant: every refusal here has the causes that the server would name.
"""

import random

from simcluster import podfields, schema
from simcluster.admission import AdmissionChain
from simcluster.errors import Cause, Obj, bad_request, invalid, not_found
from simcluster.objects import Clock
from simcluster.requests import Options, Target
from simcluster.resources import Resource
from simcluster.store import Rec, Store, Table


class Pipeline:
    """Common ground of all writes over one store."""

    def __init__(self, store: Store, admission: AdmissionChain, seed: int) -> None:
        self.store = store
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

    def shaped(
        self, resource: Resource, obj: Obj, options: Options, current: Obj | None = None
    ) -> Obj:
        """An object by its schema: pruned, and for custom kinds defaulted and checked.

        ``current``: the stored object, whose unchanged parts an update shares.
        """
        causes: list[Cause] = []
        if resource.custom:
            if current is not None:
                version = int(current["metadata"]["resourceVersion"])
                current = current if version > self.store.table(resource).defined else None
            obj, unknown, causes = schema.shape(obj, resource.schema, current)
        elif resource.plural == "pods":
            obj, unknown = podfields.pruned(obj)
        else:
            return obj
        if unknown and options.field_validation == "Strict":
            names = ", ".join(f'unknown field "{path}"' for path in unknown)
            raise bad_request(f"strict decoding error: {names}")
        if options.field_validation == "Warn":
            options.warnings.extend(f'unknown field "{path}"' for path in unknown)
        self.refuse(resource, obj["metadata"].get("name") or "", causes)
        return obj

    def refuse(self, resource: Resource, name: str, causes: list[Cause]) -> None:
        """Raise 422 if there are findings."""
        if causes:
            raise invalid(resource.kind, resource.group, name, causes)
