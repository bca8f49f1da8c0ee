"""A running stand-in cluster per test, and an authenticated client session."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from simcluster import Settings
from simcluster.client import Client
from tests.support.standin import SimCluster


@pytest.fixture
def settings() -> Settings:
    return Settings(future_version_wait_s=0.1)


@pytest.fixture
async def cluster(settings: Settings) -> AsyncIterator[SimCluster]:
    async with SimCluster(settings) as running:
        yield running


@pytest.fixture
async def client(cluster: SimCluster) -> AsyncIterator[Client]:
    async with Client(cluster.url, cluster.token) as connected:
        yield connected
