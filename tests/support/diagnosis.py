"""Why a fault test never came to its end: what each side holds, in one text.

Invariant: a source that cannot be asked any more is named with its error; the others still tell.
"""

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import sqlalchemy as sa

from podgroup.log.subjects import DECISIONS, EVENTS
from projector.storage.database import reader as reader_of
from runtime.jetstream import BusError
from runtime.jetstream.api import ask
from runtime.jetstream.connection import open_connection
from runtime.settings import NatsSettings
from tests.support.processes import Api, Child

_LOOKS = {
    "groups not finished": "select name, state, total_count, pods_seen, pods_gated, pods_running, "
    "pods_succeeded, wait_reason, wait_message from groups where state <> 'Finished'",
    "decisions not settled": "select id, number, action, target, status from decisions "
    "where resolved_at is null order by number",
    "how far the projector is": "select shard, seq, published, decisions_seq, at from checkpoints",
}
_MOST_ROWS = 40
_TAIL_LINES = 40
_CONNECT_S = 5.0


@asynccontextmanager
async def explained(
    api: Api, namespace: str, database: str, children: Iterable[Child], nats: NatsSettings
) -> AsyncIterator[None]:
    """Print what is not over in cluster, database and log when what is within fails."""
    try:
        yield
    except AssertionError:
        print(await _diagnosis(api, namespace, database, children, nats))
        raise


async def _diagnosis(
    api: Api, namespace: str, database: str, children: Iterable[Child], nats: NatsSettings
) -> str:
    lines = [*await _pods(api, namespace), *_rows(database), *await _streams(nats)]
    lines += [f"{child.name} runs: {child.running}, starts: {child.starts}" for child in children]
    return "\n".join([*lines, *(child.tail(_TAIL_LINES) for child in children)])


async def _pods(api: Api, namespace: str) -> list[str]:
    lines = ["--- pods not over ---"]
    try:
        for name, body in sorted((await api.pods(namespace)).items()):
            phase, meta = body["status"].get("phase"), body["metadata"]
            if phase != "Succeeded" or meta.get("finalizers"):
                lines.append(
                    f"{name} {phase} gates={body['spec'].get('schedulingGates')} "
                    f"finalizers={meta.get('finalizers')} version={meta.get('resourceVersion')}"
                )
    except Exception as error:
        lines.append(repr(error))
    return lines


def _rows(database: str) -> list[str]:
    lines: list[str] = []
    engine = reader_of(database)
    try:
        with engine.connect() as connection:
            for what, sql in _LOOKS.items():
                rows = connection.execute(sa.text(sql)).all()
                lines += [f"--- {what}: {len(rows)} ---", *map(str, rows[:_MOST_ROWS])]
    except Exception as error:
        lines.append(repr(error))
    finally:
        engine.dispose()
    return lines


async def _streams(nats: NatsSettings) -> list[str]:
    lines: list[str] = []
    try:
        connection = await open_connection(nats, "diagnosis", _CONNECT_S)
    except BusError as error:
        return [f"--- streams: {error!r}"]
    try:
        for name in (EVENTS, DECISIONS):
            info = json.loads(await ask(connection, f"STREAM.INFO.{name}"))
            lines.append(f"--- stream {name}: {info['state']} {info.get('cluster')}")
            consumers = json.loads(await ask(connection, f"CONSUMER.LIST.{name}"))
            for each in consumers["consumers"] or ():
                del each["config"]
                lines.append(json.dumps(each))
    except BusError as error:
        lines.append(repr(error))
    finally:
        await connection.close()
    return lines
