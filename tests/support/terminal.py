"""A terminal before an installation of gatelog: lines that gatelog printed are typed there.

Theory. A printed line goes to a shell as it is. Doctor is asked until it prints the remedy of a
cause, or finds nothing that fails; it is asked where log and read model are (`part`), or where
there is a kubeconfig and nothing else (`laptop`).

Invariant: a line that fails is an error.
"""

import asyncio
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from gatelog.shell.remedies import Installation, commands, remedy
from tests.deploy import helm
from tests.support.forking import GATELOG
from tests.support.processes import Api

Finding = dict[str, str]
Place = Literal["laptop", "part"]
MOST_S = 60.0
"""Seconds within which it is well after the last line."""


def failing(printed: str) -> list[Finding]:
    """Return the findings that failed, of those that `gatelog doctor --json` printed.

    Raises:
        ValueError: it printed something else.
    """
    return [one for one in json.loads(printed) if one["verdict"] == "fail"]


class Terminal:
    """A shell in `home` that has gatelog, and kubectl and helm if this machine has them."""

    at: Installation
    """The installation that lines are printed for."""
    seen_s = MOST_S
    """Seconds within which doctor names a cause."""

    def __init__(self, home: Path, env: dict[str, str], api: Api) -> None:
        tools = [tool for tool in (GATELOG, helm.kubectl(), helm.helm()) if tool is not None]
        path = ":".join([*(str(Path(tool).parent) for tool in tools), os.environ["PATH"]])
        self.home, self.env, self.api = home, env | {"HOME": str(home), "PATH": path}, api

    def type(self, line: str, stdin: str = "", timeout_s: float = 90) -> str:
        """Give a line to a shell; return what it prints."""
        done = self._shell(line, stdin, timeout_s)
        assert done.returncode == 0, f"{line}: {done.stderr or done.stdout}"
        return done.stdout

    def ways(self, cause: str, part: str = "") -> list[str]:
        """Return the lines that are printed for a cause."""
        return commands(remedy(cause, self.at, part))

    def doctor(self, place: Place) -> list[Finding]:
        """Return what fails, asked at a place; one finding of the command itself if it fails."""
        line = "gatelog doctor --json"
        done = self._shell(self.at.run(line) if place == "part" else line, "", 120)
        try:
            return failing(done.stdout[done.stdout.index("[") :])
        except ValueError:
            said = (done.stderr or done.stdout).strip()
            return [{"area": "doctor", "what": place, "detail": said, "remedy": ""}]

    async def until_printed(
        self, cause: str, part: str = "", *, place: Place = "part", detail: str = ""
    ) -> None:
        """Wait until doctor prints the remedy of a cause, for a finding that has `detail`."""
        wanted = remedy(cause, self.at, part)

        def so(found: list[Finding]) -> bool:
            return any(wanted in one["remedy"] and detail in one["detail"] for one in found)

        await self._until(f"doctor prints: {wanted}", so, place, self.seen_s)

    async def until_nothing_fails(self, timeout_s: float = MOST_S) -> None:
        """Wait until doctor finds nothing that fails."""
        await self._until("nothing fails", lambda found: not found, "part", timeout_s)

    async def _until(
        self, what: str, holds: Callable[[list[Finding]], bool], place: Place, timeout_s: float
    ) -> None:
        found: list[Finding] = []

        async def so() -> bool:
            found[:] = await asyncio.to_thread(self.doctor, place)
            return holds(found)

        try:
            await self.api.until(what, so, timeout_s)
        except AssertionError as error:
            said = "\n".join(f"{f['what']}: {f['detail']} -> {f['remedy']}" for f in found)
            raise AssertionError(f"{error}\nit says: {said}") from None

    def _shell(self, line: str, stdin: str, timeout_s: float) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["sh", "-c", line],
            env=self.env,
            cwd=self.home,
            check=False,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
