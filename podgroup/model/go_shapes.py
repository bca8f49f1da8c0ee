"""The API structs inside a pod's shape, written as Go's ``encoding/json`` writes them.

Decoding a part of a pod spec into one of these classes and encoding it again yields the bytes
Go yields for the same value: known fields only, in the order of the Go type, omitting what is
``omitempty`` there (k8s.io/api/core/v1 and apimachinery meta/v1, Kubernetes 1.36).

Reading rule: a field *with* a default is ``omitempty`` in Go, a field without one is always
printed; ``None`` means a nil pointer. The order of the fields below is the order of the
Go structs and is part of the role hash: never sort them.

Invariant: ``encode(value)`` sorts the keys of maps bytewise and keeps the order of structs' fields.
"""

from typing import Any, Final

import msgspec

_ENCODER: Final[msgspec.json.Encoder] = msgspec.json.Encoder(order="deterministic")

# Go's encoder escapes what could end a script element or a JavaScript line. None of these
# bytes can occur outside a JSON string, so they may be replaced in the finished text.
_ESCAPES: Final[tuple[tuple[bytes, bytes], ...]] = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


def encode(value: Any) -> bytes:
    """``value`` as Go's ``json.Marshal`` writes it: compact, map keys sorted, HTML-escaped."""
    text = _ENCODER.encode(value)
    for raw, escaped in _ESCAPES:
        text = text.replace(raw, escaped)
    return text


class _Go(msgspec.Struct, omit_defaults=True, rename="camel"):
    """A Go struct; camelCase names on the wire."""


class Expression(_Go):
    """NodeSelectorRequirement and LabelSelectorRequirement, alike in JSON."""

    key: str
    operator: str
    values: list[str] = []


class LabelSelector(_Go):
    """meta/v1 LabelSelector."""

    match_labels: dict[str, str] = {}
    match_expressions: list[Expression] = []


class NodeSelectorTerm(_Go):
    """One of the alternatives of a node selector."""

    match_expressions: list[Expression] = []
    match_fields: list[Expression] = []


class NodeSelector(_Go):
    """Required node affinity."""

    node_selector_terms: list[NodeSelectorTerm] | None


class PreferredSchedulingTerm(_Go):
    """Preferred node affinity."""

    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(_Go):
    """Node affinity, both kinds."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] = []


class PodAffinityTerm(_Go, kw_only=True):
    """A set of pods and the topology in which they count."""

    label_selector: LabelSelector | None = None
    namespaces: list[str] = []
    topology_key: str
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] = []
    mismatch_label_keys: list[str] = []


class WeightedPodAffinityTerm(_Go):
    """A preferred `PodAffinityTerm`."""

    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(_Go):
    """PodAffinity and PodAntiAffinity, alike in JSON."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] = []
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] = []


class Affinity(_Go):
    """``spec.affinity``."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(_Go):
    """One of ``spec.tolerations``."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(_Go):
    """One of ``spec.topologySpreadConstraints``."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] = []


class PodResourceClaim(_Go):
    """One of ``spec.resourceClaims``."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class ContainerPort(_Go, kw_only=True):
    """One of a container's ``ports``."""

    name: str = ""
    host_port: int = 0
    container_port: int
    protocol: str = ""
    host_ip: str = msgspec.field(default="", name="hostIP")
