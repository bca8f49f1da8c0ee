"""`python -m projector`: the projector as a process of its own; settings as everywhere.

Invariant: nothing but reading settings and starting `run_projector` happens here.
"""

import asyncio

from podgroup.runtime.health import Checks, serve_health
from podgroup.runtime.log import configure
from podgroup.runtime.service import run
from podgroup.runtime.settings_source import load
from projector.bootstrap import run_projector


def main() -> None:
    """Run until a signal says stop."""

    async def serve(stop: asyncio.Event) -> None:
        settings = load()
        configure(settings.log)
        checks = Checks()
        async with serve_health(settings.health, checks):
            await run_projector(settings, stop, checks=checks)

    run(serve, name="projector")


if __name__ == "__main__":
    main()
