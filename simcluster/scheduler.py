"""A scheduler: binds ungated pods to nodes that fit, one at a time, as changes arrive.

Theory: each node keeps what its pods ask for; a pod that becomes schedulable is tried once, over
the nodes in turn. Pods that fit nowhere wait by shape (requests, selector, tolerations), so that
freed room is offered once per shape and not once per pod.

Invariant: the sum of requests of a node's unfinished pods never exceeds its allocatable by a
decision made here; work per change does not depend on the number of pods.
"""

import asyncio
from collections import OrderedDict, deque
from typing import Any

from simcluster.errors import Obj
from simcluster.nodes import Amount, Demand, NodeState
from simcluster.pods import PodWrites
from simcluster.store import Change, Rec, Store, Table

NAME = "default-scheduler"
_PER_TURN = 64


class Scheduler:
    """Follows pods and nodes through a store hook; writes through ``PodWrites``."""

    def __init__(
        self, store: Store, pods: PodWrites, delay_s: float = 0.0, *, events: bool = False
    ) -> None:
        self.store = store
        self.pods = pods
        self.delay_s = delay_s
        self.events = events
        self.nodes: dict[str, NodeState] = {}
        self.order: deque[str] = deque()
        self.ready: OrderedDict[str, None] = OrderedDict()
        self.waiting: dict[tuple[Any, ...], OrderedDict[str, None]] = {}
        self.shape_of: dict[str, tuple[Any, ...]] = {}
        self.placed: dict[str, tuple[str, Demand]] = {}
        self._bound: tuple[str, Demand] | None = None
        self._turn: asyncio.TimerHandle | asyncio.Handle | None = None
        store.hooks.append(self.seen)

    def stop(self) -> None:
        """Decide nothing more."""
        self.store.hooks.remove(self.seen)
        if self._turn is not None:
            self._turn.cancel()

    def seen(self, table: Table, change: Change) -> None:
        """A change of any table."""
        if table.resource.key == ("", "pods"):
            self._pod(change)
        elif table.resource.key == ("", "nodes"):
            self._node(change)

    def _node(self, change: Change) -> None:
        name = change.rec.name
        if change.type == "DELETED":
            self.nodes.pop(name, None)
            self.order = deque(n for n in self.order if n != name)
            return
        state = NodeState.from_object(change.rec.obj)
        old = self.nodes.get(name)
        if old is not None:
            state.used = old.used
        else:
            self.order.append(name)
        self.nodes[name] = state
        self._offer()

    def _pod(self, change: Change) -> None:
        pod, uid = change.rec.obj, change.rec.uid
        spec, phase = pod["spec"], (pod.get("status") or {}).get("phase")
        node = spec.get("nodeName")
        over = change.type == "DELETED" or phase in ("Succeeded", "Failed")
        if over:
            self._forget(uid)
            placed = self.placed.pop(uid, None)
            if placed is not None and placed[0] in self.nodes:
                self.nodes[placed[0]].release(placed[1])
                self._offer()
            return
        if node:
            self._forget(uid)
            if uid not in self.placed:
                known = self._bound
                demand = known[1] if known and known[0] == uid else Demand.of(spec)
                self.placed[uid] = (node, demand)
                if node in self.nodes:
                    self.nodes[node].reserve(demand)
            return
        gated = spec.get("schedulingGates") or "deletionTimestamp" in pod["metadata"]
        if gated or spec.get("schedulerName") != NAME:
            self._forget(uid)
            return
        if uid in self.shape_of and self.shape_of[uid] == _shape(spec):
            return  # waiting already, and nothing that matters changed
        self._forget(uid)
        self.ready[uid] = None
        self._soon()

    def _forget(self, uid: str) -> None:
        self.ready.pop(uid, None)
        shape = self.shape_of.pop(uid, None)
        if shape is not None:
            queue = self.waiting[shape]
            queue.pop(uid, None)
            if not queue:
                del self.waiting[shape]

    def _offer(self) -> None:
        """Room may have appeared: try the first pod of each waiting shape again."""
        for queue in list(self.waiting.values()):
            self.ready[next(iter(queue))] = None
        if self.ready:
            self._soon()

    def _soon(self) -> None:
        if self._turn is None:
            loop = asyncio.get_running_loop()
            if self.delay_s:
                self._turn = loop.call_later(self.delay_s, self._run)
            else:
                self._turn = loop.call_soon(self._run)

    def _run(self) -> None:
        self._turn = None
        for _ in range(_PER_TURN):
            if not self.ready:
                return
            uid, _none = self.ready.popitem(last=False)
            entry = self.store.by_uid.get(uid)
            if entry is not None:
                self._decide(entry[1])
        self._soon()

    def _decide(self, rec: Rec) -> None:
        spec, uid = rec.obj["spec"], rec.uid
        demand = Demand.of(spec)
        reasons: dict[str, int] = {}
        for _ in range(len(self.order)):
            node = self.nodes[self.order[0]]
            why = node.refuses(spec, demand)
            if why is None:
                shape = self.shape_of.get(uid)
                self._bound = (uid, demand)
                self.pods.bind(rec, node.name)
                if self.events:
                    text = f"Successfully assigned {rec.namespace}/{rec.name} to {node.name}"
                    self.pods.event(rec, "Scheduled", text)
                self.order.rotate(-1)
                if shape is not None and shape in self.waiting:
                    self.ready[next(iter(self.waiting[shape]))] = None
                return
            reasons[why] = reasons.get(why, 0) + 1
            self.order.rotate(-1)
        self._wait(rec, reasons)

    def _wait(self, rec: Rec, reasons: dict[str, int]) -> None:
        uid, shape = rec.uid, _shape(rec.obj["spec"])
        if self.shape_of.get(uid) != shape:
            self.shape_of[uid] = shape
            self.waiting.setdefault(shape, OrderedDict())[uid] = None
        total = len(self.nodes)
        parts = ", ".join(f"{count} {why}" for why, count in sorted(reasons.items()))
        text = (
            f"0/{total} nodes are available: {parts}."
            if total
            else ("no nodes available to schedule pods")
        )
        said = self.pods.unschedulable(rec, text)
        if said and self.events:
            self.pods.event(rec, "FailedScheduling", text, "Warning")


def _shape(spec: Obj) -> tuple[Any, ...]:
    """What decides where a pod fits."""
    demand = Demand.of(spec)
    selector = tuple(sorted((spec.get("nodeSelector") or {}).items()))
    tolerations = repr(spec.get("tolerations") or [])
    requests: tuple[tuple[str, Amount], ...] = tuple(sorted(demand.amounts.items()))
    return (requests, selector, tolerations, repr(spec.get("affinity")))
