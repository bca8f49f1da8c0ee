"""A rule reads of a pod's view what is declared as read, and nothing else.

Where two views of a pod have equal flags and differ in nothing that is declared, no rule is asked
(`podgroup.state.changes`): a rule that reads another field overlooks its changes, and no story
need have them. So what rules read is recorded while stories run.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from podgroup import engine
from podgroup.model import names
from podgroup.model.commands import UngatePod
from podgroup.model.meaning import declared
from podgroup.model.objects import PodView
from podgroup.model.policy import Policy
from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.rules.helpers.rule import Rule
from podgroup.state.changes import looked_at_anyway
from podgroup.state.group import Group
from tests.core.test_due import POLICIES, Wide
from tests.core.test_machine import KEPT
from tests.support.reading import recorded
from tests.support.rough import Rough
from tests.support.toy import Toy

MEANING = declared(PodView)
ELSEWHERE = {"uid", "namespace", "deleted_at", "phase", "finalizers", "resource_version"}
"""What never changes, and fields of which rules read what the pod's flags say as well."""
BEGUN = [["quota", 6], ["fill", 0, 0], ["fill", 1, 0], *[["turn", 2]] * 6]
LIVES = [*BEGUN, ["resize", 1, 1], ["turn", 3], ["run", 1], ["run", 2], ["end", 1, 1]]


@contextmanager
def undeclared() -> Iterator[set[str]]:
    """Give what rules read that no declaration names, where it decides whether they are asked."""
    found: set[str] = set()

    def noted(rule: str, ctx: RuleContext, group: Group, view: PodView, name: str) -> None:
        if MEANING[name].read or name in ELSEWHERE:
            return
        if not looked_at_anyway(group, ctx.members(group).flags.get(view.uid, 0)):
            found.add(
                f"rule {rule} reads `{name}` of a pod: declare it Means(read=True) in "
                "podgroup/model/objects.py"
            )

    with recorded(noted):
        yield found


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("mode", ["builtin", "kueue"])
def test_rules_read_what_is_declared(mode: str, policy: Policy) -> None:
    with undeclared() as found:
        wide = Wide(mode, policy=policy)
        wide.largest_quota = 1000  # a policy may leave the resource out of account
        wide.play([*LIVES, *[["turn", 2]] * 6])
        wide.play([["bear", n, n] for n in range(len(Wide.KEYS))])
        wide.play([["turn", 2]] * 6)
    assert found == set()


def test_rules_read_what_is_declared_in_programs_that_failed_once() -> None:
    with undeclared() as found:
        for kept in KEPT:
            Rough(**kept["begin"]).play(kept["steps"])
    assert found == set()


def _curious(ctx: RuleContext, group: Group) -> Conclusions:
    """Read a field that no rule reads, and a declared one."""
    for uid in ctx.members(group).flags:
        if ctx.pod(uid).view.message and ctx.pod(uid).view.labels:
            yield from ()


@contextmanager
def asked_first(run: Callable[[RuleContext, Group], Conclusions]) -> Iterator[None]:
    """Have one more rule, before all others."""
    engine._FIRST.insert(0, Rule(name="curious", run=run))
    engine._PLANS.clear()
    try:
        yield
    finally:
        del engine._FIRST[0]
        engine._PLANS.clear()


def test_of_a_group_that_runs_what_is_declared_is_looked_at_and_nothing_else() -> None:
    asked: list[str] = []

    def note(_: RuleContext, group: Group) -> Conclusions:
        asked.append(group.name)
        return ()

    with asked_first(note):
        toy = Toy()
        for name in ("a", "b"):
            toy.pod(name, "g", 2)
        toy.run("a", "b")
        view = toy.named("a")
        for fields, looked in (
            ({"message": "pulled"}, []),
            ({"labels": {**view.labels, "team": "red"}}, ["g"]),
            ({"annotations": {**view.annotations, names.SERVING: "false"}}, ["g"]),
        ):
            asked.clear()
            toy.change(view.uid, settle=False, **fields)
            assert asked[:1] == looked, fields


BESIDE: dict[str, tuple[dict[str, str], dict[str, str], list[str]]] = {
    "our own": ({names.PODSET_LABEL: "main"}, {names.WORKLOAD_ANNOTATION: "w"}, []),
    "a label": ({names.PODSET_LABEL: "main", "team": "red"}, {}, ["g"]),
    "an annotation": ({}, {names.SERVING: "false"}, ["g"]),
    "a label that gatelog writes elsewhere": ({names.PRIORITY_CLASS: "high"}, {}, ["g"]),
}


@pytest.mark.parametrize(("labels", "annotations", "looked"), BESIDE.values(), ids=BESIDE)
def test_what_a_user_writes_beside_our_removal_of_the_gate_is_looked_at(
    labels: dict[str, str], annotations: dict[str, str], looked: list[str]
) -> None:
    """Ingest publishes the latest state of a pod: two writes may come as the same view."""
    asked: list[str] = []

    def note(_: RuleContext, group: Group) -> Conclusions:
        asked.append(group.name)
        return ()

    toy = Toy()
    toy.act = False
    for name in ("a", "b"):
        toy.pod(name, "g", 2)
    for decision in list(toy.queue):
        if not isinstance(decision.command, UngatePod):
            toy.execute(decision)
    assert {name for name in ("a", "b") if toy.gated(name)} == {"a", "b"}
    with asked_first(note):
        for name in ("a", "b"):
            view, asked[:] = toy.named(name), []
            fields = {
                "gates": (),
                "labels": {**view.labels, **labels},
                "annotations": {**view.annotations, **annotations},
            }
            toy.change(view.uid, settle=False, **fields)
            assert asked[:1] == looked


def test_a_rule_that_reads_another_field_is_found() -> None:
    with asked_first(_curious), undeclared() as found:
        Toy().pod("a")
    assert [line.split(":")[0] for line in found] == ["rule curious reads `message` of a pod"]


def test_every_name_of_a_key_is_borne_in_stories() -> None:
    assert {names.MAX_EXEC_SECONDS, names.ADMISSION_GATED_BY, names.SERVING} <= set(Wide.KEYS)


def test_an_annotation_that_does_not_enter_the_log_does_nothing_in_stories(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bears = {"example.com/greeting": "hello", names.SERVING: "true"}
    toy = Toy()
    assert toy.pod("a", annotations=bears).annotations == {names.SERVING: "true"}
    assert "kept out of the log: ['example.com/greeting']" in capsys.readouterr().out
    come = toy.arrives({"metadata": {"name": "b", "annotations": bears}})
    assert come.annotations == {names.SERVING: "true"}
