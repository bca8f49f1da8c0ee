"""A rule: what it concludes, what it reads and when it is due, said in one place.

Theory. A rule looks at one group and concludes something or nothing. It is *due* when something
changed that it reads. Every rule reads what a group is; what it `reads` besides are changes of
single pods and of the Workload in groups that are at rest (`state.changes`), of which there are
many, and of which most rules need not know. The engine works out from this which rules to run; the
table of rules in docs/concepts.md is made from it.

Invariant: a rule that is not due has nothing to say.
"""

from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct

from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.state.changes import EVERYTHING
from podgroup.state.group import Group
from podgroup.state.world import World

BUILTIN = "builtin"


class RuleDoc(NamedTuple):
    """What is decided under a name: `when`, and what it `does`, for people."""

    name: str
    when: str
    does: str


class Rule(Struct, frozen=True, kw_only=True):
    """A rule that looks at one group. Its `name` is that of its module, and of what it decides.

    What it concludes it yields, or returns where that is one thing or nothing, which costs less.

    `reads` are changes besides those of the group itself. `mode` is the one in which it runs, ""
    for both. `parked` tells that it looks at groups that are parked, too; `once_admitted` that it
    runs again on a group that was just admitted.
    """

    name: str
    run: Callable[[RuleContext, Group], Conclusions]
    docs: tuple[RuleDoc, ...] = ()
    reads: int = 0
    mode: str = ""
    parked: bool = False
    once_admitted: bool = False

    def due(self, changed: int) -> bool:
        """Tell whether it reads anything of what changed."""
        return changed == EVERYTHING or bool(self.reads & changed)


class ClusterRule(Struct, frozen=True, kw_only=True):
    """A rule that looks at no single group, and is `due` by what is known of the whole.

    `mode` is the one in which it decides anything, "" for both.
    """

    name: str
    run: Callable[[RuleContext], Conclusions]
    due: Callable[[World], bool]
    docs: tuple[RuleDoc, ...] = ()
    mode: str = ""
