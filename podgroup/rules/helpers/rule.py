"""A rule: what it concludes, what it reads and when it is due, declared in one place.

Theory. A rule looks at one group and yields conclusions or none. It is *due* when a fact changed
that it reads. Every rule reads the group itself; a rule `reads` besides some changes of single pods
and of the Workload in groups that are at rest (`state.changes`). Such changes are many, and most
rules need not know of them. From this the engine works out which rules to run; the table of rules
in docs/concepts.md is made from it.

Invariant: a rule that is not due concludes nothing.
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
    """The doc of a decision's name: `when` it is made, and what it `does`, for people."""

    name: str
    when: str
    does: str


class Rule(Struct, frozen=True, kw_only=True):
    """A rule that looks at one group. Its `name` is that of its module and of its decisions.

    A rule yields its conclusions, or returns one conclusion or none, which costs less.

    `reads` are changes besides those of the group itself. `mode` is the mode in which the rule
    runs, "" for both. `parked`: it runs for parked groups, too; `once_admitted`: it runs again for
    a group that was just admitted.
    """

    name: str
    run: Callable[[RuleContext, Group], Conclusions]
    docs: tuple[RuleDoc, ...] = ()
    reads: int = 0
    mode: str = ""
    parked: bool = False
    once_admitted: bool = False

    def due(self, changed: int) -> bool:
        """Tell whether the rule reads any of the changes."""
        return changed == EVERYTHING or bool(self.reads & changed)


class ClusterRule(Struct, frozen=True, kw_only=True):
    """A rule that looks at the world instead of one group, which also says if it is `due`.

    `mode` is the mode in which the rule decides, "" for both.
    """

    name: str
    run: Callable[[RuleContext], Conclusions]
    due: Callable[[World], bool]
    docs: tuple[RuleDoc, ...] = ()
    mode: str = ""
