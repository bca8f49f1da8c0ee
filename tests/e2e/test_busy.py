"""Many users at once in one namespace, in both modes; then what must hold is read back over HTTP.

The users are the lab's (tests/conformance): groups of one to six pods with up to three shapes come,
fail, are replaced, deleted, exceed, finish, and quota is short. What they do depends on a seed,
when exactly it happens does not, so nothing is compared with a recorded outcome; `audit` says what
holds whatever happened. At the end everything is deleted, and must go without help.
"""

import asyncio
import importlib
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.e2e.audit import Cluster, audit
from tests.e2e.conformance import CONFORMANCE, stack
from tests.support.stack import Stack

pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")

SECONDS = float(os.environ.get("GATELOG_TEST_BUSY_S", "7"))
GROUPS = int(os.environ.get("GATELOG_TEST_BUSY_GROUPS", "16"))
SEED = int(os.environ.get("GATELOG_TEST_BUSY_SEED", "7"))
REST_S = 75.0
"""What is wrong, or still there, for so long stays so: what was refused is tried after 30 s."""


def lab_modules() -> tuple[ModuleType, ModuleType]:
    """The lab and its scenarios, which are scripts beside each other and not a package."""
    if str(CONFORMANCE) not in sys.path:
        sys.path.insert(0, str(CONFORMANCE))
    return importlib.import_module("lab"), importlib.import_module("scenarios")


async def snapshot(lab: Any) -> Cluster:
    _, pods = await lab.req("GET", lab.url("pods"))
    _, workloads = await lab.req("GET", lab.url("workloads"))
    seen = [one for one in lab.log if one["resource"] == "pods" and one["type"] != "BOOKMARK"]
    alive = [one["object"] for one in seen if "deletionTimestamp" not in one["object"]["metadata"]]
    opened = {pod["metadata"]["uid"] for pod in alive if not pod["spec"].get("schedulingGates")}
    return Cluster(pods["items"], workloads["items"], opened)


async def rest(lab: Any, wrong: Callable[[], Awaitable[list[str]]]) -> None:
    """Wait until nothing moves and nothing is wrong: a slow machine pauses before it is done."""
    await lab.settle(quiet=2.0, limit=20.0)
    end = time.monotonic() + REST_S
    while found := await wrong():
        assert time.monotonic() < end, "\n".join(found)
        await asyncio.sleep(0.2)


async def play(stack: Stack, seed: int) -> None:
    lab_module, scenarios = lab_modules()
    lab = lab_module.Lab(*stack.server, f"busy-{seed}", settle=2.0)
    try:
        await lab.start()
        await scenarios.prepare(lab)
        await scenarios.busy(lab, seed, groups=GROUPS, seconds=SECONDS)

        async def wrong() -> list[str]:
            return audit(await snapshot(lab), quota_milli=10_000)

        await rest(lab, wrong)
        found = await snapshot(lab)
        assert len(found.workloads) > GROUPS / 4, "next to nothing happened"
        await empty(lab)
    finally:
        for task in lab.tasks:
            task.cancel()
        await asyncio.gather(*lab.tasks, return_exceptions=True)
        await lab.http.close()


async def empty(lab: Any) -> None:
    """Delete everything; finalizers of ours must come off by themselves.

    Workloads too: ended pods of a group that goes on are kept until they are replaced.
    """
    await lab.req("DELETE", lab.url("workloads"), ok=None)
    await lab.req("DELETE", lab.url("pods"), ok=None)
    end = time.monotonic() + REST_S
    while time.monotonic() < end:
        left = await snapshot(lab)
        if not left.pods and not left.workloads:
            return
        await asyncio.sleep(0.1)
    names = [f"pod {p['metadata']['name']}" for p in left.pods]
    names += [f"Workload {w['metadata']['name']}" for w in left.workloads]
    raise AssertionError(f"still there after everything was deleted: {names}")


SLOW = pytest.mark.slow("builtin mode shows the same promises in half the time")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", ["builtin", pytest.param("kueue", marks=SLOW)])
async def test_busy(mode: str, tmp_path: Path) -> None:
    print(f"seed {SEED}, {GROUPS} groups in {SECONDS} s")
    with stack(tmp_path, mode) as running:
        try:
            await play(running, SEED)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{running.up.tail(60)}") from error
        assert running.up.running, running.up.tail()
