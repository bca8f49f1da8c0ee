"""A request to the API, parsed: verb, kind, namespace, name, subresource, parameters.

Theory: paths follow "Resource URIs" of the Kubernetes API concepts; the same resolved form is
used for dispatch, admission, faults and statistics.

Invariant: ``resolve`` either returns a path whose route is served, or raises ``NotServed``.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from simcluster.access import ADMIN, User
from simcluster.errors import ApiError, NotServed, Obj, bad_request
from simcluster.managed import Writer
from simcluster.resources import Catalogue, Route

_SUBRESOURCES = frozenset({"status", "binding", "eviction", "resize", "log"})


class Target(msgspec.Struct, frozen=True):
    """The target that a path names."""

    route: Route
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def plural(self) -> str:
        """The resource's plural."""
        return self.route.resource.plural


class Options(msgspec.Struct, kw_only=True):
    """Parameters of a write; ``warnings`` collects texts for the Warning header."""

    manager: str = "unknown"
    dry_run: bool = False
    force: bool = False
    applying: bool = False
    field_validation: str = "Warn"
    user: User = ADMIN
    warnings: list[str] = msgspec.field(default_factory=list)

    def writer(self, target: Target, operation: str = "Update") -> Writer:
        """The manager that managedFields will name."""
        sub = target.subresource if target.subresource in ("status", "resize") else ""
        return Writer(self.manager, target.route.api_version, sub, operation)


def resolve(catalogue: Catalogue, path: str) -> Target:
    """The object or collection a path names. Raises ``NotServed``."""
    parts = path.strip("/").split("/")
    match parts:
        case ["api", "v1", *rest]:
            group, version = "", "v1"
        case ["apis", group, version, *rest]:
            pass
        case _:
            raise NotServed(path)
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) >= 3 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    if not rest or len(rest) > 3:
        raise NotServed(path)
    route = catalogue.routes.get((group, version, rest[0]))
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if route is None or not _fits(route, namespace, name, subresource):
        raise NotServed(path)
    return Target(route, namespace, name, subresource)


def _fits(route: Route, namespace: str, name: str, subresource: str) -> bool:
    resource = route.resource
    if not resource.namespaced and namespace:
        return False
    if resource.namespaced and name and not namespace:
        return False
    if subresource == "status":
        return route.has_status
    if subresource:
        return resource.key == ("", "pods") and subresource in _SUBRESOURCES
    return True


def options(query: Mapping[str, str], user_agent: str) -> Options:
    """Write options from query parameters. Raises 400 and 422 for values the server refuses."""
    dry = query.get("dryRun", "")
    if dry not in ("", "All"):
        text = f'Unsupported value: "{dry}": supported values: "All"'
        raise ApiError(422, "Invalid", f' "" is invalid: dryRun: {text}', {})
    manager = query.get("fieldManager") or user_agent.split("/", 1)[0][:128] or "unknown"
    return Options(
        manager=manager,
        dry_run=dry == "All",
        force=query.get("force") in ("true", "1"),
        field_validation=query.get("fieldValidation") or "Warn",
    )


def integer(query: Mapping[str, str], name: str) -> int:
    """A non-negative integer parameter; 0 when absent. Raises 400."""
    text = query.get(name, "")
    if not text:
        return 0
    if not text.isdigit():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def flag(query: Mapping[str, str], name: str) -> bool:
    """A boolean parameter."""
    return query.get(name, "").lower() in ("1", "true", "t")


def body_object(body: bytes, kind: str) -> Obj:
    """The JSON object of a body. Raises 400 with the server's words."""
    try:
        found: Any = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        shown = body[:200].decode(errors="replace")
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind}): couldn't get "
            f"version/kind; json parse error: {error} ({shown})"
        ) from None
    if not isinstance(found, dict):
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind}): couldn't get "
            "version/kind; json parse error: cannot unmarshal into Go value of type struct"
        )
    return found
