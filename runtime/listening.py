"""Listening at an address, or an error that says in one sentence why not.

`::` is every address of the machine, of both families: a pod's probes and Services come by either.
A machine without IPv6 listens on `0.0.0.0` in its place.

Invariant: what is raised names the settings that chose the address.
"""

import os
import socket
import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp.web import AppRunner


class ListenError(OSError):
    """An address that cannot be listened on: taken, not ours, or not permitted."""

    def __init__(self, section: str, host: str, port: int, cause: OSError) -> None:
        code = cause.errno or 0
        why = os.strerror(code).lower() if code > 0 else cause.strerror or str(cause)
        super().__init__(
            f"cannot listen on {bracketed(host)}:{port}: {why}; stop what listens there, or set "
            f"{section}.host or {section}.port"
        )


EVERYWHERE = "::"


def bracketed(host: str) -> str:
    """Return a host in the form for `host:port`: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host


def bound(host: str, port: int, backlog: int) -> socket.socket:
    """Return a socket that listens at an address; port 0: any.

    Raises:
        OSError: it cannot be listened on.
    """
    both = host == EVERYWHERE and socket.has_dualstack_ipv6()
    host = "0.0.0.0" if host == EVERYWHERE and not both else host
    family = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0][0]
    return socket.create_server((host, port), family=family, backlog=backlog, dualstack_ipv6=both)


async def listen(
    runner: "AppRunner",
    section: str,
    host: str,
    port: int,
    *,
    tls: ssl.SSLContext | None = None,
    backlog: int = 128,
) -> None:
    """Serve `runner` at an address that `section` of the settings says.

    Raises:
        ListenError: it cannot be listened on.
    """
    from aiohttp import web

    try:
        if host == EVERYWHERE:
            listening = bound(host, port, backlog)
            site: web.BaseSite = web.SockSite(runner, listening, ssl_context=tls, backlog=backlog)
        else:
            site = web.TCPSite(runner, host, port, ssl_context=tls, backlog=backlog)
        await site.start()
    except OSError as error:
        raise ListenError(section, host, port, error) from error
