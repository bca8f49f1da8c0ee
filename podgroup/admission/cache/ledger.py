"""The ledger of admission fair sharing: what each LocalQueue has used lately.

Theory. Use is remembered as a decaying mean: between two samples, the mean loses half of its weight
per half-life, and the present use fills the gap. An admission counts at once for its use until the
next sample (the *entry penalty*), so that a burst of one team does not pass before the ledger
notices. The LocalQueue that used least, by its weight, comes first.

Amounts are decimals in standard units (cores, bytes, pieces); each product is cut to nine places,
as Kueue does it (pkg/util/admissionfairsharing), so that figures can be compared.

Invariant: no use is negative; two samples at the same time change only rounding.
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


class Balance(NamedTuple):
    """Recent use of a LocalQueue, by resource, as of a time in seconds."""

    at: float
    consumed: Mapping[str, Decimal]


class Ledger:
    """Balances of LocalQueues; times in seconds."""

    def __init__(self, sharing: UsageSharing) -> None:
        self._sharing = sharing
        self._weights = dict(sharing.weights)
        self._balances: dict[Key, Balance] = {}
        self.marked: set[Key] = set()
        """LocalQueues whose balance changed since this was read last."""

    def balance(self, key: Key) -> Balance | None:
        """Return the balance of a LocalQueue, None if it has none."""
        return self._balances.get(key)

    def restore(self, key: Key, consumed: Mapping[str, str], at: float) -> None:
        """Enter a balance as the log has it, in decimal text by resource."""
        self._balances[key] = Balance(at, {name: Decimal(text) for name, text in consumed.items()})

    def put_back(self, key: Key, balance: Balance | None) -> None:
        """Restore a former balance; None: there was none."""
        self.marked.add(key)
        if balance is None:
            self._balances.pop(key, None)
        else:
            self._balances[key] = balance

    def used(self, queue: LocalQueueView) -> float:
        """Return a LocalQueue's use as a number, by resource weights and its own weight."""
        balance = self._balances.get((queue.namespace, queue.name))
        consumed = {} if balance is None else balance.consumed
        return weighted_use(consumed, self._weights, queue.weight_nano / WHOLE)

    def sample(self, queue: LocalQueueView, usage: Mapping[str, int], now: float) -> None:
        """Bring a balance up to now, unless its last sample is less than an interval ago."""
        key = (queue.namespace, queue.name)
        known = self._balances.get(key)
        if known is not None and now - known.at < self._sharing.sampling_s:
            return
        self.marked.add(key)
        empty = self._sharing.half_life_s == 0
        self._balances[key] = Balance(now, {}) if empty else self._settled(key, usage, now)

    def admitted(
        self, key: Key, requests: Mapping[str, int], usage: Mapping[str, int], now: float
    ) -> None:
        """Charge an admission; `usage` is what the LocalQueue uses with it."""
        self.marked.add(key)
        at, before = self._settled(key, usage, now)
        consumed = dict(before)
        share = self._alpha(self._sharing.sampling_s)
        for resource, amount in requests.items():
            penalty = _times(_standard(resource, amount), share)
            consumed[resource] = _EXACT.add(consumed.get(resource, Decimal(0)), penalty)
        self._balances[key] = Balance(at, consumed)

    def forget(self, key: Key) -> None:
        """Remove the balance of a LocalQueue that is gone."""
        if self._balances.pop(key, None) is not None:
            self.marked.add(key)

    def _settled(self, key: Key, usage: Mapping[str, int], now: float) -> Balance:
        """Return a balance as of now, with `usage` in use since its last sample."""
        at, consumed = self._balances.get(key) or Balance(now, {})
        share = self._alpha(max(0.0, now - at))
        kept = {r: _times(amount, 1 - share) for r, amount in consumed.items()}
        for resource, amount in usage.items():
            more = _times(_standard(resource, amount), share)
            kept[resource] = _EXACT.add(kept.get(resource, Decimal(0)), more)
        return Balance(max(now, at), kept)

    def _alpha(self, seconds: float) -> float:
        """Return the weight of the present use after some time."""
        half_life = self._sharing.half_life_s
        return 0.0 if half_life == 0 else 1.0 - 0.5 ** (seconds / half_life)


def _standard(resource: str, amount: int) -> Decimal:
    whole = Decimal(amount)
    return _EXACT.divide(whole, _MILLI) if resource == "cpu" else whole


def _times(amount: Decimal, factor: float) -> Decimal:
    product = _EXACT.multiply(amount, Decimal(repr(factor)))
    return product.quantize(_PLACES, rounding=ROUND_DOWN, context=_EXACT)
