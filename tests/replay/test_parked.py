"""`gatelog parked` through a running `gatelog up`, and what releasing does to a group."""

import asyncio
import json
from collections.abc import Iterator

import pytest

from podgroup import events as e
from podgroup.fold.common import At, park
from podgroup.subjects import events
from tests.support.stack import Stack, running_stack
from tests.support.toy import Toy


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("parked")) as one:
        yield one


async def parked_garbage(stack: Stack, *bodies: bytes) -> list[str]:
    """Publish what nobody can read; returns the keys it is parked under."""
    bus = await stack.bus()
    keys = []
    for body in bodies:
        sequence = await bus.publish(events("default", 0, "operator"), body, "")
        keys.append(f"{sequence}/0")
    await bus.close()

    async def there() -> bool:
        return len(rows_of(stack, keys)) == len(keys)

    async with stack.api() as api:
        await api.until("parked", there)
    return keys


def rows_of(stack: Stack, keys: list[str]) -> list[dict[str, object]]:
    found = stack.sql("SELECT *, seq || '/' || ord AS key FROM parked ORDER BY seq, ord")
    return [row for row in found if row["key"] in keys]


async def test_list_show_release_and_discard(stack: Stack) -> None:
    one, two, three = await parked_garbage(stack, b"\xff no json", b'{"v": 99}', b"[]")

    listed = stack.command("parked")
    assert listed.returncode == 0, listed.stderr
    for key in (one, two, three):
        assert f"{key}  " in listed.stdout
    assert "Undecodable" in listed.stdout

    shown = stack.command("parked", "show", two)
    assert shown.returncode == 0 and '{"v": 99}' in shown.stdout
    assert "(none stands still)" in shown.stdout

    done = stack.command("parked", "release", one, "--note", "was a test", "--by", "ada")
    assert (done.returncode, done.stdout) == (0, f"released: {one}\n"), done.stderr
    (row,) = rows_of(stack, [one])
    assert (row["resolution"], row["resolved_by"]) == ("release", "ada")
    (told,) = stack.sql(
        "SELECT * FROM history WHERE kind = 'OperatorActed' ORDER BY seq DESC LIMIT 1"
    )
    assert told["reason"] == "release" and told["message"] == f"{one} by ada: was a test"

    again = stack.command("parked", "release", one)
    assert again.returncode == 1 and "settled already (release, ada)" in again.stderr

    done = stack.command("parked", "discard", "--all", "--by", "bob")
    assert done.returncode == 0 and two in done.stdout and three in done.stdout, done.stderr
    assert {row["resolution"] for row in rows_of(stack, [two, three])} == {"discard"}
    assert stack.command("parked").stdout == "nothing is parked\n"
    every = json.loads(stack.command("parked", "--all", "--json").stdout)
    assert [r["resolved_by"] for r in every if f"{r['seq']}/{r['ord']}" in (one, two, three)] == [
        "ada",
        "bob",
        "bob",
    ]


async def test_what_is_asked_wrongly_is_said(stack: Stack) -> None:
    for words, code, said in (
        (("release",), 2, "or give --all"),
        (("release", "--all", "1/0"), 2, "or give --all"),
        (("show",), 2, "name one as SEQ/ORD"),
        (("show", "banana"), 2, "SEQ/ORD"),
        (("show", "999999/0"), 1, "nothing is parked at 999999/0"),
        (("discard", "999999/0"), 1, "nothing is parked at 999999/0"),
    ):
        done = stack.command("parked", *words)
        assert done.returncode == code, words
        assert said in done.stderr and "Traceback" not in done.stderr


async def test_without_a_projector_the_word_waits_in_the_log(stack: Stack) -> None:
    (key,) = await parked_garbage(stack, b"{}")
    stack.up.kill()
    waiting = asyncio.to_thread(stack.command, "parked", "release", key)
    done = await waiting
    assert done.returncode == 1 and "no projector took it in" in done.stderr
    await asyncio.to_thread(stack.start)

    async def settled() -> bool:
        return rows_of(stack, [key])[0]["resolution"] == "release"

    async with stack.api() as api:
        await api.until("released after the start", settled)


@pytest.mark.parametrize("action", ["release", "discard"])
@pytest.mark.parametrize("by_group", [False, True])
def test_a_group_that_stood_still_goes_on(action: str, by_group: bool) -> None:
    toy = Toy()
    toy.pod("a0", "a", 2)
    group = toy.group("a")
    park(toy.world, At(toy.position, toy.now), 3, "FoldFailed", "oops", group=group, name="pod a0")
    toy.pod("a1", "a", 2)
    assert group.parked.startswith(f"{toy.position - 1}/3 ") and group.state == "Blocked"
    assert toy.gated("a0") and toy.gated("a1")
    toy.do(e.OperatorActed(action=action, target="1/1", by="ada"))
    assert group.parked, "another target is another matter"
    target = group.id if by_group else group.parked.split(" ")[0]
    toy.do(e.OperatorActed(action=action, target=target, by="ada"))
    assert not group.parked
    assert not toy.gated("a0") and not toy.gated("a1")
