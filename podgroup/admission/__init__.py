"""Deciding who is admitted to which quota: queues, cohorts, flavors, preemption, fair sharing.

Theory. A `Scheduler` is given what there is (`cache`) and asked to `decide`; it answers with
verdicts: as docs/queues.md describes, or, by ``Configuration.as_kueue``, what Kueue's scheduler
would.

Invariant: pure. No clock, no I/O, no randomness; it knows neither pods nor the log.
"""

from podgroup.admission.scheduler import Scheduler

__all__ = ["Scheduler"]
