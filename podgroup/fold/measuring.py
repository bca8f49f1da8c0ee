"""Fold of what pods really used: sums and peaks per pod, never a row per sample.

Invariant: no decision depends on it, and a report is added once: a report that does not begin after
the last counted sample was counted before.
"""

from podgroup.log.events import PodMeasured
from podgroup.model.ids import PodUID
from podgroup.state.pod import Measured
from podgroup.state.world import World


def pod_measured(world: World, event: PodMeasured) -> None:
    """Add a report to its pod's sums and peaks; reports of unknown pods are dropped."""
    pod = world.pods.get(PodUID(event.uid))
    if pod is None or event.samples < 1:
        return
    known = pod.measured
    total, peak, samples, began = event.total, event.peak, event.samples, event.from_at
    if known is not None:
        if event.from_at <= known.to_at:
            return
        samples, began = samples + known.samples, known.from_at
        total = {r: total.get(r, 0) + known.total.get(r, 0) for r in (*known.total, *total)}
        peak = {r: max(peak.get(r, 0), known.peak.get(r, 0)) for r in (*known.peak, *peak)}
    pod.measured = Measured(samples, total, peak, began, event.to_at)
    world.journal.pods.add(event.uid)
