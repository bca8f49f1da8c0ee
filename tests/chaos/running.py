"""One fault, from a calm cluster to a calm cluster: load, harm, recovery, audit, replay.

Recovery is measured from the end of the harm until a single pod that is created then is past its
gate and the projector has committed what was the newest message of the log then.

Invariant: bounded: each wait has a limit, and running into it is a finding.
"""

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import nats.errors
from msgspec import Struct

from bench.cluster import gated
from tests.chaos import checks
from tests.chaos.faults import Fault
from tests.chaos.lab import Lab
from tests.chaos.load import QUOTA_CPU, Load
from tests.chaos.watching import Eyes
from tests.support.processes import make_queue

BUSY, PROBES = "busy", "probes"
RATE_PODS_PER_S = 12.0
BEFORE_S, AFTER_S = 2.5, 0.5
RECOVERY_S, DRAIN_S, REST_S = 90.0, 120.0, 30.0


class _Line(Struct, frozen=True):
    event: str = ""
    level: str = ""


_lines = msgspec.json.Decoder(_Line)


class Finding(Struct, frozen=True):
    """What came of one fault."""

    fault: str
    database: str
    seed: int
    injected: int
    pods: int
    events: int
    recovery_s: float
    seconds: float
    ended: dict[str, int]
    parked: int
    said: dict[str, int]
    """Warnings and errors in the logs of gatelog's processes: part and event, how often."""
    wrong: list[str]
    verify: str


@contextlib.asynccontextmanager
async def watched(lab: Lab) -> AsyncIterator[Eyes]:
    """Queues, a watch, and a first pod that is admitted."""
    await make_queue(lab.api, BUSY, cpu=str(QUOTA_CPU))
    await make_queue(lab.api, PROBES, cpu="100")
    async with Eyes(lab.api, {BUSY: QUOTA_CPU, PROBES: 100}) as eyes:
        lab.eyes = eyes
        if not await _probe(lab, "first"):
            logs = "\n".join(child.tail(15) for child in lab.parts)
            raise RuntimeError(f"no pod was admitted before any fault\n{logs}")
        yield eyes


async def suffer(lab: Lab, fault: Fault, seed: int) -> Finding:
    """Do one fault to a busy cluster and return what came of it."""
    name = f"s{seed}-{fault.name.split()[0]}-{time.monotonic_ns() % 10**6}-".lower()
    load = Load(lab.api, lab.eyes, BUSY, seed, name)
    running = asyncio.create_task(load.run(RATE_PODS_PER_S))
    try:
        return await _suffer(lab, fault, seed, load, running)
    finally:
        load.abandon()
        running.cancel()


async def _suffer(
    lab: Lab, fault: Fault, seed: int, load: Load, running: "asyncio.Task[None]"
) -> Finding:
    begin = time.monotonic()
    eyes, ended, parked = lab.eyes, lab.ended.copy(), await checks.parked(lab)
    seen, events = len(eyes.wrong), eyes.events
    logged = {child.name: len(child.text()) for child in lab.parts}
    await asyncio.sleep(BEFORE_S)
    injected = await fault.does(lab, random.Random(f"{seed}/{fault.name}"))
    over = time.monotonic()
    wrong: list[str] = []
    if not await _probe(lab, f"{load.prefix}probe"):
        wrong.append(f"a pod created after the fault was not admitted in {RECOVERY_S:.0f} s")
    if not await _caught_up(lab, over + RECOVERY_S):
        wrong.append(f"the projector was still behind after {RECOVERY_S:.0f} s")
    recovery_s = time.monotonic() - over
    await asyncio.sleep(AFTER_S)
    load.stop()
    await running
    wrong += await load.unfinished(DRAIN_S)
    wrong += await checks.at_rest(lab, BUSY, QUOTA_CPU, REST_S)
    wrong += await load.sweep(REST_S)
    wrong += await checks.left_over(lab, BUSY, REST_S)
    if not await _caught_up(lab, time.monotonic() + REST_S):
        wrong.append("the log does not come to rest")
    wrong += await checks.decisions(lab)
    wrong += eyes.wrong[seen : seen + 5]
    epoch = await checks.epoch(lab)
    asked = fault.spares_the_log
    differences = await checks.replayed(lab) if asked else []
    clean = "clean" if epoch == 1 else f"clean since epoch {epoch}"
    verified = "differs" if differences else clean if asked else "not asked"
    return Finding(
        fault.name,
        lab.database,
        seed,
        injected,
        load.pods,
        eyes.events - events,
        round(recovery_s, 1),
        round(time.monotonic() - begin, 1),
        dict(lab.ended - ended),
        await checks.parked(lab) - parked,
        _said(lab, logged),
        wrong + differences,
        verified,
    )


def _said(lab: Lab, since: dict[str, int]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for child in lab.parts:
        for line in child.text()[since[child.name] :].splitlines():
            with contextlib.suppress(msgspec.DecodeError):
                said = _lines.decode(line)
                if said.level in ("warning", "error", "critical"):
                    found[f"{child.name} {said.event}"] += 1
    return dict(found)


async def _probe(lab: Lab, name: str) -> bool:
    body: dict[str, Any] = gated(name, script="run=100ms,succeed")
    await lab.api.call("POST", f"/api/v1/namespaces/{PROBES}/pods", body)

    def admitted() -> bool:
        pod = lab.eyes.pods.get((PROBES, name))
        return pod is not None and not pod.gated

    return await lab.eyes.until(admitted, RECOVERY_S)


async def _caught_up(lab: Lab, until_s: float) -> bool:
    """Wait until what is in the log now is committed. Under load the log is never at rest."""
    target: int | None = None
    while time.monotonic() < until_s:
        with contextlib.suppress(OSError, nats.errors.Error):
            if target is None:
                target = await checks.newest(lab)
            if await checks.committed(lab) >= target:
                return True
        await asyncio.sleep(0.1)
    return False
