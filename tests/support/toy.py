"""A model of a cluster for tests of the pure core: pods, Workloads and queues as views.

Users and the kubelet act through its methods, decisions of the engine are carried out on it, and
what changes goes back into the engine as events, one message each. It knows gates, finalizers,
bound and unbound deletion, and owner garbage collection; nothing else.

Invariant: it changes views only in ways an API server would.
"""

import functools
import pickle
from collections import Counter, deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from importlib import metadata
from typing import Any, ClassVar, ParamSpec, cast

import msgspec

from ingest.kinds import watched_kinds
from ingest.translate.fields import annotations as read_annotations
from ingest.translate.items import Delta
from podgroup.engine import due_timers, new_world, step
from podgroup.log import events as e
from podgroup.log.events import Batch
from podgroup.log.records import Concluded
from podgroup.model import commands as c
from podgroup.model.limits import cut
from podgroup.model.names import (
    ADMISSION_GATE,
    GROUP_NAME,
    GROUP_TOTAL_COUNT,
    MANAGED_LABEL,
    POD_FINALIZER,
    QUEUE_NAME,
    TERMINATION_TARGET,
    WORKLOAD_FINALIZER,
)
from podgroup.model.objects import (
    Assignment,
    ClusterQueueView,
    Condition,
    FlavorQuotas,
    FlavorView,
    LocalQueueView,
    NamespaceView,
    OwnerRef,
    PodSetView,
    PodView,
    Quota,
    ResourceGroup,
    Selector,
    WorkloadPriorityClassView,
    WorkloadView,
    kinds_watched,
)
from podgroup.model.policy import Policy
from podgroup.rules import decides_by
from podgroup.state.world import World
from tests.support.wire import read_back

P = ParamSpec("P")

T0 = datetime(2026, 1, 1, tzinfo=UTC)
RELEASE = metadata.version("gatelog")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _left(view: PodView) -> tuple[Condition, ...]:
    """Conditions that outlive a pod's end."""
    return tuple(x for x in view.conditions if x.type == TERMINATION_TARGET)


def taken(world: World, cluster_queue: str) -> Counter[tuple[str, str]]:
    """What is charged to a ClusterQueue in all."""
    tally = world.quotas.tally(("ClusterQueue", "", cluster_queue))
    total = Counter(tally.reserved)
    total.update(tally.unadmitted)
    return total


