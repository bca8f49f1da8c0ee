"""A day of three teams on a real API server, as version 0cec161d recorded and answered it.

Theory. Golden logs of `v1` were decided by toys of our own. This log is of a real Kubernetes 1.36
API server: 60 preemptions, a quota that changed, a queue that was stopped, users who send pods
again. `rows` is what the live read model of that version held, `columns.json` which columns it had.

Invariant: the files are never made anew. A repair that has to change a row names the row in
`CHANGED`, with its reason, and in the changelog.
"""

import asyncio
import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import sqlalchemy as sa

from projector.storage.database import reader
from tests.golden import rows as golden
from tests.support.databases import migrated

HERE: Final = Path(__file__).parent / "teams43"
LOG: Final = HERE / "teams43.jsonl.gz"
COLUMNS: Final[dict[str, list[str]]] = json.loads((HERE / "columns.json").read_text())
CHANGED: Final[dict[str, str]] = {}
"""Rows of then that a repair changed (as text), each with its reason."""


def dump(url: str) -> Iterator[str]:
    """Rows as `table [values]`, in the columns of then; the order of rows does not matter."""
    engine = reader(url)
    with engine.connect() as connection:
        for table, columns in COLUMNS.items():
            values: list[sa.ColumnElement[object]] = [sa.literal_column(name) for name in columns]
            for row in connection.execute(sa.select(*values).select_from(sa.text(table))):
                yield f"{table} {json.dumps(list(row), default=str)}"
    engine.dispose()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The read model that this release makes of the log."""
    made = f"sqlite:///{tmp_path_factory.mktemp('teams43')}/rows.sqlite3"
    migrated(made)
    asyncio.run(golden.folded(LOG, made))
    return made


def lacking(url: str) -> tuple[list[str], list[str]]:
    """Rows of then that a read model lacks, and rows that it has and that were not there then."""
    kept = Counter(gzip.decompress((HERE / "teams43.rows.gz").read_bytes()).decode().splitlines())
    found = Counter(dump(url))
    assert kept.total() > 20_000
    gone = [row for row in kept - found if "EpochStarted" not in row and row not in CHANGED]
    return gone, list(found - kept)


def test_the_day_gives_the_rows_it_gave_then(url: str) -> None:
    assert lacking(url) == ([], [])
