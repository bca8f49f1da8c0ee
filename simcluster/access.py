"""Authentication and authorisation: users by their tokens, and stored roles.

Theory: the API server authorises every request by RBAC objects, and answers the same question about
a user for clients such as extension servers (SubjectAccessReview, TokenReview). Both go through
``Access.allowed`` here. The token of the settings is an administrator's (``system:masters``), for
whom nothing is looked up.

Invariant: nothing is cached: a binding that was made or deleted counts for the next request.
"""

from collections.abc import Iterable, Iterator

import msgspec

from simcluster.errors import ApiError, Obj, qualified
from simcluster.store import Store

_RBAC = "rbac.authorization.k8s.io"
_MASTERS = "system:masters"
_DISCOVERY = ("/api", "/apis", "/openapi", "/version", "/healthz", "/livez", "/readyz")
_AUTHENTICATED = "system:authenticated"


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A user with a token."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: dict[str, list[str]] = {}


def user_info(user: User) -> Obj:
    """A user as admission and reviews show it."""
    return {
        "username": user.name,
        "uid": user.uid or user.name,
        "groups": [*user.groups, _AUTHENTICATED],
    }


ADMIN = User(name="sim-admin", groups=(_MASTERS,))
"""The user of the settings' token."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One question: a verb on a resource, or on a path (``path`` is set then)."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full(self) -> str:
        """``pods/status``."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Check(Asked, frozen=True, kw_only=True):
    """A question put together bit by bit: what policies know as ``authorizer``."""

    access: "Access"
    user: User
    verb: str = ""

    def allowed(self) -> bool:
        """The answer."""
        return self.access.allowed(self.user, self)


class Access:
    """RBAC over a store, and users by token."""

    def __init__(self, store: Store, token: str, users: dict[str, User]) -> None:
        self._store = store
        self._users = {f"Bearer {key}": user for key, user in users.items()}
        self._users[f"Bearer {token}"] = ADMIN

    def user(self, authorization: str) -> User | None:
        """The user of an Authorization header."""
        return self._users.get(authorization)

    def token_review(self, spec: Obj) -> Obj:
        """Status of a TokenReview."""
        user = self.user(f"Bearer {spec.get('token') or ''}")
        if user is None:
            return {"authenticated": False, "error": "invalid bearer token"}
        groups = [*user.groups, _AUTHENTICATED]
        shown: Obj = {"username": user.name, "groups": groups}
        if user.uid:
            shown["uid"] = user.uid
        if user.extra:
            shown["extra"] = user.extra
        return {"authenticated": True, "user": shown}

    def subject_review(self, spec: Obj) -> Obj:
        """Status of a SubjectAccessReview. Raises 422 where neither question is asked."""
        user = User(name=spec.get("user") or "", groups=tuple(spec.get("groups") or ()))
        return {"allowed": self.allowed(user, _question(spec))}

    def self_review(self, user: User, spec: Obj) -> Obj:
        """Status of a SelfSubjectAccessReview."""
        return {"allowed": _MASTERS in user.groups or self.allowed(user, _question(spec))}

    def refuse(self, user: User, asked: Asked) -> None:
        """Raise 403 in the server's words unless a user may do it."""
        if _MASTERS in user.groups or self.allowed(user, asked):
            return
        if asked.path:
            text = f'forbidden: User "{user.name}" cannot {asked.verb} path "{asked.path}"'
            raise ApiError(403, "Forbidden", text, {})
        where = f' in the namespace "{asked.namespace}"' if asked.namespace else ""
        where = where or " at the cluster scope"
        named = f' "{asked.name}"' if asked.name else ""
        text = (
            f"{qualified(asked.resource, asked.group)}{named} is forbidden: "
            f'User "{user.name}" cannot {asked.verb} resource "{asked.full}" '
            f'in API group "{asked.group}"{where}'
        )
        block: Obj = {"name": asked.name} if asked.name else {}
        block |= {"group": asked.group, "kind": asked.resource}
        raise ApiError(403, "Forbidden", text, block)

    def allowed(self, user: User, asked: Asked) -> bool:
        """Whether a role that is bound to a user or one of its groups allows a request."""
        if _MASTERS in user.groups:
            return True
        if asked.path:
            return asked.verb == "get" and asked.path.startswith(_DISCOVERY)
        return any(_covers(rule, asked) for rule in self._rules(user, asked.namespace))

    def _rules(self, user: User, namespace: str) -> Iterator[Obj]:
        for binding in self._objects("clusterrolebindings", ""):
            if _names(binding, user):
                yield from self._of(binding, "")
        if not namespace:
            return
        for binding in self._objects("rolebindings", namespace):
            if _names(binding, user):
                yield from self._of(binding, namespace)

    def _of(self, binding: Obj, namespace: str) -> Iterable[Obj]:
        role = binding.get("roleRef") or {}
        if role.get("kind") == "Role":
            found = self._get("roles", namespace, role.get("name") or "")
        else:
            found = self._get("clusterroles", "", role.get("name") or "")
        return found.get("rules") or () if found else ()

    def _objects(self, plural: str, namespace: str) -> list[Obj]:
        table = self._store.tables.get((_RBAC, plural))
        return [] if table is None else [rec.obj for rec in table.iterate(namespace)]

    def _get(self, plural: str, namespace: str, name: str) -> Obj | None:
        table = self._store.tables.get((_RBAC, plural))
        rec = None if table is None else table.get(namespace, name)
        return None if rec is None else rec.obj


def _question(spec: Obj) -> Asked:
    given = spec.get("resourceAttributes")
    if given is not None:
        return Asked(
            verb=given.get("verb") or "",
            group=given.get("group") or "",
            resource=given.get("resource") or "",
            subresource=given.get("subresource") or "",
            namespace=given.get("namespace") or "",
            name=given.get("name") or "",
        )
    path = spec.get("nonResourceAttributes")
    if path is None:
        text = "spec.resourceAttributes: Invalid value: exactly one of nonResourceAttributes or "
        raise ApiError(422, "Invalid", text + "resourceAttributes must be specified", {})
    return Asked(verb=path.get("verb") or "", path=path.get("path") or "/")


def _names(binding: Obj, user: User) -> bool:
    groups = {*user.groups, _AUTHENTICATED}
    for subject in binding.get("subjects") or ():
        kind, name = subject.get("kind"), subject.get("name") or ""
        if kind == "ServiceAccount":
            name = f"system:serviceaccount:{subject.get('namespace') or ''}:{name}"
        if (name in groups) if kind == "Group" else (name == user.name):
            return True
    return False


def _covers(rule: Obj, asked: Asked) -> bool:
    def has(key: str, *values: str) -> bool:
        found = rule.get(key) or ()
        return "*" in found or any(value in found for value in values)

    names = rule.get("resourceNames") or ()
    return (
        has("verbs", asked.verb)
        and has("apiGroups", asked.group)
        and has("resources", asked.full, *([f"*/{asked.subresource}"] if asked.subresource else []))
        and (not names or asked.name in names)
    )
