"""What one namespace asks for, however much it is, keeps no other one waiting."""

import asyncio
import time

import pytest

from tests.attacks.conftest import CPUS, Attack
from tests.support.processes import make_queue, pod

pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")

CREATED = 150


async def test_mass_creation_keeps_no_other_namespace_from_starting(attack: Attack) -> None:
    """150 pods at once for a quota of ten; a neighbour's pod comes when all of them are there."""
    calm = f"{attack.namespace}-calm"
    await make_queue(attack.api, calm, cpu="1")
    attack.observer.limit(calm, 1)
    await asyncio.gather(*(attack.create(f"flood-{n}") for n in range(CREATED)))
    body = pod("calm", script="run=forever")
    began = time.monotonic()
    await attack.api.call("POST", f"/api/v1/namespaces/{calm}/pods", body)

    async def let_start() -> bool:
        return not (await attack.api.pods(calm))["calm"]["spec"].get("schedulingGates")

    await attack.api.until("the neighbour's pod is let start", let_start)
    took_s = time.monotonic() - began

    async def all_that_fit() -> bool:
        return len(attack.holders()) == CPUS

    await attack.api.until("the quota is used", all_that_fit)
    await attack.stack.clear(attack.api, calm)
    assert took_s < 10
