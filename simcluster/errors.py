"""Failures as the API server words them: one exception that carries a ``Status`` object.

Theory: a controller decides by ``code`` and ``reason``, people read ``message``; all three follow
the recorded answers of Kubernetes 1.36, so a wrong reading of an error shows up here and not first
in a real cluster.

Invariant: every failure that leaves the server is an ``ApiError``; its ``body`` is a complete
``v1 Status``.
"""

from collections.abc import Sequence
from typing import Any

Obj = dict[str, Any]

MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


_SENT_AT_MOST = 2 * 1024 * 1024
"""Bytes that the API server's client of etcd sends at once."""


class ApiError(Exception):
    """An answer that is not a success; ``headers`` go out with it."""

    def __init__(
        self,
        code: int,
        reason: str | None,
        message: str,
        details: Obj | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers or {}
        self.continue_token = ""

    @property
    def body(self) -> Obj:
        """The ``Status`` object; an expired list also says how to go on without consistency."""
        found = status_failure(self.code, self.reason, self.message, self.details)
        if self.continue_token:
            found["metadata"] = {"continue": self.continue_token}
        return found


class NotServed(Exception):
    """The path belongs to nothing the server knows: plain text 404."""


def status_failure(code: int, reason: str | None, message: str, details: Obj | None = None) -> Obj:
    """A ``Status`` of a failure; ``details`` and ``reason`` are left out when absent."""
    body: Obj = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
    }
    if reason is not None:
        body["reason"] = reason
    if details is not None:
        body["details"] = details
    body["code"] = code
    return body


def status_success(details: Obj | None = None, code: int | None = None) -> Obj:
    """A ``Status`` of a success, as binding and most deletions answer."""
    body: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        body["details"] = details
    if code is not None:
        body["code"] = code
    return body


def qualified(plural: str, group: str) -> str:
    """``leases.coordination.k8s.io``, or the bare name in the core group."""
    return f"{plural}.{group}" if group else plural


def details(name: str, group: str, kind: str) -> Obj:
    """The details block: name, group (not for core), kind."""
    found: Obj = {"name": name}
    if group:
        found["group"] = group
    found["kind"] = kind
    return found


def not_found(plural: str, group: str, name: str) -> ApiError:
    """404 for an object."""
    text = f'{qualified(plural, group)} "{name}" not found'
    return ApiError(404, "NotFound", text, details(name, group, plural))


def already_exists(plural: str, group: str, name: str) -> ApiError:
    """409 for a create of a name that is taken."""
    text = f'{qualified(plural, group)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", text, details(name, group, plural))


def conflict(kind: str, group: str, name: str, why: str = MODIFIED) -> ApiError:
    """409 with reason Conflict; ``kind`` is the plural, or the Kind for failed preconditions."""
    text = f'Operation cannot be fulfilled on {qualified(kind, group)} "{name}": {why}'
    return ApiError(409, "Conflict", text, details(name, group, kind))


def bad_request(message: str) -> ApiError:
    """400."""
    return ApiError(400, "BadRequest", message)


def forbidden(
    plural: str, group: str, name: str, why: str, causes: list[Obj] | None = None
) -> ApiError:
    """403 as admission plugins word it."""
    block = details(name, group, plural)
    if causes:
        block["causes"] = causes
    return ApiError(
        403, "Forbidden", f'{qualified(plural, group)} "{name}" is forbidden: {why}', block
    )


def not_stored(size: int) -> ApiError:
    """The error for an object that etcd refuses: etcd's words, or those of its gRPC client.

    The API server passes them on as its own error, without a reason.
    """
    if size > _SENT_AT_MOST:
        desc = f"trying to send message larger than max ({size} vs. {_SENT_AT_MOST})"
        return ApiError(500, None, f"rpc error: code = ResourceExhausted desc = {desc}")
    return ApiError(500, None, "etcdserver: request is too large")


def expired(message: str) -> ApiError:
    """410: history does not reach back that far."""
    return ApiError(410, "Expired", message)


class Cause:
    """One finding of validation: field path, machine reason, text."""

    __slots__ = ("field", "message", "reason")

    def __init__(self, field: str, reason: str, message: str) -> None:
        self.field = field
        self.reason = reason
        self.message = message

    @staticmethod
    def required(field: str, text: str = "") -> "Cause":
        """A value is missing."""
        return Cause(field, "FieldValueRequired", f"Required value{': ' + text if text else ''}")

    @staticmethod
    def invalid(field: str, shown: str, text: str) -> "Cause":
        """A value is wrong; ``shown`` is the value as Go prints it."""
        return Cause(field, "FieldValueInvalid", f"Invalid value: {shown}: {text}")

    @staticmethod
    def forbidden(field: str, text: str) -> "Cause":
        """A value may not be there or may not change."""
        return Cause(field, "FieldValueForbidden", f"Forbidden: {text}")

    @staticmethod
    def duplicate(field: str, shown: str) -> "Cause":
        """A value occurs twice in a set."""
        return Cause(field, "FieldValueDuplicate", f"Duplicate value: {shown}")

    @staticmethod
    def unsupported(field: str, shown: str, allowed: Sequence[str]) -> "Cause":
        """A value is not one of an enumeration."""
        names = ", ".join(f'"{name}"' for name in allowed)
        return Cause(
            field,
            "FieldValueNotSupported",
            f"Unsupported value: {shown}: supported values: {names}",
        )


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> ApiError:
    """422; the message names each distinct finding once, the causes keep repetitions."""
    lines = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    text = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    block = details(name, group, kind)
    block["causes"] = [
        {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes
    ]
    return ApiError(422, "Invalid", f'{qualified(kind, group)} "{name}" is invalid: {text}', block)
