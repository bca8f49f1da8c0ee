"""Fixtures of the projector's tests: every store test runs on both databases."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runtime.embedded import EmbeddedNats
from runtime.jetstream import Bus, connect
from runtime.settings import StreamSettings
from tests.support.databases import migrated


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with nothing in it."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/read-model.sqlite3"
    return str(request.getfixturevalue("postgres_database"))


@pytest.fixture
def url(empty_url: str) -> str:
    """A migrated database."""
    migrated(empty_url)
    return empty_url


@pytest.fixture
async def own_bus(own_nats: EmbeddedNats) -> AsyncIterator[Bus]:
    """A bus on a server of this test alone, whose sequences start at 1."""
    bus = await connect(own_nats.settings(), "test", deadline_s=20)
    await bus.ensure_streams(StreamSettings())
    yield bus
    await bus.close()
