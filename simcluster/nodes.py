"""Nodes as the scheduler sees them: labels, taints, room.

Theory: a node admits a pod when selector and required affinity match its labels, its NoSchedule and
NoExecute taints are tolerated, and for every resource the pod asks for there is room. A node marked
unlimited has room for anything, including resources it never heard of.

Invariant: ``take`` and ``release`` with the same demand cancel out exactly (exact fractions).
"""

from fractions import Fraction
from typing import Any

import msgspec

from simcluster.errors import Obj
from simcluster.poddefaults import requests_of
from simcluster.quantity import parse
from simcluster.settings import NodeSettings

UNLIMITED = "simcluster/unlimited"
Amount = int | Fraction
"""Whole amounts, which are most of them, are integers: they are added at a tenth of the cost."""


def _amount(value: Fraction) -> Amount:
    return value.numerator if value.denominator == 1 else value


class Demand(msgspec.Struct, frozen=True):
    """The requests of a pod to a node, ``pods`` included."""

    amounts: dict[str, Amount]

    @classmethod
    def of(cls, spec: Obj) -> "Demand":
        """The demand of a pod spec."""
        return cls({**{k: _amount(v) for k, v in requests_of(spec).items()}, "pods": 1})


class NodeState:
    """One node's labels, taints, allocatable and use."""

    def __init__(self, name: str, labels: dict[str, str]) -> None:
        self.name = name
        self.labels = labels
        self.taints: list[Obj] = []
        self.unschedulable = False
        self.allocatable: dict[str, Amount] = {}
        self.unlimited = False
        self.used: dict[str, Amount] = {}

    @classmethod
    def from_object(cls, node: Obj) -> "NodeState":
        """A node object's state (use is kept by the caller)."""
        meta, spec = node["metadata"], node.get("spec") or {}
        state = cls(
            meta["name"], {"kubernetes.io/hostname": meta["name"], **meta.get("labels", {})}
        )
        state.taints = [
            t for t in spec.get("taints") or () if t.get("effect") != "PreferNoSchedule"
        ]
        state.unschedulable = bool(spec.get("unschedulable"))
        status = node.get("status") or {}
        amounts = status.get("allocatable") or status.get("capacity") or {}
        state.allocatable = {k: _amount(parse(str(v))) for k, v in amounts.items()}
        mark = (meta.get("annotations") or {}).get(UNLIMITED)
        if mark is not None:
            state.unlimited = True
        return state

    def reserve(self, demand: Demand) -> None:
        """A pod is here."""
        for name, amount in demand.amounts.items():
            self.used[name] = self.used.get(name, 0) + amount

    def release(self, demand: Demand) -> None:
        """A pod is gone."""
        for name, amount in demand.amounts.items():
            self.used[name] = self.used.get(name, 0) - amount

    def refuses(self, spec: Obj, demand: Demand) -> str | None:
        """Why a pod cannot go here, in the scheduler's words; ``None`` if it can."""
        if self.unschedulable:
            return "node(s) were unschedulable"
        tolerations = spec.get("tolerations") or []
        for taint in self.taints:
            if not any(tolerates(t, taint) for t in tolerations):
                key, value = taint.get("key"), taint.get("value", "")
                return f"node(s) had untolerated taint {{{key}: {value}}}"
        selector = spec.get("nodeSelector") or {}
        if any(self.labels.get(k) != v for k, v in selector.items()) or not self._affine(spec):
            return "node(s) didn't match Pod's node affinity/selector"
        for name, amount in demand.amounts.items():
            most = self.allocatable.get(name)
            if most is None:
                if self.unlimited:
                    continue
                most = 0
            if amount and self.used.get(name, 0) + amount > most:
                return "Too many pods" if name == "pods" else f"Insufficient {name}"
        return None

    def _affine(self, spec: Obj) -> bool:
        node = (spec.get("affinity") or {}).get("nodeAffinity") or {}
        required = node.get("requiredDuringSchedulingIgnoredDuringExecution")
        if not required:
            return True
        return any(
            all(self._expression(e) for e in term.get("matchExpressions") or ())
            and all(
                self._expression(e, {"metadata.name": self.name})
                for e in term.get("matchFields") or ()
            )
            for term in required.get("nodeSelectorTerms") or ()
        )

    def _expression(self, item: Obj, within: dict[str, str] | None = None) -> bool:
        have = (self.labels if within is None else within).get(item.get("key", ""))
        values: list[Any] = item.get("values") or []
        match item.get("operator"):
            case "In":
                return have in values
            case "NotIn":
                return have not in values
            case "Exists":
                return have is not None
            case "DoesNotExist":
                return have is None
            case "Gt" | "Lt" as operator if have is not None and have.lstrip("-").isdigit():
                bound = int(values[0])
                return int(have) > bound if operator == "Gt" else int(have) < bound
        return False


def tolerates(toleration: Obj, taint: Obj) -> bool:
    """Whether a toleration covers a taint."""
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint.get("key"))
    return bool(
        toleration.get("key") == taint.get("key")
        and toleration.get("value", "") == taint.get("value", "")
    )


def node_object(settings: NodeSettings) -> Obj:
    """A Node from its settings; limits not given are marked unlimited."""
    amounts: dict[str, str] = dict(settings.resources)
    for name, text in (("cpu", settings.cpu), ("memory", settings.memory)):
        if text is not None:
            amounts[name] = text
    if settings.pods is not None:
        amounts["pods"] = str(settings.pods)
    meta: Obj = {
        "name": settings.name,
        "labels": {"kubernetes.io/hostname": settings.name, **settings.labels},
    }
    if settings.cpu is None or settings.memory is None or settings.pods is None:
        meta["annotations"] = {UNLIMITED: "true"}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": meta,
        "spec": {"taints": list(settings.taints)} if settings.taints else {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }
