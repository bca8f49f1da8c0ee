"""The quota that a group holds (`state.HeldQuota`)."""

from podgroup.log.records import Kept
from podgroup.model.reasons import Effect, effect_of
from podgroup.model.wording import kueues
from podgroup.state.group import Group, HeldStart, QuotaReservation, QuotaShortage


def held(group: Group, holding: QuotaReservation) -> None:
    """The group holds quota from now on, for the first time or anew."""
    quota = group.quota
    quota.admissions = holding.number
    quota.holding = holding
    quota.reason, quota.told = ("", ""), None
    quota.kept = None


def changed(group: Group, holding: QuotaReservation) -> None:
    """The group's reservation is admitted now, or no longer."""
    group.quota.holding = holding


def resized(group: Group, holding: QuotaReservation, ran_s: int) -> None:
    """The group holds another amount; it ran `ran_s` seconds with the amount before."""
    quota = group.quota
    quota.admissions = holding.number
    quota.executed_s += ran_s
    quota.holding = holding
    quota.reason, quota.told = ("", ""), None
    quota.kept = None


def released(group: Group, ran_s: int) -> None:
    """The group no longer holds quota, with which it ran `ran_s` seconds."""
    if group.quota.holding is not None:
        group.quota.held_in = group.quota.holding.admission.cluster_queue
    group.quota.executed_s += ran_s
    group.quota.holding = None


def refused(group: Group, reason: str, message: str, effect: Effect | None) -> None:
    """Quota admission says why the group is not admitted."""
    effect = effect or effect_of(reason, kueues(message))
    group.quota.reason, group.quota.told = (reason, message), effect


def asked_anew(group: Group) -> None:
    """The group requests another amount, so the reason of the former request is void."""
    group.quota.reason, group.quota.told = ("", ""), None


def set_shortage(group: Group, shortage: QuotaShortage | None) -> None:
    """An attempt to admit the group had a shortage; None: the shortage is over."""
    group.quota.shortage = shortage


def start_held(group: Group, start: HeldStart | None) -> None:
    """A start is reserved for the group; None: it has no reserved start any more."""
    group.quota.start = start


def kept(group: Group, kept: Kept | None) -> None:
    """Quota is kept for the group, until its victims have given it back; None: no longer."""
    group.quota.kept = kept
