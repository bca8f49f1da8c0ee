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
import time
from pathlib import Path

from gatelog.cluster.installation import described
from tests.deploy import helm
from tests.node.conftest import Story
from tests.support.realcluster import kubeconfig
from tests.support.terminal import MOST_S, Terminal

OVERLAY = os.environ.get("GATELOG_TEST_OVERLAY", "")
"""The folder that was applied, where the installation is kustomize's."""
TYPED_S = 120.0
"""Seconds that a line may take."""


class Operator(Terminal):
    """See the module. `story` is the namespace of users whose pods show whether it is well."""

    seen_s = 100.0  # alerts take a minute

    def __init__(self, home: Path, story: Story) -> None:
        tools = {"kubectl": helm.kubectl(), "helm": helm.helm()}
        absent = " and ".join(name for name, tool in tools.items() if tool is None)
        assert not absent, f"no {absent} here, to type what gatelog prints: put {absent} on PATH"
        kept = {k: v for k, v in os.environ.items() if not k.startswith("GATELOG_")}
        super().__init__(home, kept | {"KUBECONFIG": str(kubeconfig())}, story.api)
        self.story, self.pods = story, 0
        query = "-A -l app.kubernetes.io/name=gatelog -o json"
        found = json.loads(self.type(f"kubectl get deployments,statefulsets {query}"))
        self.at = described(found["items"])

    @property
    def standalone(self) -> bool:
        return self.at.profile == "standalone"

    def do(self, line: str, stdin: str = "") -> str:
        """Do what breaks something, with kubectl for this installation's namespace as `k`."""
        line = line.replace("k ", f"kubectl -n {self.at.namespace} ", 1)
        return self.type(line, stdin, TYPED_S)

    async def types(self, *lines: str, **names: str) -> None:
        """Type lines as they were printed, but for words in capitals, which are names."""
        known = {"COPY": OVERLAY} | names
        for line in lines:
            typed = re.sub("|".join(known), lambda found: known[found[0]], line)
            await asyncio.to_thread(self.type, typed, timeout_s=TYPED_S)

    async def pod(self) -> str:
        self.pods += 1
        name = f"asks{self.pods}"
        await self.story.pod(name, "true", cpu="10m")
        return name

    async def well(self, since: float, most_s: float = MOST_S) -> None:
        """Wait until doctor finds nothing wrong and a new pod runs to its end, within `most_s`."""
        await self.until_nothing_fails(4 * MOST_S)

        async def made() -> str:
            try:
                return await self.pod()
            except AssertionError:  # by webhook, whose endpoint is a moment behind
                return ""

        name = await self.api.until("a pod is taken", made, MOST_S)
        await self.story.until("Succeeded", name, timeout_s=2 * MOST_S)
        took = time.monotonic() - since
        print(f"PLAYED {self.at.how} {self.at.profile} {took:.0f} s")
        assert took < most_s, f"well after {took:.0f} s"
