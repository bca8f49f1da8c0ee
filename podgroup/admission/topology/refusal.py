"""Why a podset has no place, in Kueue's words.

Theory. The text names the topology, how much fits of the request, and how many nodes are excluded
for which cause. A node that is merely too small for all of a domain's share is not excluded; a node
that cannot hold a single pod is, by its scarcest resource.

Invariant: the text depends on counts alone.
"""

from podgroup.admission.topology.counts import Counts
from podgroup.admission.topology.domains import Domain
from podgroup.admission.topology.request import Plan, Refused


def refusal(counts: Counts, plan: Plan, level: int, fitting: int) -> Refused:
    """Return the refusal where `fitting` slices fit, and `level` was searched last."""
    topology = f'topology "{counts.tree.name}"'
    unit = "pod(s)" if plan.size == 1 else "slice(s)"
    wanted = plan.slices + bool(plan.rest)
    if len(plan.layers) > 1:
        text = f"{topology} doesn't allow to fit{_layers(counts, plan, level)}"
    elif fitting:
        text = f"{topology} allows to fit only {fitting} out of {wanted} {unit}"
    else:
        text = f"{topology} doesn't allow to fit any of {wanted} {unit}"
    causes = sorted(f"{cause}: {number}" for cause, number in counts.excluded.items() if number)
    if causes:
        text += f". Total nodes: {counts.tree.size}; excluded: {', '.join(causes)}"
    return Refused(text)


def _layers(counts: Counts, plan: Plan, level: int) -> str:
    best = min(
        counts.tree.at[level].values(),
        key=lambda domain: (-counts.room(domain)[0], counts.tree.name_of(domain)),
    )
    text = ""
    for layer in plan.layers:
        target = counts.tree.levels.index(layer.topology)
        many = _under(counts, best, target, layer.size)
        text += f"; {many}/{plan.count // layer.size} slice(s) fit on level {layer.topology}"
    return text


def _under(counts: Counts, domain: Domain, target: int, size: int) -> int:
    if len(domain.path) - 1 == target:
        return counts.room(domain)[1] // size
    return sum(_under(counts, child, target, size) for child in domain.children.values())
