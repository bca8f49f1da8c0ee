"""Requests whose answers are read whole, against what a server or something in between may send."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from podgroup.runtime.kube_http import Broken, Connections

LENGTH = b"HTTP/1.1 200 OK\r\nRetry-After: 7\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n"
    b"3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nSum: 1\r\n\r\n"
)
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"


class Server:
    """Answers the n-th request it gets, on whatever connection, with the n-th of its answers.

    An answer of b"" closes the connection; so does one that ends with b"!", which is not sent.
    """

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []
        self.connections = 0
        self.serving: list[asyncio.Task[None] | None] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.serving.append(asyncio.current_task())
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while self.answers:
                head = await reader.readuntil(b"\r\n\r\n")
                size = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                self.requests.append(head + await reader.readexactly(int(size or 0)))
                answer = self.answers.pop(0)
                for byte in answer.removesuffix(b"!"):
                    writer.write(bytes([byte]))
                    await writer.drain()
                if not answer or answer.endswith(b"!"):
                    break
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def asking(server: Server) -> AsyncIterator[Connections]:
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    connections = Connections(f"http://127.0.0.1:{port}", True, None, "test", 5.0)
    try:
        yield connections
    finally:
        connections.close()
        listener.close()
        await asyncio.gather(*(one for one in server.serving if one is not None))


async def test_answers_are_whole_however_they_come_and_the_connection_is_kept() -> None:
    server = Server(
        LENGTH, CHUNKED, INTERIM + LENGTH, b"HTTP/1.1 204 No Content\r\n\r\n", CHUNKED, LENGTH
    )
    async with asking(server) as http:
        for status, body in ((200, b"hello"), (201, b"hello"), (200, b"hello"), (204, b"")):
            got, said, headers = await http.request("PATCH", "/a?b=c", {"X": "y"}, b"{}")
            assert (got, said) == (status, body)
            assert headers.get("retry-after") == ("7" if status == 200 else None)
        await asyncio.gather(*(http.request("GET", "/", {}, None) for _ in range(2)))
    assert server.connections == 2, "one, and another for two requests at once"
    first = server.requests[0]
    assert first.startswith(b"PATCH /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nX: y\r\nContent-Length: 2\r\n\r\n{}" in first


async def test_a_body_that_ends_with_its_connection_is_whole() -> None:
    server = Server(b"HTTP/1.1 200 OK\r\n\r\nall of it!", b"HTTP/1.0 404 No\r\n\r\n!")
    async with asking(server) as http:
        assert (await http.request("GET", "/", {}, None))[:2] == (200, b"all of it")
        assert (await http.request("GET", "/", {}, None))[:2] == (404, b"")
    assert server.connections == 2


async def test_only_what_may_be_repeated_is_when_a_kept_connection_turns_out_to_be_closed() -> None:
    server = Server(LENGTH, b"", LENGTH, b"", LENGTH)
    async with asking(server) as http:
        await http.request("GET", "/", {}, None)
        assert (await http.request("GET", "/", {}, None))[1] == b"hello"
        with pytest.raises(Broken, match="broke off"):
            await http.request("PATCH", "/", {}, b"{}")
        assert (await http.request("PATCH", "/", {}, b"{}"))[1] == b"hello"
    assert len(server.requests) == 5
    assert server.connections == 3


@pytest.mark.parametrize(
    "answer",
    [
        b"!",
        LENGTH[:-2] + b"!",
        CHUNKED[:-2] + b"!",
        b"SSH-2.0-OpenSSH\r\n\r\n!",
        b"HTTP/1.1 abc\r\n\r\n!",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n!",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n!",
    ],
)
async def test_half_an_answer_is_none(answer: bytes) -> None:
    async with asking(Server(answer, LENGTH)) as http:
        with pytest.raises(Broken):
            await http.request("PATCH", "/", {}, b"{}")
        assert (await http.request("PATCH", "/", {}, b"{}"))[1] == b"hello"


async def test_what_was_given_up_is_not_taken_for_the_next_answer() -> None:
    server = Server(LENGTH[:-1], LENGTH)
    async with asking(server) as http:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await http.request("GET", "/", {}, None)
        assert (await http.request("GET", "/", {}, None))[1] == b"hello"
    assert server.connections == 2


async def test_a_header_cannot_bring_another_one_along() -> None:
    async with asking(Server(LENGTH)) as http:
        with pytest.raises(Broken, match="line break"):
            await http.request("GET", "/", {"Authorization": "Bearer a\r\nX-Remote-User: b"}, None)
