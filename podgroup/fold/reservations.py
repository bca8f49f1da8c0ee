"""Reservations of quota: how a group comes to hold it, is charged for it, and gives it back.

Theory. A group holds quota from the decision that admits it, or from the status of its Workload
where Kueue decides. While admission checks are open it holds quota and nothing starts. Its charge
follows from the reservation and from which of its pods are over.

Invariant: a group holds at most one reservation, and is charged for it while it does.
"""

from msgspec.structs import replace

from podgroup.fold import sentences as say
from podgroup.fold.common import (
    end_shortage,
    end_start,
    mark,
    note,
    write_admission,
    write_places,
)
from podgroup.fold.group import mirror, quota, requeueing
from podgroup.fold.sharing import holds
from podgroup.log.journal import At
from podgroup.model.commands import Admission
from podgroup.model.names import (
    ADMITTED,
    QUOTA_RESERVED,
)
from podgroup.model.objects import Assignment, Since, WorkloadView
from podgroup.state.asked import charge_of
from podgroup.state.devices import paid_claims
from podgroup.state.facts import (
    KUEUE,
    ran_s,
    runs_since_before,
)
from podgroup.state.group import (
    Group,
    QuotaReservation,
)
from podgroup.state.world import World

ADOPTED = "adopted"
"""`decided_by` of an admission that is older than the log."""


def take_over_admission(
    world: World, here: At, group: Group, view: WorkloadView, *, decided_by: str
) -> None:
    """Take an admission over from a Workload's status."""
    given = view.assignments
    if given and group.id in world.sharing.claims:
        paid = paid_claims(world, group.id)
        shared = {r: min(paid[r], n) for r, n in given[0].usage.items() if r in paid}
        given = (replace(given[0], shared=shared), *given[1:])
    admission = Admission(cluster_queue=view.cluster_queue, assignments=given)
    admit(world, here, group, admission, decided_by)


def checked(world: World, here: At, group: Group, held: QuotaReservation, decision: str) -> None:
    """Record that all admission checks agreed: the reservation is an admission now."""
    holding = replace(held, admitted=True, admitted_at=here.at, decided_by=decision)
    quota.changed(group, holding)
    write_admission(world, group, holding)
    _note_admitted(world, here, group, holding)
    recharge(world, group)
    mark(world, group.id)


def admit(
    world: World,
    here: At,
    group: Group,
    admission: Admission,
    decided_by: str,
    checks: tuple[str, ...] = (),
) -> None:
    """Record that the group holds quota from now on; with `checks` it is not admitted yet."""
    holding = QuotaReservation(
        number=group.quota.admissions + 1,
        admission=admission,
        queued_at=group.requeueing.queued_at,
        at=here.at,
        seq=here.position,
        admitted=not checks,
        decided_by=decided_by,
        taken_over=runs_since_before(world, group),
    )
    quota.held(group, holding)
    write_places(world, group, holding)
    requeueing.admitted(group)
    end_shortage(world, here, group)
    end_start(world, here, group, ADMITTED)
    if checks:
        note(
            world,
            here,
            "QuotaReserved",
            group=group.id,
            reason=QUOTA_RESERVED,
            message=say.reserved_in(admission.cluster_queue, list(checks)),
            decision=decided_by,
        )
    else:
        write_admission(world, group, holding)
        _note_admitted(world, here, group, holding)
    world.quotas.dequeue(group.id)
    holds(world, group)
    recharge(world, group)
    mark(world, group.id)


def resize(
    world: World,
    here: At,
    group: Group,
    held: QuotaReservation,
    assignments: tuple[Assignment, ...],
    decided_by: str,
) -> None:
    """Record that the group holds another amount of quota from now on, in the same admission.

    The new amount is another row of the ledger, so that each amount counts for its own time.
    """
    end_shortage(world, here, group)
    again = held.seq == here.position
    if not again:
        write_places(world, group, held, until=here)
        write_admission(world, group, held, released_at=here, reason="Resized")
    since = Since(seq=here.position, at=here.at)
    holding = replace(
        held,
        number=held.number + (not again),
        admission=replace(held.admission, assignments=assignments),
        admitted_at=here.at,
        seq=here.position,
        moved=since if held.moved is not None else None,
        first=held.begin,
        decided_by=decided_by,
    )
    quota.resized(group, holding, ran_s(held, here.at))
    write_places(world, group, holding)
    write_admission(world, group, holding)
    recharge(world, group)


def _note_admitted(world: World, here: At, group: Group, holding: QuotaReservation) -> None:
    decided_by = holding.decided_by
    reason = "Adopted" if decided_by == ADOPTED else ADMITTED
    where = say.admitted_in(holding.admission.cluster_queue)
    decision = "" if decided_by in (ADOPTED, KUEUE) else decided_by
    note(world, here, "GroupAdmitted", group.id, "", reason, where, decision)


def release(world: World, here: At, group: Group, reason: str) -> None:
    """Record that the group no longer holds quota."""
    holding = group.quota.holding
    if holding is None:
        return
    quota.released(group, ran_s(holding, here.at))
    write_places(world, group, holding, until=here)
    if holding.admitted or world.mode == "kueue":
        write_admission(world, group, holding, released_at=here, reason=reason)
    if world.mode != "kueue":
        mirror.distrust_checks(group)
    note(world, here, "QuotaReleased", group=group.id, reason=reason)
    world.quotas.discharge(group.id)
    holds(world, group)
    mark(world, group.id)


def recharge(world: World, group: Group) -> None:
    """Charge the group what it holds; in kueue mode nothing, as Kueue keeps the account."""
    if world.mode != "kueue" and group.quota.holding is not None:
        world.quotas.charge(group.id, charge_of(world, group, group.quota.holding))
