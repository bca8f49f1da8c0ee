"""Quota admission in builtin mode: which waiting groups of a ClusterQueue start now.

Equivalent to: whenever capacity may have appeared, go over the pending groups in queue order
(priority, then queue time, then group id), admit what fits, and with StrictFIFO stop at the first
that does not. For speed a newly queued group is looked at alone when nothing else changed, and in
one pass a request that did not fit is not tried again for another group of the same shape: usage
only grows within a pass.

A group that does not fit may evict groups of lower priority in the same ClusterQueue
(withinClusterQueue LowerPriority; LowerOrNewerEqualPriority also later ones of equal priority).
Candidates, in this order: already evicted; lower priority; admitted later; group id. They are taken
one by one until the group fits, then put back in reverse order where they were not needed. Until
its victims have yielded the group is first in line and what it needs is reserved.

Invariant: the sum of what is admitted never exceeds a nominal quota.
"""

from collections import Counter

from podgroup.changes import EVERYTHING
from podgroup.commands import AdmitGroup, EvictGroup
from podgroup.decide.context import Deciding, group_ref
from podgroup.decide.flavors import Fit, assign, matches, sample_of
from podgroup.ids import GroupID
from podgroup.names import (
    EVICTED_CLUSTER_QUEUE_STOPPED,
    EVICTED_DEACTIVATED,
    EVICTED_LOCAL_QUEUE_STOPPED,
    EVICTED_PREEMPTED,
    PENDING_DEACTIVATED,
    PENDING_MISCONFIGURED,
    PENDING_ON_HOLD,
    PENDING_PREEMPTED_WORKLOADS,
    PENDING_WAITING_FOR_QUOTA,
)
from podgroup.objects import ClusterQueueView, LocalQueueView, Selector
from podgroup.quota import FlavorResource
from podgroup.records import Requeued
from podgroup.state import Group

Reason = tuple[str, str]

NAMED = 3
"""Victims of a preemption that are named in a message; its decisions name them all."""
BEHIND = "waits behind an earlier group in a StrictFIFO ClusterQueue"


def enqueue(d: Deciding, group: Group) -> None:
    """Put a group into the pending order, or take it out, as its state says."""
    quotas = d.world.quotas
    if group.holding is not None or not group.composed or group.finish is not None:
        quotas.dequeue(group.id)
        return
    if group.workload_lost or not len(d.members(group)):
        quotas.dequeue(group.id)
        return
    why = _ineligible(d, group)
    local = d.world.local_queues.get((group.namespace, group.queue))
    if why is not None or local is None:
        d.pending(group, *(why or ("", "")))
        quotas.dequeue(group.id)
        return
    queued_at = group.queued_at or group.created_at
    quotas.enqueue(group.id, local.cluster_queue, group.priority, queued_at)


def _ineligible(d: Deciding, group: Group) -> Reason | None:
    """Say why a group may not be in the queue at all. Order: pods, activity, queue, place."""
    if group.short is not None:
        return "WaitingForReplacementPods", group.short[1]
    evicted = group.evicted
    if group.workload is not None and not group.workload.active:
        return PENDING_DEACTIVATED, "The workload is deactivated"
    if evicted is not None and not group.requeued:
        # B15: any reason beginning with Deactivated is over once spec.active is true again.
        if not evicted.reason.startswith(EVICTED_DEACTIVATED) or group.deactivating:
            return evicted.reason, evicted.message
        d.record(Requeued(group.id))
    if not group.queue:
        return PENDING_MISCONFIGURED, "the pods name no queue"
    local = d.world.local_queues.get((group.namespace, group.queue))
    if local is None:
        return (
            "LocalQueueNotFound",
            f"LocalQueue {group.queue} doesn't exist in namespace {group.namespace}",
        )
    if local.stop_policy != "None":
        return PENDING_ON_HOLD, f"LocalQueue {group.queue} is stopped"
    queue = d.world.cluster_queues.get(local.cluster_queue)
    if queue is None:
        return "ClusterQueueNotFound", f"ClusterQueue {local.cluster_queue} doesn't exist"
    if not _selected(d, queue, group.namespace):
        return (
            PENDING_MISCONFIGURED,
            f"ClusterQueue {queue.name} doesn't select namespace {group.namespace}",
        )
    return None


