"""Files that were cut, changed, swapped or written by somebody else: a sentence, never a traceback.

What is held for every file: the exit code is one of ours, nobody calls it a defect, the error names
the file, and where something was readable it is folded: of a file that was cut, everything before
the cut.
"""

import asyncio
import gzip
import io
import json
import re
import zlib
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from gatelog import cli
from podgroup.log.events import Batch, Undecodable
from projector.replay.files import Export, FileLog, Header
from projector.replay.log import Entry
from tests.projector.support import busy_toy
from tests.replay.support import CLUSTER, log_of
from tests.support.examples import examples

quick = examples(60, brief=15)


@cache
def whole() -> bytes:
    """The lines of an export, one of them with an event that nobody could decode."""
    log = log_of(busy_toy())
    position, at, batch = log.messages[7]
    bad = Undecodable(error="no idea", raw=b"\xff\x00")
    log.messages[7] = (position, at, Batch(source="watch", events=(*batch.events, bad)))

    async def written(file: Path) -> None:
        with Export(file, Header(cluster=CLUSTER, mode="builtin")) as out:
            async for entry in log.entries():
                out.add(entry)

    with TemporaryDirectory() as folder:
        file = Path(folder) / "whole.gz"
        asyncio.run(written(file))
        return gzip.decompress(file.read_bytes())


@cache
def packed() -> bytes:
    return gzip.compress(whole(), mtime=0)


