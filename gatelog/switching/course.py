"""The course that every switch takes: look, prepare, ask for an apply, finish, look again.

Theory. What runs belongs to the chart, the overlay or the user of `gatelog up`, and is changed
there: a command that patched deployments would be undone by the next apply. So a switch has two
halves, with that change between them, and the same command for both: it looks where the switch
stands. Before the change it checks what the new way needs and prepares it; after it, it takes away
what the old way left and checks that the new one works.

Invariant: what the old way needs goes only after the new way is in place, and nothing is written
with `dry`.
"""

from collections.abc import Callable
from typing import Protocol

from gatelog.shell.errors import CommandFailed

Tell = Callable[[str], None]


class Switch(Protocol):
    """One switch to one of its two ways; every method raises CommandFailed with what to do."""

    @property
    def how(self) -> str:
        """What to apply so that the new way is in place."""

    @property
    def back(self) -> str:
        """How to go back."""

    async def in_place(self) -> bool:
        """Tell whether the new way was applied."""

    async def before(self, tell: Tell) -> None:
        """Check what the new way needs, whether it is in place already or not."""

    async def prepare(self, tell: Tell, *, dry: bool) -> None:
        """Make the cluster ready for the change."""

    async def finish(self, tell: Tell, *, dry: bool) -> None:
        """Take away what the old way left."""

    async def after(self, tell: Tell) -> None:
        """Check that the new way works, and alone."""


async def carry_out(switch: Switch, tell: Tell, *, dry: bool) -> None:
    """Take a switch as far as it can be taken now.

    Raises:
        CommandFailed: a check failed, or the new way has to be applied first.
    """
    there = await switch.in_place()
    await switch.before(lambda line: tell(f"before: {line}"))
    if not there:
        await switch.prepare(lambda line: tell(_said(line, dry)), dry=dry)
        tell(f"next: {switch.how}")
        tell(f"back: {switch.back}")
        if dry:
            return
        raise CommandFailed(
            "not switched yet: the checks before are passed; do what is after next:, then run "
            "the same command again"
        )
    await switch.finish(lambda line: tell(_said(line, dry)), dry=dry)
    if not dry:
        await switch.after(lambda line: tell(f"after: {line}"))
    tell(f"back: {switch.back}")


def _said(line: str, dry: bool) -> str:
    return f"would have {line}" if dry else line
