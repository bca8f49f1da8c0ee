"""What must hold of every decision as it is made, and after every commit.

Invariant: nothing here changes anything.
"""

from typing import Any

from podgroup.engine import step
from podgroup.log import events as e
from podgroup.log.events import Batch
from podgroup.model import commands as c
from podgroup.model.names import GROUP_TOTAL_COUNT, MANAGED_LABEL, QUEUE_NAME
from podgroup.state.members import Flag
from tests.support.rough.ground import encoded, unpacked
from tests.support.rough.people import People
from tests.support.toy import taken


class Holding(People):
    """Looks at what is decided and at what is stored."""

    # -- what must hold ---

    def _made(self, new: list[e.Decision]) -> None:
        """What must hold of the decisions of one message, right after it."""
        world = self.world
        targets: dict[str, set[str]] = {}
        for d in new:
            command, uid = d.command, d.command.target.uid
            kind = type(command).__name__
            if command.target.kind == "Pod" and not isinstance(command, c.EmitEvent | c.ReportPod):
                targets.setdefault(uid, set()).add(kind)
                self.decided[target_of(d)] += 1
                made, refused = self.decided[target_of(d)], self.refused[target_of(d)]
                if uid not in self.tampered:
                    assert made <= 1 + refused, f"{kind} of {uid} decided {made} times: {d}"
            group: Any = world.groups.get(d.group)  # type: ignore[call-overload]
            match command:
                case c.UngatePod():
                    assert group.composition.done, f"ungated before it was composed: {d}"
                    assert group.quota.holding is not None, f"ungated without admission: {d}"
                    assert group.quota.holding.admitted, f"ungated without admission: {d}"
                    ends = ((uid, "DeletePod"), (uid, "StopPod"))
                    deleted = sum(self.decided[end] - self.refused[end] for end in ends)
                    assert deleted <= 0 or uid in self.tampered, f"deleted, then ungated: {d}"
                case c.DeletePod():
                    if uid not in self.tampered and not self._any_tampered(d.group):
                        ungated = self.decided[(uid, "UngatePod")]
                        assert not ungated, f"ungated, then deleted as excess: {d}"
                    self._not_below(group, d)
                case c.CreateWorkload() if "made again" not in d.message:
                    self._complete(group, command)
                case c.AdmitGroup():
                    used = taken(world, "cq")["f", "cpu"]
                    nominal = world.cluster_queues["cq"].groups[0].flavors[0].resources["cpu"]
                    assert used <= nominal.nominal, f"{used}m in use after {d}"
        for uid, kinds in targets.items():
            assert len(kinds) == 1, f"{sorted(kinds)} of pod {uid} at once"

    def _unstored(self, table: str, now: dict[Any, Any]) -> str:
        """Name what is stored of a table that is not what is known."""
        stored = self.stored[table]
        keys = [k for k in {**stored, **now} if stored.get(k) != now.get(k)]
        if table not in ("groups", "pods"):
            return f"{keys} stored, but known otherwise"
        said = []
        for key in keys:
            one, other = (
                unpacked(t[key]) if key in t else {"": f"no {key}"} for t in (stored, now)
            )
            said.append(
                {
                    k: (one.get(k), other.get(k))
                    for k in {**one, **other}
                    if one.get(k) != other.get(k)
                }
            )
        return f"stored and known differ: {said}"

    def _any_tampered(self, group: str) -> bool:
        members = self.world.members.get(group)  # type: ignore[call-overload]
        return members is None or any(uid in self.tampered for uid in members.flags)

    def _not_below(self, group: Any, d: e.Decision) -> None:
        if group is None or group.single:
            return
        members = self.world.members[group.id]
        if group.composition.done:
            for role in group.roles.values():
                pod = self.world.pods.get(d.command.target.uid)
                if pod is not None and pod.role == role.name and role.count:
                    left = members.count(Flag.ACTIVE, role.name) + role.succeeded_gone
                    assert left >= role.count, f"{left} of {role.count} pods left after {d}"
        elif not group.spec.dialect:
            left = members.count(Flag.ACTIVE)
            assert left >= group.spec.total, f"{left} of {group.spec.total} pods left after {d}"

    def _complete(self, group: Any, command: c.CreateWorkload) -> None:
        if group.single:
            return
        count = sum(p.count for p in command.pod_sets)
        pods = [self.world.pods[u] for u in self.world.members[group.id].flags]
        active = [p for p in pods if p.fate != "excess" and p.view.phase != "Failed"]
        if group.spec.dialect:
            assert count == 3, f"{count} places of 3 that are declared"
            return
        totals = {p.view.annotations[GROUP_TOTAL_COUNT] for p in active}
        assert totals == {str(count)}, f"composed with {count}, pods say {totals}"
        if not group.spec.fast:
            assert len(active) >= count, f"composed with {len(active)} of {count} pods"

    def checked(self) -> None:
        """What must hold after a commit."""
        world, now = self.world, encoded(self.world)
        for table in ("meta", "groups", "pods", "objects", "standings"):
            assert self.stored[table] == now[table], f"{table}: {self._unstored(table, now[table])}"
        again = self.loaded()
        step(again, world.meta.position, self.messages[-1][1], Batch(source="test", events=()))
        more = again.journal.decisions
        assert not more, f"decided anew with nothing new: {more}"
        busy = [
            p
            for p in self.pods.values()
            if p.uid in self.opened - self.tampered
            and not p.gates
            and p.phase in ("Pending", "Running")
            and p.deleted_at is None
            and not self.decided[(p.uid, "StopPod")] + self.decided[(p.uid, "DeletePod")]
            and {QUEUE_NAME, MANAGED_LABEL} <= set(p.labels)
        ]
        used = sum(p.requests["cpu"] for p in busy)
        charged = not "cpu".startswith(self.policy.exclude_resource_prefixes)
        most = self.largest_quota * 1000
        assert not charged or used <= most, f"{used}m run: {sorted(p.name for p in busy)}"
        for group in world.groups.values():
            members = world.members[group.id]
            if any(uid in self.tampered for uid in members.flags):
                continue
            for role in group.roles.values():
                taken = members.count(Flag.OPEN, role.name) + members.count(Flag.OPENING, role.name)
                if group.composition.done and role.count:
                    assert taken <= role.count, f"{taken} of {role.count} places of {role.name}"


def target_of(d: e.Decision) -> tuple[str, str]:
    return d.command.target.uid, type(d.command).__name__
