"""Weight: the bytes of memory of a pod's view that is larger than most.

Theory. One formula (`remembering.size_of`) estimates the bytes, so that a pod which was too large
is too large when the log is folded again. Most pods are light: they have few entries, and weigh
nothing here. That is found out by counting entries, without a look into them.

Invariant: a light pod takes at most a few kilobytes beyond its texts.
"""

from typing import Final

from podgroup.model.objects import DeclaredSet, NodeTerm, PodView
from podgroup.model.remembering import size_of

LIGHT_ENTRIES: Final = 64
"""Entries in lists and maps up to which a pod is light."""
LIGHT_TEXT: Final = 4096
"""Characters of annotations up to which a pod is light."""

SHAPE: Final = (
    *("node_terms", "tolerations", "node_selector", "requests", "sets"),
    "resource_claims",
)
"""Fields that the pods of a role have in common."""
_LATER: Final = "resource_claims"
"""A field that the first logs lack: without entries it weighs nothing."""
OWN: Final = (
    *("labels", "annotations", "finalizers", "owners", "gates"),
    *("conditions", "ends", "waiting"),
)
"""Other fields that users can make large."""


def is_light(view: PodView) -> bool:
    """Tell whether a pod weighs nothing. For most pods a count of all entries is enough."""
    notes = view.annotations
    entries = len(view.labels) + len(notes) + len(view.finalizers) + len(view.owners)
    entries += len(view.gates) + len(view.conditions) + len(view.ends) + len(view.waiting)
    entries += len(view.requests) + len(view.node_selector) + len(view.tolerations)
    if entries <= LIGHT_ENTRIES and not (view.node_terms or view.sets or view.resource_claims):
        if not notes or sum(map(len, notes.values())) <= LIGHT_TEXT:
            return True
    return not (own_weight(view) or shape_weight(view))


def shape_weight(view: PodView) -> int:
    """Return the bytes of fields that pods of a role have in common, 0 if they are light."""
    entries = len(view.requests) + len(view.node_selector) + len(view.tolerations)
    if view.node_terms or view.sets or view.resource_claims:
        text = sum(len(declared.template) for declared in view.sets)
        text += sum(len(o.name) + len(o.claim) + len(o.template) for o in view.resource_claims)
        entries += _entries(view.node_terms) + sum(map(_declared, view.sets))
        entries += len(view.resource_claims)
        if text > LIGHT_TEXT:
            return _sum(view, SHAPE)
    return _sum(view, SHAPE) if entries > LIGHT_ENTRIES else 0


def own_weight(view: PodView) -> int:
    """Return the bytes of other fields that users can make large, 0 if they are light."""
    notes = view.annotations
    entries = len(view.labels) + len(notes) + len(view.finalizers) + len(view.owners)
    entries += len(view.gates) + len(view.conditions) + len(view.ends) + len(view.waiting)
    if entries <= LIGHT_ENTRIES and (not notes or sum(map(len, notes.values())) <= LIGHT_TEXT):
        return 0
    return _sum(view, OWN)


def _entries(terms: tuple[NodeTerm, ...]) -> int:
    found = 0
    for term in terms:
        found += 1 + len(term.expressions)
        for one in term.expressions:
            found += len(one.values)
    return found


def _declared(one: DeclaredSet) -> int:
    entries = len(one.requests) + len(one.node_selector) + len(one.tolerations)
    return 1 + entries + _entries(one.node_terms)


def _sum(view: PodView, fields: tuple[str, ...]) -> int:
    taken = (getattr(view, name) for name in fields if name != _LATER or getattr(view, name))
    return sum(map(size_of, taken))
