"""Golden logs of each log format, folded by this release."""

import asyncio
import gzip
from pathlib import Path

import pytest

from podgroup.model.policy import Policy
from projector.replay.files import FileLog
from projector.replay.fold import Beginning, Redeciding, Result, fold
from projector.replay.sink import Sink
from tests.golden import rows as golden
from tests.support.databases import migrated

LOGS = golden.logs("v1")
OTHER = Policy(label_keys_to_copy=("none-such",), requeuing_backoff_s=7, elastic_jobs=True)
WAITING = golden.HERE / "v1" / "compose-rows-pods-that-differ-in-a-chosen-label-block-the.jsonl.gz"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One read model for all logs of the module, each a cluster of its own."""
    made = f"sqlite:///{tmp_path_factory.mktemp('golden')}/rows.sqlite3"
    migrated(made)
    return made


def folded(path: Path, url: str, **given: object) -> tuple[Result, golden.Rows]:
    result = asyncio.run(golden.folded(path, url, **given))  # type: ignore[arg-type]
    return result, golden.rows(url, path.name.partition(".")[0])


@pytest.mark.parametrize("path", LOGS, ids=[path.name.partition(".")[0] for path in LOGS])
def test_a_log_gives_the_rows_it_gave_then(path: Path, url: str) -> None:
    """Whatever mode and settings are those of today; the rows were made live."""
    _, found = folded(path, url, mode="kueue", policy=OTHER)
    before = golden.parsed(golden.kept(path))
    now = golden.as_kept(found, before)
    assert {name: rows for name, rows in now.items() if rows} == before


def test_what_is_held_against_the_logs_is_not_little() -> None:
    kept = [golden.parsed(golden.kept(path)) for path in LOGS]
    assert sum(len(rows) for dump in kept for rows in dump.values()) > 4_000
    rules = {(row["rule"], row["action"]) for dump in kept for row in dump.get("decisions", ())}
    assert len(rules) > 35
    kinds = {row["kind"] for dump in kept for row in dump.get("history", ())}
    assert len(kinds) > 20


NOT_HERE = {
    ("groups", "most_run_s"),
    ("groups", "parked"),
    ("groups", "precedence"),
    ("history", "cause_seq"),  # of the contract, and nothing fills it
    ("parked", "resolved_by"),
    ("pods", "owner"),
    ("pods", "restarts"),
    ("pods", "used_from"),
    ("pods", "used_mean"),
    ("pods", "used_peak"),
    ("pods", "used_samples"),
    ("pods", "used_to"),
    ("shortages", "ever"),
    ("shortages", "lender"),
}
"""(table, column) of which no golden log has a value: these logs are never made anew."""


def test_each_column_is_filled_by_a_replay(tmp_path: Path) -> None:
    made = f"sqlite:///{tmp_path}/rows.sqlite3"
    migrated(made)
    there: set[tuple[str, str]] = set()
    filled = set(NOT_HERE)
    for path in LOGS:
        _, found = folded(path, made)
        there |= {(table, name) for table, rows in found.items() for row in rows for name in row}
        filled |= {
            (table, name)
            for table, rows in found.items()
            for row in rows
            for name, value in row.items()
            if value
        }
    assert there - filled == set(), (
        "no replay fills these: write them in projector/writing; where old logs have no value, "
        "name them in NOT_HERE, and test them by a story of your own"
    )


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
    migrated(again := f"{url}.worded")
    log, cluster = FileLog(path), WAITING.name.partition(".")[0]
    begin = Beginning(cluster, "builtin")
    with Sink(again, cluster, "") as sink:
        asyncio.run(fold(log.entries(), begin, sink=sink))
    found = golden.rows(again, cluster)
    said = [row["message"] for row in (*found["waits"], *found["groups"])]
    assert any(new in message for message in said)
    assert not any(old in message for message in said)
    asked = asyncio.run(fold(FileLog(path).entries(), begin, redecide=Redeciding())).differences
    assert any(old in str(each.said_now) for each in asked)
    assert any(new in str(each.said_then) for each in asked)
