"""The admission policies of `deploy/`, made to fit this installation's settings and account.

Theory. The installed policies are those of the manifests, with the same few places changed that the
kustomize components change: the actuator's user, excluded namespaces, whether Kueue queues owners
and assigns topologies, whether every pod is queued.

The fence is for an account that is the actuator's alone. A person's own account is not fenced: with
`gatelog up` in a terminal they could no longer change their other pods.

Invariant: pure; all other fields are as in `deploy/`.
"""

import copy
from collections.abc import Iterable
from typing import Any

from ingest.webhook.install import NOT_ITSELF, cel_text, not_itself, owner_rules
from ingest.webhook.policy import (
    ACTUATOR_USER,
    MAX_GRACE_S,
    NAMESPACE_NAME_LABEL,
    SERVICE_ACCOUNT,
)
from ingest.webhook.settings import actuator_user, label_kinds, topology_gate
from podgroup.model.names import TOPOLOGY_GATE
from runtime import manifests
from runtime.manifests import Object
from runtime.settings import Settings

POLICY_FILES = (
    "admission-policy/mutating-admission-policy.yaml",
    "admission-policy/owner-labels.yaml",
    "admission-policy/validating-admission-policy.yaml",
)
FENCE_FILES = ("common/fence.yaml",)
_EVERY_POD = "components/policy-every-pod/kustomization.yaml"
_PODS, _OWNERS, _REFUSALS = "gatelog-queued-pods", "gatelog-owner-labels", "gatelog-pods"
_FENCES = ("gatelog-fence", "gatelog-queue-fence")


def policies(settings: Settings) -> list[Object]:
    """Return the policies that gate pods on Kubernetes 1.36 or later, with the fence.

    Raises:
        ManifestError: the installation lacks a file.
    """
    return _fitting(manifests.read(*POLICY_FILES), settings) + fence(settings)


def fence(settings: Settings) -> list[Object]:
    """Return the fence round the actuator's account, Kubernetes 1.30 or later.

    Raises:
        ManifestError: the installation lacks a file.
    """
    return _fitting(manifests.read(*FENCE_FILES), settings)


def fenced(settings: Settings) -> bool:
    """Return whether the account of the actuator is fenced."""
    return actuator_user(settings).startswith(SERVICE_ACCOUNT)


def _fitting(objects: Iterable[Object], settings: Settings) -> list[Object]:
    kinds = label_kinds(settings)
    found = [copy.deepcopy(o) for o in objects if kinds or o["metadata"]["name"] != _OWNERS]
    for obj in found:
        if obj["kind"].endswith("Binding"):
            continue
        name, spec = obj["metadata"]["name"], obj["spec"]
        if name not in _FENCES or fenced(settings):
            _name_the_actuator(spec, actuator_user(settings))
        if name == _PODS:
            _fit_pods(spec, settings)
        if name == _REFUSALS:
            _bound_graces(spec, settings.queueing.termination_grace_max_s)
        if name == _OWNERS:
            spec["matchConstraints"]["resourceRules"] = owner_rules(kinds)
        for wish in (
            spec["matchConstraints"].get("namespaceSelector", {}).get("matchExpressions", ())
        ):
            if wish["key"] == NAMESPACE_NAME_LABEL:
                wish["values"] = [*settings.webhook.excluded_namespaces]
    return found


def _name_the_actuator(spec: Object, user: str) -> None:
    for condition in spec["matchConditions"]:
        if condition["name"] == NOT_ITSELF:
            condition["expression"] = not_itself(user)
            continue
        text = condition["expression"].replace(cel_text(ACTUATOR_USER), cel_text(user))
        condition["expression"] = text


def _fit_pods(spec: Object, settings: Settings) -> None:
    conditions: list[Any] = spec["matchConditions"]
    if settings.mode == "builtin":
        conditions[:] = [c for c in conditions if c["name"] != "owner-is-not-queued"]
    if settings.webhook.manage_jobs_without_queue_name:
        _queue_every_pod(spec)
    if not topology_gate(settings):
        _without_topology(spec)
    _set(spec, "ownedGroups", f"[{', '.join(map(cel_text, settings.queueing.owned_groups))}]")
    _set(spec, "untracked", "true" if settings.actuator.managed_fields == "clear" else "false")


def _bound_graces(spec: Object, seconds: int) -> None:
    """Put the longest grace period in place of the value in the file."""
    for one in (*spec["matchConditions"], *spec["validations"]):
        for field in ("expression", "message"):
            if field in one:
                one[field] = one[field].replace(str(MAX_GRACE_S), str(seconds))


def _without_topology(spec: Object) -> None:
    _set(spec, "topologyGate", "false")
    (condition,) = (c for c in spec["matchConditions"] if c["name"] == "lacks-something")
    condition["expression"] = condition["expression"].replace(f", {cel_text(TOPOLOGY_GATE)}", "")


def _set(spec: Object, name: str, expression: str) -> None:
    (variable,) = (v for v in spec["variables"] if v["name"] == name)
    variable["expression"] = expression


def _queue_every_pod(spec: Object) -> None:
    """Make the replacements of the component."""
    import yaml

    component = yaml.safe_load((manifests.root() / _EVERY_POD).read_text(encoding="utf-8"))
    for one in yaml.safe_load(component["patches"][0]["patch"]):
        if one["op"] == "replace":
            _, _, field, index, *below = one["path"].split("/")
            if below:
                spec[field][int(index)][below[0]] = one["value"]
            else:
                spec[field][int(index)] = one["value"]
