"""Rates: what an hour of a resource costs, by flavor, from a TOML file of people.

    currency = "EUR"

    [rates]                     # any flavor
    cpu = 0.04                  # a core for an hour
    memory = 0.005              # a GiB for an hour
    "nvidia.com/gpu" = 2.5      # everything else: one of it for an hour

    [flavors.spot]              # instead of these, in flavor spot
    cpu = 0.012

Invariant: a resource without a rate costs nothing, and is reported (`Rates.unknown`).
"""

import tomllib
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from pathlib import Path

import msgspec
from msgspec import Struct

from gatelog.shell.errors import UsageFailed

MOST_BYTES = 1 << 20
_GIB = 2**30
_PER_HOUR = {"cpu": 1000, "memory": _GIB, "ephemeral-storage": _GIB}
"""How many units of the tables make a unit of people; other resources: 1."""


@lru_cache(1000)
def unit(resource: str) -> int:
    """Return how many units of the tables make a unit of people."""
    if resource.startswith("hugepages-"):
        return _GIB
    return _PER_HOUR.get(resource, 1)


def unit_name(resource: str) -> str:
    """Return in what an amount-hour of a resource is expressed: `core-h`, `GiB-h` or `h`."""
    if resource == "cpu":
        return "core-h"
    return "GiB-h" if unit(resource) == _GIB else "h"


def hours_text(hours: Mapping[str, float]) -> str:
    """Return hours of resources as views have them: `0.67 core-h of cpu, 2.00 h of pods`."""
    people = ((r, each / (1 if r == "cpu" else unit(r))) for r, each in sorted(hours.items()))
    return ", ".join(
        f"{each:{',.2f' if each >= 0.1 else '.2g'}} {unit_name(r)} of {r}" for r, each in people
    )


def missing(unpriced: Iterable[tuple[str, str]]) -> str:
    """Say which (flavor, resource) have no rate: the end of a sentence that says where."""
    names = ", ".join(f"{r} in {f}" if f else r for f, r in unpriced)
    return f"no rate for {names}: counted as free"


class Rates(Struct, frozen=True, forbid_unknown_fields=True):
    """The price of a unit for an hour, by resource; `flavors` has other prices for pods in them."""

    currency: str = ""
    rates: dict[str, Decimal] = {}
    flavors: dict[str, dict[str, Decimal]] = {}

    def rate(self, flavor: str, resource: str) -> Decimal:
        """Return the price of a unit for an hour in a flavor; 0 without a rate."""
        return self.flavors.get(flavor, {}).get(resource, self.rates.get(resource, Decimal(0)))

    def unknown(self, flavor: str, resource: str) -> bool:
        """Return whether a resource has no rate."""
        return resource not in self.rates and resource not in self.flavors.get(flavor, {})


def read(path: Path) -> Rates:
    """Read a file of rates.

    Raises:
        UsageFailed: the file does not exist, is no TOML, or has other fields than rates.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UsageFailed(f"{path}: more than {MOST_BYTES} bytes are no rates")
        found = msgspec.convert(
            tomllib.loads(path.read_text(), parse_float=Decimal), Rates, strict=False
        )
    except OSError as error:
        raise UsageFailed(f"{path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageFailed(
            f"{path}: {error}; there is currency, a table rates and tables flavors.NAME "
            "(docs/usage.md, Rates)"
        ) from None
    tables = {"rates": found.rates} | {f"flavors.{k}": v for k, v in found.flavors.items()}
    for table, rates in tables.items():
        for resource, rate in rates.items():
            if not rate.is_finite() or rate < 0:
                raise UsageFailed(f"{path}: {table}.{resource} is {rate}: a rate is 0 or more")
    return found
