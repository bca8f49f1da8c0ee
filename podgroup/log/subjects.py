"""The subject grammar, and the names of streams and consumers.

    events.<cluster>.0.<source>    facts; source is watch, actuator, projector or operator
    decisions.<cluster>.0          decisions, in the order they were made
    parked.<cluster>.0             messages parked, as they were
    health.<cluster>.<part>        how a replica of a part is; in no stream

The 0 was the number of a shard, when a log of kueue mode could have several.
One stream EVENTS holds all sources, so its sequence is the total order of everything. By the source
token each deployment may publish its own facts only, and an ingester finds the last message that it
published.

Invariant: a cluster name is one subject token, which `check_cluster` ensures.
"""

import re
from typing import Literal

EVENTS = "EVENTS"
DECISIONS = "DECISIONS"
PARKED = "PARKED"

Source = Literal["watch", "actuator", "projector", "operator"]

_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,63}")


def check_cluster(name: str) -> str:
    """Return `name` if it can be a subject token.

    Raises:
        ValueError: `name` cannot be a token; the message says what is allowed.
    """
    if not _TOKEN.fullmatch(name):
        raise ValueError(
            f"cluster name {name!r}: use 1 to 63 letters, digits, '-' or '_' "
            "(it becomes part of NATS subjects)"
        )
    return name


def events(cluster: str, source: Source) -> str:
    """Return the subject for facts of one source."""
    return f"events.{cluster}.0.{source}"


def events_of(cluster: str) -> str:
    """Return the filter for all facts of a cluster."""
    return f"events.{cluster}.0.*"


def source_of(subject: str) -> str:
    """Return the source that publishes on a subject of EVENTS."""
    return subject.rpartition(".")[2]


def actuator_consumer(cluster: str) -> str:
    """Return the durable consumer of DECISIONS: each cluster that shares a server has its own."""
    return f"actuator-{cluster}"


def decisions(cluster: str) -> str:
    """Return the subject for decisions of a cluster."""
    return f"decisions.{cluster}.0"


def health(cluster: str, part: str) -> str:
    """Return the subject on which replicas of a part report their health; `*`: of every part."""
    return f"health.{cluster}.{part}"


def parked(cluster: str) -> str:
    """Return the subject for parked messages of a cluster."""
    return f"parked.{cluster}.0"
