"""`gatelog migrate` where what it needs is away."""

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from projector.upkeep import migrate
from runtime.embedded import EmbeddedNats
from tests.projector.test_outage import Database
from tests.support.forking import GATELOG
from tests.support.processes import Child

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


@contextmanager
def migrating(folder: Path, url: str, *more: str) -> Iterator[Child]:
    """The process of a container: its log is JSON."""
    env = {"GATELOG_LOG_FORMAT": "json", "GATELOG_STATE_DIR": str(folder)}
    child = Child("migrate", [GATELOG, "migrate", "--db", url, *more], env, folder)
    child.start()
    try:
        yield child
    finally:
        child.kill()


def ended(child: Child) -> int | None:
    assert child.process is not None
    return child.process.wait(60)


async def test_it_waits_for_database_and_log_server_before_a_projector(
    postgres_database: str, own_nats: EmbeddedNats, tmp_path: Path
) -> None:
    database, nats = Database(postgres_database), own_nats.settings()
    await own_nats.stop()
    database.refuse()
    log = [f"--set=nats.{key}={getattr(nats, key)}" for key in ("url", "user", "password_file")]
    with migrating(tmp_path, postgres_database, "--wait", *log) as child:
        said = await asyncio.to_thread(child.wait_for, '.*"database_unavailable".*')
        assert json.loads(said[0])["wait_s"] <= 0.5
        database.accept()
        await asyncio.to_thread(child.wait_for, "nats_unavailable")
        await own_nats.start()
        assert await asyncio.to_thread(ended, child) == 0, child.text
    migrate.check(postgres_database)


def test_it_ends_when_it_is_told_to(postgres_database: str, tmp_path: Path) -> None:
    """The first process of a container has no end by SIGTERM that it does not see to."""
    database = Database(postgres_database)
    database.refuse()
    with migrating(tmp_path, postgres_database, "--wait") as child:
        child.wait_for("database_unavailable")
        child.send(signal.SIGTERM)
        assert ended(child) == 130, child.text
    with migrating(tmp_path, postgres_database) as child:
        assert ended(child) == 1, "a person is told at once"
    database.accept()
