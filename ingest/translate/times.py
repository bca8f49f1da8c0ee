"""Times that Go can write and Python cannot read: of year 0, or beyond 9999.

A user writes `9999-12-31T23:59:59-23:59` into managedFields, and the API server returns it in UTC,
in year 10000. That must not keep the rest of the object from being read: such a time is the first
or the last there is.

Invariant: nothing but times changes.
"""

import re
from typing import Any, Final

import msgspec

_KEYS: Final = frozenset(
    {
        "creationTimestamp",
        "deletionTimestamp",
        "finishedAt",
        "lastTransitionTime",
        "requeueAt",
        "startTime",
        "time",
    }
)
_TIME: Final = re.compile(r"([+-]?\d{4,9})-\d\d-\d\dT")
FIRST: Final = "0001-01-01T00:00:00Z"
LAST: Final = "9999-12-31T23:59:59Z"


def bounded(raw: bytes) -> bytes | None:
    """Return an object, or a watch line around it, with times that can be read.

    None: they can be read as they are, or it is no JSON.
    """
    try:
        found = msgspec.json.decode(raw)
    except msgspec.MsgspecError:
        return None
    return msgspec.json.encode(found) if _bound(found) else None


def _bound(found: Any) -> bool:
    """Bound all times in a value; return whether any was bounded."""
    changed, rest = False, [found]
    while rest:
        value = rest.pop()
        if isinstance(value, list):
            rest += [one for one in value if isinstance(one, list | dict)]
        elif isinstance(value, dict):
            for key, one in value.items():
                if isinstance(one, list | dict):
                    rest.append(one)
                elif key in _KEYS and isinstance(one, str) and (time := _read(one)) != one:
                    value[key] = time
                    changed = True
    return changed


def _read(text: str) -> str:
    year = _TIME.match(text)
    if year is None or 1 <= int(year[1]) <= 9999:
        return text
    return FIRST if int(year[1]) < 1 else LAST
