"""Replies: an answer of the API server, or its absence, as a value.

Theory. Objects and Status answers share a few fields; those are all a verdict needs, so a reply is
read with one shallow decode, and the object only on demand.

Invariant: `read` never raises, whatever the body is.
"""

from typing import Any, Final

import msgspec
from msgspec import Struct

from runtime.kube_answer import HttpAnswer

NOT_INSTALLED: Final = "NotInstalled"
"""Reason of a `Reply` made up here: the cluster has no Workloads at any version we know."""
NOT_SERVED: Final = "NotServed"
"""Reason of a `Reply`: the path was not served, and the version will be found out anew."""


class _Meta(Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class _Cause(Struct):
    field: str = ""


class _Details(Struct, rename="camel"):
    name: str = ""
    causes: tuple[_Cause, ...] = ()
    retry_after_seconds: float | None = None


class _Answered(Struct):
    """The parts that objects and Status answers have, as far as they matter."""

    kind: str = ""
    metadata: _Meta | None = None
    message: str = ""
    reason: str = ""
    details: _Details | None = None


_answered: Final = msgspec.json.Decoder(_Answered)
_objects: Final = msgspec.json.Decoder(dict[str, Any])


class Reply(Struct, frozen=True, kw_only=True):
    """The result of one request; `status` 0 means that no answer came.

    `uid` and `resource_version` are of the object in the answer, "" without an object; `fields` are
    the paths the server complains about. `named`: a failure names an object; the 404 of a path that
    is not served does not. `alone`: this request got no answer while others did.
    """

    verb: str
    path: str
    status: int
    body: bytes = b""
    uid: str = ""
    resource_version: str = ""
    reason: str = ""
    message: str = ""
    fields: tuple[str, ...] = ()
    retry_after_s: float | None = None
    named: bool = False
    alone: bool = False

    @property
    def ok(self) -> bool:
        """Accepted."""
        return 200 <= self.status < 300

    @property
    def there_already(self) -> bool:
        """Nothing was created, since an object of that name is there."""
        return self.reason == "AlreadyExists"

    def object(self) -> dict[str, Any]:
        """Decode the object in the body.

        Raises:
            msgspec.MsgspecError: the body is no JSON object.
        """
        return _objects.decode(self.body)


def read(verb: str, path: str, answer: HttpAnswer) -> Reply:
    """Take out of an answer what a verdict needs; a body that is no JSON is its own message."""
    retry_after_s = _seconds(answer.headers.get("Retry-After"))
    try:
        seen = _answered.decode(answer.body)
    except msgspec.MsgspecError:
        text = answer.body[:200].decode(errors="replace").strip()
        return Reply(
            verb=verb,
            path=path,
            status=answer.status,
            body=answer.body,
            message=text,
            retry_after_s=retry_after_s,
        )
    meta = seen.metadata or _Meta()
    details = seen.details or _Details()
    failed = seen.kind == "Status" and answer.status >= 400
    if retry_after_s is None and failed:
        retry_after_s = details.retry_after_seconds
    return Reply(
        verb=verb,
        path=path,
        status=answer.status,
        body=answer.body,
        uid=meta.uid,
        resource_version=meta.resource_version,
        reason=seen.reason if failed else "",
        message=seen.message if failed else "",
        fields=tuple(cause.field for cause in details.causes) if failed else (),
        retry_after_s=retry_after_s,
        named=bool(details.name),
    )


def _seconds(text: str | None) -> float | None:
    """Read Retry-After in its form in seconds; a date (which no API server sends) is ignored."""
    return float(text) if text is not None and text.isdigit() else None
