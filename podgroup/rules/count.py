"""Rule about queues and cohorts: their counts and usage, in their status and in the ledger.

Theory. Counts are kept as indexes (`state.quota`, the quota tree), so an event only notes which
queues it marked. When `Policy.status_interval_s` have passed since the last report, or a timer
fires, every queue whose standing changed is reported, all at once: so each is written once in that
time at most, and never while its standing is the same. The standing is written into the status of
ClusterQueues, LocalQueues and, where shares decide, Cohorts; a standing without an object, or
without a field there, is in the ledger alone.

Invariant: after a message every queue is as reported, or a timer is set.
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta

from podgroup.admission.amounts import text
from podgroup.admission.shortfall import borrowed, share_shown
from podgroup.admission.tree import Forest, Node
from podgroup.log.records import Counted, CountsTimed
from podgroup.model.commands import ObjectRef, ReportQueue
from podgroup.model.objects import ClusterQueueView, LocalQueueView
from podgroup.model.quantities import MAX_INT64
from podgroup.model.standing import COUNTS_TIMER, Amount, Consumed, Standing
from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.rules.helpers.rule import BUILTIN, ClusterRule, RuleDoc
from podgroup.state.derived import Entered, MovesRead
from podgroup.state.facts import find_object
from podgroup.state.quota import FlavorResource, QueueKey, Tally
from podgroup.state.world import World

_EMPTY = Tally()


def count(ctx: RuleContext) -> Conclusions:
    """Report the standings of queues and cohorts that are due and changed."""
    world, quotas, meta = ctx.world, ctx.world.quotas, ctx.world.meta
    interval_s = world.policy.status_interval_s
    if world.mode != "builtin" or not interval_s:
        yield MovesRead(reported=True)
        return
    yield MovesRead(reported=False)
    if COUNTS_TIMER in meta.timers:
        return  # reported when the timer fires, whether or not gatelog restarts meanwhile
    due = None if meta.counted_at is None else meta.counted_at + timedelta(seconds=interval_s)
    if quotas.deciding is None:
        yield Entered()
    forest = quotas.scheduler.cache.objects.present
    wanted = _marked(world, forest) if not quotas.unsure else _all(world, forest)
    found = [(key, standing) for key, standing in wanted if _is_news(world, key, standing)]
    if found and due is not None and ctx.here.at < due:
        yield CountsTimed("", due)
        return
    yield MovesRead(reported=True)
    for key, standing in found:
        yield from _report(ctx, key, standing)


def _all(world: World, forest: Forest) -> Iterator[tuple[QueueKey, Standing | None]]:
    """Return the standing of each queue, in order; None for a reported queue that is gone."""
    cohorts = {("Cohort", "", name) for name in forest.cohorts}
    keys = {
        *world.standings,
        *(("ClusterQueue", "", name) for name in world.cluster_queues),
        *(("LocalQueue", *key) for key in world.local_queues),
        *cohorts,
    }
    return _standings(world, forest, keys)


def _marked(world: World, forest: Forest) -> Iterator[tuple[QueueKey, Standing | None]]:
    """Return standings that may have changed, those of the cohorts above included."""
    keys = set(world.quotas.marked)
    for kind, _, name in world.quotas.marked:
        if kind == "ClusterQueue" and (node := forest.queues.get(name)) is not None:
            keys.update(("Cohort", "", above.name) for above in node.path())
    return _standings(world, forest, keys)


def _standings(
    world: World, forest: Forest, keys: set[QueueKey]
) -> Iterator[tuple[QueueKey, Standing | None]]:
    used = _used_in_cohorts(world, forest, keys)
    for key in sorted(keys):
        kind, namespace, name = key
        tally = world.quotas.tallies.get(key, _EMPTY)
        standing = None
        if kind == "ClusterQueue":
            if name in world.cluster_queues and (node := forest.queues.get(name)) is not None:
                standing = _standing(node, _amounts(node, tally), tally)
        elif kind == "Cohort":
            if (node := forest.cohorts.get(name)) is not None:
                standing = _standing(node, _amounts(node, used[name]), _EMPTY)
        elif (local := world.local_queues.get((namespace, name))) is not None:
            standing = _local(world, local, tally)
        yield key, standing


def _used_in_cohorts(world: World, forest: Forest, keys: Iterable[QueueKey]) -> dict[str, Tally]:
    """Return the sum of charges of all members of each cohort among `keys`.

    A cohort's own usage in the tree leaves out what lending limits keep below.
    """
    found = {name: Tally() for kind, _, name in keys if kind == "Cohort"}
    if not found:
        return found
    for name, node in forest.queues.items():
        tally = world.quotas.tallies.get(("ClusterQueue", "", name))
        above = [found[one.name] for one in node.path() if one.name in found]
        if tally is None or not above:
            continue
        for total in above:
            total.reserved.update(tally.reserved)
            total.used.update(tally.used)
            total.unadmitted.update(tally.unadmitted)
    return found


def _standing(node: Node, amounts: tuple[Amount, ...], tally: Tally) -> Standing:
    return Standing(
        pending=tally.pending,
        reserving=tally.reserving,
        admitted=tally.admitted,
        amounts=amounts,
        share=share_shown(node),
        cohort="" if node.parent is None else node.parent.name,
        root="" if node.queue and node.parent is None else node.root.name,
    )


def _amounts(node: Node, tally: Tally) -> tuple[Amount, ...]:
    """Return the amounts of all that has quota or is charged, by flavor and resource."""
    return tuple(
        Amount(
            *key,
            nominal=min(node.nominal.get(key, 0), MAX_INT64),
            quota=min(node.subtree.get(key, 0), MAX_INT64),
            reserved=min(tally.reserved[key], MAX_INT64),
            used=min(tally.used[key], MAX_INT64),
            unadmitted=min(tally.unadmitted[key], MAX_INT64),
            borrowed=borrowed(node, key),
            spare=0 if node.queue else _spare(node, key),
        )
        for key in sorted({*node.nominal, *node.subtree, *_taken(tally)})
    )


def _spare(node: Node, key: tuple[str, str]) -> int:
    return min(max(0, node.subtree.get(key, 0) - node.usage.get(key, 0)), MAX_INT64)


def _local(world: World, local: LocalQueueView, tally: Tally) -> Standing:
    behind = world.cluster_queues.get(local.cluster_queue)
    offered = _offered(behind) if behind is not None else set()
    used = world.meta.used.get(f"{local.namespace}/{local.name}")
    consumed = None
    if used is not None and used.at is not None and behind is not None and behind.usage_based:
        consumed = Consumed(used.at, used.consumed or ())
    return Standing(
        consumed=consumed,
        pending=tally.pending,
        reserving=tally.reserving,
        admitted=tally.admitted,
        amounts=tuple(
            Amount(
                *key,
                reserved=min(tally.reserved[key], MAX_INT64),
                used=min(tally.used[key], MAX_INT64),
                unadmitted=min(tally.unadmitted[key], MAX_INT64),
            )
            for key in sorted({*offered, *_taken(tally)})
        ),
    )


def _taken(tally: Tally) -> set[FlavorResource]:
    return {*tally.reserved, *tally.used, *tally.unadmitted}


def _offered(queue: ClusterQueueView) -> set[tuple[str, str]]:
    return {
        (flavor.name, resource)
        for group in queue.groups
        for flavor in group.flavors
        for resource in group.covered
    }


def _is_news(world: World, key: QueueKey, standing: Standing | None) -> bool:
    last = world.standings.get(key)
    if last is None or standing is None:
        return (last is None) != (standing is None)
    view = find_object(world, key)
    return last.standing != standing or last.uid != (view.uid if view is not None else "")


def _report(ctx: RuleContext, key: QueueKey, standing: Standing | None) -> Conclusions:
    kind, namespace, name = key
    view = find_object(ctx.world, key)
    fair = bool(ctx.world.policy.fair_sharing)
    if standing is None or view is None or (kind == "Cohort" and not fair):
        yield Counted("", kind, namespace, name, standing, view.uid if view is not None else "")
        return
    yield ctx.decision_apart(
        "count",
        "Changed",
        f"{kind} {name} has {_words(standing)}",
        ReportQueue(
            target=ObjectRef(kind=kind, namespace=namespace, name=name, uid=view.uid),
            standing=standing,
            fair_sharing=fair,
        ),
    )


def _words(standing: Standing) -> str:
    """Return the standing of a queue in words: its groups, and what they take."""
    taken = [
        f"{text(a.resource, a.reserved)} {a.resource} of {a.flavor}"
        + (f" ({text(a.resource, a.borrowed)} borrowed)" if a.borrowed else "")
        for a in standing.amounts
        if a.reserved
    ]
    counts = f"{standing.pending} pending, {standing.reserving} with quota"
    return ", ".join([f"{counts}, {standing.admitted} admitted", *taken])


def _due(world: World) -> bool:
    return world.quotas.moved


RULE = ClusterRule(
    name="count",
    run=count,
    due=_due,
    mode=BUILTIN,
    docs=(
        RuleDoc(
            "count",
            "counts or usage of a queue changed; once in `queueing.status_interval_s`",
            "writes them into the status of ClusterQueues, LocalQueues and Cohorts, and table "
            "`usage`",
        ),
    ),
)
