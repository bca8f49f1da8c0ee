"""The core: follows queues and Workloads, and decides who gets quota.

Theory: a hook on the store keeps what is held per ClusterQueue and who waits for it; anything that
may change an answer schedules one turn. In a turn the Workloads that changed are looked at
(deactivated, stopped, queued anew), then each ClusterQueue is offered to its queue: highest
priority, oldest, smallest uid first. A head that does not fit blocks a StrictFIFO queue and is set
aside in a BestEffortFIFO one until quota comes free; a head that waits for its own preemptions
blocks either.

The entry test is made on entering: a Workload that queues already stays when it becomes short of
pods, as in Kueue.

Invariant: what is charged to a ClusterQueue is the sum of ``usage`` of the Workloads in it.
"""

import asyncio
from collections.abc import Iterable
from fractions import Fraction

from simcluster.errors import Obj
from simcluster.selectors import label_selector
from simcluster.store import Change, Rec, Store, Table
from simcluster.writes import Writes
from tests.support.kueuecore.assigning import ClusterQueue, Mode, assign, cluster_queue
from tests.support.kueuecore.preempting import targets
from tests.support.kueuecore.status import StatusWriter, preemption_message
from tests.support.kueuecore.workload import Info, Usage, info_of

_GROUP = "kueue.x-k8s.io"
_RESTARTS = ("ClusterQueueStopped", "LocalQueueStopped")
_OURS = frozenset(
    {
        "NoMatchingFlavor",
        "WaitingForQuota",
        "ExceedsMaxQuota",
        "WaitingForPreemptedWorkloads",
        "Misconfigured",
        "Suspended",
        "PendingEvaluation",
        "Deactivated",
    }
)
"""Reasons of QuotaReserved=False that are left standing until the Workload is looked at again."""


