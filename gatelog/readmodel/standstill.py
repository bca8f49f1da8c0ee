"""Parts of gatelog that do not work, by the heartbeats of replicas (table `replicas`).

Theory. Each replica publishes its /readyz; a part works if the replica that holds its Lease is
ready, or any replica of a part without a Lease. The projector stores the heartbeats of all parts,
so without a working projector nothing is known of the others, and only that is reported.

Invariant: pure; a part that works is not mentioned, and every mentioned part has a remedy.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from gatelog.readmodel.rows import ReplicaRow
from gatelog.readmodel.timeline import duration
from gatelog.shell.remedies import UNKNOWN, Installation, remedy

PARTS = ("ingest", "projector", "actuator")
SILENT = timedelta(seconds=30)
"""Silence from which on a replica is taken to be gone or stopped."""
PASSING = timedelta(seconds=5)
"""Troubles no longer than this pass by themselves, as at a start."""
LASTING = timedelta(seconds=20)
"""A replica that was well, or not, for so long does not end right after its start."""
AGAIN = 3
"""Replicas that ended without a word from which on it is no accident, if none lasts."""

_CAUSES = (
    ("NATS stores nothing", "nats full"),
    ("NATS:", "nats away"),
    ("there is no stream", "streams"),
    ("no decision is believed", "keys"),
    ("signing key", "keys"),
    ("schema", "schema"),
    ("database:", "database"),
    ("may not", "rights"),
    ("no gate could be removed", "refused"),
    ("the cluster was restored", "restored"),
    ("certificate", "certificate"),
    ("clock", "clock"),
)
"""A part of a problem's text -> its cause in the table of remedies. The first part in the text
counts: later text may be an answer of another server, in words of its own.
"""

_OR = {"projector": ", or none can write to the database"}


class Trouble(Struct, frozen=True):
    """The trouble of a part; `stopped`: no replica of it can do its work."""

    part: str
    sentence: str
    remedy: str
    stopped: bool


def troubles(
    rows: Sequence[ReplicaRow], now: datetime, at: Installation = UNKNOWN
) -> list[Trouble]:
    """Return the troubles of the parts, in the order in which a pod meets them.

    `at` is their installation.
    """
    heard = {part: [row for row in rows if row.part == part] for part in PARTS}
    projectors = [row for row in heard["projector"] if now - row.heard_at <= SILENT]
    if not projectors:
        return [_absent("projector", heard["projector"], now, at)]
    # Heartbeats of other parts do not arrive, or had no time to arrive.
    deaf = any(row.problem.startswith("NATS:") for row in projectors)
    new = all(now - row.since < SILENT for row in projectors)
    others = sorted({row.part for row in rows} - set(PARTS))
    found = []
    for part in (*PARTS, *others):
        all_rows = [row for row in rows if row.part == part]
        if part != "projector" and (deaf or (new and not all_rows)):
            continue
        if (trouble := _trouble(part, all_rows, now, at)) is not None:
            found.append(trouble)
    return found


def _trouble(
    part: str, rows: Sequence[ReplicaRow], now: datetime, at: Installation
) -> Trouble | None:
    present = [row for row in rows if now - row.heard_at <= SILENT]
    if not present:
        return _absent(part, rows, now, at)
    ended = len(rows) - len(present)
    if ended >= AGAIN and all(row.heard_at - row.since < LASTING for row in present):
        said = f"{part} starts and ends again and again: {ended} replicas fell silent, none lasts"
        doing = (
            f"its log says why it ends (out of memory, a probe?): {remedy('part away', at, part)}"
        )
        return Trouble(part, said, doing, True)
    unable = [row for row in present if row.problem and now - row.since >= PASSING]
    unable.sort(key=lambda row: (not row.leads, row.since, row.instance))
    if unable:
        first, stopped = unable[0], unable[0].leads or len(unable) == len(present)
        some = "" if stopped else f"{len(unable)} of {len(present)} replicas of "
        since = duration((now - first.since).total_seconds())
        said = f"{some}{part} cannot work, since {since}: {first.problem}"
        return Trouble(part, said, remedy_of(first.problem, at, part), stopped)
    if len(present) < len(rows):
        silent = max(rows, key=lambda row: now - row.heard_at)
        since = duration((now - silent.heard_at).total_seconds())
        said = f"{part} {silent.instance} has said nothing for {since}; another one works"
        return Trouble(part, said, f"is it stopped or gone? See {part}'s pods and log", False)
    return None


def _absent(part: str, rows: Sequence[ReplicaRow], now: datetime, at: Installation) -> Trouble:
    if rows:
        last = max(rows, key=lambda row: row.heard_at)
        since = duration((now - last.heard_at).total_seconds())
        said = f"no {part} runs{_OR.get(part, '')}: nothing was heard of one for {since}"
        if last.problem:
            said += f"; the last said: {last.problem}"
    else:
        said = f"no {part} runs: none has said how it is"
    doing = f"start it: {remedy('part away', at, part)}"
    if part == "projector":
        # One that runs and cannot write is silent in the same table: a start would change nothing.
        doing = (
            f"if it runs, the database keeps it from writing: {remedy('database', at)}. If none "
            f"does, {doing}; only it writes down how the other parts are"
        )
    return Trouble(part, said, doing, True)


def remedy_of(problem: str, at: Installation = UNKNOWN, part: str = "") -> str:
    """Return what to do about a problem of a replica."""
    marked = [(problem.find(mark), cause) for mark, cause in _CAUSES if mark in problem]
    return remedy(min(marked)[1] if marked else "unknown", at, part)
