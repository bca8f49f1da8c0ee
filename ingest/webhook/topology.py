"""Topology annotations: checked for form and passed on.

gatelog assigns no topology itself; a queue whose flavors have topologies belongs to Kueue's
scheduler. A malformed request would surface there much later and far from its author, so the
webhook refuses it with the rules that Kueue's webhook has (kueue: TAS annotations).

Invariant: depends on the annotations alone; several mistakes give several errors.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from ingest.webhook.fields import (
    FieldError,
    annotation_path,
    forbidden,
    integer,
    invalid,
    label_name_problem,
    required,
)
from podgroup.model import names

_BOOLEANS: Final[frozenset[str]] = frozenset(
    {"1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"}
)
_KINDS: Final[tuple[str, ...]] = (
    names.TOPOLOGY_REQUIRED,
    names.TOPOLOGY_PREFERRED,
    names.TOPOLOGY_UNCONSTRAINED,
)


class _SliceConstraint(msgspec.Struct, frozen=True):
    topology: str
    size: int


def topology_errors(
    annotations: Mapping[str, str], *, multi_layer: bool = False
) -> list[FieldError]:
    """What is wrong with the topology annotations of a pod.

    Args:
        annotations: all annotations of the pod.
        multi_layer: whether the slice-constraints annotation is allowed at all.
    """
    errors: list[FieldError] = []
    kinds = [key for key in _KINDS if key in annotations]
    if len(kinds) > 1:
        detail = f"at most one of these may be set: {', '.join(kinds)}"
        errors.append(invalid("metadata.annotations", kinds[0], detail))
    for key in (names.TOPOLOGY_REQUIRED, names.TOPOLOGY_PREFERRED, names.SLICE_REQUIRED):
        value = annotations.get(key)
        if value is not None and (problem := label_name_problem(value)):
            errors.append(invalid(annotation_path(key), value, problem))
    unconstrained = annotations.get(names.TOPOLOGY_UNCONSTRAINED, "true")
    if unconstrained not in _BOOLEANS:
        path = annotation_path(names.TOPOLOGY_UNCONSTRAINED)
        errors.append(invalid(path, unconstrained, "must be a boolean value"))
    errors += _slice_errors(annotations)
    errors += _podset_group_errors(annotations)
    errors += _constraint_errors(annotations, multi_layer)
    return errors


def _slice_errors(annotations: Mapping[str, str]) -> list[FieldError]:
    size = annotations.get(names.SLICE_SIZE)
    path = annotation_path(names.SLICE_SIZE)
    if size is None:
        if names.SLICE_REQUIRED not in annotations:
            return []
        return [required(path, f"must be set together with {names.SLICE_REQUIRED}")]
    if names.SLICE_REQUIRED not in annotations:
        return [forbidden(path, f"may only be set together with {names.SLICE_REQUIRED}")]
    number = integer(size)
    if number is None or number < 1:
        return [invalid(path, size, "must be an integer of at least 1")]
    return []


def _podset_group_errors(annotations: Mapping[str, str]) -> list[FieldError]:
    name = annotations.get(names.PODSET_GROUP_NAME)
    if name is None:
        return []
    path = annotation_path(names.PODSET_GROUP_NAME)
    errors = []
    if integer(name) is not None:
        errors.append(invalid(path, name, "must not be a number"))
    slices = [k for k in (names.SLICE_REQUIRED, names.SLICE_SIZE) if k in annotations]
    if slices:
        errors.append(forbidden(path, f"may not be set together with {', '.join(slices)}"))
    if not {names.TOPOLOGY_REQUIRED, names.TOPOLOGY_PREFERRED} & annotations.keys():
        detail = f"needs {names.TOPOLOGY_REQUIRED} or {names.TOPOLOGY_PREFERRED} beside it"
        errors.append(forbidden(path, detail))
    return errors


def _constraint_errors(annotations: Mapping[str, str], multi_layer: bool) -> list[FieldError]:
    text = annotations.get(names.SLICE_CONSTRAINTS)
    if text is None:
        return []
    path = annotation_path(names.SLICE_CONSTRAINTS)
    if not multi_layer:
        return [forbidden(path, "multi-layer topology is switched off in this installation")]
    errors = []
    singles = [k for k in (names.SLICE_REQUIRED, names.SLICE_SIZE) if k in annotations]
    if singles:
        errors.append(forbidden(path, f"may not be set together with {', '.join(singles)}"))
    try:
        layers = msgspec.json.decode(text, type=list[_SliceConstraint])
    except (msgspec.DecodeError, RecursionError):
        layers = []
    if not layers or any(layer.size < 1 for layer in layers):
        detail = 'must be a JSON list such as [{"topology": "example.com/rack", "size": 4}]'
        errors.append(invalid(path, text, detail))
    return errors
