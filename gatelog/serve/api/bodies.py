"""Bodies of requests: only trials have them.

Invariant: a body is bounded in size and in time.
"""

import asyncio

from aiohttp import web

from gatelog.serve.api.status import Refused

MOST_BYTES = 256 * 1024
"""Size of a body."""
_WITHIN_S = 5.0


async def body_of(request: web.Request) -> bytes:
    """Return the body of a request.

    Raises:
        Refused: 413, it is larger than `MOST_BYTES`; 408, it does not come.
    """
    found = b""
    try:
        async with asyncio.timeout(_WITHIN_S):
            async for part in request.content.iter_any():
                found += part
                if len(found) > MOST_BYTES:
                    raise Refused(
                        413, f"the body is larger than {MOST_BYTES} bytes: leave objects out"
                    )
    except TimeoutError:
        raise Refused(408, f"the body did not arrive within {_WITHIN_S:g} s") from None
    return found
