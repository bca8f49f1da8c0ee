"""The ledger of admission fair sharing: what each LocalQueue has used lately.

Theory. Use is remembered as a decaying mean: between two looks, what was remembered loses half of
its weight per half-life, and what is used now fills the gap. An admission counts at once for what
it will have used by the next look (the *entry penalty*), so that a burst of one team does not pass
before the ledger notices. The LocalQueue that used least, by its weight, comes first.

Amounts are decimals in standard units (cores, bytes, pieces); each product is cut to nine places,
as Kueue does it (pkg/util/admissionfairsharing), so that figures can be compared.

Invariant: nothing is negative; looking twice at the same time changes nothing but rounding.
"""

from collections.abc import Mapping
from decimal import ROUND_DOWN, Context, Decimal
from typing import Final, NamedTuple

from podgroup.admission.model import UsageSharing
from podgroup.model.objects import WHOLE, LocalQueueView
from podgroup.model.standing import weighted_use

Key = tuple[str, str]
"""Namespace and name of a LocalQueue."""

_EXACT: Final[Context] = Context(prec=60)
_PLACES: Final[Decimal] = Decimal("1e-9")
_MILLI: Final[Decimal] = Decimal(1000)


class _Account:
    __slots__ = ("at", "consumed")

    def __init__(self, at: float, consumed: Mapping[str, str]) -> None:
        self.at = at
        self.consumed = {resource: Decimal(amount) for resource, amount in consumed.items()}


class Balance(NamedTuple):
    """An account at a moment."""

    at: float
    consumed: Mapping[str, Decimal]


class Ledger:
    """Accounts of LocalQueues; times in seconds."""

    def __init__(self, sharing: UsageSharing) -> None:
        self._sharing = sharing
        self._weights = dict(sharing.weights)
        self._accounts: dict[Key, _Account] = {}
        self.marked: set[Key] = set()
        """Accounts that changed since this was read last."""

    def consumed(self, key: Key) -> dict[str, Decimal]:
        """Return what a LocalQueue is remembered to have used, per resource."""
        account = self._accounts.get(key)
        return {} if account is None else dict(account.consumed)

    def as_of(self, key: Key) -> float | None:
        """Return when an account was last brought up to date, None if there is none."""
        account = self._accounts.get(key)
        return None if account is None else account.at

    def restore(self, key: Key, consumed: Mapping[str, str], at: float) -> None:
        """Open an account as it was."""
        self._accounts[key] = _Account(at, consumed)

    def balance(self, key: Key) -> Balance | None:
        """Return what an account holds, None if there is none."""
        account = self._accounts.get(key)
        return None if account is None else Balance(account.at, dict(account.consumed))

    def put_back(self, key: Key, balance: Balance | None) -> None:
        """Have an account as it was."""
        self.marked.add(key)
        if balance is None:
            self._accounts.pop(key, None)
        else:
            account = self._accounts[key] = _Account(balance.at, {})
            account.consumed = dict(balance.consumed)

    def used(self, queue: LocalQueueView) -> float:
        """Return a LocalQueue's use as one number, by resource weights and its own."""
        account = self._accounts.get((queue.namespace, queue.name))
        consumed = {} if account is None else account.consumed
        return weighted_use(consumed, self._weights, queue.weight_nano / WHOLE)

    def sample(self, queue: LocalQueueView, usage: Mapping[str, int], now: float) -> None:
        """Bring an account up to now, unless that was done less than an interval ago."""
        key = (queue.namespace, queue.name)
        account = self._accounts.get(key)
        if account is None:
            account = self._accounts[key] = _Account(now, {})
            self.marked.add(key)
        elif now - account.at < self._sharing.sampling_s:
            return
        self.marked.add(key)
        if self._sharing.half_life_s == 0:
            account.consumed, account.at = {}, now
        else:
            self._settle(account, usage, now)

    def admitted(
        self, key: Key, requests: Mapping[str, int], usage: Mapping[str, int], now: float
    ) -> None:
        """Charge an admission; `usage` is what the LocalQueue uses with it."""
        account = self._accounts.get(key)
        if account is None:
            account = self._accounts[key] = _Account(now, {})
        self.marked.add(key)
        self._settle(account, usage, now)
        share = self._alpha(self._sharing.sampling_s)
        for resource, amount in requests.items():
            penalty = _times(_standard(resource, amount), share)
            before = account.consumed.get(resource, Decimal(0))
            account.consumed[resource] = _EXACT.add(before, penalty)

    def forget(self, key: Key) -> None:
        """Close an account."""
        if self._accounts.pop(key, None) is not None:
            self.marked.add(key)

    def _settle(self, account: _Account, usage: Mapping[str, int], now: float) -> None:
        share = self._alpha(max(0.0, now - account.at))
        kept = {r: _times(amount, 1 - share) for r, amount in account.consumed.items()}
        for resource, amount in usage.items():
            more = _times(_standard(resource, amount), share)
            kept[resource] = _EXACT.add(kept.get(resource, Decimal(0)), more)
        account.consumed = kept
        account.at = max(now, account.at)

    def _alpha(self, seconds: float) -> float:
        """Return the weight of what is new after some time."""
        half_life = self._sharing.half_life_s
        return 0.0 if half_life == 0 else 1.0 - 0.5 ** (seconds / half_life)


def _standard(resource: str, amount: int) -> Decimal:
    whole = Decimal(amount)
    return _EXACT.divide(whole, _MILLI) if resource == "cpu" else whole


def _times(amount: Decimal, factor: float) -> Decimal:
    product = _EXACT.multiply(amount, Decimal(repr(factor)))
    return product.quantize(_PLACES, rounding=ROUND_DOWN, context=_EXACT)
