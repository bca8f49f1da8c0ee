"""Answers as the bytes that go out: status line, headers, body.

Theory: an answer is made once and written whole; the parts that all answers share are made once,
and the Date once a second.

Invariant: every answer says its length, or is a chunked stream that ``END`` ends.
"""

import time
from collections.abc import Mapping
from email.utils import formatdate
from http import HTTPStatus

JSON = b"application/json"
PLAIN = b"text/plain; charset=utf-8"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


class _Heads:
    """The beginning of an answer by status and type, with the present second's date."""

    def __init__(self) -> None:
        self._second = 0
        self._made: dict[tuple[int, bytes], bytes] = {}

    def get(self, status: int, kind: bytes) -> bytes:
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._made.clear()
        found = self._made.get((status, kind))
        if found is None:
            phrase = HTTPStatus(status).phrase if status in _STATUSES else "Unknown"
            date = formatdate(second, usegmt=True)
            head = f"HTTP/1.1 {status} {phrase}\r\nDate: {date}\r\nContent-Type: "
            found = head.encode() + kind + b"\r\nContent-Length: "
            self._made[status, kind] = found
        return found


_STATUSES = frozenset(HTTPStatus)
_heads = _Heads()


def reply(
    status: int,
    body: bytes,
    kind: bytes = JSON,
    headers: Mapping[str, str] | None = None,
    warnings: list[str] | None = None,
) -> bytes:
    """A whole answer; each warning becomes a header of its own (RFC 7234, code 299)."""
    head = b"%b%d\r\n" % (_heads.get(status, kind), len(body))
    if headers or warnings:
        more = [f"{name}: {value}\r\n" for name, value in (headers or {}).items()]
        for text in warnings or ():
            quoted = text.replace("\\", "\\\\").replace('"', '\\"')
            more.append(f'Warning: 299 - "{quoted}"\r\n')
        head += "".join(more).encode()
    return b"%b\r\n%b" % (head, body)


def closing(answer: bytes) -> bytes:
    """The answer with a word that it is the connection's last."""
    head, _, rest = answer.partition(b"\r\n")
    return head + b"\r\nConnection: close\r\n" + rest


def headers_only(answer: bytes) -> bytes:
    """What HEAD is answered."""
    return answer[: answer.index(b"\r\n\r\n") + 4]
