"""What a group holds of quota (`state.HeldQuota`)."""

from podgroup.log.records import Kept
from podgroup.model.reasons import Effect, effect_of
from podgroup.model.wording import kueues
from podgroup.state.group import Group, HeldStart, QuotaReservation, QuotaShortage


def held(group: Group, holding: QuotaReservation) -> None:
    """It holds quota from now on, for the first time or anew."""
    quota = group.quota
    quota.admissions = holding.number
    quota.holding = holding
    quota.reason, quota.told = ("", ""), None
    quota.kept = None


def changed(group: Group, holding: QuotaReservation) -> None:
    """What it holds is admitted now, or not any more."""
    group.quota.holding = holding


def resized(group: Group, holding: QuotaReservation, ran_s: int) -> None:
    """It holds another amount; under the one before it ran for so many seconds."""
    quota = group.quota
    quota.admissions = holding.number
    quota.executed_s += ran_s
    quota.holding = holding
    quota.reason, quota.told = ("", ""), None
    quota.kept = None


def released(group: Group, ran_s: int) -> None:
    """It holds quota no longer, under which it ran for so many seconds."""
    if group.quota.holding is not None:
        group.quota.held_in = group.quota.holding.admission.cluster_queue
    group.quota.executed_s += ran_s
    group.quota.holding = None


def refused(group: Group, reason: str, message: str, effect: Effect | None) -> None:
    """Quota admission says why it is not admitted."""
    effect = effect or effect_of(reason, kueues(message))
    group.quota.reason, group.quota.told = (reason, message), effect


def asked_anew(group: Group) -> None:
    """What it asks for is another amount: what was said of the one before holds no longer."""
    group.quota.reason, group.quota.told = ("", ""), None


def set_shortage(group: Group, shortage: QuotaShortage | None) -> None:
    """An attempt to admit it fell short of something; None: that is over."""
    group.quota.shortage = shortage


def start_held(group: Group, start: HeldStart | None) -> None:
    """A start is reserved for it; None: none is any more."""
    group.quota.start = start


def kept(group: Group, kept: Kept | None) -> None:
    """Quota is kept for it, until others have given it back; None: not any more."""
    group.quota.kept = kept
