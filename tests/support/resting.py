"""A law for every story on the toy: a world at rest makes no decisions.

A story ends where its test ends. What is still under way is carried out, time passes until nothing
is due that comes once (back-offs, time-outs), and then everything is said again: our own writes,
and the status updates of other writers, with a minute between. Nothing of that is news.

Stories whose test broke the API server or the actuator on purpose, and left it so, have no rest.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from podgroup.engine import due_timers
from podgroup.log import events as e
from podgroup.log.records import Explained, Pending
from podgroup.model import names
from podgroup.model.commands import EvictGroup, UpdateWorkload
from podgroup.model.objects import Condition
from podgroup.model.reasons import PLAIN, REASONS
from tests.support.toy import Toy

KNOWN = {reason.word for reason in REASONS}
KNOWN |= {names.EVICTED_ADMISSION_CHECK, names.EVICTED_NODE_FAILURES, names.PENDING_SUSPENDED}
"""Words of our table, and Kueue's that nothing waits for: after two of them a group queues again at
once, and in place of Suspended people are shown ClusterQueueInactive. A word that
`podgroup.model.names` alone has means nothing to people."""
MINUTE = 60.0
_LONG = 6 * 3600.0
_ROUNDS = 60
_FOREIGN = Condition(type="example.com/Seen", status="True", reason="Seen", message="by another")


@pytest.fixture(autouse=True)
def comes_to_rest(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hold every toy of a test against the law."""
    Toy.made.clear()
    yield
    made = [*Toy.made]
    Toy.made.clear()
    if request.node.get_closest_marker("no_rest") is not None:
        return
    for toy in made:
        if can_rest(toy):
            stays_at_rest(toy)
    for toy in made:
        says_known_words(toy)
        says_what_follows(toy)


def says_known_words(toy: Toy) -> None:
    """Hold reasons to wait and to stop against the tables: others are shown without a meaning."""
    if toy.world.mode != "builtin":
        return  # Kueue says reasons of its own
    said = {command.reason for _, command in evictions(toy)}
    for made in toy.concluded:
        said |= {each.wait for each in made.records if isinstance(each, Explained) and each.wait}
        said |= {each.reason for each in made.records if isinstance(each, Pending) and each.reason}
    unknown = said - KNOWN
    assert not unknown, f"say in podgroup/model/reasons.py what these mean: {sorted(unknown)}"


def says_what_follows(toy: Toy) -> None:
    """Hold evictions against their effect: what other rules decide by, in place of a word."""
    effects = {(d.as_of, d.group, d.rule): command.told for d, command in evictions(toy)}
    by_hand = {rule for (_, _, rule), told in effects.items() if told is None}
    by_hand |= {
        d.rule
        for d in toy.decisions
        if isinstance(d.command, UpdateWorkload)
        and d.command.active is False
        and not (effects.get((d.as_of, d.group, d.rule)) or PLAIN).deactivates
    }
    assert not by_hand, (
        f"rules {sorted(by_hand)} evict or deactivate by hand: `evict_group` and `deactivate` of "
        "podgroup/rules/helpers/evicting.py say what follows from it"
    )


def evictions(toy: Toy) -> Iterator[tuple[e.Decision, EvictGroup]]:
    """Decisions that evict a group, each with its command."""
    for decision in toy.decisions:
        if isinstance(decision.command, EvictGroup):
            yield decision, decision.command


def can_rest(toy: Toy) -> bool:
    """Tell whether what a test left is a cluster that works, as gatelog knows it."""
    broken = toy.refusing or toy.rejecting or toy.held_back or not toy.act
    strangers = toy.unseen or set(toy.world.pods) != set(toy.pods)
    policy = toy.world.policy
    again = policy.pods_ready_timeout_s and policy.requeuing_limit < 0  # tried for ever
    return not (broken or strangers or again or toy.world.meta.frames)


def stays_at_rest(toy: Toy) -> None:
    """Bring a story to its rest; fails if it goes on deciding."""
    toy.settle()
    for _ in range(_ROUNDS):
        before = len(toy.decisions)
        toy.wait(_LONG)
        if len(toy.decisions) == before and not due_timers(toy.world, toy.now):
            break
    else:
        raise AssertionError(f"never at rest: {_last(toy, len(toy.decisions) - 8)}")
    before = len(toy.decisions)
    for conditions in ((), (_FOREIGN,), ()):
        _say_again(toy, conditions)
        toy.wait(MINUTE)
    assert len(toy.decisions) == before, f"decides at rest: {_last(toy, before)}"


def _say_again(toy: Toy, conditions: tuple[Condition, ...]) -> None:
    """Everything has a new version that says nothing new of ours."""
    for view in [*toy.workloads.values()]:
        others = tuple(one for one in view.conditions if one.type != _FOREIGN.type)
        toy.put_workload(msgspec.structs.replace(view, conditions=(*others, *conditions)))
        toy.settle()
    for uid in [*toy.pods]:
        if uid in toy.pods:
            others = tuple(one for one in toy.pods[uid].conditions if one.type != _FOREIGN.type)
            toy.change(uid, conditions=(*others, *conditions))
    world = toy.world
    stores: tuple[dict[Any, Any], ...] = (
        world.cluster_queues,
        world.local_queues,
        world.cohorts,
        world.flavors,
        world.checks,
    )
    for store in stores:
        for view in [*store.values()]:
            toy.do(
                e.ObjectApplied(object=msgspec.structs.replace(view, resource_version=toy.bump()))
            )


def _last(toy: Toy, since: int) -> list[tuple[str, str, str]]:
    return [(d.rule, type(d.command).__name__, d.message) for d in toy.decisions[since:]][:12]
