"""Where gatelog decides better than Kueue: each way can be taken alone, or none of them.

Theory. With `KUEUE` everything is decided exactly as Kueue's scheduler does it, weak points
included; with `BETTER` none of these weak points is left. Each field is one difference, a row of
docs/differences.md, and can be switched alone, so that a difference between the two can be traced
to the options that make it.

Invariant: with all of them off no decision differs from Kueue's where Kueue's own is determined.
"""

from msgspec import Struct


class SchedulerOptions(Struct, frozen=True, kw_only=True):
    """Which of the better options are taken."""

    keep_for_preemptor: bool = True
    """What preemption frees is kept for whom it was freed, and evictions that are under way count
    before new victims are chosen."""

    drain: bool = True
    """A pass goes on while anything is admitted, not one workload per ClusterQueue and pass."""

    count_pods: bool = True
    """The search for victims counts the resource ``pods``."""

    every_flavor: bool = True
    """All flavors are looked at in one go, also when the victims of the first do not suffice."""

    worst_resource: bool = True
    """A flavor is rated by its worst resource, also where preemption is preferred to borrowing."""

    pass_hopeless: bool = True
    """A head that cannot fit whatever becomes free does not block a StrictFIFO queue."""

    lend_while_waiting: bool = True
    """A head that waits keeps others from its own nominal quota at most, and only in StrictFIFO."""

    no_circles: bool = True
    """None preempts what it preempted before, or what preempted it, directly or through others."""

    hear_every_release: bool = True
    """Quota given back is heard of even if the LocalQueue it came through is stopped or gone."""

    ask_for_older: bool = True
    """A new workload is looked at itself though an equal one did not fit: it may queue for longer,
    and its message says what is short now."""

    always_a_reason: bool = True
    """A workload that asks for a resource that is not covered gets that reason in every case."""

    remember_all_use: bool = True
    """What a LocalQueue uses is looked at before it changes, so no use is forgotten that began
    and ended between two looks."""

    look_again: bool = True
    """A search for victims by shares goes on as long as taking some makes others fair game."""

    own_when_larger: bool = True
    """With fair sharing a workload that is larger than its ClusterQueue's nominal quota may preempt
    within that ClusterQueue, if its policy says so."""

    one_node: bool = True
    """The flavors of one podset are such that a node can be of all of them: none sets a node label
    to another value than one that was chosen for another resource."""

    lenders_first: bool = True
    """None is admitted by borrowing, and none preempted for it, where a workload that waits already
    would reclaim that quota at once."""

    better_places: bool = True
    """Places by topology are found as docs/differences.md has it, under Places."""


BETTER = SchedulerOptions()
KUEUE = SchedulerOptions(**dict.fromkeys(SchedulerOptions.__struct_fields__, False))
