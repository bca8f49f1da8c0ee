"""An operator at a terminal, before an installation that runs on nodes.

Theory. What is typed is a line that gatelog printed, given to a shell that has kubectl, helm and
gatelog; doctor is asked where an operator asks it: on a laptop that has a kubeconfig and nothing
else, and in the part that has log and read model.

Invariant: no line is typed that was not printed for this installation.
"""

import asyncio
import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any, Literal

from gatelog.cluster.installation import described
from gatelog.shell.remedies import commands, remedy
from tests.deploy import helm
from tests.node.conftest import Story
from tests.support.forking import GATELOG
from tests.support.realcluster import kubeconfig

Place = Literal["laptop", "part"]
Json = dict[str, Any]
OVERLAY = os.environ.get("GATELOG_TEST_OVERLAY", "")
"""The folder that was applied, where the installation is kustomize's."""
MOST_S = 60.0
"""Seconds within which it is well after the last line."""
SEEN_S = 100.0
"""Seconds within which doctor names a cause; alerts take a minute."""


class Operator:
    """See the module. `story` is the namespace of users whose pods tell whether it is well."""

    def __init__(self, home: Path, story: Story) -> None:
        tools = [str(Path(str(tool)).parent) for tool in (GATELOG, helm.kubectl(), helm.helm())]
        kept = {k: v for k, v in os.environ.items() if not k.startswith("GATELOG_")}
        path = ":".join([*tools, os.environ["PATH"]])
        self.env = kept | {"KUBECONFIG": str(kubeconfig()), "HOME": str(home), "PATH": path}
        self.home, self.story, self.pods = home, story, 0
        query = "-A -l app.kubernetes.io/name=gatelog -o json"
        found = json.loads(self._ran(f"kubectl get deployments,statefulsets {query}"))
        self.at = described(found["items"])
        """The installation that is there."""

    @property
    def standalone(self) -> bool:
        return self.at.profile == "standalone"

    def do(self, line: str, stdin: str = "", timeout_s: float = 120) -> str:
        """Do what breaks something, with kubectl for this installation's namespace as `k`."""
        return self._ran(
            line.replace("k ", f"kubectl -n {self.at.namespace} ", 1), stdin, timeout_s
        )

    def _ran(self, line: str, stdin: str = "", timeout_s: float = 120) -> str:
        done = subprocess.run(
            ["sh", "-c", line],
            env=self.env,
            cwd=self.home,
            check=False,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        assert done.returncode == 0, f"{line}: {done.stderr or done.stdout}"
        return done.stdout

    async def types(self, *lines: str, **names: str) -> None:
        """Type lines as they were printed, but for words in capitals, which are names."""
        known = {"COPY": OVERLAY} | names
        for line in lines:
            typed = re.sub("|".join(known), lambda found: known[found[0]], line)
            await asyncio.to_thread(self._ran, typed)

    def doctor(self, place: Place) -> list[dict[str, str]]:
        """Return what fails, asked at a place; one finding of the command itself if it fails."""
        line = "gatelog doctor --json"
        if place == "part":
            line = f"kubectl -n {self.at.namespace} exec {self.at.pod} -- {line}"
        done = subprocess.run(
            ["sh", "-c", line],
            env=self.env,
            cwd=self.home,
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        try:
            found = json.loads(done.stdout[done.stdout.index("[") :])
        except ValueError:
            said = (done.stderr or done.stdout).strip()
            return [{"area": "doctor", "what": place, "detail": said, "remedy": ""}]
        return [one for one in found if one["verdict"] == "fail"]

    def ways(self, cause: str, part: str = "") -> list[str]:
        """Return the lines that are printed for a cause here."""
        return commands(remedy(cause, self.at, part))

    async def told(self, cause: str, part: str = "", *, place: Place = "part") -> float:
        """Wait until doctor prints the remedy of a cause at a place; return seconds."""
        wanted, said, began = remedy(cause, self.at, part), [""], time.monotonic()

        async def so() -> bool:
            found = await asyncio.to_thread(self.doctor, place)
            said[0] = "\n".join(f"{f['what']}: {f['detail']} -> {f['remedy']}" for f in found)
            return any(wanted in one["remedy"] for one in found)

        try:
            await self.story.api.until(f"doctor prints: {wanted}", so, SEEN_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\nit says: {said[0]}") from None
        return time.monotonic() - began

    async def pod(self) -> str:
        self.pods += 1
        name = f"asks{self.pods}"
        await self.story.pod(name, "true", cpu="10m")
        return name

    async def well(self, since: float, most_s: float = MOST_S) -> float:
        """Wait until doctor finds nothing wrong and a new pod runs to its end; return seconds."""
        said = [""]

        async def so() -> bool:
            found = await asyncio.to_thread(self.doctor, "part")
            said[0] = "\n".join(f"{f['what']}: {f['detail']}" for f in found)
            return not found

        try:
            await self.story.api.until("nothing fails", so, 4 * MOST_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\nit says: {said[0]}") from None

        async def made() -> str:
            try:
                return await self.pod()
            except AssertionError:  # by webhook, whose endpoint is a moment behind
                return ""

        name = await self.story.api.until("a pod is taken", made, MOST_S)
        await self.story.until("Succeeded", name, timeout_s=2 * MOST_S)
        took = time.monotonic() - since
        print(f"PLAYED {self.at.how} {self.at.profile} {took:.0f} s")
        assert took < most_s, f"well after {took:.0f} s"
        return took
