"""An ingester's surroundings: `sim`, a stand-in cluster of the test's file, and the log."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runtime.jetstream import Bus
from runtime.settings import NatsSettings, Settings
from tests.ingest.world import Log, settings_for
from tests.support.standin import SimCluster


@pytest.fixture
def settings(
    sim: SimCluster, nats_settings: NatsSettings, cluster: str, tmp_path: Path
) -> Settings:
    return settings_for(sim, nats_settings, cluster, tmp_path)


@pytest.fixture
async def log(bus: Bus, cluster: str) -> AsyncIterator[Log]:
    one = Log(bus, cluster)
    yield one
    await one.close()
