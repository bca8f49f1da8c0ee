"""`gatelog replay FILE` on watch recordings of a real cluster, whole and damaged."""

import gzip
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from projector import tables
from projector.schema.layout import COMPARED as TABLES
from projector.storage.database import writer
from tests.replay.conftest import Ran
from tests.support.recordings import FOLDER

Gatelog = Callable[..., Ran]
FILES = sorted(FOLDER.glob("*.jsonl.gz"))
WATCHED = [f for f in FILES if f.name != "api_exchanges.jsonl.gz"]
"""What is not the other one, which has requests and answers instead of watch items."""


@pytest.mark.parametrize("file", WATCHED, ids=lambda f: f.name.removesuffix(".jsonl.gz"))
def test_every_recording_folds(gatelog: Gatelog, file: Path, tmp_path: Path) -> None:
    to = tmp_path / "recording.sqlite3"
    code, out, err = gatelog("replay", str(file), "--to", str(to))
    assert (code, err) == (0, ""), err
    with closing(sqlite3.connect(to)) as database:
        pods = database.execute("select count(*) from pods").fetchone()[0]
        groups = database.execute("select count(*) from groups").fetchone()[0]
        parked = database.execute("select count(*) from parked").fetchone()[0]
    assert parked == 0
    # One recording is of Workloads that others made: their pods were never in a queue.
    assert (pods > 0 and groups > 0) == (file.name != "external_workloads_under_kueue.jsonl.gz")
    assert f"{groups} groups and {pods} pods seen" in out


def test_a_group_of_a_recording_step_by_step(gatelog: Gatelog) -> None:
    file = str(FOLDER / "preempted_and_resumed.jsonl.gz")
    with gzip.open(file, "rt") as lines:
        pods = [
            found["object"]["metadata"]
            for found in map(json.loads, lines)
            if found["resource"] == "pods"
        ]
    group = next(
        f"{pod['namespace']}/{pod['labels']['kueue.x-k8s.io/pod-group-name']}"
        for pod in pods
        if "kueue.x-k8s.io/pod-group-name" in pod.get("labels", {})
    )
    code, out, _ = gatelog("replay", file, "--group", group)
    assert code == 0
    assert "[1/" in out and "QuotaReserved, Admitted" in out and "Evicted" in out
    last = [line for line in out.splitlines() if line.startswith("[")][-1]
    assert last.endswith("Z  Gone"), last


def test_a_truncated_file_gives_what_was_readable(gatelog: Gatelog, tmp_path: Path) -> None:
    whole = FOLDER / "busy_namespace.jsonl.gz"
    code, out, _ = gatelog("replay", str(whole))
    assert code == 0
    all_lines = int(out.split(" events of ")[1].split()[0])
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    to = tmp_path / "cut.sqlite3"
    code, out, err = gatelog("replay", str(cut), "--to", str(to))
    assert code == 1
    assert f"{cut}: the file ends in the middle" in err
    read = int(out.split(" events of ")[1].split()[0])
    assert all_lines * 0.2 < read < all_lines
    with closing(sqlite3.connect(to)) as database:
        assert database.execute("select count(*) from pods").fetchone()[0] > 0


def test_a_damaged_file_gives_what_was_readable(gatelog: Gatelog, tmp_path: Path) -> None:
    data = bytearray((FOLDER / "busy_namespace.jsonl.gz").read_bytes())
    middle = len(data) // 2
    data[middle : middle + 64] = b"\xff" * 64
    bad = tmp_path / "bad.jsonl.gz"
    bad.write_bytes(data)
    code, out, err = gatelog("replay", str(bad))
    assert code == 1
    assert "damaged" in err and "Traceback" not in err
    assert int(out.split(" events of ")[1].split()[0]) > 100


def test_bad_lines_are_named_and_stop_nothing(gatelog: Gatelog, tmp_path: Path) -> None:
    with gzip.open(FOLDER / "single_pod_lifecycle.jsonl.gz", "rb") as lines:
        good = lines.read().splitlines()
    pod = next(i for i, line in enumerate(good) if b'"pods"' in line)
    odd = json.loads(good[pod])
    odd["object"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "many"}}
    odd["object"]["metadata"]["uid"] = "another"
    mixed = tmp_path / "mixed.jsonl"
    mixed.write_bytes(
        b"\n".join([b"not json", *good[: pod + 1], json.dumps(odd).encode(), *good[pod + 1 :]])
    )
    code, out, err = gatelog("replay", str(mixed))
    assert code == 1
    assert f"{mixed}: line 1: " in err
    assert f"{mixed}: line {pod + 3}: pods " in err and "many" in err
    assert len(err.splitlines()) == 2
    assert "1 pods seen" in out


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("empty", b"", "is empty"),
        ("text", b"hello\nworld\n", "no watch items in 2 lines"),
        ("json", b'{"some": "document"}\n', "no watch items in 1 lines"),
        ("binary", bytes(range(256)) * 40, "no watch items"),
        ("gzipped", gzip.compress(b"hello\n"), "no watch items in 1 lines"),
        ("no-gzip", b"\x1f\x8bno gzip at all", "damaged"),
    ],
    ids=("empty", "text", "json", "binary", "gzipped", "no-gzip"),
)
def test_foreign_files_are_called_so(
    gatelog: Gatelog, tmp_path: Path, name: str, data: bytes, words: str
) -> None:
    file = tmp_path / name
    file.write_bytes(data)
    code, out, err = gatelog("replay", str(file))
    assert code == 1 and out == ""
    assert str(file) in err and words in err
    assert "unexpected" not in err


