"""Least run times: how long a group runs before it gives way, by reason of preemption.

Theory. A text names seconds for every reason of preemption (`600`), or for one of them
(`InCohortReclamation=0`), several separated by commas; the more specific wins. An operator says it
for all groups, a WorkloadPriorityClass for its own. The reasons are those that Kueue gives to a
preemption (`podgroup.model.names.PREEMPTED_…`).

Invariant: a text that cannot be read is an error and never a time.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from podgroup.model.names import (
    PREEMPTED_FAIR_SHARING,
    PREEMPTED_IN_CLUSTER_QUEUE,
    PREEMPTED_IN_COHORT,
    PREEMPTED_WHILE_BORROWING,
)

REASONS: Final = (
    PREEMPTED_IN_CLUSTER_QUEUE,
    PREEMPTED_IN_COHORT,
    PREEMPTED_FAIR_SHARING,
    PREEMPTED_WHILE_BORROWING,
)
MOST_S: Final = 30 * 24 * 3600
"""The longest least run time, seconds."""

Times = tuple[tuple[str, int], ...]
"""Reason of preemption ("" for all that are not named), and seconds."""

_PART: Final = re.compile(rf"(?:({'|'.join(REASONS)})=)?([0-9]{{1,9}})")


def read(text: str) -> Times:
    """Return the times that a text names; none for an empty text.

    Raises:
        ValueError: the text cannot be read; the message says which part, and what is allowed.
    """
    found: dict[str, int] = {}
    for part in (one.strip() for one in text.split(",") if one.strip()):
        match = _PART.fullmatch(part)
        if match is None or int(match[2]) > MOST_S:
            raise ValueError(
                f"{part!r} is no least run time: write seconds from 0 to {MOST_S}, or one of "
                f"{', '.join(REASONS)} with =seconds"
            )
        found[match[1] or ""] = int(match[2])
    return tuple(sorted(found.items()))


def by_reason(*sources: Iterable[tuple[str, int]]) -> Mapping[str, int]:
    """Return the time for each reason that has any; the last source that names a reason counts."""
    found: dict[str, int] = {}
    for source in sources:
        times = dict(source)
        for reason in REASONS:
            said = times.get(reason, times.get(""))
            if said is not None:
                found[reason] = said
    return {reason: seconds for reason, seconds in found.items() if seconds}
