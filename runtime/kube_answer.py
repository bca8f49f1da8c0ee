"""What the API server answers: a whole body, or a watch as lines of bytes.

Invariant: a `Watch` yields complete items only; whatever cuts it short raises `KubeUnavailable`,
so that the end of iteration means that the server ended the watch properly.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

import aiohttp
import msgspec
from msgspec import Struct

from runtime.kube_errors import KubeForbidden, KubeUnavailable
from runtime.lines import LineSplitter, LineTooLong

MAX_LINE_BYTES = 8 * 1024 * 1024


class HttpAnswer(Protocol):
    """An HTTP answer, read completely, as `runtime.kube.KubeClient` gives it back."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def body(self) -> bytes:
        """The whole body, as it came."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers; look-up ignores case."""


class HttpClient(Protocol):
    """A client of the API server, such as `runtime.kube.KubeClient`."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_s: float | None = None,
    ) -> HttpAnswer:
        """Send a request and read the whole answer, whatever its status; raise only without an
        answer.
        """


class Answer(Struct, frozen=True):
    """An HTTP answer, whatever its status. `headers` compare without regard to case."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    def json(self) -> Any:
        """Return the decoded body, None if it is empty.

        Raises:
            msgspec.DecodeError: it is no JSON.
        """
        return msgspec.json.decode(self.body) if self.body else None

    def message(self) -> str:
        """Return the `message` of a Status in the body, else its first 200 characters."""
        try:
            status = msgspec.json.decode(self.body)
        except msgspec.DecodeError:
            status = None
        if isinstance(status, dict) and isinstance(status.get("message"), str):
            return str(status["message"])
        return self.body[:200].decode(errors="replace")


class Watch:
    """An open watch (or any answer read line by line). Made by `KubeClient.watch`."""

    def __init__(self, response: aiohttp.ClientResponse, idle_timeout_s: float) -> None:
        self._response = response
        self._idle_timeout_s = idle_timeout_s
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self) -> bytes:
        """Return the whole body: for a status that is not 200.

        Raises:
            KubeUnavailable: it does not come.
        """
        try:
            return await self._response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise KubeUnavailable(f"the answer was cut short: {words(error)}") from error

    async def batches(self) -> AsyncIterator[list[bytes]]:
        """Yield raw lines until the server ends the watch: as many at once as have arrived.

        Raises:
            KubeUnavailable: connection lost, silent beyond the idle timeout, or an oversized item;
                what came before it has been yielded.
        """
        splitter = LineSplitter(MAX_LINE_BYTES)
        try:
            async for chunk in self._response.content.iter_any():
                lines, failure = _complete(splitter, chunk)
                if lines:
                    yield lines
                if failure:
                    raise failure
        except TimeoutError as error:
            raise KubeUnavailable(
                f"watch silent for {self._idle_timeout_s} s: dead connection?"
            ) from error
        except LineTooLong as error:
            raise KubeUnavailable(f"watch sent {error}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise KubeUnavailable(f"watch cut off: {words(error)}") from error
        if splitter.rest:
            raise KubeUnavailable("watch cut off in the middle of an item")

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the lines of `batches` singly."""
        async for batch in self.batches():
            for line in batch:
                yield line

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Iterate over `lines`."""
        return self.lines()


def _complete(splitter: LineSplitter, chunk: bytes) -> tuple[list[bytes], LineTooLong | None]:
    lines: list[bytes] = []
    try:
        for line in splitter.feed(chunk):
            lines.append(line)
    except LineTooLong as error:
        return lines, error
    return lines, None


def forbidden(answer: Answer, path: str, verb: str) -> KubeForbidden:
    """Return the error for a 403 of a request that its caller cannot do without."""
    return KubeForbidden(path, verb, answer.message())


def words(error: BaseException) -> str:
    """Return an error in words; many of aiohttp's and the system's have no text."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
