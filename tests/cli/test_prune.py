"""`gatelog prune` at the command line, and what other commands say of what is gone."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from projector import tables
from projector.storage.database import writer
from tests.projector.support import Writer
from tests.projector.test_pruning import messages
from tests.support.databases import migrated

Ran = tuple[int, str, str]
Command = Callable[..., Ran]


@pytest.fixture
def database(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/model.sqlite3"
    migrated(url)
    Writer(url).feed(messages()).store.close()
    engine = writer(url)
    with engine.begin() as connection:
        connection.execute(sa.update(tables.checkpoints).values(published=10**6))
    engine.dispose()
    return url


def test_dry_run_then_prune_then_nothing(gatelog: Command, database: str) -> None:
    place = ("--db", database, "--cluster", "test")
    code, would, err = gatelog("prune", "--older-than", "12w", "--dry-run", "--db", database)
    assert (code, err) == (0, ""), err
    assert "would go:" in would and "history" in would and " rows " in would
    assert "was pruned" not in gatelog("history", "ns/a", *place)[1]
    code, out, err = gatelog("prune", "--older-than", "12w", "--compact", "--db", database)
    assert (code, err) == (0, ""), err
    assert out.replace(" goes:", " would go:") == would
    assert gatelog("prune", "--older-than", "84d", "--db", database)[1].endswith("nothing\n")
    assert "00:00 UTC was pruned" in gatelog("history", "ns/a", *place)[1]
    code, _, err = gatelog("history", "ns/single", *place)
    assert code == 1 and "were pruned" in err


def test_as_json(gatelog: Command, database: str) -> None:
    code, out, _ = gatelog("prune", "--older-than", "12w", "--json", "--db", database)
    found = json.loads(out)
    assert code == 0
    assert {one["table"] for one in found["gone"]} >= {"history", "outcomes", "groups", "pods"}
    assert all(one["rows"] > 0 for one in found["gone"])


@pytest.mark.parametrize(
    "age, said",
    [("90", "days or weeks"), ("0d", "days or weeks"), ("99999d", "36500d at most")],
)
def test_an_age_that_is_none(gatelog: Command, database: str, age: str, said: str) -> None:
    code, _, err = gatelog("prune", "--older-than", age, "--db", database)
    assert code == 2 and said in err and age in err


def test_without_an_age_the_setting_is_asked(gatelog: Command, database: str) -> None:
    code, _, err = gatelog("prune", "--db", database)
    assert code == 2 and "database.retention_days" in err
    given = ("--set", "database.retention_days=84")
    code, out, _ = gatelog("prune", "--dry-run", "--db", database, *given)
    assert code == 0 and "history" in out
