"""The server with faults, and with endpoints under ``/_sim/`` that a process of tests has."""

import asyncio
from collections.abc import Mapping

from simcluster.access import Access
from simcluster.api import Api
from simcluster.connection import Request, Streaming
from simcluster.errors import ApiError
from simcluster.replies import reply
from simcluster.requests import Target
from simcluster.resources import Catalogue
from simcluster.server import Front, Server
from tests.support.standin.backdoor import Backdoor
from tests.support.standin.faults import Faults


class FaultyServer(Server):
    """Faults act on whole requests, before or after they took effect, and on watches."""

    def __init__(
        self, api: Api, catalogue: Catalogue, access: Access, front: Front | None = None
    ) -> None:
        super().__init__(api, catalogue, access, front)
        self.backdoor: Backdoor | None = None
        self.faults = faults = Faults(self.settings.seed)
        faults.on_drop = self.drop
        faults.on_compact = self.store.compact
        faults.on_refuse = self.listener.refuse
        faults.on_stall = self._stall

    def _stall(self) -> None:
        for pump in list(self.streams.values()):
            pump.stalled = self.faults.stalled
            pump.tick()

    async def handle(self, request: Request) -> bytes | Streaming:
        method, path = request.method, request.path
        if path.startswith("/_sim/"):
            return self._sim(request, path)
        rule = self.faults.intercept(method, request.target) if self.faults.rules else None
        if rule is None:
            return await super().handle(request)
        if rule.delay_ms:
            await asyncio.sleep(rule.delay_ms / 1000)
        if rule.status and not rule.after:
            return self.error(rule.error(), method, path)
        answer = await super().handle(request)
        if rule.status and isinstance(answer, bytes) and answer.startswith(b"HTTP/1.1 2"):
            return self.error(rule.error(), method, path)
        return answer

    def watch(self, target: Target, query: Mapping[str, str]) -> Streaming:
        start = super().watch(target, query)
        next(reversed(self.streams.values())).stalled = self.faults.stalled
        return start

    def _sim(self, request: Request, path: str) -> bytes:
        """What only a stand-in has, under the same token."""
        if request.header(b"authorization") != self.bearer:
            return self.error(ApiError(401, "Unauthorized", "Unauthorized"), "sim", path)
        assert self.backdoor is not None
        return reply(*self.backdoor.handle(request.method, path, request.body or b""))
