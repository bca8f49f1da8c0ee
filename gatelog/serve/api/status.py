"""Refusals as the API server words them.

Invariant: every refusal is a complete `v1 Status` whose message is a sentence for a person.
"""

from typing import Any

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    410: "Expired",
    413: "RequestEntityTooLarge",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Refused(Exception):
    """A request that is answered with a Status; `code` is the HTTP status."""

    def __init__(self, code: int, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    @property
    def body(self) -> dict[str, Any]:
        """The Status object."""
        found: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": _REASONS.get(self.code, "Unknown"),
        }
        if self.details:
            found["details"] = self.details
        found["code"] = self.code
        return found


def not_found(group: str, plural: str, name: str) -> Refused:
    """404 for an object."""
    details = {"name": name, "group": group, "kind": plural}
    return Refused(404, f'{plural}.{group} "{name}" not found', details)


def bad(message: str) -> Refused:
    """400."""
    return Refused(400, message)
