"""Rows that will not change again: what a read model made at one go has to write.

Theory. A live projector writes a row each time it changes, because a reader may look. No one reads
a read model in the making, so a row is written once: a pod when it is gone, a wait when it is
over, a decision when its outcome is known; and at the end whatever is still open. That makes every
write an append, and the cost of a rebuild follows the number of things, not of their changes.

What is held back is bounded by what is alive at one time, and by `MOST_OPEN` decisions.

Invariant: after `rest`, for every key the row that was given out last is the one that a projector
would have left, but for the status of decisions when `loose` is true: those follow from outcomes.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

from podgroup.folding import PendingWrites
from podgroup.log.journal import AdmissionRow, GateRow, PodWaitRow, WaitRow
from podgroup.model.objects import QUEUE_KINDS
from podgroup.state.world import World
from projector.schema.layout import COLUMNS, Row
from projector.writing.rows import Rows, build

K = TypeVar("K")
R = TypeVar("R")

MOST_OPEN = 100_000
"""Decisions held back for their outcome at most; beyond that the oldest are written without."""

_ADMITTED_AT = COLUMNS["groups"].index("admitted_at")
_GROUP_ID = COLUMNS["groups"].index("id")
_DECISION_ID = COLUMNS["decisions"].index("id")
_STATUS = COLUMNS["decisions"].index("status")
assert COLUMNS["decisions"][_STATUS:] == ("status", "resolved_at")


class Finals:
    """Reduces the journals of one cluster to final rows. Takes the journals over."""

    def __init__(self) -> None:
        self._waits: dict[str, dict[int, WaitRow]] = {}
        self._admissions: dict[str, dict[int, AdmissionRow]] = {}
        self._gates: dict[str, dict[str, GateRow]] = {}
        self._pod_waits: dict[str, dict[int, PodWaitRow]] = {}
        self._admitted: dict[str, datetime] = {}
        self._decisions: dict[str, Row] = {}
        self.loose = False
        """An outcome came for a decision that was not held back any more."""

    def pick(self, world: World, taken: PendingWrites) -> Rows:
        """Return the rows of a batch that are final, and remember the others."""
        journal = taken.journal
        for admission in journal.admissions.values():
            self._admitted[admission.group] = admission.admitted_at
        gone_groups = [g for g in taken.gone_groups if g not in world.groups]
        gone_pods = [p for p in taken.gone_pods if p not in world.pods]
        journal.waits = _hold(
            self._waits,
            ((w.group, w.from_seq, w, w.to_at is None) for w in journal.waits.values()),
            gone_groups,
        )
        journal.admissions = _hold(
            self._admissions,
            ((a.group, a.number, a, a.released_at is None) for a in journal.admissions.values()),
            gone_groups,
        )
        journal.gates = _hold(
            self._gates,
            ((g.pod, g.gate, g, g.removed_at is None) for g in journal.gates.values()),
            gone_pods,
        )
        journal.pod_waits = _hold(
            self._pod_waits,
            ((w.pod, w.from_seq, w, w.to_at is None) for w in journal.pod_waits.values()),
            gone_pods,
        )
        journal.pods.clear()
        journal.groups.clear()
        journal.objects.clear()
        rows = self._built(world, taken)
        for group in gone_groups:
            self._admitted.pop(group, None)
        self._resolve(rows)
        return rows

    def open_rows(self, world: World) -> Rows:
        """Return the rows of everything that is still open; the world's journal must be taken."""
        journal = world.journal
        journal.waits = _all(self._waits)
        journal.admissions = _all(self._admissions)
        journal.gates = _all(self._gates)
        journal.pod_waits = _all(self._pod_waits)
        journal.pods.update(world.pods)
        journal.groups.update(world.groups)
        journal.objects.update(_objects(world))
        rows = self._built(world, PendingWrites(journal, {}, {}))
        rows.tables["decisions"] = list(self._decisions.values())
        self._decisions = {}
        return rows

    def _built(self, world: World, taken: PendingWrites) -> Rows:
        rows = build(world, taken)
        groups = rows.tables.get("groups", [])
        for index, row in enumerate(groups):
            # The time of an admission outlives the admission.
            known = self._admitted.get(row[_GROUP_ID])
            if row[_ADMITTED_AT] is None and known is not None:
                groups[index] = (*row[:_ADMITTED_AT], known, *row[_ADMITTED_AT + 1 :])
        return rows

    def _resolve(self, rows: Rows) -> None:
        written: list[Row] = []
        held = self._decisions
        for row in rows.tables.get("decisions", ()):
            if row[_STATUS] is None:
                held[row[_DECISION_ID]] = row
            else:
                written.append(row)
        for status, at, identity in rows.resolved:
            found = held.pop(identity, None)
            if found is None:
                self.loose = True
            else:
                written.append((*found[:_STATUS], status, at))
        if len(held) > MOST_OPEN:
            for identity in list(held)[: len(held) - MOST_OPEN]:
                written.append(held.pop(identity))
        rows.tables["decisions"] = written
        rows.resolved = []


def _hold(
    held: dict[str, dict[K, R]], found: Iterable[tuple[str, K, R, bool]], gone: Iterable[str]
) -> dict[tuple[str, K], R]:
    """Keep what is open by (owner, key), and return what is over or whose owner is gone."""
    over: dict[tuple[str, K], R] = {}
    for owner, key, row, is_open in found:
        mine = held.get(owner)
        if is_open:
            if mine is None:
                mine = held[owner] = {}
            mine[key] = row
            continue
        over[owner, key] = row
        if mine is not None:
            mine.pop(key, None)
            if not mine:
                del held[owner]
    for owner in gone:
        for key, row in held.pop(owner, {}).items():
            over[owner, key] = row
    return over


def _all(held: dict[str, dict[K, R]]) -> dict[tuple[str, K], R]:
    return {(owner, key): row for owner, mine in held.items() for key, row in mine.items()}


def _objects(world: World) -> Iterable[tuple[str, str, str]]:
    for namespace, name in world.workloads:
        yield "Workload", namespace, name
    for kind in QUEUE_KINDS:
        for view in world.objects_of(kind).values():
            yield kind, view.namespace, view.name
