"""Topology annotations: checked for form, and for what no nodes could ever answer.

A malformed request would surface at admission, much later and far from its author, so the webhook
refuses it with the rules that Kueue's webhook has (kueue: TAS annotations). Of a new pod it also
refuses what Kueue lets in and never starts: slices larger than the group, and the wish for any
place that says false.

Invariant: depends on the pod alone; several mistakes give several errors.
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
from ingest.webhook.pod import Pod
from podgroup.model import names
from podgroup.model.topology import FALSE, LEVEL_ASKED, TRUE, SliceLayer, requested

_MOST_LAYERS: Final = 3


def topology_errors(annotations: Mapping[str, str]) -> list[FieldError]:
    """What is wrong with the topology annotations of a pod."""
    errors: list[FieldError] = []
    kinds = [key for key in LEVEL_ASKED if key in annotations]
    if len(kinds) > 1:
        detail = f"at most one of these may be set: {', '.join(kinds)}"
        errors.append(invalid("metadata.annotations", kinds[0], detail))
    for key in (names.TOPOLOGY_REQUIRED, names.TOPOLOGY_PREFERRED, names.SLICE_REQUIRED):
        value = annotations.get(key)
        if value is not None and (problem := label_name_problem(value)):
            errors.append(invalid(annotation_path(key), value, problem))
    unconstrained = annotations.get(names.TOPOLOGY_UNCONSTRAINED, "true")
    if unconstrained not in TRUE | FALSE:
        path = annotation_path(names.TOPOLOGY_UNCONSTRAINED)
        errors.append(invalid(path, unconstrained, "must be a boolean value"))
    errors += _slice_errors(annotations)
    errors += _podset_group_errors(annotations)
    errors += _constraint_errors(annotations)
    return errors


def never_placed(pod: Pod) -> list[FieldError]:
    """Requests of a new pod that no set of nodes can meet."""
    errors = []
    unconstrained = pod.annotations.get(names.TOPOLOGY_UNCONSTRAINED)
    if unconstrained in FALSE:
        path = annotation_path(names.TOPOLOGY_UNCONSTRAINED)
        detail = "names no level, so no nodes suit: say true, or leave it out"
        errors.append(invalid(path, unconstrained, detail))
    total = integer(pod.annotations.get(names.GROUP_TOTAL_COUNT, "")) if pod.group else 1
    slices = requested(pod.annotations).slices
    if slices and total and slices[0].size > total:
        listed = names.SLICE_CONSTRAINTS in pod.annotations
        key = names.SLICE_CONSTRAINTS if listed else names.SLICE_SIZE
        detail = f"must not be greater than the number of pods, {total}"
        errors.append(invalid(annotation_path(key), pod.annotations[key], detail))
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


def _constraint_errors(annotations: Mapping[str, str]) -> list[FieldError]:
    text = annotations.get(names.SLICE_CONSTRAINTS)
    if text is None:
        return []
    path = annotation_path(names.SLICE_CONSTRAINTS)
    errors = []
    others = (names.SLICE_REQUIRED, names.SLICE_SIZE, names.PODSET_GROUP_NAME)
    beside = [key for key in others if key in annotations]
    if beside:
        errors.append(forbidden(path, f"may not be set together with {', '.join(beside)}"))
    try:
        layers = msgspec.json.decode(text, type=list[SliceLayer])
    except (msgspec.DecodeError, RecursionError):
        layers = []
    if problem := _layers_problem(layers):
        errors.append(invalid(path, text, problem))
    return errors


def _layers_problem(layers: list[SliceLayer]) -> str:
    if not 1 <= len(layers) <= _MOST_LAYERS:
        return (
            f"must be a JSON list of 1 to {_MOST_LAYERS} layers, the outermost first, such as "
            '[{"topology": "example.com/rack", "size": 4}]'
        )
    seen: set[str] = set()
    parent = 0
    for layer in layers:
        if bad := label_name_problem(layer.topology):
            return f"topology {layer.topology!r}: {bad}"
        if layer.topology in seen:
            return f"names topology {layer.topology} twice"
        if layer.size < 1 or parent % layer.size:
            return f"size {layer.size} must be at least 1 and divide that of the layer before it"
        seen.add(layer.topology)
        parent = layer.size
    return ""
