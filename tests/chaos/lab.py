"""What faults are done to: three gatelog processes, the stand-in, nats-server and a database.

gatelog reaches NATS, the API server and PostgreSQL through a TCP proxy each; users, and whoever
checks, do not. A process that ends by itself is started again after a second, as a kubelet would,
and that is counted.

Invariant: everything that was started here is ended by `close`, whatever was done to it.
"""

import asyncio
import contextlib
import os
import signal
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from shutil import rmtree
from typing import Any
from urllib.parse import urlsplit

import nats as client
from msgspec import structs

from runtime.embedded import EmbeddedNats
from runtime.settings import DatabaseSettings, NatsSettings, Settings
from tests.chaos.watching import Eyes
from tests.support.faults.postgres import Postgres
from tests.support.faults.proxy import Proxy
from tests.support.parts import Parts, Piped, environment, migrate
from tests.support.processes import TOKEN, Api, Simulator, write_kubeconfig

CLUSTER = "chaos"


class Lab:
    """One of everything; `database` is sqlite or postgres."""

    def __init__(self, place: Path, database: str) -> None:
        self.place = place
        self.database = database
        self.nats = EmbeddedNats(place / "nats")
        self.simulator = Simulator(place, "--kubelet", "scripted")
        self.postgres: Postgres | None = None
        self.proxies: dict[str, Proxy] = {}
        self.ended: Counter[str] = Counter()
        self.alone: set[str] = set()
        """Names of children that a fault ends and starts itself."""
        self.env: dict[str, str] = {}
        self.parts: Parts
        self.api: Api
        self.eyes: Eyes
        self._keeping: asyncio.Task[None] | None = None

    @property
    def file(self) -> Path:
        """The SQLite file."""
        return self.place / "gatelog.db"

    @property
    def database_url(self) -> str:
        """The database, not through the proxy."""
        return self.postgres.url() if self.postgres else f"sqlite:///{self.file}"

    @property
    def settings(self) -> Settings:
        """What a command of gatelog's would be given, not through the proxies."""
        return Settings(
            cluster=CLUSTER,
            database=DatabaseSettings(url=self.database_url),
            nats=self.nats.settings(),
        )

    async def start(self) -> None:
        """Start everything."""
        await self.nats.start()
        await asyncio.to_thread(self.simulator.start)
        log = self.nats.settings()
        await self._proxy("nats", urlsplit(log.url).port)
        await self._proxy("api", urlsplit(self.simulator.url).port)
        url = self.database_url
        if self.database == "postgres":
            self.postgres = await asyncio.to_thread(Postgres)
            await self._proxy("postgres", self.postgres.port)
            url = self.postgres.url(port=self.proxies["postgres"].port)
        through = structs.replace(log, url=f"nats://127.0.0.1:{self.proxies['nats'].port}")
        config = self.place / "kubeconfig-through-proxy"
        write_kubeconfig(self.simulator.kubeconfig, config, port=self.proxies["api"].port)
        self.env = environment(through, CLUSTER, url, config)
        self.env["GATELOG_STATE_DIR"] = str(self.place / "state")
        await asyncio.to_thread(migrate, self.env, self.place)
        self.api = Api(self.simulator.url, TOKEN)
        self.parts = Parts(lambda _: self.env, self.place, child=Piped)
        self.parts.start()
        self._keeping = asyncio.create_task(self._keep())

    async def kill(self, name: str) -> None:
        """SIGKILL a part and leave it dead until `revive`."""
        self.alone.add(name)
        await asyncio.to_thread(self.parts[name].kill)

    def revive(self, name: str) -> None:
        """Start a part that was killed."""
        self.parts[name].start()
        self.alone.discard(name)

    async def replace(self, name: str, argv: list[str], env: dict[str, str]) -> None:
        """End a part in good order and start it as another program, with more settings."""
        self.alone.add(name)
        child = self.parts[name]
        await asyncio.to_thread(child.stop)
        child.argv, child.env = argv, {**child.env, **env}
        self.revive(name)

    async def leases(self) -> dict[str, str]:
        """Who holds each Lease that is held."""
        path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
        found = (await self.api.call("GET", path))["items"]
        holders = {one["metadata"]["name"]: one["spec"].get("holderIdentity") for one in found}
        return {name: holder for name, holder in holders.items() if holder}

    def pid(self, name: str) -> int:
        """Process id of a part or of nats-server."""
        if name == "nats":
            assert self.nats.pid is not None
            return self.nats.pid
        return self.parts[name].pid

    @contextlib.asynccontextmanager
    async def jetstream(self) -> AsyncIterator[Any]:
        """A JetStream context, not through the proxy."""
        log: NatsSettings = self.nats.settings()
        secret = Path(log.password_file).read_text(encoding="utf-8").strip()
        found = await client.connect(
            log.url, user=log.user, password=secret, allow_reconnect=False, connect_timeout=5
        )
        try:
            yield found.jetstream()
        finally:
            await found.close()

    async def close(self) -> None:
        """End everything."""
        if self._keeping is not None:
            self._keeping.cancel()
        if hasattr(self, "parts"):
            await asyncio.to_thread(self.parts.stop)
        for proxy in self.proxies.values():
            await proxy.close()
        if hasattr(self, "api"):
            await self.api.http.close()
        await asyncio.to_thread(self.simulator.stop)
        if self.nats.alive:
            os.kill(self.pid("nats"), signal.SIGCONT)
        await self.nats.stop()
        if self.postgres is not None:
            self.postgres.signal(signal.SIGCONT)
            await asyncio.to_thread(self.postgres.close)

    async def _proxy(self, name: str, port: int | None) -> None:
        assert port is not None
        self.proxies[name] = Proxy(port)
        await self.proxies[name].start()

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(1)
            for child in self.parts:
                if child.name not in self.alone and not child.running:
                    self.ended[child.name] += 1
                    child.start()


@contextlib.asynccontextmanager
async def lab(database: str, keep: Path | None = None) -> AsyncIterator[Lab]:
    """A lab, started; ended and removed afterwards, unless its files are to be kept at `keep`."""
    place = keep or Path(tempfile.mkdtemp(prefix="gatelog-chaos-"))
    place.mkdir(parents=True, exist_ok=True)
    one = Lab(place, database)
    try:
        await one.start()
        yield one
    finally:
        await one.close()
        if keep is None:
            rmtree(place, ignore_errors=True)
