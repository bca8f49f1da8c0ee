"""The observer itself: it sees what runs, and it is not silent when too much does."""

import pytest

from tests.attacks.conftest import CPUS, Attack
from tests.support.processes import pod

pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")


async def test_ordinary_work_stays_below_the_quota(attack: Attack) -> None:
    for name in ("a", "b", "c"):
        await attack.create(name, cpu="4", script="run=100ms,succeed")

    async def done() -> bool:
        found = await attack.api.pods(attack.namespace)
        return all(pod["status"].get("phase") == "Succeeded" for pod in found.values())

    await attack.api.until("all have run", done)
    assert attack.observer.peaks[attack.namespace] <= CPUS * 1000


async def test_too_much_is_seen(attack: Attack) -> None:
    """Pods that name no queue are nobody's business but the observer's."""
    for name in ("plain", "other"):
        body = pod(name, cpu="6", script="run=forever")
        del body["metadata"]["labels"]
        made = await attack.api.call("POST", attack.base, body)
        assert not made["spec"].get("schedulingGates")
    await attack.until_running("plain", "other")
    assert attack.observer.over and "12000m run on a quota of 10000m" in attack.observer.over[0]
    attack.observer.over.clear()
