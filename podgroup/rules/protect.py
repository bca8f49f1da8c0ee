"""Rule about objects in use: they carry a finalizer, and so cannot be deleted under their users.

In kueue mode Kueue does this. In builtin mode a deleted ClusterQueue would take the quota of its
running groups with it, and a ClusterQueue created anew under its name would give it out twice.

Theory. A ClusterQueue is in use while groups hold quota in it; a ResourceFlavor or AdmissionCheck
while a ClusterQueue names it. The mark is put on at once, and taken off when the object is to be
deleted and nothing uses it any more. A ClusterQueue that is being deleted admits nothing, and so
empties.

Invariant: an object is looked at when it, or a user of it, changed, and has one write in flight.
"""

from podgroup.log.events import Decision
from podgroup.model.commands import MarkInUse, ObjectRef
from podgroup.model.objects import MARKED_KINDS, Marked, mark_timer
from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.rules.helpers.rule import BUILTIN, ClusterRule, RuleDoc
from podgroup.state.facts import find_object
from podgroup.state.world import World

MOST_NAMED = 3


def protect(ctx: RuleContext) -> Conclusions:
    """Mark objects that may have come into use; unmark unused objects that are to be deleted."""
    world = ctx.world
    if world.mode != "builtin":
        return
    ending = (("ClusterQueue", "", name) for name in world.ending)
    for kind, _, name in sorted({*(k for k in world.unannounced if k[0] in MARKED_KINDS), *ending}):
        view = find_object(world, (kind, "", name))
        if (
            not isinstance(view, Marked)
            or view.marking
            or mark_timer(kind, name) in world.meta.timers
        ):
            continue
        if view.deleting and view.marked and not users(world, kind, name):
            yield _mark_in_use(ctx, kind, view, off=True)
        elif not view.deleting and not view.marked:
            yield _mark_in_use(ctx, kind, view, off=False)


def users(world: World, kind: str, name: str) -> str:
    """Name the users of an object, "" for none."""
    if kind == "ClusterQueue":
        tally = world.quotas.tallies.get((kind, "", name))
        held = tally.reserving if tally is not None else 0
        return f"{held} groups hold quota in it" if held else ""
    queues = sorted(
        queue.name
        for queue in world.cluster_queues.values()
        if name in queue.checks or any(name == f.name for g in queue.groups for f in g.flavors)
    )
    return f"used by ClusterQueue {', '.join(queues[:MOST_NAMED])}" if queues else ""


def _mark_in_use(ctx: RuleContext, kind: str, view: Marked, *, off: bool) -> Decision:
    return ctx.decision_apart(
        "protect",
        "NotInUse" if off else "InUse",
        f"{kind} {view.name} is being deleted and nothing uses it"
        if off
        else f"{kind} {view.name} is not to be deleted while it is in use",
        MarkInUse(target=ObjectRef(kind=kind, namespace="", name=view.name, uid=view.uid), off=off),
    )


def _due(world: World) -> bool:
    return bool(world.unannounced or (world.ending and world.quotas.moved))


RULE = ClusterRule(
    name="protect",
    run=protect,
    due=_due,
    mode=BUILTIN,
    docs=(
        RuleDoc(
            "protect",
            "a ClusterQueue, ResourceFlavor or AdmissionCheck is new, or deleted and unused",
            "adds or removes finalizer `kueue.x-k8s.io/resource-in-use`",
        ),
    ),
)
