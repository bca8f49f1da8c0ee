"""Groups that were admitted, for the rows about them: made, or as somebody else left them."""

from podgroup.model.names import (
    IS_GROUP_WORKLOAD,
    RETRIABLE_IN_GROUP,
)
from podgroup.model.objects import Condition
from tests.support.toy import Toy

NO_RETRY = {RETRIABLE_IN_GROUP: "false"}
MARK = {IS_GROUP_WORKLOAD: "true"}
SHORT = "WaitingForReplacementPods"


def admitted(toy: Toy, count: int = 2, *, run: bool = True, **more: object) -> None:
    """A group `g` of pods p0.. of one role, admitted by Kueue and running."""
    names = [f"p{i}" for i in range(count)]
    for name in names:
        toy.pod(name, "g", count, **more)  # type: ignore[arg-type] # passed on
    toy.admit("g")
    if run:
        toy.run(*names)


def placed(toy: Toy, *pod_sets: tuple[str, int], short: str = "") -> None:
    """A group Workload as somebody else left it, admitted, before any pod is seen."""
    toy.workload("g", *pod_sets, annotations=MARK)
    if short:
        toy.say("g", Condition(type=SHORT, status="True", reason=short, message="as it was"))
    toy.admit("g")


def owners(toy: Toy) -> set[str]:
    return {o.name for o in toy.workloads["g"].owners}