def _selected(d: Deciding, queue: ClusterQueueView, namespace: str) -> bool:
    if queue.namespaces is None:
        return False
    view = d.world.namespaces.get(namespace)
    labels = view.labels if view is not None else {}
    return selects(queue.namespaces, labels)


def selects(selector: Selector, labels: dict[str, str]) -> bool:
    """Evaluate a label selector."""
    if any(labels.get(key) != value for key, value in selector.labels.items()):
        return False
    return all(matches(expression, labels) for expression in selector.expressions)


def retire_admissions(d: Deciding, group: Group) -> None:
    """Evict an admitted group that was deactivated or whose queue was drained."""
    holding = group.holding
    if holding is None or group.evicted is not None or group.finish is not None:
        return
    local = d.world.local_queues.get((group.namespace, group.queue))
    queue = d.world.cluster_queues.get(holding.admission.cluster_queue)
    reason = message = ""
    if group.workload is not None and not group.workload.active:
        reason, message = EVICTED_DEACTIVATED, "The workload is deactivated"
    elif queue is not None and queue.stop_policy == "HoldAndDrain":
        reason, message = EVICTED_CLUSTER_QUEUE_STOPPED, "The ClusterQueue is stopped"
    elif local is not None and local.stop_policy == "HoldAndDrain":
        reason, message = EVICTED_LOCAL_QUEUE_STOPPED, "The LocalQueue is stopped"
    if reason:
        _evict(d, group, "drain", reason, message, "")


def admit_pending(d: Deciding) -> None:
    """Look at every ClusterQueue where something changed, by name."""
    quotas = d.world.quotas
    if not quotas.dirty and not quotas.left and not any(quotas.fresh.values()):
        return
    for name in quotas.left:
        queue = d.world.cluster_queues.get(name)
        if queue is not None and queue.strategy == "StrictFIFO":
            quotas.dirty[name] = None  # whoever left may have been what the others waited behind
    for name in sorted({*quotas.dirty, *(q for q, groups in quotas.fresh.items() if groups)}):
        full = name in quotas.dirty
        quotas.dirty.pop(name, None)
        fresh = quotas.fresh.pop(name, {})
        queue = d.world.cluster_queues.get(name)
        if queue is not None:
            _Pass(d, queue, None if full else set(fresh)).run()
    quotas.left.clear()  # who left in a pass was seen to by it


