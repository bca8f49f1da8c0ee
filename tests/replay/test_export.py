"""`gatelog export`, `import` and `replay FILE`: a log in a file is the log."""

import asyncio
import gzip
import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from podgroup.engine import new_world, step
from podgroup.log.events import Batch, TimerFired, Undecodable
from podgroup.log.records import Concluded, Kept, Used
from podgroup.model.objects import Assignment, mark_timer
from projector.replay.compare import compare
from projector.replay.files import Export, FileLog, Header
from projector.replay.fold import Beginning, fold
from projector.replay.log import Entry
from projector.replay.pseudonyms import Pseudonyms
from projector.schema.layout import COMPARED as TABLES
from projector.storage.database import reader
from tests.projector.support import busy_toy
from tests.replay.conftest import Ran
from tests.replay.support import CLUSTER, Played, log_of
from tests.replay.test_verify import UNPLAYED
from tests.support.owned import OWNED, Owners
from tests.support.toy import T0

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

Gatelog = Callable[..., Ran]


@pytest.fixture
def exported(gatelog: Gatelog, simple: Played, tmp_path: Path) -> Path:
    file = tmp_path / "log.jsonl.gz"
    code, out, err = gatelog("export", str(file), *simple.options)
    assert (code, err) == (0, "")
    assert f"{len(simple.toy.messages)} messages" in out
    return file


def lines(file: Path) -> list[dict[str, Any]]:
    with gzip.open(file, "rt") as text:
        return [json.loads(line) for line in text]