def test_no_such_file(gatelog: Gatelog, tmp_path: Path) -> None:
    code, _, err = gatelog("replay", str(tmp_path / "nothing"))
    assert code == 2 and "no such file" in err


def test_a_recording_as_of_a_moment(gatelog: Gatelog, tmp_path: Path) -> None:
    file, to = str(FOLDER / "busy_namespace.jsonl.gz"), tmp_path / "then.sqlite3"
    code, _, err = gatelog("replay", file, "--at", "100", "--to", str(to))
    assert (code, err) == (0, "")
    with closing(sqlite3.connect(to)) as database:
        assert database.execute("select seq from checkpoints").fetchall() == [(100,)]
        assert database.execute("select max(seq) from history").fetchone()[0] <= 100
    code, _, err = gatelog("replay", file, "--at", "100")
    assert code == 2 and "--at needs --to" in err


def test_a_database_made_from_a_recording_is_verified_against_it(
    gatelog: Gatelog, database: str, tmp_path: Path
) -> None:
    file = FOLDER / "busy_namespace.jsonl.gz"
    code, _, err = gatelog("replay", str(file), "--db", database)
    assert (code, err) == (0, "")
    # A copy is as good: nothing depends on where the file is, or how old.
    copy = tmp_path / "copy.jsonl.gz"
    copy.write_bytes(file.read_bytes())
    code, out, err = gatelog("replay", str(copy), "--verify", "--db", database)
    assert (code, err) == (0, ""), out
    assert out.count(" equal") == len(TABLES)
    found = {line.split()[0]: int(line.split()[1]) for line in out.splitlines() if " equal" in line}
    assert all(found[name] > 0 for name in ("groups", "roles", "pods", "history", "waits"))

    engine = writer(database)
    with engine.begin() as connection:
        connection.execute(sa.update(tables.pods).values(node="elsewhere"))
    engine.dispose()
    code, out, _ = gatelog("replay", str(file), "--verify", "--db", database)
    assert code == 1 and f" {found['pods']} rows  {found['pods']} DIFFERENT" in out


def test_the_times_of_a_recording_are_those_of_its_objects(
    gatelog: Gatelog, tmp_path: Path
) -> None:
    file, to = FOLDER / "single_pod_lifecycle.jsonl.gz", tmp_path / "one.sqlite3"
    assert gatelog("replay", str(file), "--to", str(to))[0] == 0
    with gzip.open(file, "rt") as lines:
        found = [json.loads(line) for line in lines]
    created = next(
        datetime.fromisoformat(one["object"]["metadata"]["creationTimestamp"])
        for one in found
        if one["resource"] == "pods"
    )
    with closing(sqlite3.connect(to)) as database:
        (seen,) = database.execute("select at from history where kind = 'PodSeen'").fetchone()
    assert abs((datetime.fromisoformat(seen) - created).total_seconds()) < 5


def test_what_cannot_be_compared_is_said(gatelog: Gatelog, tmp_path: Path) -> None:
    busy, other = (str(FOLDER / f"{n}.jsonl.gz") for n in ("busy_namespace", "serving_group"))
    to = f"sqlite:///{tmp_path}/x.sqlite3"
    code, _, err = gatelog("replay", busy, "--verify", "--db", to)
    assert code == 1 and "no such database" in err
    assert gatelog("replay", busy, "--to", to)[0] == 0
    code, out, err = gatelog("replay", other, "--verify", "--db", to)
    assert code == 1 and out == "" and "the file ends at" in err
    code, _, err = gatelog("replay", busy, "--verify", "--db", to, "--to", to)
    assert code == 2 and "--verify writes nothing" in err
    code, _, err = gatelog("replay", busy, "--verify", "--db", to, "--cluster", "prod")
    assert code == 1 and "no checkpoint of cluster 'prod'" in err
    code, _, err = gatelog("replay", busy, "--rebuild", "--db", to)
    assert code == 2 and "leave FILE out" in err
