"""Settings in force at each time: by which settings the log was decided, epoch by epoch.

Theory. History has a line for every time that a projector published settings: all of them at the
start of an epoch, changed settings afterwards. Read in order, the lines give the settings in force
from each position on. Pruned lines are filled in from the checkpoint, which has the present
settings: a setting that no later line of the epoch names has not changed since.

Invariant: read-only; a setting that is no longer known is left out, never guessed.
"""

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from gatelog.readmodel import statements
from podgroup.fold.deciding import by_name

if TYPE_CHECKING:
    from gatelog.readmodel.model import ReadModel
    from gatelog.readmodel.rows import GroupRow

MOST = 10_000
STARTED = "EpochStarted"
VERSIONS = ("gatelog", "rules", "mode")
"""Settings that a short answer names; the rest is section `queueing` and the kinds listed first."""


class SaidRow(Struct, frozen=True):
    """A line of history about settings, or about the start of an epoch."""

    seq: int
    at: datetime
    kind: str
    reason: str
    message: str


class EpochLine(Struct, frozen=True):
    """A row of table `epochs`."""

    number: int
    base: int
    at: datetime | None
    reason: str
    lost_from: int | None
    lost_to: int | None


class RestoreLine(Struct, frozen=True):
    """A line of history: the cluster went back to a backup, or became another."""

    seq: int
    at: datetime
    message: str


class InForce(Struct, frozen=True):
    """The settings in force from position `seq` of `epoch` on, by name.

    `was` has the previous values of changed settings; empty for the first known settings. `seq` 0:
    since before history begins.
    """

    epoch: int
    seq: int
    at: datetime | None
    settings: dict[str, str]
    was: dict[str, str]

    def changes(self) -> str:
        """Return what changed as a sentence, "" if nothing did."""
        return ", ".join(
            f"{name} {self.settings.get(name, 'gone')} (was {before})"
            for name, before in self.was.items()
        )


def epochs(model: "ReadModel") -> list[EpochLine]:
    """Return the beginnings of the log, by number.

    Where gatelog never ran (an import, a replay) they come from the log itself.
    """
    kept = list(model.rows(EpochLine, statements.settings.EPOCHS, {"limit": MOST}))
    checkpoint = model.checkpoint()
    if kept or checkpoint is None:
        return kept
    rows = list(model.rows(SaidRow, statements.settings.SETTINGS, {"limit": MOST}))[::-1]
    starts = [row for row in rows if row.kind == STARTED]
    first = checkpoint.epoch - len(starts)
    found = [
        EpochLine(first + number, row.seq - 1, row.at, row.message, None, None)
        for number, row in enumerate(starts, 1)
    ]
    if first > 0:
        at = rows[0].at if rows else None
        found.insert(0, EpochLine(first, 0, at, "its log was read into a copy", None, None))
    return found


def restores(model: "ReadModel") -> list[RestoreLine]:
    """Return when the cluster went back, or became another, by position."""
    return list(model.rows(RestoreLine, statements.settings.RESTORES, {"limit": MOST}))


def within(
    found: list[RestoreLine], epoch: EpochLine, epochs: list[EpochLine]
) -> list[RestoreLine]:
    """Return the restores that the log has in an epoch: before the next epoch began."""
    later = [one.base for one in epochs if one.number > epoch.number]
    end = min(later, default=None)
    return [one for one in found if one.seq > epoch.base and (end is None or one.seq <= end)]


def in_force(model: "ReadModel") -> list[InForce]:
    """Return the settings in force over time, oldest first."""
    rows = list(model.rows(SaidRow, statements.settings.SETTINGS, {"limit": MOST}))[::-1]
    checkpoint = model.checkpoint()
    if checkpoint is None:
        return []
    starts = [row for row in rows if row.kind == STARTED]
    epoch = checkpoint.epoch - len(starts)  # of what comes before the first start that is left
    found: list[InForce] = []
    now = checkpoint.meta.settings
    if not starts and now is not None:
        changed = {name for row in rows for name in _parsed(row.message)}
        kept = {name: value for name, value in by_name(now).items() if name not in changed}
        if kept:
            found.append(InForce(epoch, 0, None, kept, {}))
    for row in rows:
        if row.kind == STARTED:
            epoch += 1
            continue
        before = found[-1] if found else None
        whole = before is None or before.epoch != epoch
        said = _parsed(row.message)
        held = {} if before is None else before.settings
        settings = said if whole else {**held, **said}
        names = list(dict.fromkeys((*held, *settings))) if whole else list(said)
        was = {n: held[n] for n in names if n in held and held[n] != settings.get(n)}
        if before is None or whole or was:
            found.append(InForce(epoch, row.seq, row.at, settings, was))
    return found


def of_group(model: "ReadModel", group: "GroupRow") -> list[InForce]:
    """Return the settings in force when a group came, and their changes while it lived."""
    known = in_force(model)
    end = group.gone_at
    came = [one for one in known if one.at is None or one.at <= group.created_at][-1:]
    lived = [
        one
        for one in known
        if one.at is not None and one.at > group.created_at and (end is None or one.at <= end)
    ]
    return came + [one for one in lived if one.was]


def briefly(one: InForce) -> str:
    """Return the versions and the mode in a phrase."""
    return ", ".join(f"{name} {one.settings[name]}" for name in VERSIONS if name in one.settings)


def _parsed(message: str) -> dict[str, str]:
    """Return name -> value of a line of history, as `podgroup.fold.deciding` words it."""
    parts = (part.partition(" ") for part in message.split(", ") if part)
    return {name: value for name, _, value in parts}
