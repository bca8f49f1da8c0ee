"""Fold of records: conclusions of rules beside decisions, applied to the state.

Theory. Live a record is applied the moment a rule makes it, so that the next rule sees it; a replay
applies the same records in the same order. A record has everything that changes; only objects that
it names are looked up (the group's pods, its timer).

Invariant: applying a record depends on the state and the record alone, never on its causes.
"""

from collections.abc import Callable
from typing import Any, Final

from podgroup.fold import sentences as say
from podgroup.fold.common import (
    Cause,
    end_shortage,
    end_start,
    note,
    park,
    write_shortage,
    write_start,
)
from podgroup.fold.group import (
    composition,
    departures,
    explained,
    mirror,
    quota,
    readiness,
    reporting,
    requeueing,
)
from podgroup.fold.lives import close_wait, lead, report_timer, retire
from podgroup.fold.outcomes import REPORT
from podgroup.fold.placing import replace_all
from podgroup.fold.pods import renew
from podgroup.fold.queues import record_status
from podgroup.log import records as r
from podgroup.log.journal import At, WaitRow
from podgroup.model.ids import GroupID
from podgroup.model.names import START_LEFT, START_WITHDRAWN, START_WORKED_OUT_ANEW
from podgroup.model.standing import COUNTS_TIMER, STARTS_TIMER
from podgroup.state.group import Group, HeldStart, QuotaShortage, Wait
from podgroup.state.meta import Timer
from podgroup.state.world import World


def apply_record(world: World, here: At, record: r.AnyRecord) -> None:
    """Apply a record to the state."""
    group = world.groups.get(GroupID(record.group))
    if group is not None:
        _APPLIED[type(record)](world, here, group, record)
        if record.group in world.groups:
            world.journal.groups.add(record.group)
    elif isinstance(record, r.PodRefused):
        refusal = world.meta.refused.get(record.uid)
        if refusal is not None and not refusal.reported:
            refusal.reported = True
            world.meta.unreported -= 1
    elif isinstance(record, r.Used):
        namespace, _, name = record.queue.partition("/")
        world.quotas.mark(("LocalQueue", namespace, name))
        world.journal.objects.add(("LocalQueue", namespace, name))
        if record.consumed is None:
            world.meta.used.pop(record.queue, None)
        else:
            world.meta.used[record.queue] = record
    elif isinstance(record, r.Counted):
        key = (record.kind, record.namespace, record.name)
        record_status(world, here, key, record.uid, record.standing)
    elif isinstance(record, r.CountsTimed):
        world.meta.timers[COUNTS_TIMER] = Timer(record.at, "", COUNTS_TIMER)
    elif isinstance(record, r.StartsTimed):
        world.meta.timers.pop(STARTS_TIMER, None)
        if record.at is not None:
            world.meta.timers[STARTS_TIMER] = Timer(record.at, "", STARTS_TIMER)


def _explained(world: World, here: At, group: Group, record: r.Explained) -> None:
    reason, message = record.reason, record.message
    if record.wait is not None:
        close_wait(world, here, group)
        if record.wait:
            _wait(world, here, group, record)
            reason = record.wait if reason is None else reason
            message = record.wait_message if message is None else message
    if record.state is not None:
        was = say.state_was(group.explained.state)
        note(world, here, "StateChanged", group.id, "", record.state, was)
    explained.said(group, record.state, reason, message, record.effect)


def _wait(world: World, here: At, group: Group, record: r.Explained) -> None:
    reason, message = str(record.wait), record.wait_message
    explained.waits(group, Wait(reason, message, record.blocked, here.at, here.position))
    world.journal.waits[(group.id, here.position)] = WaitRow(
        group=group.id,
        reason=reason,
        message=message,
        from_at=here.at,
        from_seq=here.position,
    )


def _pending(world: World, _: At, group: Group, record: r.Pending) -> None:
    quota.refused(group, record.reason, record.message, record.effect)


def _kept(world: World, _: At, group: Group, record: r.Kept) -> None:
    quota.kept(group, None if record.assignments is None else record)


def _start_reserved(world: World, here: At, group: Group, record: r.StartReserved) -> None:
    if record.assignments is None:
        end_start(world, here, group, START_WITHDRAWN)
        return
    if group.quota.start is not None and group.quota.start.from_seq == here.position:
        quota.start_held(group, None)  # worked out twice after one message: the last row stays
    end_start(world, here, group, START_WORKED_OUT_ANEW)
    held = HeldStart(record, here.at, here.position)
    quota.start_held(group, held)
    write_start(world, group, held)
    said = say.start_reserved(record.cluster_queue, record.by)
    note(world, here, "StartReserved", group=group.id, message=said)


