"""Messages on the log that nobody can decode: set aside as they are, and everything else goes on.

They are published onto EVENTS of a running cluster, by somebody who may (a later gatelog, a broken
publisher, a person with a shell). What cannot be decoded is a row of `parked` with the bytes as
they came and a copy in the stream PARKED; its neighbours in the same batch are folded. A start
with such a message as the newest of the log is no different.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from podgroup.log.codec import decode_batch, encode_batch
from podgroup.log.events import Batch, OperatorActed, PodApplied
from podgroup.log.subjects import EVENTS, PARKED, events, events_of, parked
from podgroup.model.objects import PodView
from runtime.jetstream import Bus
from tests.support.processes import Api, make_queue, pod
from tests.support.stack import Stack, finished, running_stack, runs_to_its_end

# One stack answers for the whole module.
pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.retried("it waits for processes that share two cores with other tests"),
]

TEAM = "team"
OPERATOR = events("default", "operator")
WATCH = events("default", "watch")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("bad-messages")) as one:

        async def queues() -> None:
            async with one.api() as api:
                await make_queue(api, TEAM, cpu="100")

        asyncio.run(queues())
        yield one


async def publish(bus: Bus, body: bytes, subject: str = OPERATOR) -> int:
    """Publish a body; a repetition of the same would be a duplicate, so ids are by length."""
    return await bus.publish(subject, body, f"test/{subject}/{len(body)}/{hash(body)}")


async def set_aside(stack: Stack, api: Api, sequence: int) -> dict[str, Any]:
    """Wait for the row of `parked` about a message, and hold the copy in PARKED against it."""

    async def row() -> Any:
        return stack.sql("SELECT * FROM parked WHERE seq = ?", sequence)

    found: list[dict[str, Any]] = await api.until(f"message {sequence} is set aside", row)
    assert len(found) == 1
    bus = await stack.bus()
    reader = bus.read(PARKED, parked("default"), 1)
    copy: dict[str, Any] = {}
    try:
        while copy.get("seq") != sequence:  # it follows the row, and others may come before it
            messages = await reader.next(10)
            assert messages, f"no copy of {sequence} came"
            copies = [msgspec.json.decode(message.body) for message in messages]
            copy = next((one for one in copies if one["seq"] == sequence), {})
    finally:
        await reader.close()
        await bus.close()
    assert (copy["ord"], copy["reason"]) == (found[0]["ord"], found[0]["reason"])
    assert msgspec.convert(copy["body"], bytes) == found[0]["raw"]
    return found[0]


UNREADABLE = {
    "garbage": (b"\x00\xfe garbage \xff", "no batch"),
    "empty-object": (b"{}", "no batch"),
    "a-list": (b"[1, 2, 3]", "no batch"),
    "half": (b'{"v":1,"source":"watch","events":[{"type":"pod_ap', "no batch"),
    "later-envelope": (b'{"v":2,"source":"watch","events":[]}', "written by a later gatelog"),
}


@pytest.mark.parametrize("case", UNREADABLE)
async def test_a_message_that_is_no_batch(stack: Stack, case: str) -> None:
    body, words = UNREADABLE[case]
    bus = await stack.bus()
    async with stack.api() as api:
        row = await set_aside(stack, api, await publish(bus, body))
        assert row["reason"] == "Undecodable"
        assert words in row["message"]
        assert row["raw"] == body
        finding = stack.doctor()["parked"]
        assert finding["verdict"] == "warn"
        assert "parked" in finding["detail"]
        await runs_to_its_end(stack, api, TEAM)
    await bus.close()


async def views(bus: Bus) -> dict[str, PodView]:
    """The newest view of every pod on the log."""
    reader = bus.read(EVENTS, events_of("default"), 1)
    found: dict[str, PodView] = {}
    while messages := await reader.next(0.5):
        for message in messages:
            for event in decode_batch(message.body).events:
                if isinstance(event, PodApplied):
                    found[event.pod.name] = event.pod
    await reader.close()
    return found


async def newer(stack: Stack, api: Api) -> str:
    """A resource version later than that of any pod: a namespace is made to have one."""
    stack.good += 1
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"bump-{stack.good}"}}
    made = await api.call("POST", "/api/v1/namespaces", body)
    return str(made["metadata"]["resourceVersion"])


async def test_an_unknown_event_between_good_ones(stack: Stack) -> None:
    """The neighbours of the unknown tag are folded, and the group runs to its end."""
    bus = await stack.bus()
    async with stack.api() as api:
        for i in range(2):
            body = pod(f"busy-{i}", "busy", 3, script="run=50ms,succeed")
            await api.call("POST", f"/api/v1/namespaces/{TEAM}/pods", body)

        async def waiting() -> Any:
            query = "SELECT 1 FROM groups WHERE name = 'busy' AND pods_gated = 2"
            return stack.sql(query)

        await api.until("two of three are gated", waiting)
        seen = await views(bus)
        good = [
            PodApplied(
                pod=msgspec.structs.replace(
                    seen[f"busy-{i}"],
                    resource_version=await newer(stack, api),
                    labels={**seen[f"busy-{i}"].labels, "told-by": f"batch-{i}"},
                )
            )
            for i in range(2)
        ]
        whole = msgspec.json.decode(encode_batch(Batch(source="watch", events=tuple(good))))
        whole["events"].insert(1, {"type": "pod_applied.v9", "pod": {"secret": 7}})
        sequence = await publish(bus, msgspec.json.encode(whole), WATCH)
        row = await set_aside(stack, api, sequence)
        assert row["ord"] == 1
        assert "pod_applied.v9" in row["message"]
        assert msgspec.json.decode(row["raw"]) == whole["events"][1]
        labels = stack.sql("SELECT labels FROM pods WHERE name LIKE 'busy-%' ORDER BY name")
        told = [msgspec.json.decode(one["labels"])["told-by"] for one in labels]
        assert told == ["batch-0", "batch-1"]
        await runs_to_its_end(stack, api, TEAM)
        body = pod("busy-2", "busy", 3, script="run=50ms,succeed")
        await api.call("POST", f"/api/v1/namespaces/{TEAM}/pods", body)
        await finished(stack, api, TEAM, "busy", ["busy-0", "busy-1", "busy-2"])
    await bus.close()


async def test_a_time_without_an_offset(stack: Stack) -> None:
    """It could not be compared with any other, so it is not taken for a time."""
    bus = await stack.bus()
    async with stack.api() as api:
        await runs_to_its_end(stack, api, TEAM)
        view = (await views(bus))[f"good-{stack.good}-0"]
        forged = PodApplied(
            pod=msgspec.structs.replace(
                view, uid="forged", name="forged", resource_version=await newer(stack, api)
            )
        )
        body = encode_batch(Batch(source="operator", events=(forged,)))
        whole = msgspec.json.decode(body)
        whole["events"][0]["pod"]["created_at"] = "2026-01-01T00:00:00"
        row = await set_aside(stack, api, await publish(bus, msgspec.json.encode(whole)))
        assert "created_at" in row["message"]
        await runs_to_its_end(stack, api, TEAM)
        # It says whose pod it is: that group, and no other, waits for a person.
        assert stack.sql("SELECT name FROM groups WHERE parked <> ''") == [{"name": view.name[:-2]}]
        done = stack.command("parked", "discard", f"{row['seq']}/{row['ord']}")
        assert f"{TEAM}/{view.name[:-2]} goes on" in done.stdout, done.stderr
    await bus.close()


async def test_a_start_on_a_log_that_ends_in_garbage(stack: Stack) -> None:
    """Ingest goes on from the newest message of the watch: this one says nothing it can use."""
    bus = await stack.bus()
    async with stack.api() as api:
        sequence = await publish(bus, b"\xff\xff the end", events("default", "watch"))
        await set_aside(stack, api, sequence)
        await bus.close()
        before = stack.sql("SELECT count(*) AS n FROM parked")[0]["n"]
        await asyncio.to_thread(stack.up.stop)
        await asyncio.to_thread(stack.start)
        await runs_to_its_end(stack, api, TEAM)
        assert stack.sql("SELECT count(*) AS n FROM parked")[0]["n"] == before


async def test_a_person_says_something_about_what_does_not_exist(stack: Stack) -> None:
    """An operator's word about a message nobody set aside changes nothing and stops nothing."""
    bus = await stack.bus()
    async with stack.api() as api:
        before = stack.sql("SELECT count(*) AS n FROM parked WHERE resolution = ''")[0]["n"]
        acted = OperatorActed(action="release", target="9999999/0", by="tester")
        batch = Batch(source="operator", events=(acted,))
        sequence = await publish(bus, encode_batch(batch))

        async def folded() -> Any:
            query = "SELECT 1 FROM history WHERE seq = ? AND kind = 'OperatorActed'"
            return stack.sql(query, sequence)

        await api.until("it is in the history", folded)
        after = stack.sql("SELECT count(*) AS n FROM parked WHERE resolution = ''")[0]["n"]
        assert after == before
        await runs_to_its_end(stack, api, TEAM)
    await bus.close()


def test_nothing_crashed(stack: Stack) -> None:
    assert stack.up.running
    assert "Traceback" not in stack.up.text()
    assert stack.sql("SELECT name FROM groups WHERE parked <> ''") == []