def read(data: bytes, *words: str) -> tuple[int, str, str]:
    """What `gatelog replay FILE` says of a file with these bytes; what holds for all is checked."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "file.gz"
        file.write_bytes(data)
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = cli.run(["replay", str(file), *words])
    said = err.getvalue()
    assert code in (0, 1), said
    assert "Traceback" not in said and "unexpected" not in said and "defect" not in said, said
    assert all(str(file) in line for line in said.splitlines() if line.startswith("gatelog: "))
    assert bool(said) == bool(code), (code, said, out.getvalue())
    assert code == 0 or len(said.split()) > 5, "what, where and why"
    return code, out.getvalue(), said


def lines_folded(out: str) -> int:
    found = re.search(r"of (\d+) lines folded", out)
    return int(found[1]) if found else 0


def entries(data: bytes) -> list[Entry]:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "file"
        file.write_bytes(data)

        async def all_of() -> list[Entry]:
            return [entry async for entry in FileLog(file).entries()]

        return asyncio.run(all_of())


@quick
@given(st.floats(0, 1))
@example(0.0)
@example(1.0)
def test_cut_anywhere_the_whole_lines_before_the_cut_are_read(place: float) -> None:
    data = whole()
    cut = data[: round(place * len(data))]
    head = cut.count(b"\n")
    assume(head > 1)
    code, out, err = read(cut)
    complete = len(cut) >= len(data) - 1  # but for the end of the last line
    assert (code == 0) == complete, err
    assert lines_folded(out) >= head
    good = entries(data)
    assert entries(cut)[: head - 1] == good[: head - 1]


@quick
@given(st.integers(0, 10**9))
@example(0)
@example(1)
@example(2)
@example(9)
@example(10)
@example(-1)
@example(-8)
@example(-9)
def test_cut_anywhere_when_it_is_compressed(place: int) -> None:
    data = packed()
    cut = data[: place % len(data)]
    code, out, err = read(cut)
    unzip = zlib.decompressobj(wbits=31)
    there = unzip.decompress(cut).count(b"\n")
    assert code == 1, err
    if there > 1:
        assert "truncated" in err
        assert lines_folded(out) >= there


@quick
@given(st.integers(0, 10**9), st.integers(1, 255), st.booleans())
@example(15581, 128, True)  # a text that is no longer UTF-8
def test_a_flipped_byte_is_noticed_and_loses_no_more_than_its_line(
    place: int, flip: int, plain: bool
) -> None:
    data = bytearray(whole() if plain else packed())
    data[place % len(data)] ^= flip
    code, out, err = read(bytes(data))
    if not plain:
        return  # zlib or the checksum may find it, or it was in a field of gzip that says nothing
    if bytes(data).rstrip(b"\n") != whole().rstrip(b"\n") and json_differs(bytes(data)):
        assert code == 1, (place, flip)
    if place % len(data) > data.index(b"\n"):
        assert lines_folded(out) >= whole().count(b"\n") - 1, err


def json_differs(data: bytes) -> bool:
    """White space before a line or after it says nothing; so the digest alone would see it."""
    return data.split() != whole().split()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
FIELDS = ("position", "at", "batch", "decisions", "lost", "end", "messages", "sha256", "last")
HEADERS = ("format", "version", "cluster", "mode", "policy", "epoch", "base", "last")


@quick
@given(st.integers(0, 10**6), st.sampled_from(FIELDS), JSON)
@example(7, "lost", [{"at": 99, "error": "", "raw": "AA=="}])
@example(7, "lost", [{"at": 0, "error": "", "raw": "%%%"}])
@example(7, "lost", [{"at": -1, "error": "", "raw": ""}])
@example(3, "position", 2**70)
@example(3, "position", 2**63)
@example(3, "at", "2026-01-01T00:00:00")
@example(3, "at", "0001-01-01T00:00:00+14:00")
@example(3, "at", "9999-12-31T23:59:59.999999-14:00")
@example(3, "decisions", [{"number": -1}])
@example(3, "end", True)
def test_a_field_of_something_else(line: int, field: str, value: Any) -> None:
    found = [json.loads(one) for one in whole().splitlines()]
    one = found[1 + line % (len(found) - 1)]
    assume(one.get(field) != value)
    one[field] = value
    code, out, _ = read("\n".join(map(json.dumps, found)).encode())
    assert code == 1
    if field != "end":
        assert lines_folded(out) >= len(found) - 1


@quick
@given(st.sampled_from(HEADERS), JSON)
@example("version", 2)
@example("version", 0)
@example("version", "1")
@example("epoch", 2**70)
@example("base", 2**63)
@example("base", -5)
@example("mode", "another")
@example("cluster", "")
@example("cluster", "a b/c")
@example("policy", {"default_queue": 7})
def test_a_first_line_of_something_else(field: str, value: Any) -> None:
    first, *rest = whole().splitlines()
    header = json.loads(first)
    assume(header.get(field) != value)
    code, _, err = read(b"\n".join([json.dumps({**header, field: value}).encode(), *rest]))
    if field == "version" and isinstance(value, int) and value > 1:
        assert code == 1 and "written by a later gatelog" in err and "newer" in err


@quick
@given(st.binary(max_size=400), st.booleans(), st.booleans())
@example(b"\x1f\x8b", False, False)
@example(b"\x1f\x8b\x08\x00", False, False)
@example(b"\n\n\n", False, False)
@example(b'{"format":"gatelog-export","version":1}', False, False)
@example(b"\x00" * 100, False, True)
def test_bytes_of_others(data: bytes, zipped: bool, inside: bool) -> None:
    """Alone, or in the middle of a file of ours."""
    source = whole() if inside else b""
    middle = source.find(b"\n", len(source) // 2) + 1
    mixed = source[:middle] + data + b"\n" + source[middle:] if source else data
    code, out, err = read(gzip.compress(mixed) if zipped else mixed)
    if not source:
        assert code == 1 and out == ""
    elif data.strip():
        assert code == 1, data
        assert lines_folded(out) >= source.count(b"\n") - 1, err


@pytest.mark.parametrize("words", [("--redecide",), ("--group", "ns/a"), ("--at", "20")])
def test_other_questions_to_a_cut_file(words: tuple[str, ...], tmp_path: Path) -> None:
    to = ("--to", str(tmp_path / "x.sqlite3")) if words[0] == "--at" else ()
    data = whole()
    for place in (0, 1, len(data) // 2):
        code, out, err = read_any(data[:place], *words, *to)
        # Nothing of what was at 20 is missing from half a file.
        fine = 0 if words[0] == "--at" else 1
        assert code == (fine if place > 1 else 1), (place, err)
        assert bool(out) == (place > 1)


def test_what_comes_after_the_last_line_is_not_passed_over_in_silence() -> None:
    good = whole()
    assert read(good + b"\n  \n")[0] == 0
    code, out, err = read(good + good)
    count = good.count(b"\n")
    assert code == 1 and f"line {count + 1}: goes on after its last line; not read" in err
    assert lines_folded(out) == count


def read_any(data: bytes, *words: str) -> tuple[int, str, str]:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "file.gz"
        file.write_bytes(data)
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = cli.run(["replay", str(file), *words])
    assert "Traceback" not in err.getvalue() and "unexpected" not in err.getvalue()
    return code, out.getvalue(), err.getvalue()