class _Pass:
    """One pass over one ClusterQueue. `only` limits it to newly queued groups."""

    def __init__(self, d: Deciding, queue: ClusterQueueView, only: set[str] | None) -> None:
        self.d = d
        self.queue = queue
        self.quotas = d.world.quotas
        self.preemptors = self.quotas.preemptors.setdefault(queue.name, {})
        self.only = only
        self.reserved: Counter[FlavorResource] = Counter()
        self.refused: dict[object, Reason] = {}

    def run(self) -> None:
        why = self._inactive()
        groups = [key[2] for key in self.quotas.pending.get(self.queue.name, ())]
        first = [identity for identity in groups if identity in self.preemptors]
        if first:
            groups = first + [identity for identity in groups if identity not in self.preemptors]
        blocked = False
        for identity in groups:
            group = self.d.world.groups[GroupID(identity)]
            if why is not None:
                self._refuse(group, why)
                continue
            if blocked:
                self._refuse(group, (PENDING_WAITING_FOR_QUOTA, BEHIND))
                continue
            strict = self.queue.strategy == "StrictFIFO"
            # What preemptors wait for is reserved, whoever else is new.
            known = self.only is not None and identity not in self.only
            if known and identity not in self.preemptors:
                if strict:
                    blocked = True
                continue
            try:
                admitted = self._consider(group)
            except Exception as error:
                self.d.park(group, error)
                self.d.world.touched[group.id] = EVERYTHING
                continue
            if not admitted and strict:
                blocked = True

    def _inactive(self) -> Reason | None:
        if self.queue.stop_policy != "None":
            return PENDING_ON_HOLD, f"ClusterQueue {self.queue.name} is stopped"
        for resources in self.queue.groups:
            for flavor in resources.flavors:
                if flavor.name not in self.d.world.flavors:
                    return (
                        "ClusterQueueInactive",
                        f"ClusterQueue {self.queue.name} is inactive: "
                        f"ResourceFlavor {flavor.name} doesn't exist",
                    )
        return None

    def _consider(self, group: Group) -> bool:
        """Admit a group, or leave the reason; tell whether it was admitted."""
        shape = _shape(self.d, group)
        known = self.refused.get(shape)
        if known is not None and group.id not in self.preemptors:
            self._refuse(group, known)
            return False
        used = self._used(group)
        fit = found = assign(self.d.world, self.queue, group, used)
        if fit.mode == "fit":
            self._admit(group, fit)
            return True
        # Flavors in which no room can be made give way to the next ones, until none is left.
        hopeless: set[str] = set()
        while found.mode == "preempt" and self.queue.within_cluster_queue != "Never":
            if self._preempt(group, found):
                return False
            full = {
                key[0] for key, amount in found.usage.items() if self._beyond(used, key, amount)
            }
            if full <= hopeless:
                break
            hopeless |= full
            found = assign(self.d.world, self.queue, group, used, hopeless)
        self.preemptors.pop(group.id, None)
        self.refused[shape] = (fit.reason, fit.message)
        self._refuse(group, (fit.reason, fit.message))
        return False

    def _used(self, group: Group) -> Counter[FlavorResource]:
        """Return what is in use or reserved for a preemptor, by others than `group`: to be read."""
        usage = self.quotas.usage.get(self.queue.name, Counter())
        own = self.quotas.charges.get(group.id)
        if own is None and not self.reserved:
            return usage
        used = Counter(usage)
        used.update(self.reserved)
        if own is not None and own.cluster_queue == self.queue.name:
            used.subtract(own.usage)
        return used

    def _refuse(self, group: Group, why: Reason) -> None:
        if group.queue_reason != why:
            self.d.pending(group, *why)
            self.d.world.touched[group.id] = EVERYTHING

    def _admit(self, group: Group, fit: Fit) -> None:
        self.preemptors.pop(group.id, None)
        amounts = ", ".join(
            f"{a.count} x {a.name} in {'/'.join(sorted(set(a.flavors.values()))) or 'no flavor'}"
            for a in fit.assignments
        )
        self.d.emit(
            group,
            "admit",
            "QuotaReserved",
            f"fits the quota of ClusterQueue {self.queue.name}: {amounts}",
            AdmitGroup(
                target=group_ref(group),
                cluster_queue=self.queue.name,
                assignments=fit.assignments,
            ),
        )

    def _preempt(self, group: Group, fit: Fit) -> bool:
        """Evict what must make room; tell whether the group now waits for that."""
        victims = self._victims(group, fit)
        if victims is None:
            return False
        self.preemptors[group.id] = None
        self.reserved.update(fit.usage)
        if group.queue_reason[0] != PENDING_PREEMPTED_WORKLOADS or any(
            victim.evicted is None for victim in victims
        ):
            # Not told again for each of them that has made room.
            self._refuse(
                group,
                (
                    PENDING_PREEMPTED_WORKLOADS,
                    f"{fit.message}. Waiting for {_names(victims)} to make room",
                ),
            )
        for victim in victims:
            if victim.evicted is None:
                message = (
                    f"Preempted to accommodate {group.namespace}/{group.name} (group {group.id}) "
                    f"of priority {group.priority} in ClusterQueue {self.queue.name}"
                )
                _evict(self.d, victim, "preempt", EVICTED_PREEMPTED, message, group.id)
        return True

    def _victims(self, group: Group, fit: Fit) -> list[Group] | None:
        """Return the fewest groups whose quota makes `fit` possible, or None."""
        used = Counter(self._used(group))
        short = [key for key, amount in fit.usage.items() if self._beyond(used, key, amount)]
        taken: list[Group] = []
        for victim in self._candidates(group, short):
            if self._fits(fit, used):
                break
            used.subtract(self.quotas.charges[victim.id].usage)
            taken.append(victim)
        if not self._fits(fit, used):
            return None
        for victim in list(reversed(taken)):
            usage = self.quotas.charges[victim.id].usage
            used.update(usage)
            if victim.evicted is None and self._fits(fit, used):
                taken.remove(victim)
            else:
                used.subtract(usage)
        return taken

    def _candidates(self, group: Group, short: list[FlavorResource]) -> list[Group]:
        found: list[tuple[bool, int, float, str]] = []
        newer_too = self.queue.within_cluster_queue == "LowerOrNewerEqualPriority"
        for identity in self.quotas.holders.get(self.queue.name, {}):
            charge = self.quotas.charges[identity]
            if not any(charge.usage.get(key) for key in short):
                continue
            other = self.d.world.groups[GroupID(identity)]
            if other.holding is None or other.parked:
                continue  # runs unadmitted, or stopped in the open: evicting it would be a lie
            lower = charge.priority < group.priority
            newer = (
                newer_too
                and charge.priority == group.priority
                and (other.queued_at or other.created_at) > (group.queued_at or group.created_at)
            )
            if lower or newer or other.evicted is not None:
                found.append(
                    (other.evicted is None, charge.priority, -charge.at.timestamp(), identity)
                )
        return [self.d.world.groups[GroupID(key[3])] for key in sorted(found)]

    def _nominal(self, key: FlavorResource) -> int:
        flavor, resource = key
        for resources in self.queue.groups:
            if resource in resources.covered:
                for quotas in resources.flavors:
                    if quotas.name == flavor and resource in quotas.resources:
                        return quotas.resources[resource].nominal
        return 0

    def _fits(self, fit: Fit, used: Counter[FlavorResource]) -> bool:
        return not any(self._beyond(used, key, amount) for key, amount in fit.usage.items())

    def _beyond(self, used: Counter[FlavorResource], key: FlavorResource, amount: int) -> bool:
        return used[key] + amount > self._nominal(key)


def _names(victims: list[Group]) -> str:
    """Name a few, since messages have an end."""
    names = [f"{victim.namespace}/{victim.name}" for victim in victims[:NAMED]]
    more = len(victims) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _shape(d: Deciding, group: Group) -> object:
    """Return what decides whether a group fits: groups of one shape fit or fail alike."""
    parts = []
    for name in sorted(group.roles):
        role = group.roles[name]
        if role.count:
            # Role names may be of the users' choice, so they say nothing of selectors.
            view = sample_of(d.world, group, role)
            place: object = None
            if view is not None:
                selector = tuple(sorted(view.node_selector.items()))
                place = (selector, view.node_terms, view.tolerations)
            parts.append((name, role.count, tuple(sorted(role.requests.items())), place))
    return (group.priority, group.single, tuple(parts))


def _evict(d: Deciding, group: Group, rule: str, reason: str, message: str, preemptor: str) -> None:
    d.emit(
        group,
        rule,
        reason,
        message,
        EvictGroup(target=group_ref(group), reason=reason, message=message, preempted_by=preemptor),
    )


__all__ = ["LocalQueueView", "admit_pending", "enqueue", "retire_admissions", "selects"]
