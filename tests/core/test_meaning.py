"""What a field of a pod's view means is declared on it, and what follows from it does."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import pytest
from msgspec.structs import replace

from ingest.decisive import known_of
from podgroup.log.events import PodApplied
from podgroup.model.interning import renewed, shared
from podgroup.model.meaning import Means, Shared, View, Write, declared
from podgroup.model.names import ADMISSION_GATED_BY, MANAGED_LABEL, POD_FINALIZER
from podgroup.model.objects import (
    Condition,
    ContainerEnd,
    ContainerWait,
    DeclaredSet,
    NodeTerm,
    OwnerRef,
    PodClaim,
    PodView,
    Requirement,
    Toleration,
)
from podgroup.state.changes import rules_read

AT: Final = datetime(2026, 1, 1, tzinfo=UTC)
POD: Final = shared(
    PodView(uid="u", namespace="ns", name="p", resource_version="1", created_at=AT, phase="Pending")
)
MEANING: Final = declared(PodView)
LATER: Final = AT + timedelta(hours=1)
OTHER: Final[dict[str, Any]] = {
    "created_at": LATER,
    "deleted_at": LATER,
    "grace_s": 7,
    "labels": {MANAGED_LABEL: "true"},
    "annotations": {ADMISSION_GATED_BY: "example.com/a"},
    "finalizers": (POD_FINALIZER,),
    "owners": (OwnerRef(kind="Job", name="j", uid="j"),),
    "gates": ("a", "b"),
    "written_at": LATER,
    "role_annotated": True,
    "requests": {"cpu": 1},
    "priority": 5,
    "node_selector": {"a": "b"},
    "tolerations": (Toleration(key="a"),),
    "node_terms": (NodeTerm(expressions=(Requirement(key="a", operator="Exists"),)),),
    "started_at": LATER,
    "conditions": (Condition(type="Ready", status="True"),),
    "ends": (ContainerEnd(name="c", exit_code=1),),
    "waiting": (ContainerWait(name="c", reason="CrashLoopBackOff"),),
    "sets": (DeclaredSet(name="s"),),
    "unread": ("spec.a: too long",),
    "devices": True,
    "resource_claims": (PodClaim(name="c", template="t"),),
    "generated_claims": (("c", "p-c"),),
    "device_requests": {"gpus": 1},
}
"""Another value of each field that is no text."""


def changed(name: str) -> PodView:
    """The pod with another value of one field, made anew, as a decoder would."""
    value = OTHER.get(name)
    if value is None:
        value = "".join(("an", "other"))
    return replace(POD, **{name: value})


def test_every_field_declares_what_it_means() -> None:
    assert set(MEANING) == set(PodView.__struct_fields__)


class Half(View, frozen=True, kw_only=True):
    """A view with a field that declares nothing."""

    one: Annotated[str, Means()] = ""
    two: str = ""


def test_a_field_with_nothing_declared_is_found() -> None:
    assert set(Half.__struct_fields__) - set(declared(Half)) == {"two"}


@pytest.mark.parametrize("name", MEANING)
def test_what_is_known_at_once_is_what_is_declared(name: str) -> None:
    before, after = (known_of(PodApplied(pod=pod)).decisive for pod in (POD, changed(name)))
    assert (before != after) == bool(MEANING[name].at_once)


def test_parts_that_are_not_needed_at_once_wait() -> None:
    here = replace(POD, labels={MANAGED_LABEL: "true"}, finalizers=(POD_FINALIZER,))
    there = replace(
        here,
        labels={**here.labels, "team": "red"},
        finalizers=(*here.finalizers, "example.com/other"),
        conditions=(Condition(type="gatelog.io/admitted", status="False", message="waits"),),
    )
    assert known_of(PodApplied(pod=here)) == known_of(PodApplied(pod=there))


@pytest.mark.parametrize("name", MEANING)
def test_what_rules_read_is_what_is_declared(name: str) -> None:
    assert (rules_read(POD) != rules_read(changed(name))) == MEANING[name].read


@pytest.mark.parametrize("name", MEANING)
def test_a_view_is_renewed_by_the_writes_that_are_declared(name: str) -> None:
    view = changed(name)
    # A status is only looked at where what pods share of it is another.
    if MEANING[name].by is Write.STATUS:
        view = replace(view, phase="Running")
    made = renewed(view, POD)
    assert (made is not None) == (MEANING[name].by is not None)
    assert made is None or made == view


@pytest.mark.parametrize("name", MEANING)
def test_equal_values_are_one_object_where_that_is_declared(name: str) -> None:
    one, other = shared(changed(name)), shared(changed(name))
    assert one == changed(name)
    if MEANING[name].shared is not Shared.NO:
        assert getattr(one, name) is getattr(other, name)
