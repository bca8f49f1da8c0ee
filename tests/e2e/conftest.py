"""Databases of end-to-end tests."""

from pathlib import Path

import pytest


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty database, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/gatelog.db"
    found: str = request.getfixturevalue("postgres_database")
    return found