class KueueCore:
    """Admits and evicts Workloads; ``delay_s`` is the time from a change to the turn it causes."""

    def __init__(self, store: Store, writes: Writes, delay_s: float = 0.0) -> None:
        self.store = store
        self.status = StatusWriter(writes)
        self.delay_s = delay_s
        self.infos: dict[str, Info] = {}
        self.queues: dict[str, ClusterQueue] = {}
        self.local: dict[tuple[str, str], tuple[str, str]] = {}
        self.flavors: dict[str, Obj] = {}
        self.used: dict[str, Usage] = {}
        self.holders: dict[str, dict[str, None]] = {}
        self.waiting: dict[str, str] = {}
        self.aside: set[str] = set()
        self.changed: dict[str, None] = {}
        self._turn: asyncio.Handle | None = None
        store.hooks.append(self.seen)

    def stop(self) -> None:
        """Decide nothing more."""
        self.store.hooks.remove(self.seen)
        if self._turn is not None:
            self._turn.cancel()

    def seen(self, table: Table, change: Change) -> None:
        """A change of any table."""
        key, rec = table.resource.key, change.rec
        gone = change.type == "DELETED"
        if key == (_GROUP, "workloads"):
            self._workload(None if gone else info_of(rec), rec)
        elif key == (_GROUP, "clusterqueues"):
            self.queues.pop(rec.name, None)
            if not gone:
                self.queues[rec.name] = cluster_queue(rec.obj)
            self._all(info for info in self.infos.values() if self._queue_of(info) == rec.name)
        elif key == (_GROUP, "localqueues"):
            spec, place = rec.obj.get("spec") or {}, (rec.namespace, rec.name)
            self.local.pop(place, None)
            if not gone:
                self.local[place] = (spec.get("clusterQueue", ""), spec.get("stopPolicy") or "None")
            self._all(i for i in self.infos.values() if (i.namespace, i.queue) == place)
        elif key == (_GROUP, "resourceflavors"):
            self.flavors.pop(rec.name, None)
            if not gone:
                self.flavors[rec.name] = rec.obj
            self._all(self.infos.values())
        elif key == ("", "namespaces"):
            self._all(i for i in self.infos.values() if i.namespace == rec.name)

    def _queue_of(self, info: Info) -> str:
        """The ClusterQueue a Workload belongs to; empty when its LocalQueue is not there."""
        return info.cluster_queue or self.local.get((info.namespace, info.queue), ("", ""))[0]

    def _all(self, infos: Iterable[Info]) -> None:
        """Queues, flavors or namespaces changed: every Workload concerned is looked at again."""
        for info in infos:
            self.aside.discard(info.uid)
            self.changed[info.uid] = None
        self._soon()

    def _workload(self, info: Info | None, rec: Rec) -> None:
        """Keep the books after one Workload changed, and have it looked at."""
        before = self.infos.pop(rec.uid, None)
        if before is not None and before.cluster_queue:
            self._charge(before, -1)
        if info is not None:
            self.infos[rec.uid] = info
            if info.cluster_queue:
                self._charge(info, 1)
            if before is None or before.content != info.content:
                self.aside.discard(rec.uid)
        else:
            self.waiting.pop(rec.uid, None)
            self.aside.discard(rec.uid)
        if before is not None and before.cluster_queue and _frees(before, info):
            self._reconsider(before.cluster_queue)
        self.changed[rec.uid] = None
        self._soon()

    def _charge(self, info: Info, sign: int) -> None:
        holders = self.holders.setdefault(info.cluster_queue, {})
        used = self.used.setdefault(info.cluster_queue, {})
        if sign > 0:
            holders[info.uid] = None
        else:
            holders.pop(info.uid, None)
        for key, amount in info.usage.items():
            used[key] = used.get(key, Fraction(0)) + sign * amount

    def _reconsider(self, queue: str) -> None:
        """Quota came free: inadmissible ones get another try."""
        self.aside -= {uid for uid, name in self.waiting.items() if name == queue}

    def _soon(self) -> None:
        if self._turn is None:
            loop = asyncio.get_running_loop()
            self._turn = loop.call_later(self.delay_s, self._run)

    def _run(self) -> None:
        self._turn = None
        while self.changed:
            uid = next(iter(self.changed))
            del self.changed[uid]
            info = self.infos.get(uid)
            if info is not None and not self._react(info):
                self._enqueue(info)
        for queue in sorted(set(self.waiting.values())):
            self._offer(queue)

    def _react(self, info: Info) -> bool:
        """Changes the core answers at once; whether it wrote (and so will look again)."""
        evicted = info.conditions.get("Evicted", {}) if info.true("Evicted") else {}
        if info.over:
            return False
        if not info.active:
            if evicted.get("reason", "").startswith("Deactivated"):
                return False
            return self.status.evict(info, "Deactivated", "The workload is deactivated")
        requeued = info.conditions.get("Requeued", {})
        if requeued.get("status") == "False":
            why = requeued.get("reason", "")
            if why == "Deactivated":
                text = "The workload was reactivated"
                return self.status.set(info, ("Requeued", True, "Reactivated", text))
            if why in _RESTARTS and not self._stopped(info):
                what = why.removesuffix("Stopped")
                text = f"The {what} was restarted after being stopped"
                return self.status.set(info, ("Requeued", True, f"{what}Restarted", text))
        stopped = self._stopped(info, "HoldAndDrain")
        if stopped and info.reserved and not evicted:
            text = f"The {stopped} is stopped"
            return self.status.evict(info, f"{stopped}Stopped", text)
        return False

    def _stopped(self, info: Info, policy: str = "") -> str:
        """Which queue of the Workload is stopped (with this policy)."""
        queue = self.queues.get(self._queue_of(info))
        local = self.local.get((info.namespace, info.queue), ("", "None"))[1]
        for name, stop in (
            ("ClusterQueue", queue.stop if queue else "None"),
            ("LocalQueue", local),
        ):
            if stop != "None" and policy in ("", stop):
                return name
        return ""

    def _enqueue(self, info: Info) -> None:
        """Put a Workload into the queue it belongs to, or take it out of the one it is in."""
        queue = self._queue_of(info)
        if not info.waits or (info.barred and self.waiting.get(info.uid) != queue):
            self.waiting.pop(info.uid, None)
            self.aside.discard(info.uid)
            return
        if queue not in self.queues:
            self.waiting.pop(info.uid, None)
            what = f"ClusterQueue {queue}" if queue else f"LocalQueue {info.queue}"
            self.status.pending(info, "Misconfigured", f"{what} doesn't exist")
            return
        self.waiting[info.uid] = queue
        told = info.conditions.get("QuotaReserved", {})
        if told and told.get("reason") not in _OURS:
            text = "Workload is pending evaluation in the scheduling queue"
            self.status.set(info, ("QuotaReserved", False, "PendingEvaluation", text))

    def _offer(self, name: str) -> None:
        """Try heads of one queue until one blocks it."""
        queue = self.queues[name]
        heads = sorted(
            (self.infos[u] for u, q in self.waiting.items() if q == name and u not in self.aside),
            key=lambda info: info.order,
        )
        for info in heads:
            if not self._try(queue, info):
                return

    def _try(self, queue: ClusterQueue, info: Info) -> bool:
        """Look at one head; whether the queue goes on to the next."""
        if info.conditions.get("Requeued", {}).get("status") == "False":
            self.aside.add(info.uid)
            return True
        why = self._inadmissible(queue, info)
        if why:
            self.aside.add(info.uid)
            self.status.pending(info, "Misconfigured", why)
            return True
        used = self.used.get(queue.name, {})
        found = assign(queue, info, used, self.flavors)
        if found.mode == Mode.FIT:
            self.waiting.pop(info.uid, None)
            self.status.admit(info, queue.name, found)
            return True
        if found.mode == Mode.PREEMPT:
            holders = [self.infos[uid] for uid in self.holders.get(queue.name, ())]
            victims = targets(queue, info, found, used, holders)
            if victims:
                self._preempt(queue, info, victims, found.message)
                return False
        self.status.pending(info, found.reason, found.message)
        if queue.strategy == "StrictFIFO":
            return False
        self.aside.add(info.uid)
        return True

    def _preempt(self, queue: ClusterQueue, info: Info, victims: list[Info], message: str) -> None:
        text = preemption_message(info, queue.name)
        for victim in victims:
            if not victim.true("Evicted"):
                self.status.evict(victim, "Preempted", text, preempted=True)
        self.status.pending(
            info,
            "WaitingForPreemptedWorkloads",
            f"{message}. Pending the preemption of {len(victims)} workload(s)",
        )

    def _inadmissible(self, queue: ClusterQueue, info: Info) -> str:
        stopped = self._stopped(info)
        if stopped:
            return f"{stopped} is stopped"
        missing = [f for group in queue.groups for f, _ in group.flavors if f not in self.flavors]
        if missing:
            return f"ClusterQueue {queue.name} is inactive: flavor {missing[0]} not found"
        space = self.store.tables["", "namespaces"].get("", info.namespace)
        labels = space.obj["metadata"].get("labels") or {} if space is not None else {}
        if queue.selector is None or not label_selector(queue.selector)(labels):
            return "Workload namespace doesn't match ClusterQueue selector"
        return ""


def _frees(before: Info, after: Info | None) -> bool:
    """Whether a Workload holds less than before."""
    now = after.usage if after is not None else {}
    return any(now.get(key, Fraction(0)) < amount for key, amount in before.usage.items())
