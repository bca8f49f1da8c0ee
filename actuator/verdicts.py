"""Verdicts: what an answer of the API server means for the command that caused it.

Every answer has one name here (the words are those of `podgroup.log.outcomes`):

    200, 201        applied
    404             obsolete: the object is gone; but "not served" is retried (the version is found
                    out anew) and "not installed" is rejected
    409 conflict    retried: written in between, read again (a DELETE that met another uid is
                    distinguished by reading, in `podwrites` and `workloadwrites`)
    409 exists      decided where objects are created
    410             retried: read again
    422 on the uid  obsolete: the name belongs to another object now
    422 of a JSON patch without findings   retried: one of its tests failed, read again
    422, 400, 403, 405, 406, 413, 415      rejected: the same will be refused again
    500 because it is too large to store   rejected as 413: no retry helps
    401             retried, as the whole server: credentials are renewed meanwhile
    429             retried, as the whole server, not before Retry-After
    408, 500, 504   retried, not before Retry-After if there is one
    502, 503        retried, as the whole server
    no answer       retried, as the whole server unless others got one; it may have happened
    anything else   rejected

Invariant: `judge` is total, and only failures of the object itself count as attempts, trouble of
the whole server does not.
"""

from typing import Final

from msgspec import Struct

from actuator.replies import NOT_INSTALLED, NOT_SERVED, Reply
from podgroup.log.outcomes import TOO_LARGE, Status
from podgroup.model.commands import ObjectRef

MAX_MESSAGE: Final = 1000
"""Characters of a message in the log at most; servers can be long-winded about invalid objects."""

_TOO_LARGE_TO_STORE: Final = (
    "etcdserver: request is too large",
    "trying to send message larger than max",
)
"""How etcd (rpctypes.ErrRequestTooLarge) and the API server's client of it (gRPC, beyond 2 MiB) say
that an object is too large; the API server passes that on as a 500 without a reason."""
_PASSING: Final = frozenset({401, 408, 409, 410, 429, 500, 502, 503, 504})
_WHOLE_SERVER: Final = frozenset({0, 401, 429, 502, 503})


class Verdict(Struct, frozen=True, kw_only=True):
    """The outcome of one attempt, before it is given the attempt's numbers.

    `again` asks for another try at once: the object changed under our hands. `whole_server` means
    that the failure says nothing about this object. `retry_after_s` is the server's wish.
    """

    status: Status
    message: str
    http_status: int = 0
    uid: str = ""
    resource_version: str = ""
    again: bool = False
    whole_server: bool = False
    retry_after_s: float | None = None
    unchanged: bool = False
    """The object was as commanded already, so nothing was written."""


def applied(
    reply: Reply,
    message: str = "",
    *,
    uid: str = "",
    version: str = "",
    unchanged: bool = False,
) -> Verdict:
    """Return the verdict that the server has what the command wants, as `reply` shows.

    `uid` and `version` stand in where the answer holds no object (a DELETE may answer a Status).
    """
    return Verdict(
        status="applied",
        message=message or f"{reply.verb} {reply.path}",
        http_status=reply.status,
        uid=reply.uid or uid,
        resource_version=reply.resource_version or version,
        unchanged=unchanged,
    )


def obsolete(message: str, http_status: int = 404) -> Verdict:
    """Return that there is nothing left to write to."""
    return Verdict(status="obsolete", message=message, http_status=http_status)


def rejected(message: str, http_status: int = 0) -> Verdict:
    """Return the verdict that a repetition is pointless until something changes."""
    return Verdict(status="rejected", message=message[:MAX_MESSAGE], http_status=http_status)


def judge(reply: Reply) -> Verdict:
    """Return what `reply` means when nothing more is known about the command."""
    if reply.ok:
        return applied(reply)
    code = reply.status
    message = f"{reply.verb} {reply.path}: {_words(reply)}"[:MAX_MESSAGE]
    if too_large(reply):
        return rejected(message, TOO_LARGE)
    if code == 404 and reply.reason not in (NOT_INSTALLED, NOT_SERVED):
        return obsolete(message, code)
    if code == 422 and "metadata.uid" in reply.fields:
        return obsolete(message, code)
    changed = code in (409, 410) or _test_failed(reply)
    if code == 0 or code in _PASSING or changed or reply.reason == NOT_SERVED:
        return Verdict(
            status="retrying",
            message=message,
            http_status=code,
            again=changed,
            whole_server=code in _WHOLE_SERVER and not reply.alone,
            retry_after_s=reply.retry_after_s,
        )
    return rejected(message + _advice(code, reply), code)


def too_large(reply: Reply) -> bool:
    """Return whether an object was refused for its size, by the API server or by etcd behind it."""
    if reply.status == TOO_LARGE:
        return True
    return reply.status == 500 and any(text in reply.message for text in _TOO_LARGE_TO_STORE)


def gone_from(found: Reply, target: ObjectRef) -> Verdict | None:
    """Return a verdict if `target` cannot be worked on after this GET: gone, replaced, unreadable.

    A target without a uid is whatever bears its name.
    """
    if not found.ok:
        return judge(found)
    if target.uid and found.uid != target.uid:
        return obsolete(
            f"{found.path}: the name belongs to another object now "
            f"(uid {found.uid}, the decision was about {target.uid})",
            found.status,
        )
    return None


def _test_failed(reply: Reply) -> bool:
    # The server says neither which operation failed nor of which object; a webhook that refuses
    # with the same code does say what it was.
    return (
        reply.status == 422
        and reply.verb == "PATCH"
        and not reply.named
        and not reply.fields
        and "denied the request" not in reply.message
    )


def _words(reply: Reply) -> str:
    if reply.status == 0:
        return f"no answer ({reply.message})"
    return f"{reply.status} {reply.message or reply.reason or 'without a message'}"


def _advice(code: int, reply: Reply) -> str:
    if code == 403 and " cannot " in reply.message:
        return " (grant it to the actuator's service account)"
    return ""