def rows(file: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
def test_an_imported_export_is_the_read_model(
    gatelog: Gatelog, played: Played, tmp_path: Path
) -> None:
    file, to = tmp_path / "log.jsonl.gz", tmp_path / "copy.sqlite3"
    assert gatelog("export", str(file), *played.options)[0] == 0
    code, out, err = gatelog("import", str(file), "--to", str(to))
    assert (code, err) == (0, ""), out
    live, copy = reader(played.url), reader(f"sqlite:///{to}")
    with live.connect() as one, copy.connect() as two:
        results = compare(one, two, CLUSTER, 0)
    live.dispose()
    copy.dispose()
    assert [text for table in results for text in table.examples] == []
    assert {table.table for table in results if not table.rows} == UNPLAYED
    for database in (played.url, str(to)):
        code, out, err = gatelog("replay", str(file), "--verify", "--db", database)
        assert (code, err) == (0, ""), out
        assert out.count(" equal") == len(TABLES)
    code, out, _ = gatelog("history", "ns/a", "--db", str(to), "--cluster", CLUSTER)
    assert code == 0 and "replaced a0" in " ".join(out.split())


def test_a_file_that_is_older_than_the_database_is_not_compared_with_it(
    gatelog: Gatelog, exported: Path, simple: Played, tmp_path: Path
) -> None:
    live = ("--verify", "--db", simple.url)
    (middle,) = rows(
        Path(simple.url.removeprefix("sqlite:///")),
        "select at from history where seq >= 60 order by seq limit 1",
    )[0]
    early, count = tmp_path / "early.gz", len(simple.toy.messages)
    assert gatelog("export", str(early), "--until", middle, *simple.options)[0] == 0
    code, out, err = gatelog("replay", str(early), *live)
    assert code == 1 and out == ""
    assert f"the database is at position {count}, the file ends at " in err
    # The other way round is no hindrance: the file is folded as far as the database stands.
    then = tmp_path / "then.sqlite3"
    assert gatelog("import", str(early), "--to", str(then))[0] == 0
    code, out, err = gatelog("replay", str(exported), "--verify", "--db", str(then))
    assert (code, err) == (0, ""), out
    found = lines(exported)
    found[30]["decisions"], found[30]["batch"]["events"] = [], []
    exported.write_bytes(gzip.compress("\n".join(map(json.dumps, found)).encode()))
    code, out, err = gatelog("replay", str(exported), *live)
    assert code == 1 and "DIFFERENT" in out and "sha256 differs" in err


def test_the_header_says_what_it_is(exported: Path, simple: Played) -> None:
    first, *messages, last = lines(exported)
    assert (first["format"], first["version"]) == ("gatelog-export", 1)
    assert (first["cluster"], first["mode"], first["epoch"]) == (CLUSTER, "builtin", 1)
    assert first["last"] == len(messages) == last["messages"] == len(simple.toy.messages)
    assert last["end"] is True
    assert sum(len(m.get("decisions", ())) for m in messages) == len(simple.toy.decisions)
    assert first["selection"] == "" and first["pseudonymised"] is False


def test_a_file_answers_without_log_or_database(gatelog: Gatelog, exported: Path) -> None:
    code, out, err = gatelog("replay", str(exported), "--redecide")
    assert (code, err) == (0, "") and "no decisions differ" in out
    code, out, _ = gatelog("replay", str(exported), "--group", "ns/a")
    assert code == 0 and "decided  admit: AdmitGroup a" in out


def test_a_changed_decision_in_a_file_is_found(gatelog: Gatelog, exported: Path) -> None:
    found = lines(exported)
    place = next(i for i, line in enumerate(found) if line.get("decisions"))
    found[place]["decisions"][0]["rule"] = "whim"
    exported.write_bytes(gzip.compress("\n".join(map(json.dumps, found)).encode()))
    code, out, _ = gatelog("replay", str(exported), "--redecide")
    assert code == 1
    assert re.search(rf"^seq {found[place]['position']}  then  ", out, re.M)
    assert re.search(rf"^seq {found[place]['position']}  now  ", out, re.M)


@pytest.mark.parametrize("words", [("--group", "ns/a"), ("--namespace", "ns")])
def test_a_choice_keeps_whole_lives_and_nothing_else(
    gatelog: Gatelog, simple: Played, tmp_path: Path, words: tuple[str, str]
) -> None:
    file, to = tmp_path / "part.jsonl.gz", tmp_path / "part.sqlite3"
    assert gatelog("export", str(file), *words, *simple.options)[0] == 0
    code, _, err = gatelog("replay", str(file), "--to", str(to))
    assert (code, err) == (0, "")
    live = Path(simple.url.removeprefix("sqlite:///"))
    names = dict(rows(to, "select name, state from groups"))
    wanted = dict(rows(live, "select name, state from groups"))
    if words[0] == "--group":
        assert names == {"a": wanted["a"]}
        text = gzip.decompress(file.read_bytes()).decode()
        assert '"name":"late"' not in text and '"name":"a3"' in text
        code, _, err = gatelog("replay", str(file), "--redecide")
        assert "has only group ns/a" in err
    else:
        assert names == wanted
    query = (
        "select kind, reason, message from history where group_id in "
        "(select id from groups where name = 'a') order by seq, ord"
    )
    assert rows(to, query) == rows(live, query)


def test_a_range_of_time_has_the_groups_of_that_time(
    gatelog: Gatelog, simple: Played, tmp_path: Path
) -> None:
    live = Path(simple.url.removeprefix("sqlite:///"))
    query = "select at from history where kind = 'PodSeen' and group_id in "
    (late,) = rows(live, query + "(select id from groups where name = 'd')")[0]
    file, to = tmp_path / "late.jsonl.gz", tmp_path / "late.sqlite3"
    assert gatelog("export", str(file), "--since", late, *simple.options)[0] == 0
    assert gatelog("import", str(file), "--to", str(to))[0] == 0
    names = {name for (name,) in rows(to, "select name from groups")}
    assert "d" in names and "single" not in names
    early, cut = tmp_path / "early.jsonl.gz", tmp_path / "early.sqlite3"
    assert gatelog("export", str(early), "--until", late, *simple.options)[0] == 0
    assert gatelog("import", str(early), "--to", str(cut))[0] == 0
    assert rows(cut, "select max(at) from history")[0][0] <= late
    assert "single" in {name for (name,) in rows(cut, "select name from groups")}


def test_pseudonyms_hide_names_and_change_nothing_else(
    gatelog: Gatelog, simple: Played, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"secret")
    file, again, other = (tmp_path / f"{name}.jsonl.gz" for name in ("one", "two", "three"))
    hidden = ("--pseudonymise", "--key-file", str(key))
    assert gatelog("export", str(file), *hidden, *simple.options)[0] == 0
    assert gatelog("export", str(again), *hidden, *simple.options)[0] == 0
    assert gatelog("export", str(other), "--pseudonymise", *simple.options)[0] == 0
    assert lines(file)[1:-1] == lines(again)[1:-1] != lines(other)[1:-1]
    text = gzip.decompress(file.read_bytes()).decode()
    for pod in ("single", "extra", "driver", "late", "later", "half", "w0", "a3"):
        assert not re.search(rf'[" /]{pod}[" /]', text), pod
    # The toy's queues have their names as uids.
    for name in ("ns", "lq", "cq", "red", "a", "b", "high"):
        named = r'"(?:name|namespace|queue|cluster_queue|queue-name|team)"'
        assert not re.search(rf'{named}:"{name}"', text), name
    assert "ClusterQueue cq" not in text and "ns/" not in text
    assert re.search(r'"kueue.x-k8s.io/pod-group-total-count":"3"', text)

    code, out, err = gatelog("replay", str(file), "--redecide")
    assert (code, err) == (0, ""), out
    assert "no decisions differ" in out
    to = tmp_path / "hidden.sqlite3"
    assert gatelog("import", str(file), "--to", str(to))[0] == 0
    live = Path(simple.url.removeprefix("sqlite:///"))
    for query in (
        "select kind, state, total_count, pods_seen, pods_excess, priority from groups order by id",
        "select seq, ord, kind, pod_uid from history where seq > 0 order by seq, ord",
        "select number, rule, action, status from decisions order by number",
    ):
        assert rows(to, query) == rows(live, query)


def test_damaged_and_foreign_exports(gatelog: Gatelog, exported: Path, tmp_path: Path) -> None:
    whole = lines(exported)
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(exported.read_bytes()[: exported.stat().st_size * 2 // 3])
    code, out, err = gatelog("replay", str(cut), "--to", str(tmp_path / "cut.sqlite3"))
    assert code == 1 and f"{cut}: the file ends in the middle" in err
    assert rows(tmp_path / "cut.sqlite3", "select count(*) from pods")[0][0] > 0

    def written(name: str, found: list[Any]) -> str:
        path = tmp_path / name
        text = "\n".join(one if isinstance(one, str) else json.dumps(one) for one in found)
        path.write_bytes(text.encode())  # plain text is read as well
        return str(path)

    code, _, err = gatelog("replay", written("no-end", whole[:-1]))
    assert code == 1 and "has no last line: it is truncated" in err
    code, out, err = gatelog("replay", written("bad-line", [*whole[:20], "{oops", *whole[21:]]))
    assert code == 1 and "line 21: " in err and f"of its {len(whole) - 2} messages" in err
    assert "groups and" in out
    code, _, err = gatelog("replay", written("twice", [*whole[:9], whole[8], *whole[9:]]))
    assert code == 1 and "line 10: position 8 is out of order" in err
    later = {**whole[0], "version": 2, "something": "new"}
    code, out, err = gatelog("import", written("later", [later, *whole[1:]]), "--to", "x.sqlite3")
    assert code == 1 and "written by a later gatelog (format version 2" in err and out == ""
    broken = {"format": "gatelog-export", "version": 1}
    code, _, err = gatelog("replay", written("header", [broken, *whole[1:]]))
    assert code == 1 and "its first line is damaged" in err and "cluster" in err


def test_export_asks_for_what_makes_sense(
    gatelog: Gatelog, exported: Path, simple: Played, tmp_path: Path
) -> None:
    for words, said in (
        ((str(exported),), "is there already; --force"),
        (("new", "--group", "ns/a", "--namespace", "ns"), "choose one"),
        (("new", "--since", "monday"), "--since monday"),
        (("new", "--key-file", "k"), "--key-file is for --pseudonymise"),
    ):
        code, _, err = gatelog("export", *words, *simple.options)
        assert code == 2 and said in err, words
    nowhere = tmp_path / "no" / "folder" / "log.gz"
    code, _, err = gatelog("export", str(nowhere), *simple.options)
    assert code == 1 and "No such file or directory" in err and "unexpected" not in err


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello\nworld\n",
        b'{"some": "document"}\n',
        bytes(range(256)) * 40,
        gzip.compress(b"hello\n"),
        b"\x1f\x8bno gzip at all",
    ],
    ids=("empty", "text", "json", "binary", "gzipped", "no-gzip"),
)
def test_foreign_files_are_called_so(gatelog: Gatelog, tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "foreign"
    file.write_bytes(data)
    code, out, err = gatelog("replay", str(file))
    assert code == 1 and out == ""
    assert f"{file}: is no export of gatelog" in err and "unexpected" not in err


def test_what_a_file_cannot_be_asked_is_said(
    gatelog: Gatelog, exported: Path, tmp_path: Path
) -> None:
    file, to = str(exported), f"sqlite:///{tmp_path}/x.sqlite3"
    for code, words, said in (
        (2, ("replay", str(tmp_path / "nothing")), "no such file"),
        (2, ("replay", file, "--at", "100"), "--at needs --to"),
        (1, ("replay", file, "--verify", "--db", to), "no such database"),
        (0, ("replay", file, "--to", to), ""),
        (2, ("replay", file, "--verify", "--db", to, "--to", to), "--verify writes nothing"),
        (2, ("replay", file, "--rebuild", "--db", to), "leave FILE out"),
    ):
        found, _, err = gatelog(*words)
        assert found == code and said in err, (words, err)


def test_a_choice_of_nothing_is_said_and_leaves_no_file(
    gatelog: Gatelog, simple: Played, tmp_path: Path
) -> None:
    file = tmp_path / "log.jsonl.gz"
    code, out, err = gatelog("export", str(file), "--group", "ns/nobody", *simple.options)
    assert (code, out) == (1, "") and "nothing of group ns/nobody" in err
    assert not file.exists()


def test_a_read_model_is_not_written_over(gatelog: Gatelog, exported: Path, tmp_path: Path) -> None:
    to = tmp_path / "copy.sqlite3"
    assert gatelog("import", str(exported), "--to", str(to))[0] == 0
    before = to.read_bytes()
    code, out, err = gatelog("import", str(exported), "--to", str(to))
    assert (code, out) == (1, "") and "copy.sqlite3 holds a read model already" in err
    assert to.read_bytes() == before


def test_what_could_not_be_decoded_survives(tmp_path: Path) -> None:
    log = log_of(busy_toy())
    position, at, batch = log.messages[20]
    bad = Undecodable(error="no idea", raw=b"\xff\x00")
    mixed = Batch(source="watch", events=(bad, *batch.events, bad))
    log.messages[20] = (position, at, mixed)
    file = tmp_path / "odd.gz"

    async def written() -> list[Entry]:
        with Export(file, Header(cluster="test", mode="builtin")) as out:
            async for entry in log.entries():
                out.add(entry)
        read = FileLog(file)
        found = [entry async for entry in read.entries()]
        assert read.unread == []
        result = await fold(FileLog(file).entries(), Beginning("test", "builtin"))
        assert result.messages == len(log.messages) and not result.differences
        return found

    found = asyncio.run(written())
    assert [e.batch for e in found] == [batch for _, _, batch in log.messages]
    assert [e.at for e in found] == [at for _, at, _ in log.messages]
    assert found[20].batch.events[0] == bad == found[20].batch.events[-1]
    assert found[0].at > T0


def test_an_export_that_fails_leaves_no_file(tmp_path: Path) -> None:
    file = tmp_path / "half.gz"
    with (
        pytest.raises(ZeroDivisionError),
        Export(file, Header(cluster="test", mode="builtin")),
    ):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_records_of_kept_quota_and_of_past_use_name_nobody_under_pseudonyms() -> None:
    given = Assignment(name="main", flavors={"cpu": "spot-eu"}, usage={"cpu": 2000}, count=2)
    records = (
        Kept("group-1", cluster_queue="research", assignments=(given,), victims=("group-2",)),
        Used("", queue="team-red/slow", consumed=(("cpu", "1.5"),), at=T0),
    )
    fired = TimerFired(timer=mark_timer("ClusterQueue", "research"), due_at=T0)
    entry = Entry(
        1,
        T0,
        Batch(source="clock", events=(fired,)),
        {},
        Concluded(as_of=0, number=1, at=T0, records=records),
    )
    names = Pseudonyms(b"key")
    names.learn(entry)
    (due,) = names.entry(entry).batch.events
    assert isinstance(due, TimerFired)
    assert due.timer == mark_timer("ClusterQueue", names.name("research"))
    said = names.entry(entry).concluded
    assert said is not None
    text = msgspec.json.encode(said).decode()
    assert not any(word in text for word in ("research", "spot-eu", "team-red", "slow"))
    kept, used = said.records
    assert isinstance(kept, Kept) and kept.assignments is not None and isinstance(used, Used)
    assert kept.cluster_queue == names.name("research")
    assert kept.assignments[0].flavors == {"cpu": names.name("spot-eu")}
    assert kept.assignments[0].usage == given.usage and kept.victims == ("group-2",)
    assert used.queue == f"{names.name('team-red')}/{names.name('slow')}"


def test_a_set_and_the_group_of_its_pods_have_one_pseudonym() -> None:
    toy = Owners(cpu=2)
    toy.scale("web", 1)
    toy.scale("web", 2)
    names = Pseudonyms(b"key")
    entries = [Entry(position, at, batch, {}, None) for position, at, batch in toy.messages]
    for one in entries:
        names.learn(one)
    world = new_world("test", policy=OWNED)
    for one in map(names.entry, entries):
        step(world, one.position, one.at, one.batch)
    (group,) = world.groups.values()
    hidden = names.name("web")
    assert hidden != "web"
    assert (group.name, group.spec.owner) == (hidden, f"StatefulSet/{hidden}")
    assert group.composition.total == 2 and group.roles["main"].count == 2
