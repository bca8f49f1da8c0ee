"""Questions to the JetStream API: JSON over request and reply, without nats-py's own layer.

Invariant: an answer that says "not now" (no leader, no quorum) is `BusUnavailable`, every other
refusal is `ApiRefused` with the server's numeric code; codes decide, never the texts of errors.
"""

from typing import Any

import msgspec

from runtime.jetstream.connection import Connection
from runtime.jetstream.values import BusError

NO_MESSAGE_FOUND = 10037
STREAM_NOT_FOUND = 10059
CONSUMER_NOT_FOUND = 10014
# JSClusterNotAvail, JSClusterNotLeader, JSInsufficientResources, JSStreamOffline.
_NOT_NOW = frozenset((10008, 10009, 10023, 10118))


class ApiError(msgspec.Struct):
    """An error answer of the JetStream API."""

    code: int = 0
    err_code: int = 0
    description: str = ""


class ApiRefused(BusError):
    """The JetStream API said no; `error` says why."""

    def __init__(self, subject: str, error: ApiError) -> None:
        super().__init__(f"{subject}: {error.description} (error {error.err_code})")
        self.error = error


class _Answer(msgspec.Struct):
    error: ApiError | None = None


AGAIN_S = 1.0
"""Seconds of silence after which a question is sent again."""

_answers = msgspec.json.Decoder(_Answer)


async def ask(
    connection: Connection,
    subject: str,
    body: dict[str, Any] | None = None,
    timeout_s: float = 5.0,
) -> bytes:
    """As `api`, for a question that may be asked twice: sent again every second until an answer.

    While a stream of several copies elects a leader (4 to 9 s) no server hears a question about it,
    and the new leader does not get it later: a question sent once waits for the whole timeout.
    """
    return await api(connection, subject, body, timeout_s, again_s=AGAIN_S)


async def api(
    connection: Connection,
    subject: str,
    body: dict[str, Any] | None = None,
    timeout_s: float = 5.0,
    *,
    again_s: float | None = None,
) -> bytes:
    """Ask the JetStream API at `$JS.API.<subject>` and return the raw answer; `again_s` as in
    `Connection.request`.

    Raises:
        ApiRefused: an error answer.
        BusUnavailable: no answer; also when JetStream is not enabled on the server.
    """
    payload = msgspec.json.encode(body) if body is not None else b""
    answer = await connection.request(
        f"$JS.API.{subject}", payload, timeout_s=timeout_s, again_s=again_s
    )
    error = _answers.decode(answer).error
    if error is None:
        return answer
    if error.code == 503 or error.err_code in _NOT_NOW:
        raise connection.unavailable(f"{subject}: {error.description}")
    raise ApiRefused(subject, error)
