"""Traces what is decided otherwise than by Kueue to the ways that make it so.

Going from Kueue's ways to the better ones a way at a time, the ways at which the outcome changes
are the kinds of the difference. Each way is a row of docs/differences.md.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from podgroup.admission.options import KUEUE, SchedulerOptions
from tests.oracle.case import Case
from tests.oracle.play import Play

PAGE = Path(__file__).parents[2] / "docs" / "differences.md"
ORDER = (
    "better_places",
    "always_a_reason",
    "remember_all_use",
    "count_pods",
    "hear_every_release",
    "ask_for_older",
    "worst_resource",
    "own_when_larger",
    "look_again",
    "every_flavor",
    "one_node",
    "pass_hopeless",
    "no_circles",
    "lend_while_waiting",
    "keep_for_preemptor",
    "drain",
    "lenders_first",
)
"""From those that change one decision to those that change how a pass goes."""

_ROW = re.compile(r"^\| (Q\d+) \| `(\w+)` \|", re.M)


def rows() -> dict[str, str]:
    """Return the row of each way that the page has."""
    return {way: row for row, way in _ROW.findall(PAGE.read_text())}


def decided(outcome: dict[str, Any]) -> Any:
    """Return what matters in the end: who has what, who was preempted for whom, does it settle."""
    held = [
        (
            one["workload"],
            one["clusterQueue"],
            [sorted(pod_set["flavors"].items()) for pod_set in one["podSets"]],
        )
        for one in outcome["final"]["admitted"]
    ]
    preempted = [
        (one["workload"], one["by"]) for step in outcome["steps"] for one in step["preempted"]
    ]
    return sorted(held), sorted(preempted), outcome["quiescent"]


def kinds(case: Case, recorded: dict[str, Any]) -> Iterator[str]:
    """Yield the ways at which the outcome changes."""
    ways, last = KUEUE, decided(recorded)
    for way in ORDER:
        ways = replace(ways, **{way: True})
        now = decided(Play(case, ways).run())
        if now != last:
            yield way
        last = now


assert sorted(ORDER) == sorted(SchedulerOptions.__struct_fields__)
