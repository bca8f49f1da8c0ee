"""The clock of a read model: the moment up to which open intervals count.

Theory. An open interval (a pod that runs, quota that is held, a wait) is known to go on for as long
as gatelog's parts send heartbeats: table `replicas` has their times. While they do, the clock is
now. In a copy (an import, a replay, the file of a gatelog that ended) the clock is the last known
time: of its last message, or the last heartbeat of a part.

Invariant: every view reads this clock alone.
"""

from projector.schema.dialect import Dialect

SILENCE_S = 180
"""Silence of all parts from which on a read model is a copy: as long as `live.replicas` remembers
a part that fell silent."""
CLOCK = "(SELECT t.at FROM v_clock t)"
"""The moment, in views."""


def clock(d: Dialect, only: str = "") -> str:
    """Return the statement of the moment `at`; `only`: a condition on column cluster."""
    which = f" WHERE {only}" if only else ""
    return f"""
SELECT CASE WHEN k.heard > {d.before.format(s=SILENCE_S)} THEN {d.now}
            WHEN k.heard > k.said THEN k.heard ELSE coalesce(k.said, {d.now}) END AS at
  FROM (SELECT (SELECT max(r.heard_at) FROM replicas r{which}) AS heard,
               (SELECT max(c.at) FROM checkpoints c{which}) AS said) k
"""


def _of_all(d: Dialect) -> str:
    return clock(d)


VIEWS = {"v_clock": _of_all}

COMMENTS = {
    "v_clock": "The moment that what is open counts to: now while gatelog's parts are heard; of a "
    "copy, its last message, or the last word of a part"
}
