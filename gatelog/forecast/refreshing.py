"""A forecast from beginning to end: read, play, write.

Invariant: no transaction is open while the present is played.
"""

import time
from datetime import datetime
from typing import NamedTuple

from gatelog.forecast import estimates, present
from gatelog.forecast.estimates import Made
from gatelog.forecast.estimating import forecast
from gatelog.readmodel.starts import ENDS
from projector.storage.database import hold, reading, writer
from runtime.collector import collecting_rarely


class Effort(NamedTuple):
    """Processor seconds for a forecast, half of them for plays in any case, and ends looked for."""

    budget_s: float
    ends: int = ENDS

    @classmethod
    def left(cls, budget_s: float, began_s: float = 0.0) -> "Effort":
        """Return the rest of a budget that began at `began_s` of the process's own time."""
        return cls(max(budget_s - (time.process_time() - began_s), budget_s / 2))


def make(
    url: str,
    cluster: str,
    now: datetime,
    *,
    label: str,
    effort: Effort,
) -> Made | None:
    """Play the present forward; nothing is written. None: the read model is empty.

    Raises:
        DatabaseError: there is no such database.
        SQLAlchemyError: the database does not answer, or has no read model.
    """
    with reading(url) as connection:
        began = time.process_time()
        hold(connection)
        read = present.read(connection, cluster, now, label)
    if read is None:
        return None
    loaded, begin = read
    left = Effort.left(effort.budget_s, began)
    with collecting_rarely():
        found = forecast(begin, budget_s=left.budget_s, ends=effort.ends)
    drawn_from = {"runs": begin.runtimes.count, "coming": len(begin.coming)}
    return Made(begin.world, now, loaded.checkpoint.seq, found, drawn_from)


def refresh(url: str, cluster: str, now: datetime, *, label: str, effort: Effort) -> Made | None:
    """Make a forecast, write its estimates, and enter the actual starts of earlier estimates.

    Raises:
        DatabaseError, SQLAlchemyError: as `make`, or the database may not be written.
    """
    made = make(url, cluster, now, label=label, effort=effort)
    if made is None:
        return None
    engine = writer(url, owner="forecast")
    try:
        with engine.begin() as connection:
            estimates.enter_outcomes(connection, cluster, now)
            made.fresh = estimates.store(connection, made)
    finally:
        engine.dispose()
    return made