class Toy:
    """One namespace `ns`, LocalQueue `lq`, ClusterQueue `cq`, flavor `f`; `cpu` quota in cores."""

    made: ClassVar[list["Toy"]] = []
    """Those of the test that runs (`tests.support.resting`)."""

    def __init__(
        self,
        cpu: int = 10,
        *,
        mode: str = "builtin",
        policy: Policy | None = None,
        strategy: str = "BestEffortFIFO",
        within: str = "LowerPriority",
        ready: bool = True,
    ) -> None:
        self.made.append(self)
        self.world = new_world("test", mode, policy)
        self.version = 10
        self.position = 0
        self.now = T0
        self.pods: dict[str, PodView] = {}
        self.last: dict[str, PodView] = {}
        """The last state of every pod there ever was, by name."""
        self.takes_status = True
        """A Workload is created with its status, as with gatelog's own CRD."""
        self.slow = False
        """Running pods that are deleted go on running until a test ends them."""
        self.workloads: dict[str, WorkloadView] = {}
        self.decisions: list[e.Decision] = []
        self.concluded: list[Concluded] = []
        """What was concluded besides, one entry per message."""
        self.messages: list[tuple[int, datetime, Batch]] = []
        self.queue: deque[e.Decision] = deque()
        self.held_back: deque[e.Decision] = deque()
        self.act = True
        self.events: list[tuple[str, str, str]] = []
        self.said: list[tuple[str, str, str]] = []
        """(object, reason, message) of every Event."""
        self.collects = True
        """There is a garbage collector."""
        self.unseen: set[str] = set()
        """Pods outside the watch's selector: what happens to them is no event."""
        self.refusing = ""
        """What the API server says to every new Workload, "" while it takes them."""
        self.rejecting: set[str] = set()
        """Commands that the API server rejects, by name."""
        self._uid = 0
        if ready:
            self.setup(cpu, strategy, within)

    # -- the log ---

    def send(self, *events: e.Event | e.Undecodable) -> None:
        self.position += 1
        self.now += timedelta(milliseconds=10)
        # By whoever may say all of it; the order says who, where several may.
        kinds = set(map(type, events))
        source = next((each for each, said in e.SAID_BY.items() if said >= kinds), "watch")
        batch = Batch(source=source, events=events)
        self.messages.append((self.position, self.now, batch))
        before = len(self.world.journal.decisions)
        said = len(self.world.journal.concluded)
        step(self.world, self.position, self.now, batch)
        new = self.world.journal.decisions[before:]
        self.decisions += new
        self.concluded += self.world.journal.concluded[said:]
        self.queue.extend(new)

    def settle(self, limit: int = 10_000) -> None:
        """Carry decisions out until none is left."""
        while self.queue and self.act:
            limit -= 1
            assert limit > 0, "decisions without end"
            self.execute(self.queue.popleft())

    def do(self, *events: e.Event | e.Undecodable) -> None:
        self.send(*events)
        self.settle()

    def setup(self, cpu: int, strategy: str, within: str, *, settled: bool = True) -> None:
        v = self.bump
        objects: dict[str, list[Any]] = {
            "Namespace": [NamespaceView(uid="n", name="ns", resource_version=v())],
            "ResourceFlavor": [
                FlavorView(
                    uid="f",
                    name="f",
                    resource_version=v(),
                    node_labels={"pool": "a"},
                    marked=True,
                )
            ],
            "WorkloadPriorityClass": [
                WorkloadPriorityClassView(uid=n, name=n, resource_version=v(), value=val)
                for n, val in (("high", 1000), ("low", 1))
            ],
            "ClusterQueue": [self.cluster_queue(cpu, strategy, within)],
            "LocalQueue": [
                LocalQueueView(
                    uid="lq",
                    namespace="ns",
                    name="lq",
                    resource_version=v(),
                    cluster_queue="cq",
                    active=("True", "Ready", "Can submit new workloads to localQueue"),
                )
            ],
        }
        if settled:
            self.send(self.settings())
        events: list[e.Event] = []
        kinds = kinds_watched(self.world.mode, self.world.policy)
        for kind in kinds:
            events.append(e.RelistStarted(kind=kind, relist=kind, by_settings=not settled))
            events += [e.ObjectApplied(object=o, relist=kind) for o in objects.get(kind, [])]
            events.append(e.RelistCompleted(kind=kind, relist=kind, resource_version=v()))
            if kind != kinds[0]:  # as many messages in all as there are kinds
                self.send(*events)
                events = []

    def settings(self) -> e.SettingsRecorded:
        """What a projector with this mode and policy would say, so that it need not."""
        return decides_by(self.world.mode, self.world.policy, RELEASE)

    def cluster_queue(
        self, cpu: int, strategy: str = "BestEffortFIFO", within: str = "LowerPriority", **more: Any
    ) -> ClusterQueueView:
        more.setdefault("marked", True)
        more.setdefault("active", ("True", "Ready", "Can admit new workloads"))
        return ClusterQueueView(
            uid="cq",
            name="cq",
            resource_version=self.bump(),
            strategy=strategy,
            namespaces=Selector(),
            within_cluster_queue=within,
            groups=(
                ResourceGroup(
                    covered=("cpu",),
                    flavors=(FlavorQuotas(name="f", resources={"cpu": Quota(nominal=cpu * 1000)}),),
                ),
            ),
            **more,
        )

    def bump(self) -> str:
        self.version += 1
        return str(self.version)

    # -- users and kubelet ---

    def pod(
        self,
        name: str,
        group: str = "",
        total: int | str | None = 0,
        cpu: int = 1,
        *,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        role: str = "",
        gated: bool = True,
        settle: bool = True,
        **more: Any,
    ) -> PodView:
        self._uid += 1
        lab = {QUEUE_NAME: "lq", MANAGED_LABEL: "true", **(labels or {})}
        ann = dict(annotations or {})
        if group:
            lab[GROUP_NAME] = group
            if total is not None:
                ann.setdefault(GROUP_TOTAL_COUNT, str(total))
        if more.get("sets"):
            more.setdefault("sets_key", repr(more["sets"]))
        ann = self._seen(ann)
        view = PodView(
            uid=f"u{self._uid:04d}",
            namespace=more.pop("namespace", "ns"),
            name=name,
            resource_version=self.bump(),
            labels=lab,
            annotations=ann,
            role=role or f"r{cpu}",
            role_annotated=True,
            **cast(
                dict[str, Any],
                {
                    "created_at": self.now.replace(microsecond=0),
                    "finalizers": (POD_FINALIZER,),
                    "phase": "Pending",
                    "gates": (ADMISSION_GATE,) if gated else (),
                    "requests": {"cpu": cpu * 1000},
                }
                | more,
            ),
        )
        self.pods[view.uid] = self.last[name] = view
        self.send(e.PodApplied(pod=view))
        if settle:
            self.settle()
        return view

    def _seen(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """Return what the ingester lets through to the log: a rule can go by nothing else."""
        kept = read_annotations(dict(annotations), self.world.policy.annotation_keys_to_copy)[0]
        if lost := sorted({*annotations} - {*kept}):  # pytest shows it of a story that fails
            print(f"kept out of the log: {lost}; podgroup/model/keys.py lets in what has `core`")
        return kept

    def named(self, name: str) -> PodView:
        return next(p for p in self.pods.values() if p.name == name)

    def arrives(self, pod: Mapping[str, Any]) -> PodView:
        """A pod comes as the API server writes it, as a line of the ingester's watch.

        What is left out is filled in as it does: of namespace, labels, gate and finalizer as well.
        """
        self._uid += 1
        meta = {
            "uid": f"u{self._uid:04d}",
            "namespace": "ns",
            "resourceVersion": self.bump(),
            "creationTimestamp": self.now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "finalizers": [POD_FINALIZER],
            **pod["metadata"],
            "labels": {
                QUEUE_NAME: "lq",
                MANAGED_LABEL: "true",
                **pod["metadata"].get("labels", {}),
            },
        }
        box = {"name": "main", "image": "box", "resources": {"requests": {"cpu": "1"}}}
        spec = {"schedulingGates": [{"name": ADMISSION_GATE}], "containers": [box]}
        whole = {"metadata": meta, "spec": {**spec, **pod.get("spec", {})}, "status": {}}
        line = msgspec.json.encode({"type": "ADDED", "object": whole})
        copied = self.world.policy.annotation_keys_to_copy
        rows = {row.kind: row for row in watched_kinds("", copied=copied)}
        item = rows["Pod"].translator.item(line)
        assert isinstance(item, Delta) and isinstance(item.event, e.PodApplied), item
        view = item.event.pod
        self.pods[view.uid] = self.last[view.name] = view
        self.do(item.event)
        return view

    def change(self, uid: str, *, settle: bool = True, **fields: Any) -> None:
        if "annotations" in fields:
            fields["annotations"] = self._seen(fields["annotations"])
        view = msgspec.structs.replace(self.pods[uid], resource_version=self.bump(), **fields)
        self.pods[uid] = self.last[view.name] = view
        if (
            view.deleted_at is not None
            and not view.finalizers
            and (not view.node or view.phase in ("Succeeded", "Failed"))
        ):
            del self.pods[uid]
            if uid not in self.unseen:
                self.send(e.PodDeleted(pod=view, filtered=True))
            self.collect(uid)
        elif MANAGED_LABEL in view.labels or uid not in self.unseen:
            self.unseen.discard(uid)
            self.send(e.PodApplied(pod=view))
        if settle:
            self.settle()

    def unlabel(self, name: str) -> None:
        """Take the managed label off; a watch with a selector says DELETED, with the state before.

        From then on nothing is seen of the pod until it has the label again.
        """
        before = self.named(name)
        labels = {k: v for k, v in before.labels.items() if k != MANAGED_LABEL}
        left = msgspec.structs.replace(before, resource_version=self.bump(), labels=labels)
        self.pods[left.uid] = self.last[name] = left
        self.unseen.add(left.uid)
        seen = msgspec.structs.replace(before, resource_version=left.resource_version)
        self.do(e.PodDeleted(pod=seen, filtered=True))

    def run(self, *names: str) -> None:
        for name in names:
            view = self.named(name)
            assert not view.gates, f"{name} is gated"
            self.change(
                view.uid,
                node="node",
                phase="Running",
                conditions=(Condition(type="Ready", status="True"),),
            )

    def end(self, *names: str, phase: str = "Succeeded") -> None:
        for name in names:
            view = self.named(name)
            self.change(view.uid, phase=phase, conditions=_left(view))

    def delete(self, name: str) -> None:
        self._delete(self.named(name).uid)
        self.settle()

    def unreach(self, *names: str) -> None:
        """No kubelet renews the Lease of their node: the node controller says so of its pods."""
        for name in names:
            view = self.named(name)
            left = tuple(one for one in view.conditions if one.type != "Ready")
            ready = Condition(type="Ready", status="False")
            self.change(view.uid, conditions=(*left, ready))

    def unfit(self, name: str, message: str = "0/3 nodes are available") -> None:
        """The scheduler finds no node for a pod."""
        told = Condition(
            type="PodScheduled", status="False", reason="Unschedulable", message=message
        )
        self.change(self.named(name).uid, conditions=(told,))

    def ask(self, name: str, grace_s: int | None, **more: Any) -> None:
        """Delete a pod with a grace period, as the API server writes it down: a sum that wraps."""
        view = self.named(name)
        grace_s = view.termination_grace_s if grace_s is None else grace_s
        since_ns = int((self.now - _EPOCH).total_seconds()) * 10**9 + grace_s * 10**9
        seconds = ((since_ns + 2**63) % 2**64 - 2**63) // 10**9
        self.change(
            view.uid, deleted_at=_EPOCH + timedelta(seconds=seconds), grace_s=grace_s, **more
        )

    def _delete(self, uid: str, grace_s: int | None = None) -> None:
        view = self.pods[uid]
        shortened = grace_s is not None and view.grace_s is not None and grace_s < view.grace_s
        if view.deleted_at is None or shortened:
            due = self.now + timedelta(seconds=grace_s or 0)
            given_s = view.grace_s if grace_s is None else grace_s
            self.change(uid, deleted_at=due, grace_s=given_s, settle=False)
        view = self.pods.get(uid, view)
        if uid in self.pods and view.node and view.phase == "Running" and not self.slow:
            self.change(uid, phase="Failed", conditions=_left(view), settle=False)

    def delete_workload(self, name: str) -> None:
        w = self.workloads[name]
        self.put_workload(msgspec.structs.replace(w, deleted_at=self.now))
        self.settle()

    def put_workload(self, view: WorkloadView) -> WorkloadView:
        view = read_back(msgspec.structs.replace(view, resource_version=self.bump()))
        if view.deleted_at is not None and not view.finalizers:
            self.workloads.pop(view.name, None)
            self.send(e.WorkloadDeleted(workload=view))
        else:
            self.workloads[view.name] = view
            self.send(e.WorkloadApplied(workload=view))
        return view

    def collect(self, uid: str) -> None:
        for w in list(self.workloads.values()):
            if self.collects and any(o.uid == uid for o in w.owners):
                left = tuple(o for o in w.owners if o.uid in self.pods)
                if left:
                    self.put_workload(msgspec.structs.replace(w, owners=left))
                else:
                    self.put_workload(msgspec.structs.replace(w, deleted_at=self.now))

    # -- the actuator ---

    def execute(self, d: e.Decision) -> None:
        command = d.command
        if isinstance(command, c.INTERNAL):
            return
        status, version, uid = self._carry_out(command)
        refused = self.refusing or type(command).__name__ in self.rejecting
        for event in command.events if status != "rejected" else ():
            self.events.append((event.type, event.reason, event.message))
            on = event.on or command.target
            self.said.append((on.name, event.reason, event.message))
        self.send(
            e.OutcomeRecorded(
                decision=d.id,
                group=d.group,
                status=status,
                http_status=(422 if refused else 409) if status == "rejected" else 0,
                message=self.refusing or "no" if status == "rejected" else "",
                uid=uid,
                resource_version=version,
            )
        )

    def _carry_out(self, command: c.AnyCommand) -> tuple[Any, str, str]:
        t = command.target
        if t.kind == "Pod" and t.uid not in self.pods:
            return "obsolete", "", ""
        if type(command).__name__ in self.rejecting:
            return "rejected", "", ""
        match command:
            case c.UngatePod():
                p = self.pods[t.uid]
                for wanted, live in (
                    (command.labels, p.labels),
                    (command.annotations, p.annotations),
                    (command.node_selector, p.node_selector),
                ):
                    gives_way = command.replaces if live is p.annotations else ()
                    if any(live.get(k, v) != v for k, v in wanted.items() if k not in gives_way):
                        return "rejected", "", ""
                self.change(
                    t.uid,
                    settle=False,
                    writer="gatelog",
                    gates=tuple(g for g in p.gates if g not in command.gates),
                    labels={**p.labels, **command.labels},
                    annotations={**p.annotations, **command.annotations},
                    tolerations=p.tolerations
                    + tuple(t for t in command.tolerations if t not in p.tolerations),
                    node_selector={**p.node_selector, **command.node_selector},
                )
            case c.FinalizePod():
                self._strip(t.uid)
            case c.KeepPod():
                labels = {**self.pods[t.uid].labels, MANAGED_LABEL: "true"}
                self.change(t.uid, settle=False, labels=labels)
            case c.DeletePod():
                self._strip(t.uid)
                if t.uid in self.pods:
                    self._delete(t.uid)
            case c.StopPod():
                said = Condition(
                    type=TERMINATION_TARGET,
                    status="True",
                    reason=command.reason,
                    message=command.message,
                )
                self.change(t.uid, settle=False, conditions=(*self.pods[t.uid].conditions, said))
                if command.finalize:
                    self._strip(t.uid)
                if t.uid in self.pods:
                    self._delete(t.uid, command.grace_s)
            case c.CreateWorkload():
                if self.refusing or t.name in self.workloads:
                    return "rejected", "", ""
                self._uid += 1
                first = (command.status if self.takes_status else None) or c.WriteWorkloadStatus(
                    target=t
                )
                w = self.put_workload(
                    first.on(
                        WorkloadView(
                            uid=f"w{self._uid}",
                            namespace="ns",
                            name=t.name,
                            resource_version="",
                            created_at=self.now,
                            labels=command.labels,
                            annotations=command.annotations,
                            finalizers=(WORKLOAD_FINALIZER,),
                            owners=tuple(
                                OwnerRef(
                                    kind="Pod",
                                    name=o.name,
                                    uid=o.uid,
                                    controller=command.controller,
                                )
                                for o in command.owners
                            ),
                            queue=command.queue,
                            priority=command.priority,
                            priority_class=command.priority_ref.name
                            if command.priority_ref
                            else "",
                            priority_class_kind=(
                                command.priority_ref.kind if command.priority_ref else ""
                            ),
                            max_execution_s=command.max_execution_s,
                            pod_sets=tuple(
                                PodSetView(name=p.name, count=p.count, requests=p.requests)
                                for p in command.pod_sets
                            ),
                        )
                    )
                )
                return "applied", w.resource_version, w.uid
            case c.WriteQueueStatus():
                written = self._write_queue(t, command.condition)
                return "applied" if written else "obsolete", written, t.uid
            case c.MarkInUse():
                return "applied", self._mark(t, off=command.off), t.uid
            case c.EmitEvent() | c.ReportPod() | c.ReportQueue():
                return "applied", "", ""
            case c.UpdateWorkload() | c.WriteWorkloadStatus() | c.FinalizeWorkload():
                return self._write_workload(command)
        p2 = self.pods.get(t.uid)
        return "applied", p2.resource_version if p2 else "", t.uid

    def _write_queue(self, on: c.ObjectRef, said: Condition) -> str:
        world = self.world
        live: Any = (
            world.local_queues.get((on.namespace, on.name))
            if on.kind == "LocalQueue"
            else (world.cohorts if on.kind == "Cohort" else world.cluster_queues).get(on.name)
        )
        if live is None:
            return ""
        active = (said.status, said.reason, cut(said.message))  # as ingest reads it
        after = msgspec.structs.replace(live, resource_version=self.bump(), active=active)
        self.send(e.ObjectApplied(object=after))
        return after.resource_version

    def _mark(self, on: c.ObjectRef, *, off: bool) -> str:
        world = self.world
        stores: dict[str, Any] = {
            "ClusterQueue": world.cluster_queues,
            "ResourceFlavor": world.flavors,
            "AdmissionCheck": world.checks,
        }
        live, version = stores[on.kind][on.name], self.bump()
        if off and live.deleting:
            gone = e.ObjectDeleted(
                kind=on.kind,  # type: ignore[arg-type]  # a literal of the wire
                namespace="",
                name=on.name,
                uid=on.uid,
                resource_version=version,
            )
            self.send(gone)
        else:
            after = msgspec.structs.replace(live, resource_version=version, marked=not off)
            self.send(e.ObjectApplied(object=msgspec.structs.replace(after, marking="")))
        return version

    def _strip(self, uid: str) -> None:
        p = self.pods[uid]
        if POD_FINALIZER in p.finalizers:
            self.change(
                uid, settle=False, finalizers=tuple(f for f in p.finalizers if f != POD_FINALIZER)
            )

    def _write_workload(self, command: Any) -> tuple[Any, str, str]:
        w = self.workloads.get(command.target.name)
        if w is None or w.uid != command.target.uid:
            return "obsolete", "", ""
        match command:
            case c.UpdateWorkload():
                spec: dict[str, Any] = {}
                if command.queue is not None:
                    spec["queue"] = command.queue
                if command.max_execution_s is not None:
                    spec["max_execution_s"] = command.max_execution_s or None
                if command.active is not None:
                    spec["active"] = command.active
                spec["labels"] = {**w.labels, **command.labels}
                spec["annotations"] = command.annotated(w.annotations)
                if command.priority is not None:
                    spec["priority"] = command.priority
                if command.priority_ref is not None:
                    spec["priority_class"] = command.priority_ref.name
                    spec["priority_class_kind"] = command.priority_ref.kind
                if command.pod_sets is not None:
                    spec["pod_sets"] = tuple(
                        PodSetView(name=p.name, count=p.count, requests=p.requests)
                        for p in command.pod_sets
                    )
                w = msgspec.structs.replace(
                    w,
                    **spec,
                    owners=w.owners
                    + tuple(
                        OwnerRef(kind="Pod", name=o.name, uid=o.uid, controller=command.controller)
                        for o in command.add_owners
                    ),
                )
            case c.FinalizeWorkload():
                w = msgspec.structs.replace(w, finalizers=())
                if command.delete and w.deleted_at is None:
                    self.put_workload(w)  # two requests, and the watch shows the first
                    w = msgspec.structs.replace(w, deleted_at=self.now)
            case c.WriteWorkloadStatus():
                w = command.on(w)
        w = self.put_workload(w)
        return "applied", w.resource_version, w.uid

    # -- time, and Kueue's scheduler (mode="kueue") ---

    def wait(self, seconds: float) -> None:
        """Let time pass; timers that fall due fire."""
        self.now += timedelta(seconds=seconds)
        due = due_timers(self.world, self.now)
        if due:
            self.do(*due)

    def workload(self, name: str, *pod_sets: tuple[str, int], **fields: Any) -> WorkloadView:
        """Put a Workload there as somebody else made it."""
        self._uid += 1
        fields = {"finalizers": (WORKLOAD_FINALIZER,), "queue": "lq"} | fields
        view = self.put_workload(
            WorkloadView(
                uid=f"w{self._uid}",
                namespace="ns",
                name=name,
                resource_version="",
                created_at=self.now,
                pod_sets=tuple(
                    PodSetView(name=n, count=count, requests={"cpu": 1000}) for n, count in pod_sets
                ),
                **fields,
            )
        )
        self.settle()
        return view

    def say(self, name: str, *conditions: Condition, **fields: Any) -> None:
        """Set conditions and other fields of a Workload, as Kueue's core does."""
        w = self.workloads[name]
        merged = {x.type: x for x in w.conditions} | {x.type: x for x in conditions}
        fields = {"conditions": tuple(merged.values())} | fields
        self.put_workload(msgspec.structs.replace(w, **fields))
        self.settle()

    def reserve(self, name: str, **fields: Any) -> None:
        """Reserve quota for a Workload."""
        w = self.workloads[name]
        again = [
            Condition(type=kind, status="False", reason="QuotaReserved", message="Previously: x")
            for kind in ("Evicted", "Preempted")
            if kind in self.true(name)
        ]
        self.say(
            name,
            Condition(type="QuotaReserved", status="True", reason="QuotaReserved", at=self.now),
            *again,
            cluster_queue="cq",
            assignments=tuple(
                Assignment(
                    name=p.name,
                    flavors={"cpu": "f"},
                    usage={"cpu": p.requests.get("cpu", 0) * p.count},
                    count=p.count,
                )
                for p in w.pod_sets
            ),
            **fields,
        )

    def admit(self, name: str, **fields: Any) -> None:
        """Admit a Workload."""
        self.reserve(name)
        admitted = Condition(type="Admitted", status="True", reason="Admitted", at=self.now)
        self.say(name, admitted, **fields)

    def evict(self, name: str, reason: str = "Preempted", message: str = "By test") -> None:
        """Evict a Workload."""
        self.say(
            name,
            Condition(type="Evicted", status="True", reason=reason, message=message, at=self.now),
        )

    # -- what tests ask ---

    def condition(self, workload: str, kind: str) -> tuple[str, str, str]:
        """(status, reason, message) of a condition, or three empty strings."""
        for x in self.workloads[workload].conditions:
            if x.type == kind:
                return x.status, x.reason, x.message
        return "", "", ""

    def stopped(self, name: str) -> tuple[str, str]:
        """(reason, message) of a pod's TerminationTarget, or two empty strings."""
        for x in self.last[name].conditions:
            if x.type == TERMINATION_TARGET:
                return x.reason, x.message
        return "", ""

    def held(self, name: str) -> bool:
        return POD_FINALIZER in self.named(name).finalizers

    def there(self) -> set[str]:
        return {p.name for p in self.pods.values()}

    def group(self, name: str) -> Any:
        return next(g for g in self.world.groups.values() if g.name == name)

    def true(self, workload: str) -> set[str]:
        return {x.type for x in self.workloads[workload].conditions if x.status == "True"}

    def gated(self, name: str) -> bool:
        return ADMISSION_GATE in self.named(name).gates

    def rules(self) -> list[str]:
        return [d.rule for d in self.decisions]


def kept(play: Callable[P, Toy]) -> Callable[P, Toy]:
    """Play a story once for the same arguments: each call has a copy of its own of the toy.

    For what many cases begin with: a copy takes a fifth of the time of a short story.
    """
    stories: dict[Any, bytes] = {}

    @functools.wraps(play)
    def copied(*args: P.args, **more: P.kwargs) -> Toy:
        key = (args, *sorted(more.items()))
        if key not in stories:
            toy = play(*args, **more)
            Toy.made.remove(toy)
            stories[key] = pickle.dumps(toy, pickle.HIGHEST_PROTOCOL)
        found: Toy = pickle.loads(stories[key])
        Toy.made.append(found)
        return found

    return copied
