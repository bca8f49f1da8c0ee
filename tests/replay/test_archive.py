"""The archive: what the streams dropped is read from segments as if it were still there."""

import asyncio
import json
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from itertools import pairwise
from pathlib import Path

import nats
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from podgroup.log.codec import decode_conclusion, split_conclusions
from podgroup.log.subjects import DECISIONS, EVENTS
from projector import tables
from projector.archive.archive_store import ArchiveStoreUnavailable, open_archive_store
from projector.archive.periodic import Keeper
from projector.archive.segments import Segment, Span, chain, folder_of, gaps, name_of, parse
from projector.archive.standing import earliest
from projector.replay.files import FileLog
from projector.schema.layout import COMPARED as TABLES
from projector.storage.database import writer
from runtime.jetstream import connect
from runtime.metrics import Metrics
from runtime.settings import ArchiveSettings, DatabaseSettings, Settings
from tests.projector.support import busy_toy
from tests.replay.conftest import Ran
from tests.replay.support import CLUSTER, Played, played_in
from tests.support.databases import migrated
from tests.support.forking import GATELOG, Forked, ran
from tests.support.toy import T0

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

Gatelog = Callable[..., Ran]
FOLDER = folder_of(CLUSTER)
SMALL = ("--set", "archive.segment_bytes=20000")


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """An object store on loopback, with its place in the environment as users give it."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    connection = HTTPConnection("127.0.0.1", port)
    connection.request("PUT", "/backups")
    assert connection.getresponse().status == 200
    connection.close()
    for name, value in (
        ("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}"),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
    ):
        monkeypatch.setenv(name, value)
    yield f"s3://backups/{tmp_path.name}"  # what is in buckets outlives the server
    server.stop()


@pytest.fixture(params=["directory", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "bucket":
        return str(request.getfixturevalue("bucket"))
    return str(tmp_path / "archive")


def expire(played: Played, stream: str, keep: int) -> None:
    """Let the server drop the oldest messages of a stream, as its limits do one day."""

    async def dropped() -> None:
        user, password = played.nats.user, Path(played.nats.password_file).read_text().strip()
        client = await nats.connect(played.nats.url, user=user, password=password)
        info = json.loads((await client.request(f"$JS.API.STREAM.INFO.{stream}", b"")).data)
        for limit in (keep, -1):
            config = {**info["config"], "max_msgs": limit}
            answer = await client.request(
                f"$JS.API.STREAM.UPDATE.{stream}", json.dumps(config).encode()
            )
            assert "error" not in json.loads(answer.data)
        await client.close()

    asyncio.run(dropped())


@pytest.mark.slow_with(
    "directory", "the same on the other kind of store; make test plays it on one"
)
def test_tables_are_kept_beside_the_segments(
    gatelog: Gatelog, simple: Played, place: str, tmp_path: Path
) -> None:
    code, _, err = gatelog(
        *("archive", "--to", place, "--set", "archive.parquet=true", *simple.options)
    )
    assert (code, err) == (0, "")
    names = open_archive_store(place).names("parquet")
    assert "duckdb.sql" in names and f"{CLUSTER}.open.parquet" in names
    other = f"{place}-tables"
    code, out, err = gatelog("export", other, "--format", "parquet", *simple.options)
    assert (code, err) == (0, "") and "rows in" in out
    assert open_archive_store(other).names("") == names


def segments(place: str) -> list[Segment]:
    return [one for one in map(parse, open_archive_store(place).names(FOLDER)) if one is not None]


def test_what_the_stream_dropped_is_read_from_the_archive(
    gatelog: Gatelog, simple: Played, place: str, tmp_path: Path
) -> None:
    count = len(simple.toy.messages)
    code, out, err = gatelog("archive", "--to", place, *SMALL, *simple.options)
    assert (code, err) == (0, "") and f"archived up to seq {count}" in out
    found = segments(place)
    assert len(found) > 2 and chain(found, 1) == (found, count + 1)
    code, out, _ = gatelog("archive", "--to", place, *SMALL, *simple.options)
    assert (code, out) == (0, f"nothing new; archived up to seq {count}\n")
    assert segments(place) == found

    expire(simple, EVENTS, count // 2)
    expire(simple, DECISIONS, 2)
    code, out, err = gatelog("replay", "--verify", *simple.options)
    assert code == 1 and out == ""
    assert "positions 1 to " in err and "archive.url" in err and "--archive" in err

    at = ("--archive", place)
    code, out, err = gatelog("replay", "--verify", *at, *simple.options)
    assert (code, err) == (0, ""), out
    assert f"{count} messages" in out and "DIFFERENT" not in out
    code, out, err = gatelog("replay", "--redecide", *at, *simple.options)
    assert code == 0 and f"{count} messages decided again: no decisions differ" in out
    code, out, _ = gatelog("replay", "--group", "ns/a", *at, *simple.options)
    assert code == 0 and "decided  admit: AdmitGroup a" in out
    then = tmp_path / "then.sqlite3"
    code, _, err = gatelog("replay", "--at", "40", "--to", str(then), *at, *simple.options)
    assert (code, err) == (0, "")
    with closing(sqlite3.connect(then)) as kept:
        assert kept.execute("select seq from checkpoints").fetchall() == [(40,)]
    file = tmp_path / "whole.jsonl.gz"
    code, out, err = gatelog("export", str(file), *at, *simple.options)
    assert (code, err) == (0, "") and f"{count} messages" in out


@pytest.mark.slow_with("bucket", "the same on the other kind of store; make test plays it on one")
def test_an_archive_is_a_log_without_nats(
    gatelog: Gatelog, simple: Played, place: str, tmp_path: Path
) -> None:
    count = len(simple.toy.messages)
    assert gatelog("archive", "--to", place, *SMALL, *simple.options)[0] == 0
    of = ("--cluster", CLUSTER)
    to = f"sqlite:///{tmp_path}/copy.sqlite3"
    code, out, err = gatelog("import", place, "--to", to, *of)
    assert (code, err) == (0, ""), out
    for database in (simple.url, to):
        code, out, err = gatelog("replay", place, "--verify", "--db", database, *of)
        assert (code, err) == (0, ""), out
        assert f"{count} messages" in out and out.count(" equal") == len(TABLES)
    code, out, err = gatelog("replay", place, "--redecide", *of)
    assert (code, err) == (0, "") and f"{count} messages decided again: no decisions differ" in out
    code, out, _ = gatelog("replay", place, "--group", "ns/a", *of)
    assert code == 0 and "decided  admit: AdmitGroup a" in out
    then = tmp_path / "then.sqlite3"
    assert gatelog("replay", place, "--at", "40", "--to", str(then), *of)[0] == 0
    with closing(sqlite3.connect(then)) as kept:
        assert kept.execute("select seq from checkpoints").fetchall() == [(40,)]
    code, _, err = gatelog("replay", place, "--redecide", "--cluster", "prod")
    assert code == 1 and "no segments of cluster prod" in err and "--cluster names another" in err


def test_what_is_wrong_with_an_archive_is_said_and_the_rest_is_read(
    gatelog: Gatelog, simple: Played, tmp_path: Path
) -> None:
    place, of = tmp_path / "archive", ("--cluster", CLUSTER)
    code, _, err = gatelog("replay", "ftp://nowhere/x", *of)
    assert code == 1 and "give a directory, or s3://" in err
    place.mkdir()
    code, _, err = gatelog("import", str(place), "--to", str(tmp_path / "no.sqlite3"), *of)
    assert code == 1 and f"{place}: no segments of cluster {CLUSTER}" in err
    assert gatelog("archive", "--to", str(place), *SMALL, *simple.options)[0] == 0
    first, second, *_ = (place / FOLDER / one.name for one in segments(str(place)))
    whole = second.read_bytes()
    second.write_bytes(whole[: len(whole) // 2])
    to = tmp_path / "half.sqlite3"
    code, out, err = gatelog("import", str(place), "--to", str(to), *of)
    assert code == 1 and f"{second.name}: the file ends in the middle" in err
    read = int(out.split(" events of ")[1].split()[0])
    assert len(simple.toy.messages) // 2 < read
    second.write_bytes(b"")
    code, out, err = gatelog("replay", str(place), *of)
    assert code == 1 and f"{second.name}: is no export of gatelog" in err and "folded" in out
    second.unlink()
    code, out, err = gatelog("replay", str(place), *of)
    assert code == 1 and out == "" and "are missing between its segments" in err
    second.write_bytes(whole)
    first.write_bytes(b"nothing")
    code, out, err = gatelog("replay", str(place), *of)
    assert code == 1 and first.name in err and "Restore it from a copy" in err
    first.unlink()
    code, out, err = gatelog("replay", str(place), *of)
    assert code == 1 and "were never archived" in err and "folded" in out


def test_a_single_segment_is_a_file(gatelog: Gatelog, simple: Played, tmp_path: Path) -> None:
    place, to = tmp_path / "archive", tmp_path / "one.sqlite3"
    assert gatelog("archive", "--to", str(place), *SMALL, *simple.options)[0] == 0
    first, second, *_ = segments(str(place))
    file = place / FOLDER / first.name
    code, out, err = gatelog("import", str(file), "--to", str(to))
    assert (code, err) == (0, ""), out
    with closing(sqlite3.connect(to)) as database:
        assert database.execute("select seq from checkpoints").fetchall() == [(first.last,)]
    code, out, err = gatelog("replay", str(file), "--verify", "--db", str(to))
    assert (code, err) == (0, ""), out
    code, out, err = gatelog("replay", str(file), "--redecide")
    assert (code, err) == (0, ""), out
    code, out, err = gatelog("replay", str(place / FOLDER / second.name))
    assert code == 0 and f"of positions {second.first} to {second.last}" in err
    assert "what was before is not in it" in err
    # It says by which settings it goes on, so nothing of it is derived by today's rules.
    assert "today's rules" not in out
    said = FileLog(place / FOLDER / second.name).header.settings
    assert said is not None and said.mode == "builtin"
    assert FileLog(file).header.settings is None


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
def test_a_rebuild_reads_what_the_stream_dropped_from_the_archive(
    gatelog: Gatelog, played: Played, tmp_path: Path
) -> None:
    place = str(tmp_path / "archive")
    assert gatelog("archive", "--to", place, *SMALL, *played.options)[0] == 0
    expire(played, EVENTS, 20)
    expire(played, DECISIONS, 2)
    engine = writer(played.url)
    with engine.begin() as connection:
        connection.execute(sa.update(tables.pods).values(node="elsewhere"))
        connection.execute(sa.delete(tables.waits))
    engine.dispose()
    code, _, err = gatelog("replay", "--rebuild", *played.options)
    assert code == 1 and "are no longer in the stream" in err and "--archive" in err
    code, out, err = gatelog("replay", "--rebuild", "--archive", place, *played.options)
    assert code == 0, err
    assert f"{len(played.toy.messages)} messages" in out
    code, out, err = gatelog("replay", "--verify", "--archive", place, *played.options)
    assert (code, err) == (0, ""), out


@pytest.mark.slow_with("postgresql", "the same on the other database; make test plays it on one")
def test_on_both_databases(gatelog: Gatelog, played: Played, tmp_path: Path) -> None:
    place = str(tmp_path / "archive")
    assert gatelog("archive", "--to", place, *SMALL, *played.options)[0] == 0
    expire(played, EVENTS, 1)
    expire(played, DECISIONS, 1)
    code, out, err = gatelog("replay", "--verify", "--archive", place, *played.options)
    assert (code, err) == (0, ""), out


def test_a_gap_is_reported_once_and_named_by_replay(
    gatelog: Gatelog, simple: Played, tmp_path: Path
) -> None:
    place, count = str(tmp_path / "archive"), len(simple.toy.messages)
    expire(simple, EVENTS, count - 30)
    code, out, err = gatelog("archive", "--to", place, *simple.options)
    assert code == 1 and "positions 1 to 30 were dropped by the streams" in err
    assert [(s.first, s.last) for s in segments(place)] == [(31, count)]
    code, out, err = gatelog("archive", "--to", place, *simple.options)
    assert (code, err) == (0, "") and "nothing new" in out
    code, _, err = gatelog("replay", "--verify", "--archive", place, *simple.options)
    assert code == 1 and "positions 1 to 30 are neither in the stream" in err

    (only,) = segments(place)
    kept = Path(place) / FOLDER / only.name
    lying = kept.with_name(name_of(CLUSTER, 1, Span(1, 60)))
    kept.rename(lying)
    expire(simple, EVENTS, 2)
    code, _, err = gatelog("replay", "--verify", "--archive", place, *simple.options)
    assert code == 1 and f"positions 61 to {count - 2} are neither" in err
    lying.rename(kept.with_name(name_of(CLUSTER, 1, Span(1, count))))
    code, _, err = gatelog("replay", "--verify", "--archive", place, *simple.options)
    assert code == 1 and f"it holds positions 31 to {count}, not what its name says" in err


def test_decisions_that_were_dropped_are_a_gap_as_well(
    gatelog: Gatelog, simple: Played, tmp_path: Path
) -> None:
    place = str(tmp_path / "archive")

    async def around(keep: int) -> tuple[int, int]:
        """Where the last of what is dropped was concluded, and the first of what is kept."""
        bus = await connect(simple.nats, "test", deadline_s=20)
        subject = f"decisions.{CLUSTER}.0"
        newest = await bus.last(DECISIONS, subject)
        assert newest is not None
        first = newest.sequence - keep + 1
        before = await bus.at_or_after(DECISIONS, first - 1, subject)
        since = await bus.at_or_after(DECISIONS, first, subject)
        await bus.close()
        assert before is not None and since is not None
        dropped = decode_conclusion(split_conclusions(before.body)[-1])
        kept = decode_conclusion(split_conclusions(since.body)[0])
        return dropped.as_of, kept.as_of

    dropped, kept = asyncio.run(around(3))
    expire(simple, DECISIONS, 3)
    code, _, err = gatelog("archive", "--to", place, *simple.options)
    assert code == 1
    said = re.search(r"positions 1 to (\d+) were dropped", err)
    # The messages are cut where the publisher happened to: between positions, or within one.
    assert said is not None and dropped <= int(said[1]) <= kept
    at = int(said[1])
    assert segments(place)[0].first == at + 1
    code, _, err = gatelog("replay", "--verify", "--archive", place, *simple.options)
    assert code == 1 and f"positions 1 to {at} are neither" in err


def test_records_count_for_what_was_dropped(tmp_path: Path) -> None:
    """Decisions and records share one numbering, and a dropped record is a gap as well."""
    url = f"sqlite:///{tmp_path}/numbers.sqlite3"
    migrated(url)
    engine, row = writer(url), {"cluster": CLUSTER, "shard": 0}
    texts = [c.name for c in tables.decisions.columns if isinstance(c.type, sa.Text)]
    made = {**dict.fromkeys(texts, ""), **row, "issued_at": T0, "command": {}}
    with engine.begin() as connection:
        assert earliest(connection, CLUSTER, 1) is None
        for number, position in ((1, 1), (5, 10)):
            values = {**made, "id": str(number), "number": number, "as_of_seq": position}
            connection.execute(sa.insert(tables.decisions).values(values))
        # Numbers 2 to 4 were records, of which nobody knows any more at which position.
        assert earliest(connection, CLUSTER, 8) == 2
        known = {**row, "number": 4, "as_of_seq": 7, "body": b""}
        connection.execute(sa.insert(tables.conclusions).values(known))
        assert earliest(connection, CLUSTER, 8) == 5
        assert earliest(connection, CLUSTER, 7) == 2
        assert earliest(connection, CLUSTER, 11) is None
    engine.dispose()


def test_a_damaged_segment_is_named(gatelog: Gatelog, simple: Played, tmp_path: Path) -> None:
    place = tmp_path / "archive"
    assert gatelog("archive", "--to", str(place), *SMALL, *simple.options)[0] == 0
    expire(simple, EVENTS, 1)
    first, *_, last = (place / FOLDER / one.name for one in segments(str(place)))
    whole = first.read_bytes()
    first.write_bytes(whole[: len(whole) // 2])
    code, _, err = gatelog("replay", "--verify", "--archive", str(place), *simple.options)
    assert code == 1 and first.name in err and "truncated" in err and "Traceback" not in err
    last.write_bytes(b"")
    code, _, err = gatelog("archive", "--to", str(place), *SMALL, *simple.options)
    assert code == 1 and last.name in err and "Move it away" in err


def test_an_archive_of_another_stream_is_not_gone_on_with(
    gatelog: Gatelog, simple: Played, tmp_path: Path
) -> None:
    """Somebody installed anew under the same name: both logs begin with position 1 of epoch 1."""
    place, other = str(tmp_path / "archive"), tmp_path / "other"
    assert gatelog("archive", "--to", place, *SMALL, *simple.options)[0] == 0
    before = segments(place)
    other.mkdir()
    server, anew = played_in(other, f"sqlite:///{other}/live.sqlite3", busy_toy())
    try:
        code, out, err = gatelog("archive", "--to", place, *anew.options)
        assert code == 1 and out == "" and segments(place) == before
        assert before[-1].name in err and "is of another stream of this name" in err
        assert "Archive to another place" in err
    finally:
        asyncio.run(server.stop())


def test_killed_at_any_moment_it_goes_on(simple: Played, tmp_path: Path) -> None:
    place, count = tmp_path / "archive", len(simple.toy.messages)
    command = [GATELOG, "archive", "--to", str(place), *simple.options]
    command += ["--set", "archive.segment_bytes=10000"]
    kills = 0
    for wait_s in (0.05, 0.15, 0.3):
        child = Forked(command, os.environ, Path(os.devnull))
        time.sleep(wait_s)
        kills += child.poll() is None
        child.kill()
        child.wait()
        for one in segments(str(place)):
            log = FileLog(place / FOLDER / one.name)
            assert asyncio.run(_read(log)) and log.unread == []
    assert kills > 0
    done = ran(command, os.environ, tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"archived up to seq {count}" in done.stdout
    assert chain(segments(str(place)), 1)[1] == count + 1
    expire(simple, EVENTS, 1)
    verify = [GATELOG, "replay", "--verify", "--archive", str(place), *simple.options]
    assert ran(verify, os.environ, tmp_path).returncode == 0


async def _read(log: FileLog) -> int:
    return len([entry async for entry in log.entries()])


def test_the_projector_keeps_it_by_itself(simple: Played, tmp_path: Path) -> None:
    settings = Settings(
        cluster=CLUSTER,
        nats=simple.nats,
        database=DatabaseSettings(url=simple.url),
        archive=ArchiveSettings(url=str(tmp_path / "archive")),
    )
    count = len(simple.toy.messages)

    async def run() -> str:
        bus = await connect(simple.nats, "test", deadline_s=20)
        metrics = Metrics(settings)
        keeper = Keeper(settings, bus, metrics)
        done = await keeper.archive_if_due()
        assert done is not None and done.last == count
        assert await keeper.archive_if_due() is None, "nothing is due yet"
        assert (keeper.behind.lag, keeper.behind.headroom) == (0, count)
        await bus.close()
        return metrics().decode()

    page = asyncio.run(run())
    assert "gatelog_archive_segments_total 1.0" in page
    assert f"gatelog_archive_headroom_messages {count}.0" in page


def test_places_that_cannot_be_used_are_named(gatelog: Gatelog, tmp_path: Path) -> None:
    for url in ("s3://", "ftp://somewhere/x", "https://x"):
        with pytest.raises(ArchiveStoreUnavailable, match="give a directory"):
            open_archive_store(url)
    (tmp_path / "file").write_text("")
    store = open_archive_store(str(tmp_path / "file"))
    with pytest.raises(ArchiveStoreUnavailable, match="Not a directory"):
        store.put(tmp_path / "file", "a/0000", "name")
    with pytest.raises(ArchiveStoreUnavailable, match="Not a directory"), store.fetched("a", "b"):
        pass


def test_an_archive_is_asked_for(gatelog: Gatelog, simple: Played, bucket: str) -> None:
    code, _, err = gatelog("archive", *simple.options)
    assert code == 2 and "archive.url is not set" in err
    code, _, err = gatelog("archive", "--to", "s3://nobody-has-this/x", *simple.options)
    assert code == 1 and "archive s3://nobody-has-this/x: " in err and "AWS_REGION" in err


def test_doctor_compares_archive_and_stream(
    gatelog: Gatelog, simple: Played, tmp_path: Path
) -> None:
    where = ("--set", f"archive.url={tmp_path / 'archive'}")

    def seen(*words: str) -> tuple[str, str]:
        kubeconfig = ("--kubeconfig", str(tmp_path / "none"))
        _, out, _ = gatelog("doctor", "--json", *kubeconfig, *words, *simple.options)
        (found,) = (f for f in json.loads(out) if f["what"] == "archive")
        return found["verdict"], found["detail"]

    count = len(simple.toy.messages)
    assert seen() == ("ok", "none is kept; the stream still has everything")
    assert seen(*where)[0] == "ok" and f"{count} messages not archived yet" in seen(*where)[1]
    assert gatelog("archive", "--to", str(tmp_path / "archive"), *simple.options)[0] == 0
    assert seen(*where)[0] == "ok" and "1 segments in" in seen(*where)[1]
    expire(simple, EVENTS, 2)
    assert seen()[0] == "warn" and f"before position {count - 1}" in seen()[1]
    assert seen(*where)[0] == "ok" and " 0 messages not archived" in seen(*where)[1]
    (only,) = (tmp_path / "archive" / FOLDER).iterdir()
    only.rename(only.with_name(name_of(CLUSTER, 1, Span(1, 50))))
    assert seen(*where)[0] == "fail" and f"positions 51 to {count - 2} were" in seen(*where)[1]
    only.with_name(name_of(CLUSTER, 1, Span(1, 50))).rename(
        only.with_name(name_of(CLUSTER, 1, Span(1, count - 2)))
    )
    assert seen(*where)[0] == "warn" and "only 0 more may be dropped" in seen(*where)[1]


def test_unfinished_files_are_nobodys_segments(tmp_path: Path) -> None:
    store = open_archive_store(str(tmp_path / "archive"))
    (tmp_path / "source").write_bytes(b"x" * 100)
    store.put(tmp_path / "source", FOLDER, name_of(CLUSTER, 1, Span(1, 2)))
    part = tmp_path / "archive" / FOLDER / ".old.part"
    part.write_bytes(b"half")
    assert len(segments(str(tmp_path / "archive"))) == 1
    assert part.exists(), "somebody may be writing it"
    import os

    os.utime(part, (1, 1))
    store.put(tmp_path / "source", FOLDER, name_of(CLUSTER, 1, Span(3, 4)))
    assert not part.exists()


spans = st.tuples(st.integers(1, 40), st.integers(0, 12)).map(lambda t: (t[0], t[0] + t[1]))


@given(st.lists(spans, max_size=12), st.integers(1, 20))
def test_a_chain_covers_and_gaps_are_what_it_does_not(
    found: list[tuple[int, int]], first: int
) -> None:
    known = [Segment(1, a, b, f"{a}-{b}") for a, b in found]
    chosen, wanted = chain(known, first)
    covered = {p for a, b in found for p in range(a, b + 1)}
    reach = first
    while reach in covered:
        reach += 1
    assert wanted == reach
    taken = {p for one in chosen for p in range(one.first, one.last + 1)}
    assert set(range(first, wanted)) <= taken
    assert all(b.last > a.last and b.first <= a.last + 1 for a, b in pairwise(chosen))
    missing = {p for gap in gaps(known, first) for p in range(gap.first, gap.last + 1)}
    end = max((b for _, b in found), default=0)
    assert missing == set(range(first, end + 1)) - covered


@given(
    st.from_regex(r"[A-Za-z0-9_-]{1,63}", fullmatch=True),
    st.integers(1, 999_999),
    spans,
)
def test_a_name_says_what_it_is(cluster: str, epoch: int, span: tuple[int, int]) -> None:
    name = name_of(cluster, epoch, Span(*span))
    assert parse(name) == Segment(epoch, *span, name)
    later = name_of(cluster, epoch, Span(span[1] + 1, span[1] + 9))
    assert name < later
    assert parse("." + name) is None and parse(name + ".part") is None


def test_with_a_toy_of_its_own(gatelog: Gatelog, tmp_path: Path) -> None:
    """What came after the last segment begins the next one."""
    toy = busy_toy()
    server, played = played_in(tmp_path, f"sqlite:///{tmp_path}/live.sqlite3", toy)
    try:
        place = str(tmp_path / "archive")
        assert gatelog("archive", "--to", place, *played.options)[0] == 0
        before = len(toy.messages)
        toy.delete("half")
        toy.pod("next")
        asyncio.run(_go_on(played, before))
        code, out, _ = gatelog("archive", "--to", place, *played.options)
        assert code == 0
        assert [(s.first, s.last) for s in segments(place)] == [
            (1, before),
            (before + 1, len(toy.messages)),
        ]
        expire(played, EVENTS, 1)
        code, out, err = gatelog("replay", "--verify", "--archive", place, *played.options)
        assert (code, err) == (0, ""), out
    finally:
        asyncio.run(server.stop())


async def _go_on(played: Played, after: int) -> None:
    from tests.projector.running import eventually, publish, running, settings_for

    bus = await connect(played.nats, "test", deadline_s=20)
    async with running(settings_for(played.url, CLUSTER), bus) as projection:
        await eventually(lambda: not projection.problem, "caught up")
        last = await publish(bus, CLUSTER, (batch for _, _, batch in played.toy.messages[after:]))
        await eventually(lambda: projection.world.meta.position == last, "folded")
    await bus.close()
