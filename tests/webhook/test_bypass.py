"""No chain of requests gets a pod past its queue: all that a user can reach, over the table.

Every state of a pod that decides is gone through, with every request of a user, the scheduler and
gatelog between them; so this holds for chains of any length. That the policy's CEL says the same as
the table is held by pairs drawn at random, and chains over HTTP are in `test_chains`.
"""

import functools
import itertools
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import given, strategies

from ingest.webhook.bypass import RULES, bypasses
from ingest.webhook.facts import Facts
from ingest.webhook.install import Registration, configurations
from ingest.webhook.mutate import mutate
from ingest.webhook.pod import Pod, read_pod
from ingest.webhook.policy import WebhookPolicy
from ingest.webhook.validate import validate_update
from podgroup.model import names
from tests.deploy import reference
from tests.support.examples import examples
from tests.webhook.cel import Activation
from tests.webhook.cluster import RAW, apply, raw_pod
from tests.webhook.test_admission_policy import VALIDATING as VALIDATING_FILE
from tests.webhook.test_admission_policy import policy as policy_of

(VALIDATING,) = configurations(Registration())[1]["webhooks"]


@pytest.fixture(scope="module", autouse=True)
def recursion_limit() -> None:
    """The first expression raises it, which Hypothesis forbids within a test."""
    Activation(raw_pod()).evaluate("true")


class State(NamedTuple):
    """What decides about a pod, and two things about its past.

    `bound`: it runs; `let_in`: gatelog took the gate off; `child`: it was made for a parent.
    """

    queue: bool = False
    managed: bool = False
    finalizer: bool = False
    parent: bool = False
    gate: bool = False
    going: bool = False
    bound: bool = False
    ended: bool = False
    let_in: bool = False
    child: bool = False


MARKS = ("queue", "managed", "finalizer", "parent", "gate")


def raw(state: State) -> RAW:
    labels = {names.QUEUE_NAME: "q"} if state.queue else {}
    labels |= {names.MANAGED_LABEL: "true"} if state.managed else {}
    found = raw_pod(
        labels=labels,
        annotations={names.SUSPENDING_PARENT: "x"} if state.parent else {},
        gated=state.gate,
        phase="Succeeded" if state.ended else "Running" if state.bound else "Pending",
    )
    if state.bound:
        found["spec"]["nodeName"] = "n"
    if state.finalizer:
        found["metadata"]["finalizers"] = [names.POD_FINALIZER]
    if state.going:
        found["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"
    return found


@functools.cache
def read(state: State) -> Pod:
    return read_pod(raw(state))


def asked(old: State, new: State) -> bool:
    """Whether the API server asks the webhook at all."""
    changes = (old.queue, old.managed, old.gate) != (new.queue, new.managed, new.gate)
    known = any((*old[:2], old.parent, *new[:2], new.parent))
    return known and (changes or not new.going)


def created(policy: WebhookPolicy) -> Iterator[State]:
    """What a user can have made: the API server takes no gated pod that names its node.

    Another webhook may have put the marks on when ours had looked at the pod already.
    """
    for chosen in itertools.product((False, True), repeat=6):
        wish = State(**dict(zip(MARKS, chosen[:5], strict=True)), bound=chosen[5])
        result = mutate(read(wish), policy, Facts())
        patched = apply(raw(wish), result.patch)
        late = () if policy.manage_jobs_without_queue_name else (raw(wish),)
        for after in map(read_pod, (patched, *late)):
            gated = names.ADMISSION_GATE in after.gates
            if any(bypasses(None, after)) or (gated and wish.bound) or not result.allowed:
                continue
            yield wish._replace(
                gate=gated,
                managed=names.MANAGED_LABEL in after.labels,
                finalizer=names.POD_FINALIZER in after.finalizers,
                child=wish.parent,
            )


def changed(state: State, policy: WebhookPolicy) -> Iterator[State]:
    """What a user can make of a pod by one update, and by a deletion."""
    for chosen in itertools.product((False, True), repeat=len(MARKS)):
        new = state._replace(**dict(zip(MARKS, chosen, strict=True)))
        if new == state or (new.gate and not state.gate):
            continue
        told = asked(state, new) and not validate_update(
            read(state), read(new), policy, Facts()
        ).allowed  # fmt: skip
        if not told:
            yield new
    yield state._replace(going=True)


def moved(state: State) -> Iterator[State]:
    """What gatelog and the nodes make of it: it is let in, bound unless it is going, and ends.

    Once its group is over, gatelog takes the finalizer off of a pod that is still at its gate.
    """
    if state.managed and state.gate and state.finalizer:
        yield state._replace(finalizer=False)
    if state.managed and state.queue and state.gate:
        yield state._replace(gate=False, let_in=True)
    if not state.gate and not state.going:
        yield state._replace(bound=True)
    if state.bound:
        yield state._replace(ended=True)


def reachable(policy: WebhookPolicy) -> set[State]:
    found = set(created(policy))
    waiting = list(found)
    while waiting:
        state = waiting.pop()
        for new in (*changed(state, policy), *moved(state)):
            if new not in found:
                found.add(new)
                waiting.append(new)
    return found


@pytest.mark.parametrize("every", [False, True])
def test_no_chain_of_requests_gets_a_pod_past_its_queue(every: bool) -> None:
    found = reachable(WebhookPolicy(manage_jobs_without_queue_name=every, enabled_kinds=()))
    assert any(one.let_in and one.bound for one in found), "what is admitted runs"
    for one in found:
        may_run = not one.gate and not one.ended and (one.bound or not one.going)
        if not may_run:
            continue
        if one.let_in:
            assert one.managed, f"lost sight of: {one}"
        else:
            assert not one.managed, f"charged, and never admitted: {one}"
            assert not one.queue, f"past its queue: {one}"
            assert not one.child, f"past its parent: {one}"
            assert not every, f"not queued at all: {one}"


states = strategies.tuples(*[strategies.booleans()] * 8).map(lambda drawn: State(*drawn))


SPEC = policy_of(VALIDATING_FILE, "gatelog-pods")
SAYS = {f"{rule.path}: Forbidden: {rule.detail}" for rule in RULES}
CHECKED = [rule for rule in SPEC["validations"] if rule["message"] in SAYS]


@given(states, strategies.one_of(strategies.none(), states))
@examples(40, brief=15)
def test_the_policy_says_what_the_table_says(new: State, old: State | None) -> None:
    assert len(CHECKED) == len(RULES)
    request = Activation(raw(new), raw(old) if old else None)
    heard = request.matches(SPEC["matchConditions"][1:2])
    request.define(SPEC["variables"])
    said = {rule["message"] for rule in CHECKED if not request.evaluate(rule["expression"])}
    found = bypasses(read(old) if old else None, read(new))
    assert said == {f"{error.path}: {error.message()}" for error in found}
    assert heard or not said, "the policy is not asked about what it would refuse"


@given(states, states)
@examples(20, brief=10)
def test_the_webhook_is_asked_about_what_it_would_refuse(new: State, old: State) -> None:
    found = Activation(raw(new), raw(old)).matches(VALIDATING["matchConditions"])
    assert found == asked(old, new)


def test_the_policy_is_written_from_the_table() -> None:
    assert reference.POLICY.read_text() == reference.policy(), "python -m tests.deploy.reference"
