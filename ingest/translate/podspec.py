"""Parts of a pod spec that quota admission looks at: amounts, tolerations, required affinity.

They occur in pods, in the templates of Workloads, and in those of pod-group-sets. Parts that pods
of a role share are translated once per distinct text and remembered in bounded tables, because a
relist of a large cluster runs through here once per pod.

Invariant: equal texts give equal results, and no caller changes a result.
"""

from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from ingest.translate.fields import (
    RefusedError,
    RequirementWire,
    TolerationWire,
    Wire,
    requirements,
    tolerations,
)
from podgroup.model import objects
from podgroup.model.quantities import effective_requests, faults
from podgroup.model.remembering import remembered

_EMPTY = Raw(b"null")


class _Container(Wire, frozen=True):
    name: str = ""
    resources: Raw = _EMPTY
    restart_policy: str = ""


class _Term(Wire, frozen=True):
    match_expressions: tuple[RequirementWire, ...] | None = None


class _NodeSelector(Wire, frozen=True):
    node_selector_terms: tuple[_Term, ...] | None = None


class _NodeAffinity(Wire, frozen=True):
    required_during_scheduling_ignored_during_execution: _NodeSelector | None = None


class _Affinity(Wire, frozen=True):
    node_affinity: _NodeAffinity | None = None


class PodSpecWire(Wire, frozen=True):
    """The resources of a pod spec: what `requests_of` needs, in pods and in pod templates."""

    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None
    overhead: Raw = _EMPTY
    resources: Raw = _EMPTY


class Granted(NamedTuple):
    """The granted amounts in the status of a pod, as JSON maps of quantities.

    `containers` has the allocated and the present requests by name, `pod` those of the pod as a
    whole. `infeasible`: the kubelet reports that it will never grant more.
    """

    containers: tuple[tuple[str, bytes, bytes], ...] = ()
    pod: tuple[bytes, ...] = ()
    infeasible: bool = False


NOTHING_GRANTED = Granted()


def requests_of(
    spec: PodSpecWire, path: str = "spec", granted: Granted = NOTHING_GRANTED
) -> dict[str, int]:
    """Return the amounts that a pod of this spec takes of a node; do not change the result.

    Raises:
        RefusedError: resources are not a map, or a quantity is malformed.
    """
    return _read(spec, path, granted)[0]


def wrong_amount(spec: PodSpecWire, path: str = "spec") -> str:
    """Return path and fault of the first amount that no pod can have; "" for none.

    `requests_of` takes an amount below zero as 0, an amount beyond any node as 2^63-1.

    Raises:
        RefusedError: as `requests_of`.
    """
    wrong = _read(spec, path, NOTHING_GRANTED)[1]
    return f"{path}.{wrong}" if wrong else ""


def _read(spec: PodSpecWire, path: str, granted: Granted) -> tuple[dict[str, int], str]:
    try:
        return _requests(
            tuple([(c.name, bytes(c.resources)) for c in spec.containers or ()]),
            tuple(
                [(c.name, bytes(c.resources), c.restart_policy) for c in spec.init_containers or ()]
            ),
            bytes(spec.overhead),
            bytes(spec.resources),
            granted,
        )
    except ValueError as error:
        # Of the wrong type, or a quantity that is none; the message names the resource.
        raise RefusedError(f"{path}.containers[*].resources", str(error)) from None


class _Resources(Wire, frozen=True):
    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


_resources: msgspec.json.Decoder[_Resources | None] = msgspec.json.Decoder(_Resources | None)
_amounts: msgspec.json.Decoder[dict[str, str | int | float] | None] = msgspec.json.Decoder(
    dict[str, str | int | float] | None
)


@remembered
def _requests(
    containers: tuple[tuple[str, bytes], ...],
    init_containers: tuple[tuple[str, bytes, str], ...],
    overhead: bytes,
    resources: bytes,
    granted: Granted,
) -> tuple[dict[str, int], str]:
    grants = {
        name: [_amounts.decode(allocated), _resources_in(present).get("requests")]
        for name, allocated, present in granted.containers
    }
    spec = {
        "containers": [
            {"resources": _resources_in(raw), "granted": grants.get(name, ())}
            for name, raw in containers
        ],
        "initContainers": [
            {
                "resources": _resources_in(raw),
                "restartPolicy": policy,
                "granted": grants.get(name, ()),
            }
            for name, raw, policy in init_containers
        ],
        "overhead": _amounts.decode(overhead),
        "resources": _resources_in(resources),
        "granted": [_amounts.decode(raw) for raw in granted.pod],
        "infeasible": granted.infeasible,
    }
    wrong = next((f"{path}: {why}" for path, _, why in faults(spec, limits=True)), "")
    return effective_requests(spec), wrong


def _resources_in(raw: bytes) -> dict[str, Any]:
    found = _resources.decode(raw)
    return {"requests": found.requests, "limits": found.limits} if found else {}


_toleration_lists: msgspec.json.Decoder[tuple[TolerationWire, ...] | None] = msgspec.json.Decoder(
    tuple[TolerationWire, ...] | None
)
_affinities: msgspec.json.Decoder[_Affinity | None] = msgspec.json.Decoder(_Affinity | None)


@remembered
def tolerations_of(raw: bytes) -> tuple[objects.Toleration, ...]:
    """Return the tolerations in a JSON list of them.

    Raises:
        RefusedError: the JSON is no such list.
    """
    try:
        return tolerations(_toleration_lists.decode(raw))
    except msgspec.ValidationError as error:
        raise RefusedError("spec.tolerations", str(error)) from None


class _PodClaim(Wire, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


_claims: msgspec.json.Decoder[tuple[_PodClaim, ...] | None] = msgspec.json.Decoder(
    tuple[_PodClaim, ...] | None
)


@remembered
def claims_of(raw: bytes) -> tuple[objects.PodClaim, ...]:
    """Return the entries of a JSON list of resourceClaims.

    Raises:
        RefusedError: the JSON is no such list.
    """
    try:
        entries = _claims.decode(raw) or ()
    except msgspec.ValidationError as error:
        raise RefusedError("spec.resourceClaims", str(error)) from None
    return tuple(
        objects.PodClaim(
            name=one.name,
            claim=one.resource_claim_name or "",
            template=one.resource_claim_template_name or "",
        )
        for one in entries
    )


@remembered
def node_terms_of(raw: bytes) -> tuple[objects.NodeTerm, ...]:
    """Return the terms of required node affinity in the JSON of an affinity.

    Raises:
        RefusedError: the JSON is no affinity.
    """
    try:
        affinity = _affinities.decode(raw)
    except msgspec.ValidationError as error:
        raise RefusedError("spec.affinity", str(error)) from None
    node = affinity.node_affinity if affinity else None
    selector = node.required_during_scheduling_ignored_during_execution if node else None
    return tuple(
        objects.NodeTerm(expressions=requirements(term.match_expressions))
        for term in (selector.node_selector_terms if selector else None) or ()
    )
