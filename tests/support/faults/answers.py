"""An API server that answers with errors, ends watches or keeps them silent: the stand-in's levers.

Invariant: at the end no rule is in force and nothing is silent.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.processes import Api

_PATH = "/_sim/faults"


async def do(api: Api, **command: Any) -> None:
    """Do something once: `drop_watches`, `compact`, see `tests.support.standin.faults.Command`."""
    await api.call("POST", _PATH, command)


@asynccontextmanager
async def answering(api: Api, *rules: dict[str, Any], **command: Any) -> AsyncIterator[None]:
    """Put rules in force for a while, and do a command at its begin."""
    await do(api, rules=list(rules), **command)
    try:
        yield
    finally:
        await do(api, clear=True)


async def hits(api: Api) -> int:
    """How many requests the rules in force have hit."""
    return sum(rule["hits"] for rule in await api.call("GET", _PATH))
