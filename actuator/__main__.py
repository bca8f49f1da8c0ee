"""`python -m actuator`: the actuator as a process of its own; settings as everywhere.

Invariant: nothing but reading settings and starting `run_actuator` happens here.
"""

import asyncio

from actuator.bootstrap import run_actuator
from podgroup.runtime.health import Checks, serve_health
from podgroup.runtime.log import configure
from podgroup.runtime.service import run
from podgroup.runtime.settings_source import load


def main() -> None:
    """Run until a signal says stop."""

    async def serve(stop: asyncio.Event) -> None:
        settings = load()
        configure(settings.log)
        checks = Checks()
        async with serve_health(settings.health, checks):
            await run_actuator(settings, stop, checks=checks)

    run(serve, name="actuator")


if __name__ == "__main__":
    main()
