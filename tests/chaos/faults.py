"""The faults: each a small function that does harm, ends it, and says how often it did.

A fault is given the lab and a seeded generator; when it returns, everything is as before, except
for what it broke. Why one exists is in its docstring, which is also what the table of a run says.

Invariant: a fault never repairs what gatelog should.
"""

import asyncio
import contextlib
import os
import random
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from podgroup.log.subjects import DECISIONS, EVENTS, events
from tests.chaos.lab import CLUSTER, Lab
from tests.support.faults import answers
from tests.support.faults.clock import set_by
from tests.support.faults.files import blocks, flip, locked
from tests.support.faults.processes import frozen, full_disk
from tests.support.forking import GATELOG
from tests.support.parts import PARTS

ROOT = Path(__file__).parents[2]
LEASES_S, STANDBY_S = 60.0, 1.5
ROOM = 32 * 1024
"""Bytes that a file may have on a full disk: some writes succeed, and one fails midway."""

Does = Callable[[Lab, random.Random], Awaitable[int]]


class Fault(Struct, frozen=True):
    """A fault by name; `databases` are those it makes a difference to."""

    name: str
    does: Does
    databases: tuple[str, ...] = ("sqlite", "postgres")

    @property
    def spares_the_log(self) -> bool:
        """Whether everything that was decided and seen is in the log afterwards.

        A new epoch shows by its number; decisions that are gone show nowhere.
        """
        return self.name != f"{DECISIONS} deleted"


FAULTS: dict[str, Fault] = {}


def fault(name: str, *databases: str) -> Callable[[Does], Does]:
    """Enter a function among the faults."""

    def enter(does: Does) -> Does:
        FAULTS[name] = Fault(name, does, databases or ("sqlite", "postgres"))
        return does

    return enter


async def kill_part(part: str, lab: Lab, pick: random.Random) -> int:
    """SIGKILL one of gatelog's processes three times, at any moment."""
    for _ in range(3):
        await lab.kill(part)
        await asyncio.sleep(pick.uniform(0, 0.5))
        lab.revive(part)
        await asyncio.sleep(pick.uniform(0.5, 2))
    return 3


async def pause(part: str, lab: Lab, pick: random.Random) -> int:
    """SIGSTOP a process for 5 to 15 seconds, then let it go on with what it believes."""
    with frozen(lab.pid(part)):
        await asyncio.sleep(pick.uniform(5, 15))
    return 1


for _part in PARTS:
    fault(f"kill {_part}")(partial(kill_part, _part))
    fault(f"pause {_part}")(partial(pause, _part))
fault("pause nats")(partial(pause, "nats"))


@fault("kill nats")
async def kill_nats(lab: Lab, pick: random.Random) -> int:
    """SIGKILL nats-server twice."""
    for _ in range(2):
        lab.nats.kill()
        await asyncio.sleep(pick.uniform(0, 1))
        await lab.nats.start()
        await asyncio.sleep(pick.uniform(0.5, 2))
    return 2


@fault("kill postgres", "postgres")
async def kill_postgres(lab: Lab, pick: random.Random) -> int:
    """SIGKILL PostgreSQL with all its processes, twice; it recovers from its own log."""
    assert lab.postgres is not None
    for _ in range(2):
        lab.postgres.signal(signal.SIGKILL)
        await asyncio.sleep(pick.uniform(0, 1))
        await asyncio.to_thread(lab.postgres.start)
        await asyncio.sleep(pick.uniform(0.5, 2))
    return 2


@fault("disk full under postgres", "postgres")
async def postgres_disk_full(lab: Lab, pick: random.Random) -> int:
    """No file of PostgreSQL may grow beyond 32 KiB for 4 to 8 seconds: it panics over its own log.

    It is started again when there is room, as a supervisor would until then in vain.
    """
    assert lab.postgres is not None
    lab.postgres.limit_files(str(ROOM))
    await asyncio.sleep(pick.uniform(4, 8))
    lab.postgres.limit_files("unlimited")
    if not lab.postgres.alive:
        await asyncio.to_thread(lab.postgres.start)
    return 1


@fault("disk full under nats")
async def nats_disk_full(lab: Lab, pick: random.Random) -> int:
    """No file of nats-server may grow beyond 32 KiB for 4 to 8 seconds; then it is started anew.

    It has to be: after a failed write it refuses all others to that stream for as long as it lives.
    """
    with full_disk(lab.pid("nats"), ROOM):
        await asyncio.sleep(pick.uniform(4, 8))
        lab.nats.kill()
    await lab.nats.start()
    return 1


@fault("pause postgres", "postgres")
async def pause_postgres(lab: Lab, pick: random.Random) -> int:
    """SIGSTOP PostgreSQL for 5 to 15 seconds."""
    assert lab.postgres is not None
    with frozen(*lab.postgres.pids()):
        await asyncio.sleep(pick.uniform(5, 15))
    return 1


