"""Steps of users and admins, and of Kueue's core in kueue mode.

Invariant: what is changed here is changed at the API server, by what an API server allows.
"""

import msgspec

from podgroup.log import events as e
from podgroup.model.names import (
    ADMISSION_GATE,
    GROUP_NAME,
    GROUP_TOTAL_COUNT,
    MANAGED_LABEL,
    POD_FINALIZER,
    POD_GROUP_ROLE,
    PRIORITY_CLASS,
    QUEUE_NAME,
    RETRIABLE_IN_GROUP,
)
from podgroup.model.objects import LocalQueueView
from tests.support.rough.ground import GROUPS, SETS, Ground


class People(Ground):
    """Whoever acts on the API server from outside."""

    # -- users ---

    def step_create(self, group: int, cpu: int, more: int) -> None:
        """A pod of a group, or a single pod; `more` 5: one that was never gated (B17)."""
        self.serial += 1
        names = [*GROUPS, "s"]
        which = names[group % len(names)]
        name = f"{which}{self.serial}"
        cpu = 1 + cpu % 2
        labels = {PRIORITY_CLASS: ("low", "high")[more % 2]} if which in "bs" else {}
        gated = more != 5
        if which == "s":
            view = self.pod(name, cpu=cpu, labels=labels, gated=gated)
        elif which == "d" and more % 3 == 0:
            view = self.pod(name, "gd", None, sets=SETS, gated=gated)
        elif which == "d":
            role = {POD_GROUP_ROLE: "workers" if more % 3 == 1 else "nowhere"}
            view = self.pod(name, "gd", None, cpu=cpu, labels=role, gated=gated)
        else:
            total, annotations = GROUPS[which]
            annotations = dict(annotations)
            view = self.pod(
                name, f"g{which}", total, cpu, labels=labels, annotations=annotations, gated=gated
            )
        if not gated:
            self.tampered.add(view.uid)

    def step_fill(self, group: int, cpu: int) -> None:
        """What is missing of a group, all at once."""
        which = [*GROUPS][group % len(GROUPS)]
        there = [
            p
            for p in self.pods.values()
            if p.labels.get(GROUP_NAME) == f"g{which}"
            and p.phase not in ("Failed", "Succeeded")
            and p.deleted_at is None
        ]
        for number in range(GROUPS[which][0] - len(there)):
            index = [*GROUPS].index(which)
            self.step_create(index, cpu, number if which == "d" else cpu)

    def step_delete(self, pick: int) -> None:
        view = self._pick(pick)
        if view is not None and view.deleted_at is None:
            self._delete(view.uid)

    def step_run(self, pick: int) -> None:
        """The scheduler binds it and the kubelet starts it."""
        ready = [p for p in self.pods.values() if not p.gates and p.phase == "Pending"]
        view = self._pick(pick, [p for p in ready if p.deleted_at is None])
        if view is not None:
            self.run(view.name)

    def step_end(self, pick: int, good: int) -> None:
        """A running pod ends; one that is being deleted and ends badly leaves the node."""
        view = self._pick(pick, [p for p in self.pods.values() if p.phase == "Running"])
        if view is not None:
            self.change(view.uid, phase="Succeeded" if good % 2 else "Failed", conditions=())

    def step_relabel(self, pick: int, what: int) -> None:
        """A user changes a pod; some of it is refused by a webhook that was not asked."""
        view = self._pick(pick)
        if view is None:
            return
        labels, annotations = dict(view.labels), dict(view.annotations)
        match what % 7:
            case 0:
                labels[QUEUE_NAME] = "other" if labels.get(QUEUE_NAME) == "lq" else "lq"
            case 1:
                annotations[RETRIABLE_IN_GROUP] = "false"
            case 2:
                labels[PRIORITY_CLASS] = "low" if labels.get(PRIORITY_CLASS) == "high" else "high"
            case 3 if GROUP_TOTAL_COUNT in annotations:
                annotations[GROUP_TOTAL_COUNT] = str(int(annotations[GROUP_TOTAL_COUNT]) % 3 + 1)
            case 4:
                labels.pop(MANAGED_LABEL, None)
                self.tampered.add(view.uid)
            case 5:
                labels[MANAGED_LABEL] = "true"
            case 6 if GROUP_NAME in labels and view.gates:  # what runs stays where it is
                labels[GROUP_NAME] = "ga" if labels[GROUP_NAME] != "ga" else "gb"
                self.tampered.add(view.uid)
        if (labels, annotations) != (view.labels, view.annotations):
            self.change(view.uid, labels=labels, annotations=annotations)

    def step_tamper(self, pick: int, what: int) -> None:
        """Somebody removes our gate or our finalizer."""
        view = self._pick(pick)
        if view is None:
            return
        self.tampered.add(view.uid)
        if what % 2 and ADMISSION_GATE in view.gates:
            self.change(view.uid, gates=(), writer="kubectl-edit", written_at=self.now)
        elif not what % 2 and POD_FINALIZER in view.finalizers:
            self.change(view.uid, finalizers=())

    def step_drop(self, pick: int) -> None:
        """A user deletes a Workload."""
        names = sorted(n for n, w in self.workloads.items() if w.deleted_at is None)
        if names:
            self.delete_workload(names[pick % len(names)])

    def step_active(self, pick: int) -> None:
        """A user deactivates a Workload, or activates it again."""
        names = sorted(n for n, w in self.workloads.items() if w.deleted_at is None)
        if names:
            w = self.workloads[names[pick % len(names)]]
            self.put_workload(msgspec.structs.replace(w, active=not w.active))

    # -- admins ---

    def step_quota(self, cpu: int) -> None:
        self.quota = 1 + cpu % 7
        self.largest_quota = max(self.largest_quota, self.quota)
        self._queue()

    def step_stop_queue(self, how: int) -> None:
        self.stop_policy = ("None", "Hold", "HoldAndDrain")[how % 3]
        self._queue()

    def _queue(self) -> None:
        view = self.cluster_queue(
            self.quota, self.strategy, self.within, stop_policy=self.stop_policy
        )
        self.send(e.ObjectApplied(object=view))

    def step_local(self, _: int = 0) -> None:
        """The LocalQueue goes, or comes again."""
        if self.local is not None:
            gone, self.local = self.local, None
            self.send(
                e.ObjectDeleted(
                    kind="LocalQueue",
                    namespace="ns",
                    name="lq",
                    uid=gone.uid,
                    resource_version=self.bump(),
                )
            )
            return
        self.serial += 1
        self.local = LocalQueueView(
            uid=f"lq{self.serial}",
            namespace="ns",
            name="lq",
            resource_version=self.bump(),
            cluster_queue="cq",
        )
        self.send(e.ObjectApplied(object=self.local))

    # -- Kueue's core, in kueue mode ---

    def step_core(self, pick: int, what: int) -> None:
        """Kueue's core admits a Workload that fits, or evicts one that holds quota."""
        if self.mode != "kueue":
            return
        if what % 3 == 0:
            names = sorted(n for n in self.workloads if self._holds(n) and not self._evicted(n))
            if names:
                self.evict(names[pick % len(names)])
            return
        names = sorted(n for n in self.workloads if self._admissible(n))
        if names:
            self.admit(names[pick % len(names)])

    def _holds(self, name: str) -> bool:
        return bool(self.workloads[name].cluster_queue) and "Finished" not in self.true(name)

    def _evicted(self, name: str) -> bool:
        return "Evicted" in self.true(name)

    def _admissible(self, name: str) -> bool:
        w, true = self.workloads[name], self.true(name)
        if self._holds(name) or not w.active or w.deleted_at is not None or w.queue != "lq":
            return False
        if true & {"Finished", "WaitingForReplacementPods"} or self.local is None:
            return False
        if self.condition(name, "Requeued")[0] == "False":
            return False
        used = sum(self._demand(n) for n in self.workloads if self._holds(n))
        return used + self._demand(name) <= self.quota * 1000

    def _demand(self, name: str) -> int:
        w = self.workloads[name]
        return sum(
            (p.count - w.reclaimable.get(p.name, 0)) * p.requests.get("cpu", 0) for p in w.pod_sets
        )
