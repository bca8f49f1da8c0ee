"""Users who create single pods and groups of pods, one after the other, until told to stop.

Invariant: once `stop` has returned, every group that was begun has all the pods it announced, and
`pods` and `groups` are what the cluster was given. A load that is cancelled instead may leave a
group a pod short, and gatelog rightly waits for that pod for ever.
"""

import asyncio
import random

from tests.support.invariants import all_done, gated
from tests.support.processes import Api

LARGEST = 8


class Load:
    """Creates in one namespace; the sizes depend on `seed` alone."""

    def __init__(
        self,
        api: Api,
        namespace: str,
        *,
        seed: int = 20261121,
        pause_s: tuple[float, float] = (0.1, 0.5),
    ) -> None:
        self.api = api
        self.namespace = namespace
        self.pods = self.groups = 0
        self._pause_s = pause_s
        self._random = random.Random(seed)
        self._enough = asyncio.Event()
        self._creating: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to create."""
        self._creating = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Complete the group that is being created, and create no other.

        Raises:
            AssertionError: a pod could not be created.
        """
        self._enough.set()
        if self._creating is not None:
            await self._creating

    async def group(self, size: int) -> str:
        """Create one, and return the name of its last pod."""
        self.groups += 1
        group = f"g{self.groups:03d}"
        for index in range(size):
            body = gated(f"{group}-p{index}", group if size > 1 else "", size)
            await self.api.call("POST", f"/api/v1/namespaces/{self.namespace}/pods", body)
            self.pods += 1
        return f"{group}-p{size - 1}"

    async def all_done(self) -> bool:
        """Whether all of it is over and nothing of gatelog is left on it."""
        return await all_done(self.api, self.namespace, self.pods, self.groups)

    async def _run(self) -> None:
        while not self._enough.is_set():
            await self.group(self._random.randint(1, LARGEST))
            try:
                async with asyncio.timeout(self._random.uniform(*self._pause_s)):
                    await self._enough.wait()
            except TimeoutError:
                continue