async def cut(between: str, lab: Lab, pick: random.Random) -> int:
    """Reset all connections five times; once nobody listens for two seconds."""
    proxy = lab.proxies[between]
    for _ in range(5):
        proxy.cut()
        await asyncio.sleep(pick.uniform(0.1, 1))
    await proxy.refuse()
    await asyncio.sleep(2)
    await proxy.start()
    return 6


async def stall(between: str, lab: Lab, pick: random.Random) -> int:
    """Pass nothing on for 5 to 15 seconds, with all connections open."""
    lab.proxies[between].hold()
    await asyncio.sleep(pick.uniform(5, 15))
    lab.proxies[between].release()
    return 1


for _between in ("nats", "api", "postgres"):
    _where = ("postgres",) if _between == "postgres" else ()
    fault(f"cut {_between}", *_where)(partial(cut, _between))
    fault(f"stall {_between}", *_where)(partial(stall, _between))


async def storm(rules: list[dict[str, Any]], lab: Lab, pick: random.Random) -> int:
    """Half of all requests are answered with errors, for 5 to 8 seconds."""
    async with answers.answering(lab.api, *({"fraction": 0.5, **rule} for rule in rules)):
        await asyncio.sleep(pick.uniform(5, 8))
        return await answers.hits(lab.api)


_WRITES = "POST|PUT|PATCH|DELETE"
fault("api 429")(partial(storm, [{"status": 429, "retry_after_s": 1}]))
fault("api 500")(partial(storm, [{"status": 500}]))
fault("api 500 after the write")(
    partial(storm, [{"status": 500, "method": _WRITES, "after": True}])
)
fault("api 409")(partial(storm, [{"status": 409, "method": _WRITES}]))


@fault("watches dropped")
async def watches_dropped(lab: Lab, pick: random.Random) -> int:
    """All watches end, some in the middle of a line."""
    for i in range(5):
        await answers.do(lab.api, drop_watches=True, abrupt=bool(i % 2))
        await asyncio.sleep(pick.uniform(0.2, 1.5))
    return 5


@fault("watches gone (410)")
async def watches_gone(lab: Lab, pick: random.Random) -> int:
    """The API server forgets its history and ends all watches: 410, everything listed again."""
    for _ in range(3):
        await answers.do(lab.api, compact=True, drop_watches=True)
        await asyncio.sleep(pick.uniform(0.5, 2))
    return 3


@fault("watches silent")
async def watches_silent(lab: Lab, pick: random.Random) -> int:
    """Watches stay open and say nothing for 5 to 10 seconds."""
    async with answers.answering(lab.api, stall_watches=True):
        await asyncio.sleep(pick.uniform(5, 10))
    return 1


@fault("database read-only", "postgres")
async def read_only(lab: Lab, pick: random.Random) -> int:
    """PostgreSQL takes no writes, as a standby after a failover, for 4 to 8 seconds."""
    assert lab.postgres is not None
    await asyncio.to_thread(lab.postgres.read_only, True)
    await asyncio.sleep(pick.uniform(4, 8))
    await asyncio.to_thread(lab.postgres.read_only, False)
    return 1


@fault("database locked", "sqlite")
async def database_locked(lab: Lab, pick: random.Random) -> int:
    """Somebody else holds SQLite's write lock for 4 to 8 seconds."""
    with locked(lab.file):
        await asyncio.sleep(pick.uniform(4, 8))
    return 1


@fault("disk full", "sqlite")
async def disk_full(lab: Lab, pick: random.Random) -> int:
    """No file of the projector may grow beyond 32 KiB for 4 to 8 seconds: writes fail midway."""
    with full_disk(lab.pid("projector"), ROOM):
        await asyncio.sleep(pick.uniform(4, 8))
    return 1


@fault("clocks set forward and back")
async def clocks(lab: Lab, pick: random.Random) -> int:
    """Each part's clock jumps an hour ahead and an hour behind, while others stand by with Leases.

    Leases must not change hands over it.
    """
    async with stepped(lab) as clock_of:
        before = await lab.leases()
        steps = [(part, off_s) for part in PARTS for off_s in (3600, -3600)]
        pick.shuffle(steps)
        for part, off_s in steps:
            clock_of[part].write_text(str(off_s), encoding="ascii")
            await asyncio.sleep(pick.uniform(1, 2))
        after = await lab.leases()
        lab.eyes.wrong += [
            f"Lease {name}: held by {holder}, then by {after.get(name)}, when clocks were set"
            for name, holder in before.items()
            if after.get(name) != holder
        ]
    return len(steps)


