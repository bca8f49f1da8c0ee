"""`gatelog parked` through a running `gatelog up`, and what releasing does to a group."""

import asyncio
import base64
import io
import json
import signal
from collections.abc import Iterator

import msgspec
import pytest
from rich.console import Console

from gatelog.commands.parked import _table as table_of
from gatelog.replay.parking import ParkedEvent, resolve
from gatelog.shell.errors import CommandFailed
from podgroup.fold.common import Cause, park
from podgroup.log import events as e
from podgroup.log.journal import At
from podgroup.log.subjects import decisions, events
from runtime.settings_source import load
from tests.support.processes import make_queue, pod
from tests.support.stack import Stack, finished, running_stack, runs_to_its_end
from tests.support.toy import T0, Toy

pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("parked")) as one:
        yield one


async def parked_garbage(stack: Stack, *bodies: bytes) -> list[str]:
    """Publish what nobody can read; returns the keys it is parked under."""
    bus = await stack.bus()
    keys = []
    for body in bodies:
        sequence = await bus.publish(events("default", "operator"), body, "")
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
    assert shown.returncode == 0 and '"v": 99' in shown.stdout
    assert "(none is stuck)" in shown.stdout

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


async def test_what_the_actuator_parks_is_listed_like_the_rest(stack: Stack) -> None:
    body = b'{"id":"d9-x","group":"group-none","command":{"action":"Dance"}}'
    bus = await stack.bus()
    sequence = await bus.publish(decisions("default"), body, "dance")

    async def listed() -> object:
        return stack.sql("SELECT * FROM parked WHERE reason = 'DecisionParked'")

    async with stack.api() as api:
        await api.until("the log has heard of it", listed)
    await bus.close()
    (row,) = stack.sql("SELECT * FROM parked WHERE reason = 'DecisionParked'")
    assert row["object"] == f"decision d9-x, message {sequence}/0 of DECISIONS"
    key = f"{row['seq']}/{row['ord']}"
    assert f"{key}  " in stack.command("parked").stdout
    shown = stack.command("parked", "show", key)
    assert "no decision this version can read" in shown.stdout and '"d9-x"' in shown.stdout

    whole = json.loads(stack.command("parked", "stream", "--json").stdout)
    mine = [one for one in whole if one["reason"] == "DecisionParked"]
    assert [(one["by"], one["stream"], one["seq"]) for one in mine] == [
        ("actuator", "DECISIONS", sequence)
    ]
    assert base64.b64decode(mine[0]["body"]) == body
    text = stack.command("parked", "stream").stdout
    assert body.decode() in text and f"DECISIONS {sequence}/0" in text

    done = stack.command("parked", "release", key, "--by", "ada")
    assert (done.returncode, done.stdout) == (0, f"released: {key}\n"), done.stderr


@pytest.mark.parametrize("action", ["release", "discard"])
async def test_a_message_of_a_later_version_stops_its_group_until_somebody_says(
    stack: Stack, action: str
) -> None:
    name, team = f"busy-{action}", f"team-{action}"
    script = "run=50ms,succeed"
    bus = await stack.bus()
    async with stack.api() as api:
        await make_queue(api, team, cpu="100")
        for i in range(2):
            body = pod(f"{name}-{i}", name, 3, script=script)
            await api.call("POST", f"/api/v1/namespaces/{team}/pods", body)

        async def waiting() -> object:
            return stack.sql("SELECT 1 FROM groups WHERE name = ? AND pods_gated = 2", name)

        await api.until("two of three are gated", waiting)
        uid = (await api.pods(team))[f"{name}-0"]["metadata"]["uid"]
        later = {
            "type": "pod_applied.v9",
            "pod": {"uid": uid, "namespace": team, "name": f"{name}-0", "labels": ["odd"]},
        }
        batch = {"v": 1, "source": "watch", "events": [later]}
        said = json.dumps(batch).encode()
        sequence = await bus.publish(events("default", "operator"), said, "")
        key = f"{sequence}/0"

        async def stopped() -> object:
            return stack.sql("SELECT 1 FROM groups WHERE name = ? AND state = 'Blocked'", name)

        await api.until("the group is stuck", stopped)
        # It is complete now, and all the same nothing is decided about it; others go on.
        await api.call(
            "POST", f"/api/v1/namespaces/{team}/pods", pod(f"{name}-2", name, 3, script=script)
        )
        await runs_to_its_end(stack, api, team)
        found = await api.pods(team)
        assert all(found[f"{name}-{i}"]["spec"].get("schedulingGates") for i in range(3))

        listed = stack.command("parked", "list").stdout
        assert f"{key}  " in listed and f"pod {team}/{name}-0" in listed and "v9" in listed
        shown = stack.command("parked", "show", key).stdout
        assert f"{team}/{name} is stuck" in shown and "pod_applied.v9" in shown
        assert f"gatelog parked release {key}" in shown
        why = stack.command("why", f"{team}/{name}").stdout
        assert "Parked" in why and f"gatelog parked release {key}" in " ".join(why.split())
        told = " ".join(stack.command("history", f"{team}/{name}").stdout.split())
        assert f"pod {team}/{name}-0 is parked" in told

        done = stack.command("parked", action, key, "--by", "ada", "--note", "looked at it")
        assert done.returncode == 0, done.stderr
        assert f"{team}/{name} goes on" in done.stdout
        await finished(stack, api, team, name, [f"{name}-{i}" for i in range(3)])
        told = " ".join(stack.command("history", f"{team}/{name}").stdout.split())
        assert f"{'released' if action == 'release' else 'discarded'} by ada" in told
        assert "looked at it" in told
    await bus.close()


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
    stack.up.send(signal.SIGSTOP)  # its nats-server would end with it
    with pytest.raises(CommandFailed, match="no projector took it in within 1 s"):
        await resolve(load(environ=stack.env), "release", [key], "ada", "", patience_s=1)
    stack.up.kill()
    await asyncio.to_thread(stack.start)

    async def settled() -> bool:
        return rows_of(stack, [key])[0]["resolution"] == "release"

    async with stack.api() as api:
        await api.until("released after the start", settled)


