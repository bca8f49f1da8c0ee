"""Which workloads are admitted to which quota: queues, cohorts, flavors, preemption, fair sharing.

Theory. A `Scheduler` has all objects and workloads (`cache`) and is asked to `decide`; it answers
with verdicts: as docs/queues.md describes, or, by ``Configuration.as_kueue``, as Kueue's scheduler
would.

Invariant: pure. No clock, no I/O, no randomness; it knows neither pods nor the log.
"""

from podgroup.admission.scheduler import Scheduler

__all__ = ["Scheduler"]