def _shortage_changed(world: World, here: At, group: Group, record: r.ShortageChanged) -> None:
    end_shortage(world, here, group)
    if record.shortages:
        shortage = QuotaShortage(record.cluster_queue, record.shortages, here.at, here.position)
        quota.set_shortage(group, shortage)
        write_shortage(world, group.id, shortage)


def _timed(world: World, _: At, group: Group, record: r.Timed) -> None:
    name = f"{record.purpose}/{group.id}/"
    if record.at is None:
        world.meta.timers.pop(name, None)
    else:
        world.meta.timers[name] = Timer(record.at, group.id, record.purpose)


def _requeued(world: World, _: At, group: Group, record: r.Requeued) -> None:
    requeueing.requeued(group, waited=record.waited)


def _readied(world: World, _: At, group: Group, record: r.Readied) -> None:
    readiness.readied(group, record.ready, record.unready_at)


def _shortened(world: World, _: At, group: Group, record: r.Shortened) -> None:
    composition.shortened(group, record.short)


def _peaked(world: World, _: At, group: Group, record: r.Peaked) -> None:
    group.roles[record.role].peak = record.peak


def _wanted(world: World, here: At, group: Group, record: r.Wanted) -> None:
    composition.wanted(group, record.roles, here.at if record.roles else None)
    quota.asked_anew(group)


def _reopened(world: World, _: At, group: Group, record: r.Reopened) -> None:
    """Let the remaining pods, of which none runs, be composed anew."""
    mirror.lost(group, False)
    composition.reopened(group)
    requeueing.forgiven(group)
    for role in group.roles.values():
        role.count = role.succeeded_gone = 0
    replace_all(world, group)
    lead(world, group)
    world.quotas.dequeue(group.id)


def _workload_back(world: World, _: At, group: Group, record: r.WorkloadBack) -> None:
    mirror.lost(group, False)


def _released(world: World, _: At, group: Group, record: r.Released) -> None:
    departures.released(group)


def _checks_reported(world: World, _: At, group: Group, record: r.ChecksReported) -> None:
    mirror.checks_reported(group, record.text)


def _reportable(world: World, _: At, group: Group, record: r.Reportable) -> None:
    wait = group.explained.wait
    key = record.key
    if key is None:
        key = f"{wait.reason}\n{wait.message}" if wait is not None else ""
    reporting.reportable(group, key)
    world.meta.timers.pop(report_timer(group.id), None)
    if record.at is not None:
        world.meta.timers[report_timer(group.id)] = Timer(record.at, group.id, REPORT)


def _reported(world: World, _: At, group: Group, record: r.Reported) -> None:
    reporting.due(group, False)


def _refusal_reported(world: World, _: At, group: Group, record: r.RefusalReported) -> None:
    mirror.refusal_reported(group)


def _recount_reported(world: World, _: At, group: Group, record: r.RecountReported) -> None:
    reporting.recounted(group, None)


def _parked(world: World, here: At, group: Group, record: r.Parked) -> None:
    """Park a group for which rules failed: nothing is decided for it, and a row says so."""
    world.quotas.dequeue(group.id)
    end_shortage(world, here, group)
    end_start(world, here, group, START_LEFT)
    why = Cause(record.ordinal, record.reason, record.message, record.name)
    park(world, here, why, group)


def _renewed(world: World, here: At, group: Group, record: r.Renewed) -> None:
    renew(world, here, group)


def _retired(world: World, here: At, group: Group, record: r.Retired) -> None:
    retire(world, here, group.id)


_APPLIED: Final[dict[type[r.Record], Callable[[World, At, Group, Any], None]]] = {
    r.Explained: _explained,
    r.Pending: _pending,
    r.Kept: _kept,
    r.StartReserved: _start_reserved,
    r.ShortageChanged: _shortage_changed,
    r.Timed: _timed,
    r.Requeued: _requeued,
    r.Readied: _readied,
    r.Shortened: _shortened,
    r.Peaked: _peaked,
    r.Wanted: _wanted,
    r.Reopened: _reopened,
    r.WorkloadBack: _workload_back,
    r.Released: _released,
    r.ChecksReported: _checks_reported,
    r.Reportable: _reportable,
    r.Reported: _reported,
    r.RefusalReported: _refusal_reported,
    r.RecountReported: _recount_reported,
    r.Parked: _parked,
    r.Renewed: _renewed,
    r.Retired: _retired,
}
