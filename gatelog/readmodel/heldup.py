"""Groups that are admitted and whose pods are still at their gate, in sentences.

Theory. An admission has no effect before the gate is gone. View `v_held_up` has the groups in
between, the tries and the answers; all reports of a standstill (`why`, `why -A`, `doctor`) query
it.

Invariant: pure; a sentence names the tried write, how often, and the last answer.
"""

from datetime import datetime, timedelta

from gatelog.readmodel.rows import HeldUpRow
from gatelog.readmodel.timeline import duration
from gatelog.shell.remedies import UNKNOWN, Installation, remedy

REASON = "GateNotRemoved"
SOON = timedelta(seconds=5)
"""A gate goes within this where nothing is in the way; a list leaves such groups out."""
TOO_LONG = timedelta(seconds=30)
"""From then on it is a fault."""
_KEPT = 300
"""Characters of the API server's answer."""


def sentence(row: HeldUpRow, now: datetime) -> str:
    """Say since when the gate should be gone, the tries, and the last answer."""
    pods = "the gate" if row.pods == 1 else f"the gates of {row.pods} pods"
    admitted = f"admitted {_ago(row.since, now)}; {pods}"
    if not row.decided:
        return f"{admitted} should go, and no decision to remove it was made yet"
    if row.tries:
        times = "once" if row.tries == 1 else f"{row.tries} times"
        status = f" {row.http_status}" if row.http_status else ""
        when = f" {_ago(row.last_at, now)}" if row.last_at is not None else ""
        answer = row.said[:_KEPT] or "no reason given"
        return f"{admitted} could not be removed: refused {times}, last{status}{when}: {answer}"
    made = f" {_ago(row.decided_at, now)}" if row.decided_at is not None else ""
    return f"{admitted} is to be removed: decided{made}, and no actuator has answered yet"


def advice(row: HeldUpRow, at: Installation = UNKNOWN) -> str:
    """Say what ends it in an installation."""
    if row.tries and row.http_status in (401, 403, 422):
        return remedy("refused", at)
    if row.tries:
        return "an API server that takes the request; it is tried again by itself"
    return "an actuator that works: gatelog doctor says what is in its way"


def _ago(at: datetime, now: datetime) -> str:
    return f"{duration((now - at).total_seconds())} ago"
