"""Beginning to listen, or saying in one sentence why it cannot be.

Invariant: what is raised names the settings that chose the address.
"""

import os
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
            f"cannot listen on {host}:{port}: {why}; stop what listens there, or set "
            f"{section}.host or {section}.port"
        )


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

    site = web.TCPSite(
        runner,
        host,
        port,
        ssl_context=tls,
        backlog=backlog,
    )
    try:
        await site.start()
    except OSError as error:
        raise ListenError(section, host, port, error) from error
