"""Pods and Workloads as an API server, a kubelet, a garbage collector and the actuator change them.

Theory. A decision is carried out at once and its outcome is an event of the same moment, together
with the events of the watch. The model has only the parts of a cluster that decisions depend on:
gates, finalizers, phases, deletion, ownership. A pod that ended, without a finalizer, is deleted at
once, so memory grows with live pods only; with `keeps` it stays until it is removed.

Invariant: every event of a pod or Workload has a higher resource version than the one before.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gatelog.whatif.arrivals import Life, Write
from gatelog.whatif.workloads import awaits_verdicts
from podgroup.log import events as e
from podgroup.model import commands as c
from podgroup.model.names import (
    MANAGED_LABEL,
    POD_FINALIZER,
    TERMINATION_TARGET,
    WORKLOAD_FINALIZER,
)
from podgroup.model.objects import (
    CheckView,
    ClusterQueueView,
    Condition,
    NodeView,
    OwnerRef,
    PodSetView,
    PodView,
    QueueObject,
    WorkloadView,
    split_owners,
)

_READY = (Condition(type="Ready", status="True"),)
NODE = "what-if"
"""The node of every pod that runs: placing pods on nodes is not played."""

Key = tuple[str, str]


class Simulated(Struct, gc=False):
    """A pod that exists in the play."""

    born: PodView
    """As its user created it."""
    view: PodView
    life: Life
    stopping: bool = False
    """The pod runs and was asked to end."""
    victim: bool = False
    """gatelog asked the pod to end."""


class _Workload(Struct):
    view: WorkloadView
    owners: list[OwnerRef]
    alive: set[str]
    rounds: int = 0
    """How many rounds of checks there were."""
    open: bool = False
    """The checks wait for the first answer."""


def _nothing(pod: Simulated) -> None:
    """Do nothing more."""


class Asked(Struct, frozen=True):
    """Checks of a Workload that are asked for its reservation; `number` counts such rounds."""

    key: Key
    number: int
    checks: tuple[str, ...]


class Hooks(Struct, frozen=True):
    """Calls to the loop: a pod may start, stops, is over, is gone; checks are due."""

    may_start: Callable[[Simulated], None] = _nothing
    stops: Callable[[Simulated], None] = _nothing
    over: Callable[[Simulated], None] = _nothing
    gone: Callable[[Simulated], None] = _nothing
    asked: Callable[[Asked], None] = lambda asked: None


class Cluster:
    """The simulated objects. Every change goes to `said` as the event that the log would have."""

    def __init__(
        self, hooks: Hooks | None = None, *, keeps: bool = False, checks: bool = False
    ) -> None:
        self.pods: dict[str, Simulated] = {}
        self.named: dict[Key, str] = {}
        """Namespace and name -> uid of the pod that has it."""
        self.now: datetime
        self.said: list[e.Event] = []
        self._hooks = hooks or Hooks()
        self._keeps = keeps
        self._checks = checks
        self._version = 1
        self._workloads: dict[Key, _Workload] = {}
        self._owned: dict[str, Key] = {}
        self._objects: dict[tuple[str, str, str], QueueObject] = {}
        self._uid = 0

    def bump(self) -> str:
        """Return the next resource version."""
        self._version += 1
        return str(self._version)

    def seen(self, version: str) -> None:
        """Go on above a resource version that is not of this cluster."""
        if version.isdecimal():
            self._version = max(self._version, int(version))

    # -- objects from before ---

    def take_over(self, born: PodView, view: PodView, life: Life, *, victim: bool) -> Simulated:
        """Go on with a pod as it is, which the log has brought up to here."""
        pod = self.pods[view.uid] = Simulated(born, view, life, victim=victim)
        self.named[view.namespace, view.name] = view.uid
        return pod

    def take_over_workload(self, view: WorkloadView) -> None:
        """Go on with a Workload as it is; its checks were asked."""
        owners = [*view.owners]
        owners += [
            OwnerRef(kind="Pod", name="", uid=uid)
            for uid in view.owner_uids
            if all(owner.uid != uid for owner in view.owners)
        ]
        alive = {uid for uid in view.owner_uids if uid in self.pods}
        key = view.namespace, view.name
        asked = awaits_verdicts(view)
        self._workloads[key] = _Workload(view, owners, alive, rounds=1, open=asked)
        self._owned.update((uid, key) for uid in alive)

    def has_workload(self, key: Key) -> bool:
        """Return whether there is such a Workload."""
        return key in self._workloads

    def workloads(self) -> Iterator[WorkloadView]:
        """Yield all of them."""
        return (found.view for found in self._workloads.values())

    # -- users and kubelet ---

    def put_object(self, view: QueueObject, relist: str = "") -> None:
        """Create or change a queue object, without its checks if no controller answers for them."""
        view = replace(view, resource_version=self.bump())
        if isinstance(view, ClusterQueueView) and not self._checks:
            view = replace(view, checks=())
        self._objects[(str(view.__struct_config__.tag), view.namespace, view.name)] = view
        self.said.append(e.ObjectApplied(object=view, relist=relist))
        if isinstance(view, NodeView):
            self.said.append(e.NodesTaken(at=self.now, taken={view.name: view.taken}))

    def remove_object(self, key: tuple[str, str, str]) -> None:
        """Delete a queue object, if it is there."""
        view = self._objects.pop(key, None)
        if view is not None:
            kind, namespace, name = key
            self.said.append(
                e.ObjectDeleted(
                    kind=kind,  # type: ignore[arg-type]  # one of objects.Kind
                    namespace=namespace,
                    name=name,
                    uid=view.uid,
                    resource_version=self.bump(),
                )
            )

    def create(self, view: PodView, life: Life) -> Simulated:
        """Create a pod."""
        pod = Simulated(view, replace(view, resource_version=self.bump()), life)
        self.pods[view.uid] = pod
        self.named[view.namespace, view.name] = view.uid
        self.said.append(e.PodApplied(pod=pod.view))
        return pod

    def write(self, one: Write) -> None:
        """Do to a Workload what another than gatelog did."""
        found = self._workloads.get(one.key)
        if one.made is not None:
            if found is None:
                owners = list(one.made.owners)
                uids = one.made.owner_uids
                alive = {uid for uid in uids if uid in self.pods}
                self._workloads[one.key] = _Workload(one.made, owners, alive)
                self._owned.update((uid, one.key) for uid in alive)
                self.change_workload(one.key)
        elif found is None:
            return
        elif one.fields is None:
            self._delete_workload(one.key)
        else:
            self.change_workload(one.key, **one.fields)

    def answer(self, asked: Asked, said: CheckView) -> None:
        """Have a controller say something of a check, if it is asked for still."""
        found = self._workloads.get(asked.key)
        if found is not None and found.rounds == asked.number:
            checks = tuple(said if c.name == said.name else c for c in found.view.checks)
            self.change_workload(asked.key, checks=checks)

    def run(self, pod: Simulated, *, ready: bool = True) -> None:
        """Have a pod run."""
        conditions = _READY if ready else ()
        self.change(
            pod, node=NODE, phase="Running", conditions=conditions, started_at=_whole(self.now)
        )

    def turn(self, pod: Simulated) -> None:
        """Have a pod that runs become ready, or cease to be so."""
        if pod.view.phase == "Running":
            kept = tuple(c for c in pod.view.conditions if c.type != "Ready")
            was = len(kept) < len(pod.view.conditions)
            self.change(pod, conditions=kept if was else kept + _READY)

    def end(self, pod: Simulated, phase: str) -> None:
        """Let a pod end; a pod without finalizers is then gone."""
        kept = tuple(x for x in pod.view.conditions if x.type == TERMINATION_TARGET)
        self.change(pod, phase=phase, conditions=kept)
        self._hooks.over(pod)
        self._remove(pod)

    def delete(self, pod: Simulated, grace_s: int | None = None, *, forced: bool = False) -> None:
        """Delete a pod as a user does: a pod that runs, or is about to, is asked to stop.

        `forced`: our finalizer is taken off as well.
        """
        if pod.view.deleted_at is not None:
            return
        # A bound pod that does not run yet has a kubelet that must answer, too.
        stops = pod.view.phase == "Running" or (not pod.view.gates and pod.life.stop_s > 0)
        fields: dict[str, Any] = {"deleted_at": self.now + timedelta(seconds=grace_s or 0)}
        if grace_s is not None:
            fields["grace_s"] = grace_s
        if forced:
            fields["finalizers"] = tuple(f for f in pod.view.finalizers if f != POD_FINALIZER)
        self.change(pod, **fields)
        if stops and not pod.view.ended:
            pod.stopping = True
            self._hooks.stops(pod)
        else:
            self._remove(pod)

    # -- the actuator ---

    def carry_out(self, decision: e.Decision, refused: e.OutcomeRecorded | None = None) -> None:
        """Carry out a decision, if it is not refused, and emit its outcome."""
        command = decision.command
        if isinstance(command, c.INTERNAL):
            return
        if refused is not None:
            self.said.append(replace(refused, decision=decision.id, group=decision.group))
            return
        target = command.target
        if target.kind == "Pod":
            status, version, uid = self._write_pod(command), "", target.uid
            if (pod := self.pods.get(uid)) is not None:
                version = pod.view.resource_version
        elif isinstance(command, c.WriteQueueStatus):
            status, version, uid = self._write_queue(command)
        elif isinstance(command, c.EmitEvent | c.ReportQueue | c.MarkInUse):
            status, version, uid = "applied", "", target.uid
        else:
            status, version, uid = self._write_workload(command)
        self.said.append(
            e.OutcomeRecorded(
                decision=decision.id,
                group=decision.group,
                status=status,  # type: ignore[arg-type]  # one of outcomes.Status
                uid=uid,
                resource_version=version,
            )
        )

    def _write_pod(self, command: c.AnyCommand) -> str:
        pod = self.pods.get(command.target.uid)
        if pod is None:
            return "obsolete"
        view = pod.view
        match command:
            case c.UngatePod():
                for wanted, live, gives_way in (
                    (command.labels, view.labels, ()),
                    (command.annotations, view.annotations, command.replaces),
                    (command.node_selector, view.node_selector, ()),
                ):
                    if any(live.get(k, v) != v for k, v in wanted.items() if k not in gives_way):
                        return "rejected"
                self.change(
                    pod,
                    writer="gatelog",
                    gates=tuple(g for g in view.gates if g not in command.gates),
                    labels={**view.labels, **command.labels},
                    annotations={**view.annotations, **command.annotations},
                    node_selector={**view.node_selector, **command.node_selector},
                    tolerations=view.tolerations
                    + tuple(t for t in command.tolerations if t not in view.tolerations),
                )
                if view.gates and not pod.view.gates:
                    self._hooks.may_start(pod)
            case c.FinalizePod():
                self._strip(pod)
            case c.KeepPod():
                self.change(pod, labels={**view.labels, MANAGED_LABEL: "true"})
            case c.DeletePod():
                self._strip(pod)
                if view.uid in self.pods:
                    self.delete(pod, command.grace_s)
            case c.StopPod():
                self._stop(pod, command)
            case _:
                pass  # a condition or Event that is not read here
        return "applied"

    def _stop(self, pod: Simulated, command: c.StopPod) -> None:
        said = Condition(
            type=TERMINATION_TARGET, status="True", reason=command.reason, message=command.message
        )
        pod.victim = True
        if not any(one.type == TERMINATION_TARGET for one in pod.view.conditions):
            self.change(pod, conditions=(*pod.view.conditions, said))
        if command.finalize:
            self._strip(pod)
        if pod.view.uid in self.pods:
            self.delete(pod, command.grace_s)

    def _write_queue(self, command: c.WriteQueueStatus) -> tuple[str, str, str]:
        target, said = command.target, command.condition
        view = self._objects.get((target.kind, target.namespace, target.name))
        if view is None:
            return "obsolete", "", ""
        changed: Any = replace(view, active=(said.status, said.reason, said.message))
        self.put_object(changed)
        return "applied", str(self._version), target.uid

    def _write_workload(self, command: c.AnyCommand) -> tuple[str, str, str]:
        key = (command.target.namespace, command.target.name)
        found = self._workloads.get(key)
        if isinstance(command, c.CreateWorkload):
            if found is not None:
                return "rejected", "", ""
            found = self._make_workload(key, command)
            return "applied", found.view.resource_version, found.view.uid
        if found is None or found.view.uid != command.target.uid:
            return "obsolete", "", ""
        match command:
            case c.UpdateWorkload():
                self._own(key, found, command.add_owners, controller=command.controller)
                self.change_workload(key, **_updated(found, command))
            case c.WriteWorkloadStatus():
                found.view = command.on(found.view)
                self.change_workload(key)
            case c.FinalizeWorkload():
                self.change_workload(key, finalizers=())
                if command.delete:
                    self._delete_workload(key)
            case _:
                pass
        return "applied", found.view.resource_version, found.view.uid

    def _make_workload(self, key: Key, command: c.CreateWorkload) -> _Workload:
        self._uid += 1
        view = WorkloadView(
            uid=f"workload-{self._uid}",
            namespace=key[0],
            name=key[1],
            resource_version="",
            created_at=_whole(self.now),
            labels=command.labels,
            annotations=command.annotations,
            finalizers=(WORKLOAD_FINALIZER,),
            queue=command.queue,
            priority=command.priority,
            priority_class=command.priority_ref.name if command.priority_ref else "",
            priority_class_kind=command.priority_ref.kind if command.priority_ref else "",
            max_execution_s=command.max_execution_s,
            pod_sets=_pod_sets(command.pod_sets),
        )
        if command.status is not None:
            view = command.status.on(view)
        made = self._workloads[key] = _Workload(view, [], set())
        self._own(key, made, command.owners, controller=command.controller)
        owners, owner_pods = split_owners(made.owners)
        self.change_workload(key, owners=owners, owner_pods=owner_pods)
        if made.owners and not made.alive:
            self._delete_workload(key)  # what a garbage collector does
        return made

    def _own(
        self, key: Key, found: _Workload, pods: tuple[c.ObjectRef, ...], *, controller: bool
    ) -> None:
        for pod in pods:
            found.owners.append(
                OwnerRef(kind=pod.kind, name=pod.name, uid=pod.uid, controller=controller)
            )
            if pod.uid in self.pods:
                found.alive.add(pod.uid)
                self._owned[pod.uid] = key
            elif (pod.kind, key[0], pod.name) in self._objects:
                found.alive.add(pod.uid)  # the StatefulSet of its pods

    def change_workload(self, key: Key, **fields: Any) -> None:
        """Change a Workload; a deleted Workload goes with its last finalizer."""
        found = self._workloads[key]
        found.view = replace(found.view, resource_version=self.bump(), **fields)
        self._ask(key, found)
        if found.view.deleted_at is not None and not found.view.finalizers:
            del self._workloads[key]
            self.said.append(e.WorkloadDeleted(workload=found.view))
        else:
            self.said.append(e.WorkloadApplied(workload=found.view))

    def _ask(self, key: Key, found: _Workload) -> None:
        """Begin a round of checks where a reservation waits for their answers."""
        checks = found.view.checks
        if not awaits_verdicts(found.view):
            found.open = False
        elif not found.open:
            found.open = True
            found.rounds += 1
            self._hooks.asked(Asked(key, found.rounds, tuple(c.name for c in checks)))

    def _delete_workload(self, key: Key) -> None:
        found = self._workloads[key]
        if found.view.deleted_at is None:
            self.change_workload(key, deleted_at=self.now)

    # -- what becomes of pods ---

    def change(self, pod: Simulated, **fields: Any) -> None:
        """Change a pod, as any client may."""
        pod.view = replace(pod.view, resource_version=self.bump(), **fields)
        self.said.append(e.PodApplied(pod=pod.view))

    def _strip(self, pod: Simulated) -> None:
        """Take our finalizer off a pod; if the pod goes with it, only its deletion is an event."""
        if POD_FINALIZER in pod.view.finalizers:
            left = tuple(f for f in pod.view.finalizers if f != POD_FINALIZER)
            pod.view = replace(pod.view, finalizers=left)
            self._remove(pod)
            if pod.view.uid in self.pods:
                self.change(pod)

    def _remove(self, pod: Simulated) -> None:
        """Remove a pod that is over and that no finalizer holds."""
        view = pod.view
        over = view.ended
        if POD_FINALIZER in view.finalizers or not (
            over or (view.deleted_at is not None and not pod.stopping)
        ):
            return
        if view.uid not in self.pods:
            return
        if over and (self._keeps or (pod.life.stays and view.deleted_at is None)):
            return
        self.remove(pod)
        if not over:
            self._hooks.over(pod)

    def remove(self, pod: Simulated) -> None:
        """Let a pod go that no finalizer holds."""
        view = pod.view
        del self.pods[view.uid]
        if self.named.get((view.namespace, view.name)) == view.uid:
            del self.named[view.namespace, view.name]
        self._hooks.gone(pod)
        gone = replace(view, resource_version=self.bump(), deleted_at=view.deleted_at or self.now)
        self.said.append(e.PodDeleted(pod=gone))
        key = self._owned.pop(view.uid, None)
        owned = self._workloads.get(key) if key is not None else None
        if key is not None and owned is not None:
            owned.alive.discard(view.uid)
            if not owned.alive:
                self._delete_workload(key)  # what a garbage collector does


def _updated(found: _Workload, command: c.UpdateWorkload) -> dict[str, Any]:
    spec: dict[str, Any] = {"labels": {**found.view.labels, **command.labels}}
    spec["annotations"] = command.annotated(found.view.annotations)
    if command.add_owners:
        spec["owners"], spec["owner_pods"] = split_owners(found.owners)
    for name in ("queue", "active", "priority"):
        if (value := getattr(command, name)) is not None:
            spec[name] = value
    if command.max_execution_s is not None:
        spec["max_execution_s"] = command.max_execution_s or None
    if command.priority_ref is not None:
        spec["priority_class"] = command.priority_ref.name
        spec["priority_class_kind"] = command.priority_ref.kind
    if command.pod_sets is not None:
        spec["pod_sets"] = _pod_sets(command.pod_sets)
    return spec


def _pod_sets(specs: tuple[c.PodSetSpec, ...]) -> tuple[PodSetView, ...]:
    return tuple(PodSetView(name=p.name, count=p.count, requests=p.requests) for p in specs)


def _whole(at: datetime) -> datetime:
    """Times of the API are whole seconds."""
    return at.replace(microsecond=0)
