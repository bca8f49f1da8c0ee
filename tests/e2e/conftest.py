"""Databases of end-to-end tests."""

from pathlib import Path

import pytest

SLOW = pytest.mark.slow(
    "the same with the other database: stores are tested on both in tests/projector"
)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=SLOW)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty database, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/gatelog.db"
    found: str = request.getfixturevalue("postgres_database")
    return found
