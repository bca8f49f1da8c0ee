"""A new read model takes its place, whoever reads, writes, waits or is killed meanwhile."""

import asyncio
import multiprocessing
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, suppress
from pathlib import Path
from threading import Barrier

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import make_url

from gatelog.replay import rebuilding
from podgroup.folding import drain_journal
from projector import tables
from projector.replay.new_model import NewModel, open_new_model
from projector.replay.sink import Sink, pack, unpack
from projector.schema import partitions
from projector.storage.database import DatabaseError, reader, reading, writer
from projector.storage.store import ReadModelReplaced, SqlStore
from projector.upkeep import migrate
from projector.writing.rows import Rows, build
from projector.writing.values import Json
from tests.projector.support import busy_toy
from tests.replay.conftest import Ran
from tests.replay.support import CLUSTER, Played
from tests.replay.test_rebuild import checkpoint, everything
from tests.support.imports import imported
from tests.support.processes import GATELOG

pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")

Gatelog = Callable[..., Ran]
BOTH = pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
POSTGRESQL = pytest.mark.parametrize("database", ["postgresql"], indirect=True)
"""Of what there is in PostgreSQL only."""


def path_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def left_beside(url: str) -> list[str]:
    """What there is beside a read model in force that no one needs."""
    if not url.startswith("sqlite"):
        with reading(url) as connection:
            query = "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, 'gatelog_')"
            schemas = set(connection.exec_driver_sql(query).scalars())
            in_force = {schema for schema, _ in partitions.own(connection, CLUSTER).values()}
        return sorted(schemas - in_force)
    path = path_of(url)
    file = Path(os.path.realpath(path)).name
    kept = {path.name, *(file + side for side in ("", "-wal", "-shm"))}
    return sorted(
        one.name
        for one in path.parent.iterdir()
        if one.name.startswith(path.name) and one.name not in kept
    )


# -- what writes it ---


def test_rows_come_back_from_a_process_as_they_went() -> None:
    toy = busy_toy()
    rows = build(toy.world, drain_journal(toy.world)).tables
    assert rows["pods"] and rows["history"]
    found = unpack(pack(rows))
    assert found == rows
    kinds = [[type(cell) for cell in row] for row in rows["pods"]]
    assert [[type(cell) for cell in row] for row in found["pods"]] == kinds
    assert Json in kinds[0]


class Watched:
    """The progress of a rebuild: how many processes of its own there were, once it had folded."""

    processes = 0

    def expect(self, first: int, last: int) -> None:
        assert first < last

    def say(self, what: str) -> None:
        self.processes = len(multiprocessing.active_children())

    def __call__(self, position: int, events: int) -> None:
        assert position and events


@BOTH
@pytest.mark.parametrize("apart", [None, True], ids=["short", "long"])
def test_of_a_long_log_a_process_of_its_own_writes(played: Played, apart: bool | None) -> None:
    before, progress = everything(played.url), Watched()
    asyncio.run(rebuilding.rebuild(played.settings, progress, apart=apart))
    assert progress.processes == (apart or 0)
    assert everything(played.url) == before
    assert str(checkpoint(played.url)["writer"]).startswith("rebuilt/")


@pytest.mark.parametrize("known", [False, True], ids=["at once", "when the pool knows"])
def test_a_process_that_dies_says_so(tmp_path: Path, known: bool) -> None:
    url = f"sqlite:///{tmp_path}/live.db"
    migrate.make_tables(url)
    sink, toy = Sink(url, CLUSTER, "builtin", apart=True), busy_toy()
    child = sink._pool.submit(os.getpid).result()
    waits = sink._pool.submit(time.sleep, 60)
    os.kill(child, signal.SIGKILL)
    if known:
        assert isinstance(waits.exception(), BrokenProcessPool)
    with pytest.raises(DatabaseError, match="ended: nothing was put in place"):
        sink.write(toy.world, toy.now, [])
        sink.close()


CALLER = """
import os, sys, time
from projector.replay.sink import Sink

if __name__ == "__main__":
    sink = Sink(sys.argv[1], "test", "builtin", apart=True)
    print(sink._pool.submit(os.getpid).result(), flush=True)
    time.sleep(60)
"""


