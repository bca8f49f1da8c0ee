"""The kinds a server serves, as data.

Theory: how a kind behaves (is it namespaced, does it keep a generation, does DELETE answer the
object, may a PUT create it) is a handful of facts per kind; the request code reads these facts and
has no branches per kind.

Invariant: a ``Resource`` is immutable; installing or removing a custom kind replaces entries of
the ``Catalogue`` and nothing else.
"""

from collections.abc import Iterable

import msgspec

from simcluster.errors import Obj

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """One kind. ``versions[0]`` is the stored version.

    With ``status`` it has a subresource of that name, but not at the versions in ``whole``: there a
    new object keeps the status it brings.
    """

    group: str
    versions: tuple[str, ...] = ("v1",)
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    status: bool = False
    whole: tuple[str, ...] = ()
    custom: bool = False
    generation: bool = False
    returns_object: bool = False
    graceful: bool = False
    unconditional: bool = True
    create_on_update: bool = False
    typed_parts: tuple[str, ...] = ("spec", "status")
    schema: dict[str, object] | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Where its objects are stored."""
        return (self.group, self.plural)

    def api_version(self, version: str | None = None) -> str:
        """``v1`` or ``apps/v1``; the stored version by default."""
        chosen = version or self.versions[0]
        return f"{self.group}/{chosen}" if self.group else chosen

    @property
    def list_kind(self) -> str:
        """Kind of a list of these."""
        return f"{self.kind}List"


class Route(msgspec.Struct, frozen=True):
    """A resource as one group and version serve it."""

    resource: Resource
    group: str
    version: str

    @property
    def api_version(self) -> str:
        """What ``apiVersion`` says in objects on this route."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def has_status(self) -> bool:
        """Whether the status is a subresource here."""
        return self.resource.status and self.version not in self.resource.whole

    @property
    def foreign(self) -> bool:
        """Whether objects must be converted between storage and this route."""
        return (self.group, self.version) != (self.resource.group, self.resource.versions[0])


class Catalogue:
    """All kinds served now."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self.resources: dict[tuple[str, str], Resource] = {}
        self.routes: dict[tuple[str, str, str], Route] = {}
        for resource in resources:
            self.install(resource)

    def install(self, resource: Resource) -> None:
        """Serve a kind in all its versions (again: replaces the facts)."""
        self.resources[resource.key] = resource
        for version in resource.versions:
            key = (resource.group, version, resource.plural)
            self.routes[key] = Route(resource, resource.group, version)
        if resource.key == ("", "events"):
            # The same objects under a second group (events.k8s.io/v1).
            self.routes["events.k8s.io", "v1", "events"] = Route(resource, "events.k8s.io", "v1")

    def remove(self, key: tuple[str, str]) -> None:
        """Stop serving a kind."""
        self.resources.pop(key, None)
        self.routes = {k: r for k, r in self.routes.items() if r.resource.key != key}

    def groups(self) -> dict[str, list[str]]:
        """Group to its versions, in order of appearance."""
        found: dict[str, list[str]] = {}
        for group, version, _ in self.routes:
            versions = found.setdefault(group, [])
            if version not in versions:
                versions.append(version)
        return found

    def discovery(self, group: str, version: str) -> Obj | None:
        """``APIResourceList`` of one group and version; ``None`` if it is not served."""
        routes = [r for r in self.routes.values() if (r.group, r.version) == (group, version)]
        extra = _VIRTUAL.get((group, version), [])
        if not routes and not extra:
            return None
        found: list[Obj] = [*extra]
        for route in sorted(routes, key=lambda r: r.resource.plural):
            found.extend(_entries(route))
        body: Obj = {"kind": "APIResourceList"}
        if group:
            body["apiVersion"] = "v1"
        body["groupVersion"] = f"{group}/{version}" if group else version
        body["resources"] = found
        return body


def _entries(route: Route) -> list[Obj]:
    resource = route.resource
    entry: Obj = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(CUSTOM_VERBS if resource.custom else VERBS),
    }
    if resource.plural == "namespaces":
        entry["verbs"] = [verb for verb in VERBS if verb != "deletecollection"]
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    found = [entry]
    subresources = (
        [("status", resource.kind, ["get", "patch", "update"])] if route.has_status else []
    )
    if resource.key == ("", "pods"):
        subresources = [
            ("binding", "Binding", ["create"]),
            ("eviction", "Eviction", ["create"]),
            ("log", "Pod", ["get"]),
            ("resize", "Pod", ["get", "patch", "update"]),
            *subresources,
        ]
    for name, kind, verbs in subresources:
        sub: Obj = {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": kind,
            "verbs": verbs,
        }
        if name == "eviction":
            sub |= {"group": "policy", "version": "v1"}
        found.append(sub)
    return found


def _review(plural: str, kind: str) -> Obj:
    singular = kind.lower()
    return {
        "name": plural,
        "singularName": singular,
        "namespaced": False,
        "kind": kind,
        "verbs": ["create"],
    }


_VIRTUAL: dict[tuple[str, str], list[Obj]] = {
    ("authentication.k8s.io", "v1"): [_review("tokenreviews", "TokenReview")],
    ("authorization.k8s.io", "v1"): [
        _review("selfsubjectaccessreviews", "SelfSubjectAccessReview"),
        _review("subjectaccessreviews", "SubjectAccessReview"),
    ],
}
