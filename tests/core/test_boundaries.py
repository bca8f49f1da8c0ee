"""Where a comparison turns: exactly when something is due, and exactly what there is room for."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from podgroup.log.events import TimerFired
from podgroup.model.names import MAX_EXEC_SECONDS
from podgroup.model.policy import Policy
from podgroup.rules.backoff import BACKOFF
from podgroup.rules.expire import RETENTION
from podgroup.rules.overrun import OVERRUN
from podgroup.rules.timeout import PODS_READY
from podgroup.state.facts import KEEP
from podgroup.state.termination import GIVEN_UP, GRACE
from tests.support.toy import Toy, taken


def fire(toy: Toy, purpose: str) -> list[str]:
    """Let a timer fire at the very moment it is set for; return which rules decide then."""
    (name,) = [each for each in toy.world.meta.timers if each.startswith(f"{purpose}/")]
    due = toy.world.meta.timers[name].due_at
    toy.now = due - timedelta(milliseconds=10)  # the next message is 10 ms later
    before = len(toy.decisions)
    toy.send(TimerFired(timer=name, due_at=due))
    assert toy.now == due
    return [decision.rule for decision in toy.decisions[before:]]


def deactivated() -> Toy:
    policy = Policy(pods_ready_timeout_s=10, requeuing_limit=0, retention_after_deactivation_s=60)
    toy = Toy(policy=policy)
    toy.pod("p0", "g", 1)
    toy.wait(11)
    return toy


def not_ready() -> Toy:
    toy = Toy(policy=Policy(pods_ready_timeout_s=10))
    toy.pod("p0", "g", 1)
    return toy


def evicted() -> Toy:
    toy = not_ready()
    toy.wait(11)
    toy.pod("p1", "g", 1)
    return toy


def limited() -> Toy:
    toy = Toy()
    toy.pod("p0", "g", 1, labels={MAX_EXEC_SECONDS: "10"})
    toy.run("p0")
    return toy


def fought_over() -> Toy:
    toy = Toy()
    toy.pod("p0")
    toy.run("p0")
    toy.unlabel("p0")
    toy.unlabel("p0")
    return toy


def unanswered() -> Toy:
    """A group is evicted, and the kubelet of its pod does not answer."""
    toy = Toy(policy=Policy(pods_ready_timeout_s=10))
    toy.slow = True
    toy.pod("p0", "g", 1, grace_s=30)
    toy.run("p0")
    toy.change(toy.named("p0").uid, conditions=())
    toy.wait(11)
    return toy


@pytest.mark.parametrize(
    ("story", "purpose", "rule"),
    [
        (deactivated, RETENTION, "expire"),
        (not_ready, PODS_READY, "timeout"),
        (evicted, BACKOFF, "ungate"),
        (limited, OVERRUN, "overrun"),
        (unanswered, GRACE, "yield"),
        (fought_over, KEEP, "keep"),
    ],
)
def test_what_is_due_is_done_at_that_moment(
    story: Callable[[], Toy], purpose: str, rule: str
) -> None:
    assert rule in fire(story(), purpose)


def test_a_pod_that_was_never_admitted_is_charged_until_its_kubelet_is_given_up() -> None:
    toy = Toy()
    toy.slow = True
    toy.pod("sly", gated=False, grace_s=30)
    toy.run("sly")
    toy.delete("sly")
    toy.unreach("sly")
    assert taken(toy.world, "cq")[("f", "cpu")] == 1000
    fire(toy, GIVEN_UP)
    assert not taken(toy.world, "cq").get(("f", "cpu"))


def test_no_pod_starts_where_more_run_than_there_are_places() -> None:
    """Three are on their way out and run still; the fourth came without a gate."""
    toy = Toy()
    toy.slow = True
    first = ("p0", "p1", "p2")
    for name in first:
        toy.pod(name, "g", 3)
    toy.run(*first)
    for name in first:
        toy.delete(name)
    toy.pod("p3", "g", 3, gated=False)
    toy.pod("p4", "g", 3)
    toy.pod("p5", "g", 3)
    assert toy.gated("p4") and toy.gated("p5")


def test_failed_pods_keep_their_places_while_more_are_free_than_others_take() -> None:
    toy = Toy()
    names = ("p0", "p1", "p2", "p3")
    for name in names:
        toy.pod(name, "g", 4)
    toy.run(*names)
    gone = toy.named("p3")
    toy.change(gone.uid, finalizers=(), phase="Failed")
    toy.delete("p3")
    toy.end("p0", "p1", phase="Failed")
    assert toy.held("p0") and toy.held("p1")
