"""Golden logs of earlier releases, folded by this one."""

import asyncio
from pathlib import Path

import pytest

from podgroup.engine import new_world, step
from podgroup.events import Decision, RelistCompleted
from podgroup.policy import Policy
from projector import migrate
from projector.replay.files import FileLog
from projector.replay.fold import Result
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


@pytest.mark.xfail(strict=True, reason="a replay runs rules on what the log does not say")
def test_settings_of_today_change_nothing_of_a_log(url: str) -> None:
    before = golden.parsed(golden.kept(BLOCKED))
    migrate.upgrade(again := f"{url}.other")
    _, found = folded(BLOCKED, again, policy=Policy())
    assert golden.as_kept(found, before)["waits"] == before["waits"]
