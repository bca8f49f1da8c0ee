"""A stand-in for Kueue's core: it admits and evicts Workloads, and never looks at a pod.

Theory: Kueue's core and an integration meet in the Workload object alone. The core reads the spec
and a handful of conditions, writes ``status.admission`` and its own conditions, and leaves
everything about pods, the release of quota after an eviction included, to the other side.

What it knows: nominal quota per flavor and resource, flavor order, taints and node selectors, both
queueing strategies, namespace selectors, priorities, preemption within a ClusterQueue,
deactivation, stop policies, reclaimable pods. What it does not: cohorts, admission checks,
topology, PodsReady time-outs, fair sharing.

Invariant: a Workload that was evicted is charged until another client clears ``status.admission``,
it finishes, is deactivated or is deleted.
"""

from tests.support.kueuecore.core import KueueCore

__all__ = ["KueueCore"]
