"""The subject grammar, and the names of streams and consumers.

    events.<cluster>.<shard>.<source>    facts; source is watch, actuator, projector or operator
    decisions.<cluster>.<shard>          decisions, in the order they were made
    parked.<cluster>.<shard>             messages parked, as they were
    health.<cluster>.<part>              how a replica of a part is; in no stream

One stream EVENTS holds all sources, so its sequence is the total order of everything; the source
token lets each deployment be allowed to publish its own facts only, and lets an ingester find the
last thing it published.

Invariant: a cluster name is one subject token, checked at the door.
"""

import re
import zlib
from typing import Literal

EVENTS = "EVENTS"
DECISIONS = "DECISIONS"
PARKED = "PARKED"

Source = Literal["watch", "actuator", "projector", "operator"]

_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,63}")


def check_cluster(name: str) -> str:
    """Return `name` if it can be a subject token.

    Raises:
        ValueError: it cannot; the message says what is allowed.
    """
    if not _TOKEN.fullmatch(name):
        raise ValueError(
            f"cluster name {name!r}: use 1 to 63 letters, digits, '-' or '_' "
            "(it becomes part of NATS subjects)"
        )
    return name


def shard_of(namespace: str, shards: int) -> int:
    """Return the shard (0-based) of a namespace; cluster-scoped objects go to every shard."""
    return zlib.crc32(namespace.encode()) % shards if shards > 1 else 0


def events(cluster: str, shard: int, source: Source) -> str:
    """Return the subject for facts of one source."""
    return f"events.{cluster}.{shard}.{source}"


def events_of(cluster: str, shard: int) -> str:
    """Return the filter for all facts of one shard."""
    return f"events.{cluster}.{shard}.*"


def source_of(subject: str) -> str:
    """Return the source that speaks on a subject of EVENTS."""
    return subject.rpartition(".")[2]


def actuator_consumer(cluster: str) -> str:
    """Return the durable consumer of DECISIONS: clusters that share a server have one each."""
    return f"actuator-{cluster}"


def actuator_filter(cluster: str, shards: int) -> str:
    """Return the decisions that consumer is for.

    All shards share it: which decisions belong together is settled per object.
    """
    return f"decisions.{cluster}.*" if shards > 1 else decisions(cluster, 0)


def decisions(cluster: str, shard: int) -> str:
    """Return the subject for decisions of one shard."""
    return f"decisions.{cluster}.{shard}"


def health(cluster: str, part: str) -> str:
    """Return the subject on which the replicas of a part say how they are; `*`: of every part."""
    return f"health.{cluster}.{part}"


def parked(cluster: str, shard: int) -> str:
    """Return the subject for parked messages of one shard."""
    return f"parked.{cluster}.{shard}"