def test_a_process_ends_with_its_caller(tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path}/live.db", tmp_path / "caller.py"
    migrate.make_tables(url)
    file.write_text(CALLER)
    caller = subprocess.Popen([sys.executable, str(file), url], stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None
    child = int(caller.stdout.readline())
    os.kill(child, 0)
    caller.kill()
    caller.wait()
    caller.stdout.close()
    until = time.monotonic() + 60
    while Path(f"/proc/{child}/status").exists():
        if "zombie" in Path(f"/proc/{child}/status").read_text():
            break
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_new_one_in_sqlite_needs_no_psycopg(tmp_path: Path) -> None:
    code = (
        "import gatelog.replay.online, gatelog.whatif.scenarios\n"
        "from projector.replay.new_model import fill\n"
        f"fill('sqlite:///{tmp_path}/x.db', 'c', 'builtin').drop()"
    )
    assert imported(code, "psycopg") == "[]\n"


# -- who is killed ---


@BOTH
def test_killed_at_any_moment_it_leaves_one_in_force_and_the_next_removes_the_rest(
    gatelog: Gatelog, played: Played
) -> None:
    before, rnd = everything(played.url), random.Random(7)
    env = {name: value for name, value in os.environ.items() if not name.startswith("GATELOG_")}
    command = [GATELOG, "replay", "--rebuild", *played.options]
    began = time.monotonic()
    subprocess.run(command, env=env, check=True, capture_output=True, timeout=120)
    took_s = time.monotonic() - began
    killed = 0
    for number in range(6):
        child = subprocess.Popen(
            command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        # The last of it, where something happens to databases.
        time.sleep(took_s * rnd.uniform(0.3, 1.0))
        child.send_signal(signal.SIGKILL)
        killed += child.wait() == -signal.SIGKILL
        assert everything(played.url) == before, number
        store = SqlStore(played.url, CLUSTER)
        assert store.load() is not None
        store.close()
    assert killed >= 3
    code, out, err = gatelog("replay", "--rebuild", *played.options)
    assert code == 0, out + err
    assert everything(played.url) == before
    assert left_beside(played.url) == []
    assert gatelog("replay", "--verify", *played.options)[0] == 0


@BOTH
def test_what_was_not_finished_is_removed_and_named(gatelog: Gatelog, played: Played) -> None:
    model = open_new_model(played.url, CLUSTER)
    with pytest.raises(DatabaseError, match="another rebuild"):
        open_new_model(played.url, CLUSTER)
    place = model.draft.schema or make_url(model.url).database
    # As the end of its process does: locks are gone, the rest is there.
    model._held.close()  # type: ignore[attr-defined]
    before = everything(played.url)
    code, _, err = gatelog("replay", "--rebuild", *played.options)
    assert code == 0 and "removed what a rebuild that was cut short left: " in err
    assert str(place) in err
    assert everything(played.url) == before
    assert left_beside(played.url) == []


def test_of_two_that_begin_at_once_one_is_at_work(tmp_path: Path) -> None:
    url, together = f"sqlite:///{tmp_path}/live.db", Barrier(3)

    def begin(_: int) -> NewModel | None:
        together.wait(timeout=60)
        with suppress(DatabaseError):
            return open_new_model(url, CLUSTER)
        return None

    with ThreadPoolExecutor(3) as pool:
        for _ in range(10):
            made = [model for model in pool.map(begin, range(3)) if model is not None]
            assert len(made) == 1
            assert path_of(made[0].url).exists()
            made[0].close()
    assert not [*tmp_path.iterdir()]


# -- who reads and writes meanwhile ---


def test_a_reader_of_a_file_has_one_read_model_until_its_end(
    gatelog: Gatelog, simple: Played
) -> None:
    engine = reader(simple.url)
    query = sa.select(sa.func.count()).select_from(tables.pods)
    with engine.begin() as before:
        count = before.scalar(query)
        with writer(simple.url).begin() as spoiling:
            spoiling.execute(sa.delete(tables.pods))
        for _ in range(2):
            assert gatelog("replay", "--rebuild", *simple.options)[0] == 0
        assert before.scalar(query) == count
    with engine.begin() as after:
        assert after.scalar(query) == count
        assert str(after.scalar(sa.select(tables.checkpoints.c.writer))).startswith("rebuilt/")
    engine.dispose()


@BOTH
def test_a_projector_that_stands_by_writes_nothing_to_the_old_one(
    gatelog: Gatelog, played: Played
) -> None:
    store = SqlStore(played.url, CLUSTER)
    loaded = store.load()
    assert loaded is not None
    assert gatelog("replay", "--rebuild", *played.options)[0] == 0
    before, stood = everything(played.url), checkpoint(played.url)
    with pytest.raises(ReadModelReplaced):
        store.commit(Rows(), loaded.checkpoint, loaded.checkpoint)
    store.close()
    assert (everything(played.url), checkpoint(played.url)) == (before, stood)
    again = SqlStore(played.url, CLUSTER)
    now = again.load()
    assert now is not None
    again.commit(Rows(), now.checkpoint, now.checkpoint)
    again.close()


def test_what_people_made_in_a_file_goes_along(gatelog: Gatelog, simple: Played) -> None:
    path = path_of(simple.url)
    with closing(sqlite3.connect(path)) as mine:
        mine.executescript(
            "CREATE TABLE teams (name TEXT PRIMARY KEY, cost INT);"
            "INSERT INTO teams VALUES ('a', 3), ('b', 4);"
            "CREATE VIEW gone AS SELECT name FROM groups WHERE gone_at IS NOT NULL;"
            "CREATE INDEX mine ON pods (node);"
        )
        mine.execute("UPDATE pods SET node = 'x'")
        mine.commit()
    before = everything(simple.url)
    assert gatelog("replay", "--rebuild", *simple.options)[0] == 0
    assert path.is_symlink() and everything(simple.url) != before
    with closing(sqlite3.connect(path)) as mine:
        assert mine.execute("SELECT sum(cost) FROM teams").fetchone() == (7,)
        mine.execute("SELECT * FROM gone").fetchall()
        mine.execute("SELECT * FROM v_why_pending").fetchall()
        assert mine.execute("PRAGMA index_list(pods)").fetchall()[-1]
        assert mine.execute("SELECT 1 FROM sqlite_master WHERE name = 'mine'").fetchone()
        assert mine.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert mine.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert left_beside(simple.url) == []


@pytest.fixture
def people(played: Played) -> Iterator[psycopg.Connection[object]]:
    """A role that reads, with a view of its own in a schema of its own."""
    role = f"people_{os.getpid()}_{random.randrange(10**6)}"
    engine = writer(played.url)
    with engine.begin() as connection:
        name = connection.scalar(sa.text("SELECT current_database()"))
        for text in (
            f"CREATE ROLE {role} LOGIN",
            f'GRANT CREATE ON DATABASE "{name}" TO {role}',
            "CREATE INDEX mine ON pods (node)",
            "CREATE VIEW ours AS SELECT name FROM groups WHERE gone_at IS NULL",
            f"GRANT SELECT ON ours TO {role}",
        ):
            connection.exec_driver_sql(text)
    engine.dispose()
    migrate.upgrade(played.url, reader_role=role)
    url = make_url(played.url).set(username=role, password=None)
    mine = psycopg.connect(url.render_as_string(hide_password=False).replace("+psycopg", ""))
    mine.autocommit = True
    mine.execute("CREATE SCHEMA reports")
    mine.execute("CREATE VIEW reports.nodes AS SELECT node, count(*) FROM public.pods GROUP BY 1")
    mine.execute("CREATE VIEW reports.waiting AS SELECT * FROM public.v_why_pending")
    yield mine
    mine.close()


@POSTGRESQL
def test_views_and_grants_of_people_are_of_the_new_read_model(
    gatelog: Gatelog, played: Played, people: psycopg.Connection[object]
) -> None:
    asked = (
        "SELECT * FROM reports.nodes ORDER BY 1",
        "SELECT name FROM ours ORDER BY 1",
        "SELECT count(*) FROM history",
        "SELECT group_id FROM v_group_timeline ORDER BY 1 LIMIT 1",
        "SELECT count(*) FROM reports.waiting",
    )
    before = [people.execute(query).fetchall() for query in asked]
    engine = writer(played.url)
    with engine.begin() as connection:
        connection.execute(sa.update(tables.pods).values(node="elsewhere"))
        # The line at position 0 is the projector's: the log does not tell it.
        connection.execute(sa.delete(tables.history).where(tables.history.c.seq > 0))
    for _ in range(2):
        code, out, err = gatelog("replay", "--rebuild", *played.options)
        assert (code, err) == (0, ""), out
        assert [people.execute(query).fetchall() for query in asked] == before
    with engine.connect() as connection:
        (schema, name) = partitions.own(connection, CLUSTER)["pods"]
        indexed = connection.scalar(
            sa.text("SELECT count(*) FROM pg_indexes WHERE schemaname = :s AND indexdef LIKE :d"),
            {"s": schema, "d": f"%{name} USING btree (node)%"},
        )
    engine.dispose()
    assert indexed == 1
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        people.execute("DELETE FROM pods")


@POSTGRESQL
def test_a_query_that_runs_is_waited_for_and_lets_no_one_wait(
    gatelog: Gatelog, played: Played
) -> None:
    before = everything(played.url)
    engine = reader(played.url)
    with engine.begin() as slow:
        slow.execute(sa.select(sa.func.count()).select_from(tables.pods))
        with pytest.raises(DatabaseError, match="nothing was put in place"):
            asyncio.run(rebuilding.rebuild(played.settings, Watched(), tries=2))
    engine.dispose()
    assert everything(played.url) == before
    assert left_beside(played.url) == []
    assert gatelog("replay", "--rebuild", *played.options)[0] == 0
