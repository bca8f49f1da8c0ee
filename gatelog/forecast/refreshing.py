"""A forecast from beginning to end: read, play, write.

Invariant: no transaction is open while the present is played.
"""

import time
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Engine

from gatelog.forecast import estimates, present
from gatelog.forecast.estimates import Made
from gatelog.forecast.estimating import ENDS, forecast
from projector.storage.database import SNAPSHOT, reader, writer
from runtime.collector import collecting_rarely


class Effort(NamedTuple):
    """Processor seconds for a forecast, half of them for plays in any case, and ends looked for."""

    budget_s: float
    ends: int = ENDS

    def shared(self, by: int) -> "Effort":
        """Return what each of so many shards may take."""
        return Effort(self.budget_s / by, self.ends)

    @classmethod
    def left(cls, budget_s: float, began_s: float = 0.0) -> "Effort":
        """Return what is left of a budget that began at `began_s` of the process's own time."""
        return cls(max(budget_s - (time.process_time() - began_s), budget_s / 2))


def make(
    url: str,
    cluster: str,
    now: datetime,
    *,
    label: str,
    effort: Effort,
    shard: int | None = None,
) -> list[Made]:
    """Play the present of every shard forward with an effort for all; nothing is written.

    Raises:
        DatabaseError: there is no such database.
        SQLAlchemyError: it does not answer, or has no read model.
    """
    engine = reader(url)
    try:
        with engine.execution_options(**SNAPSHOT[engine.dialect.name]).connect() as connection:
            mine = present.shards(connection, cluster) if shard is None else [shard]
        return [
            made
            for one in mine
            if (made := _one(engine, cluster, one, now, label, effort.shared(len(mine))))
            is not None
        ]
    finally:
        engine.dispose()


def refresh(url: str, cluster: str, now: datetime, *, label: str, effort: Effort) -> list[Made]:
    """Make a forecast, write its estimates, and enter what came true of those before.

    Raises:
        DatabaseError, SQLAlchemyError: as `make`, or the database may not be written.
    """
    found = make(url, cluster, now, label=label, effort=effort)
    engine = writer(url, owner="forecast")
    try:
        for made in found:
            with engine.begin() as connection:
                estimates.enter_outcomes(connection, cluster, made.shard, now)
                made.fresh = estimates.store(connection, made)
    finally:
        engine.dispose()
    return found


def _one(
    engine: Engine, cluster: str, shard: int, now: datetime, label: str, effort: Effort
) -> Made | None:
    began = time.process_time()
    with engine.execution_options(**SNAPSHOT[engine.dialect.name]).connect() as connection:
        read = present.read(connection, cluster, shard, now, label)
    if read is None:
        return None
    loaded, begin = read
    left = Effort.left(effort.budget_s, began)
    with collecting_rarely():
        found = forecast(begin, budget_s=left.budget_s, ends=effort.ends)
    drawn_from = {"runs": begin.runtimes.count, "coming": len(begin.coming)}
    return Made(shard, begin.world, now, loaded.checkpoint.seq, found, drawn_from)