def test_the_list_fits_a_terminal_of_100_columns() -> None:
    row = ParkedEvent(
        seq=1234,
        ord=0,
        at=T0,
        reason="Undecodable",
        message="Invalid value 'pod_applied.v9' - at `$.type`, " * 3,
        group_id="group-x",
        object="pod team-a/train-0",
        group="team-a/train",
        stuck=True,
    )
    done = msgspec.structs.replace(row, stuck=False, resolution="discard", resolved_by="ada")
    out = Console(width=100, record=True, file=io.StringIO())
    out.print(table_of([row, done, msgspec.structs.replace(row, seq=9, object="", group="")]))
    lines = out.export_text().splitlines()
    assert all(len(line) <= 100 for line in lines)
    assert lines[0].split()[:3] == ["1234/0", "2026-01-01", "00:00:00Z"]
    assert lines[0].rstrip().endswith("pod team-a/train-0  team-a/train is stuck")
    assert lines[1].strip().startswith("Undecodable: Invalid value 'pod_applied.v9'")
    assert any("pod team-a/train-0  discarded by ada" in line for line in lines)


def test_what_nobody_can_decode_stops_the_group_it_names() -> None:
    toy = Toy()
    toy.pod("a0", "a", 2)
    toy.pod("b0", "b", 2)

    def odd(**about: object) -> e.Undecodable:
        return e.Undecodable(error="no idea", raw=json.dumps({"type": "x.v9", **about}).encode())

    uid = toy.last["a0"].uid
    toy.do(odd(), odd(pod={"secret": 7}), odd(pod=[]), e.Undecodable(error="", raw=b"\xff"))
    assert not toy.group("a").parked and not toy.group("b").parked
    toy.do(odd(pod={"uid": uid, "namespace": "", "name": "", "labels": 7}))
    assert toy.group("a").parked and not toy.group("b").parked
    labels = {"kueue.x-k8s.io/pod-group-name": "b"}
    toy.do(odd(pod={"uid": "new", "namespace": "ns", "name": "new", "labels": labels}))
    assert toy.group("b").parked
    toy.do(odd(workload={"uid": "w", "namespace": "ns", "name": "nobodys"}))


def test_a_relist_does_not_take_for_gone_what_nobody_can_decode() -> None:
    toy = Toy()
    toy.pod("a0", "a", 2)
    raw = json.dumps({"pod": {"uid": toy.last["a0"].uid, "namespace": "ns", "name": "a0"}}).encode()
    toy.do(e.RelistStarted(kind="Pod", relist="again", reason="test"))
    toy.do(e.Undecodable(error="no idea", raw=raw))
    toy.do(e.RelistCompleted(kind="Pod", relist="again", resource_version="9999"))
    assert toy.group("a").explained.state == "Blocked" and toy.gated("a0")


@pytest.mark.parametrize("action", ["release", "discard"])
@pytest.mark.parametrize("by_group", [False, True])
def test_a_group_that_stood_still_goes_on(action: str, by_group: bool) -> None:
    toy = Toy()
    toy.pod("a0", "a", 2)
    group = toy.group("a")
    park(toy.world, At(toy.position, toy.now), Cause(3, "FoldFailed", "oops", "pod a0"), group)
    toy.pod("a1", "a", 2)
    assert group.parked.startswith(f"{toy.position - 1}/3 ") and group.explained.state == "Blocked"
    assert toy.gated("a0") and toy.gated("a1")
    toy.do(e.OperatorActed(action=action, target="1/1", by="ada"))
    assert group.parked, "another target is another matter"
    target = group.id if by_group else group.parked.split(" ")[0]
    toy.do(e.OperatorActed(action=action, target=target, by="ada"))
    assert not group.parked
    assert not toy.gated("a0") and not toy.gated("a1")
