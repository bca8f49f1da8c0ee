"""`replay --at` and `replay --group`: the read model as it was then, and one group step by step."""

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from podgroup.engine import new_world, step
from tests.replay.conftest import Ran
from tests.replay.support import Played

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

Gatelog = Callable[..., Ran]


def rows(file: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
def test_at_a_position_is_as_if_the_log_had_ended_there(
    gatelog: Gatelog, played: Played, tmp_path: Path
) -> None:
    cut = len(played.toy.messages) // 2
    then = tmp_path / "then.sqlite3"
    code, out, err = gatelog("replay", "--at", str(cut), "--to", str(then), *played.options)
    assert code == 0, err
    assert f"as of seq {cut}" in out
    world = new_world("test")
    for position, at, batch in played.toy.messages[:cut]:
        step(world, position, at, batch)
    wanted = {g.name: g.explained.state for g in world.groups.values()}
    assert dict(rows(then, "select name, state from groups where gone_at is null")) == wanted
    told = rows(then, "select seq, ord, kind from history order by seq, ord")
    assert told == [(n.seq, n.ord, n.kind) for n in world.journal.notes]
    assert rows(then, "select max(as_of_seq) from decisions")[0][0] <= cut
    assert rows(then, "select seq from checkpoints") == [(cut,)]


def test_at_a_time_ends_before_what_came_later(
    gatelog: Gatelog, simple: Played, tmp_path: Path
) -> None:
    live = Path(simple.url.removeprefix("sqlite:///"))
    (moment,) = rows(live, "select at from history where seq > 40 order by seq limit 1")[0]
    then = tmp_path / "then.sqlite3"
    code, _, err = gatelog("replay", "--at", moment, "--to", str(then), *simple.options)
    assert code == 0, err
    columns = "select seq, ord, at, kind, message from history"
    until = f"{columns} where seq > 0 and at <= '{moment}' order by 1, 2"
    assert rows(then, f"{columns} order by 1, 2") == rows(live, until)
    assert rows(live, f"select count(*) from history where at > '{moment}'")[0][0] > 0


def test_at_asks_for_what_it_lacks(gatelog: Gatelog, simple: Played) -> None:
    code, _, err = gatelog("replay", "--at", "5", *simple.options)
    assert code == 2 and "--to" in err
    code, _, err = gatelog("replay", "--at", "yesterday", "--to", "x", *simple.options)
    assert code == 2 and "--at yesterday" in err
    code, _, err = gatelog("replay", "--verify", "--redecide", *simple.options)
    assert code == 2 and "choose one of" in err


def test_steps_as_text(gatelog: Gatelog, simple: Played) -> None:
    code, out, _ = gatelog("replay", "--group", "ns/a", *simple.options)
    assert code == 0
    blocks = re.split(r"^(?=\[\d+/\d+\])", out, flags=re.M)[1:]
    numbers = [int(m[1]) for b in blocks if (m := re.match(r"\[(\d+)/", b))]
    assert numbers == list(range(1, len(blocks) + 1))
    assert blocks[0].startswith(f"[1/{len(blocks)}] seq ") and "Composing" in blocks[0]
    positions = [int(m[1]) for b in blocks if (m := re.search(r"seq (\d+)", b))]
    assert positions == sorted(set(positions))
    text = " ".join(out.split())
    for words in (
        "came pod a0 Pending",
        "gates kueue.x-k8s.io/admission",
        "changed GroupComplete",
        "decided compose: CreateWorkload a",
        "decided admit: AdmitGroup a",
        "decided excess: ",
        "came outcome of d",
        "came Workload a ",
    ):
        assert words in text, words
    decided = [d for d in simple.toy.decisions if d.name == "a"]
    assert out.count("  decided  ") == len(decided)
    code, _, err = gatelog("replay", "--group", "ns/nobody", *simple.options)
    assert code == 1 and "nothing of ns/nobody" in err
    code, _, err = gatelog("replay", "--group", "nobody", *simple.options)
    assert code == 2 and "NAMESPACE/NAME" in err
