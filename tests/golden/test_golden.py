"""Golden logs of earlier releases, folded by this one."""

import asyncio
import gzip
from pathlib import Path

import pytest

from podgroup.engine import new_world, step
from podgroup.events import Decision, RelistCompleted
from podgroup.policy import Policy
from projector.replay.files import FileLog
from projector.replay.fold import Result, Sink, fold
from projector.upkeep import migrate
from tests.golden import rows as golden

FIRST = golden.logs("first")
BLOCKED = (
    golden.HERE / "first" / "compose-rows-pods-that-differ-in-a-chosen-label-block-the.jsonl.gz"
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One read model for all logs of the module, each a cluster of its own."""
    made = f"sqlite:///{tmp_path_factory.mktemp('golden')}/rows.sqlite3"
    migrate.upgrade(made)
    return made


def folded(path: Path, url: str, **given: object) -> tuple[Result, golden.Rows]:
    result = asyncio.run(golden.folded(path, url, **given))  # type: ignore[arg-type]
    return result, golden.rows(url, path.name.partition(".")[0])


@pytest.mark.parametrize("path", FIRST, ids=[path.name.partition(".")[0] for path in FIRST])
def test_a_log_of_the_first_format_gives_the_rows_it_gave_then(path: Path, url: str) -> None:
    before = golden.parsed(golden.kept(path))
    _, found = folded(path, url)
    now = golden.as_kept(found, before)
    wanted = golden.without_derived(before)
    assert golden.without_derived(now) == wanted


def test_what_is_held_against_the_logs_is_not_little() -> None:
    kept = [golden.without_derived(golden.parsed(golden.kept(path))) for path in FIRST]
    assert sum(len(rows) for dump in kept for rows in dump.values()) > 4_000
    rules = {(row["rule"], row["action"]) for dump in kept for row in dump.get("decisions", ())}
    assert len(rules) > 35
    kinds = {row["kind"] for dump in kept for row in dump.get("history", ())}
    assert len(kinds) > 20


def test_decisions_are_applied_before_every_kind_was_listed() -> None:
    """A kind that must be listed first, and that a log knows nothing of, takes nothing away."""
    path = golden.HERE / "first" / "demo.jsonl.gz"
    world = new_world("test")
    decided: list[Decision] = []

    async def fold() -> None:
        async for entry in FileLog(path).entries():
            some = tuple(
                event
                for event in entry.batch.events
                if not isinstance(event, RelistCompleted) or event.kind != "Namespace"
            )
            batch = type(entry.batch)(source=entry.batch.source, events=some)
            step(world, entry.position, entry.at, batch, entry.recorded)
            decided.extend(entry.recorded.values())

    asyncio.run(fold())
    assert "Namespace" not in world.meta.synced
    assert len(decided) > 100
    made = sorted(world.journal.decisions, key=lambda decision: decision.number)
    assert made == decided


SECOND = golden.logs("second") + golden.logs("third")
OTHER = Policy(label_keys_to_copy=("none-such",), requeuing_backoff_s=7, elastic_jobs=True)
WAITING = golden.HERE / "second" / BLOCKED.name


@pytest.mark.parametrize("path", SECOND, ids=[path.name.partition(".")[0] for path in SECOND])
def test_a_log_with_records_gives_the_rows_it_gave_then(path: Path, url_of_second: str) -> None:
    """Whatever mode and settings are those of today; the rows were made live."""
    result, found = folded(path, url_of_second, mode="kueue", policy=OTHER)
    before = golden.parsed(golden.kept(path))
    assert not result.derived
    now = golden.as_kept(found, before)
    assert {name: rows for name, rows in now.items() if rows} == before


@pytest.fixture(scope="module")
def url_of_second(url: str) -> str:
    migrate.upgrade(again := f"{url}.second")
    return again


def rewritten(path: Path, target: Path, old: str, new: str) -> Path:
    """The same log, by a release whose rules said `new` where this one says `old`."""
    lines = gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)
    assert any(old in line for line in lines)
    there = target / path.name
    there.write_bytes(gzip.compress("".join(lines).replace(old, new).encode()))
    return there


def test_what_was_said_then_stays_whatever_rules_say_now(tmp_path: Path, url: str) -> None:
    """The wording of today is not that of the log: a rule that is asked would be heard."""
    old, new = "have different 'team' values", "disagree on 'team'"
    path = rewritten(WAITING, tmp_path, old, new)
    migrate.upgrade(again := f"{url}.worded")
    log, cluster = FileLog(path), WAITING.name.partition(".")[0]
    result = asyncio.run(fold(log.entries(), cluster, "builtin", sink=Sink(again, cluster, 0, "")))
    assert not result.derived
    found = golden.rows(again, cluster)
    said = [row["message"] for row in (*found["waits"], *found["groups"])]
    assert any(new in message for message in said)
    assert not any(old in message for message in said)
    asked = asyncio.run(
        fold(FileLog(path).entries(), cluster, "builtin", redecide=True)
    ).differences
    assert any(old in str(each.said_now) for each in asked)
    assert any(new in str(each.said_then) for each in asked)


def test_settings_of_today_change_nothing_of_a_log(url: str) -> None:
    migrate.upgrade(again := f"{url}.other")
    _, found = folded(WAITING, again, policy=Policy())
    before = golden.parsed(golden.kept(WAITING))
    assert before["waits"]
    assert golden.as_kept(found, before)["waits"] == before["waits"]


def test_of_a_log_without_records_it_is_said_how_much_was_derived(url: str) -> None:
    migrate.upgrade(again := f"{url}.derived")
    result, _ = folded(BLOCKED, again)
    assert 0 < result.derived <= result.messages
