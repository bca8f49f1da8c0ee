"""Fixtures of the read side's tests: a migrated database of either kind."""

from pathlib import Path

import pytest

from tests.support.databases import migrated


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A migrated database."""
    made = f"sqlite:///{tmp_path}/read-model.sqlite3"
    if request.param == "postgresql":
        made = str(request.getfixturevalue("postgres_database"))
    migrated(made)
    return made
