"""Selectors and kinds of the webhook policy."""

import msgspec
import pytest

from gatelog.cluster.policies import policies
from ingest.webhook.policy import (
    NAMESPACE_NAME_LABEL,
    OwnerKind,
    WebhookPolicy,
    selects,
    selects_by_name_only,
)
from ingest.webhook.settings import policy_for
from podgroup.model.objects import Requirement, Selector
from runtime.settings import QueueingSettings, Settings


@pytest.mark.parametrize(
    ("operator", "values", "with_a", "with_b", "without"),
    [
        ("In", ("a",), True, False, False),
        ("NotIn", ("a",), False, True, True),
        ("Exists", (), True, True, False),
        ("DoesNotExist", (), False, False, True),
    ],
)
def test_selectors(
    operator: str, values: tuple[str, ...], with_a: bool, with_b: bool, without: bool
) -> None:
    selector = Selector(expressions=(Requirement(key="k", operator=operator, values=values),))
    assert selects(selector, {"k": "a"}) is with_a
    assert selects(selector, {"k": "b"}) is with_b
    assert selects(selector, {}) is without
    assert not selects_by_name_only(selector)


def test_selector_parts_must_all_hold() -> None:
    assert selects(Selector(), {"x": "y"})
    both = Selector(labels={"x": "y"}, expressions=(Requirement(key="z", operator="Exists"),))
    assert not selects(both, {"x": "y"})
    assert selects(both, {"x": "y", "z": ""})
    assert selects_by_name_only(Selector(labels={NAMESPACE_NAME_LABEL: "a"}))
    with pytest.raises(ValueError, match="'Near' is not one of"):
        selects(Selector(expressions=(Requirement(key="z", operator="Near"),)), {})


def test_external_frameworks() -> None:
    kind = OwnerKind("kubeflow.org", "Notebook", "notebooks")
    policy = WebhookPolicy(external_kinds=(kind,))
    assert policy.counts(kind.group, kind.kind)
    assert policy.known(kind.group, kind.kind) == kind
    assert not WebhookPolicy().counts(kind.group, kind.kind)


@pytest.mark.parity("C-106")
def test_kinds_kueue_knows() -> None:
    policy = WebhookPolicy()  # C-106
    assert policy.counts("batch", "Job")
    assert policy.counts("ray.io", "RayCluster")
    assert not policy.counts("apps", "ReplicaSet")
    assert policy.known("apps", "ReplicaSet") is not None
    assert policy.known("", "Pod") is None


def test_the_longest_grace_period_is_a_setting_of_both_ways() -> None:
    found = Settings(queueing=QueueingSettings(termination_grace_max_s=7_200))
    assert policy_for(found).max_grace_s == 7_200
    (refusals, _) = (o for o in policies(found) if o["metadata"]["name"] == "gatelog-pods")
    said = msgspec.json.encode(refusals).decode()
    assert said.count("7200") == 3 and "86400" not in said