@contextlib.asynccontextmanager
async def stepped(lab: Lab) -> AsyncIterator[dict[str, Path]]:
    """All parts on clocks of their own, with Leases and a second of each that has one."""
    with_leases = {"GATELOG_LEASE_ENABLED": "true", "PYTHONPATH": str(ROOT)}
    clock_of = {part: lab.place / f"clock-{part}" for part in PARTS}
    others = [lab.parts.beside(f"{part}-standby", part) for part in ("ingest", "projector")]
    try:
        await asyncio.gather(
            *(
                lab.replace(part, set_by(clock_of[part], command), with_leases)
                for part, command in PARTS.items()
            )
        )
        async with asyncio.timeout(LEASES_S):
            while len(await lab.leases()) < len(others):
                await asyncio.sleep(0.1)
        for other in others:
            other.env |= with_leases
            other.start()
        await asyncio.sleep(STANDBY_S)
        yield clock_of
    finally:
        for other in others:
            await asyncio.to_thread(other.kill)
        off = {"GATELOG_LEASE_ENABLED": "false"}
        await asyncio.gather(
            *(lab.replace(part, [GATELOG, command], off) for part, command in PARTS.items())
        )
        for file in clock_of.values():
            file.unlink(missing_ok=True)


async def deleted(stream: str, lab: Lab, _: random.Random) -> int:
    """A stream is deleted under everybody."""
    async with lab.jetstream() as jetstream:
        await jetstream.delete_stream(stream)
    return 1


fault("EVENTS deleted")(partial(deleted, EVENTS))
fault("DECISIONS deleted")(partial(deleted, DECISIONS))


@fault("log rolled back")
async def rolled_back(lab: Lab, pick: random.Random) -> int:
    """nats-server's files are put back to what they were some seconds before."""
    store, copy = lab.nats.store_dir / "jetstream", lab.place / "snapshot"
    lab.nats.kill()
    shutil.copytree(store, copy)
    await lab.nats.start()
    await asyncio.sleep(pick.uniform(2, 4))
    lab.nats.kill()
    shutil.rmtree(store)
    copy.rename(store)
    await lab.nats.start()
    return 1


@fault("last block of the log cut short")
async def truncated(lab: Lab, pick: random.Random) -> int:
    """The end of the newest file of EVENTS is missing when nats-server starts."""
    lab.nats.kill()
    newest = next(path for path in reversed(blocks(lab.nats)) if path.stat().st_size)
    size = newest.stat().st_size
    os.truncate(newest, size - min(size // 2, pick.randint(1, 20_000)))
    await lab.nats.start()
    return 1


async def flipped(end: str, lab: Lab, pick: random.Random) -> int:
    """One bit flips in what the projector has not read yet of EVENTS, while nats-server is away."""
    await lab.kill("projector")
    read = {block: block.stat().st_size for block in blocks(lab.nats)}
    await asyncio.sleep(pick.uniform(1.5, 2.5))
    if end == "stopped":
        await lab.nats.stop()
    else:
        lab.nats.kill()
    newest = blocks(lab.nats)[-1]
    flip(newest, pick.randrange(read.get(newest, 0), newest.stat().st_size))
    await lab.nats.start()
    lab.revive("projector")
    return 1


for _end in ("stopped", "killed"):
    fault(f"bit flipped in the log, nats {_end}")(partial(flipped, _end))


@fault("deliveries doubled and reordered")
async def doubled(lab: Lab, pick: random.Random) -> int:
    """The last 200 messages of the watch are published again, shuffled, under other ids."""
    async with lab.jetstream() as jetstream:
        info = await jetstream.stream_info(EVENTS)
        bodies = []
        for sequence in range(
            max(info.state.first_seq, info.state.last_seq - 200), info.state.last_seq
        ):
            message = await jetstream.get_msg(EVENTS, sequence)
            if message.subject == events(CLUSTER, "watch"):
                bodies.append(message.data)
        pick.shuffle(bodies)
        for index, body in enumerate(bodies):
            name = f"again/{info.state.last_seq}/{index}"
            headers = {"Nats-Msg-Id": name}
            await jetstream.publish(events(CLUSTER, "watch"), body, headers=headers)
    return len(bodies)


async def second(part: str, lab: Lab, pick: random.Random) -> int:
    """A second process of a kind beside the first, without Leases, for 4 to 8 seconds."""
    other = lab.parts.beside(f"{part}-second", part)
    other.start()
    await asyncio.sleep(pick.uniform(4, 8))
    await asyncio.to_thread(other.kill)
    return 1


fault("two projectors")(partial(second, "projector"))
fault("two ingesters")(partial(second, "ingest"))

UNDECODABLE = (
    b"\x00\xfe garbage \xff",
    b'{"v":1,"source":"watch","events":[{"type":"pod_ap',
    b'{"v":1,"source":"watch","events":[{"type":"pod_folded.v9","uid":"u","group":"chaos/j1"}]}',
)


@fault("undecodable messages")
async def undecodable(lab: Lab, pick: random.Random) -> int:
    """Bytes that are no message, half a message, an event of a later gatelog, amid the others."""
    async with lab.jetstream() as jetstream:
        for body in UNDECODABLE:
            await jetstream.publish(events(CLUSTER, "operator"), body)
            await asyncio.sleep(pick.uniform(0.2, 1))
    return len(UNDECODABLE)
