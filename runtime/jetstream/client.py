"""Making one nats-py client, used once; see `connection` for why.

Invariant: what is returned is connected, logged in, and talks to a server that is recent enough;
otherwise the class of the error separates lasting reasons (login, version) from passing ones.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from nats.aio.client import Client

from runtime.jetstream.options import client_options, shown_url
from runtime.jetstream.values import LoginRefused, ServerTooOld
from runtime.settings import NatsSettings

LEAST_VERSION = (2, 12, 3)


async def open_client(
    client: Client,
    settings: NatsSettings,
    name: str,
    on_error: Callable[[Exception], Awaitable[None]],
    on_closed: Callable[[], Awaitable[None]],
) -> None:
    """Connect a new client; when this raises, it is closed.

    Raises:
        LoginRefused, ServerTooOld: reasons that last.
        nats.errors.Error, OSError, TimeoutError, BusError: passing reasons, or a file that the
            settings name and that is not there (yet).
    """
    complaints: list[str] = []

    async def note(error: Exception) -> None:
        complaints.append(str(error))
        await on_error(error)

    try:
        async with asyncio.timeout(settings.connect_timeout_s):
            options = client_options(settings, name)
            await client.connect(error_cb=note, closed_cb=on_closed, **options)
    except BaseException as error:
        await close_client(client)
        # The library reports a refused login through the callback, then "no servers".
        text = " ".join([*complaints, str(error)]).lower()
        if "authorization" in text or "authentication" in text:
            raise LoginRefused(
                f"NATS server {shown_url(settings)} refuses our login: check nats.user, "
                "nats.password_file, nats.credentials or nats.nkey_seed"
            ) from error
        raise
    found = client.connected_server_version
    if (found.major, found.minor, found.patch) < LEAST_VERSION:
        await close_client(client)
        raise ServerTooOld(
            f"NATS server {shown_url(settings)} is version {found.major}.{found.minor}."
            f"{found.patch}; gatelog needs {'.'.join(map(str, LEAST_VERSION))} or later, because "
            "older ones can lose acknowledged messages (nats-server#7545)"
        )


async def close_client(client: Client) -> None:
    """Close in any state; never raises, never waits longer than 2 s."""
    with suppress(Exception):
        async with asyncio.timeout(2.0):
            await client.close()
    # A client that failed while it closed itself leaves the tasks of its subscriptions behind.
    for subscription in list(client._subs.values()):
        subscription._stop_processing()
    client._subs.clear()
