"""The present world, from the read model, ready to decide in.

Theory. A projector starts from the same records. The waiting groups are derived and not stored, and
are computed as at a projector's start (`engine.recall_waiting`); then nothing is new, so a message
concerns only the groups that it names. The world belongs to its caller: decisions in it have no
effect elsewhere.

Invariant: one transaction that reads.
"""

import sqlalchemy as sa

from gatelog.shell.errors import CommandFailed
from gatelog.shell.whereabouts import read_model_at
from podgroup.engine import load_world, recall_waiting
from podgroup.fold.deciding import line_up
from podgroup.state.world import World
from projector import tables
from projector.storage.database import hold, reading
from projector.storage.loading import load_state
from projector.tables.base import SHARD
from runtime.collector import collecting_rarely


class TooLarge(Exception):
    """More pods are known than are to be read; the message says how many."""


def world_of(url: str, cluster: str, most_pods: int = 0, timeout_s: float = 60.0) -> World | None:
    """Return the present world, None before the first commit; `most_pods` 0: of any size.

    A statement ends after `timeout_s`.

    Raises:
        TooLarge: the world has more than `most_pods`.
        DatabaseError: there is no such database.
        CommandFailed: the database does not answer, or has no read model.
    """
    try:
        with reading(url, timeout_s) as connection:
            hold(connection)
            if most_pods:
                _bounded(connection, cluster, most_pods)
            with collecting_rarely():
                loaded = load_state(connection, cluster)
                if loaded is None:
                    return None
                world = load_world(cluster, loaded.checkpoint.mode, loaded)
    except sa.exc.SQLAlchemyError as error:
        said = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise CommandFailed(f"{read_model_at(url)}: {said}") from error
    return decidable(world)


def _bounded(connection: sa.Connection, cluster: str, most: int) -> None:
    pods = tables.pods.c
    mine = (pods.cluster == cluster, pods.shard == SHARD, pods.gone_at.is_(None))
    if connection.scalar(sa.select(sa.literal(1)).where(*mine).offset(most).limit(1)):
        raise TooLarge(f"more than {most} pods are known: too many to be read for one question")


def decidable(world: World) -> World:
    """Make a world that was loaded or replayed ready to decide on the next message."""
    if not world.loaded:  # replayed: state that rules derive was left out
        line_up(world)
    if world.mode == "builtin":
        with collecting_rarely():
            recall_waiting(world)
    world.loaded = False
    return world
