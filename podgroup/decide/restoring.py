"""Rule about Workloads that could not be made: a complete group without one gets it later.

Creating a Workload may be refused (a name that is taken, a sample pod that went away, a kind that
was not served for a while), and a Workload may come and go while no watch runs. Builtin admission
does not wait for the Workload, so the group may hold quota by then: its roles and counts stay as
they were composed. One that holds nothing is composed anew when that is not possible. While
it is refused the group says so (`explaining`, `reporting`), and each try comes later than the last.

Invariant: nothing is tried again before a pod of the group changed or half a minute passed.
"""

from podgroup.commands import PodSetSpec, ReleaseQuota
from podgroup.decide.composing import create
from podgroup.decide.context import Deciding, group_ref, pod_ref, workload_free
from podgroup.decide.order import active_key
from podgroup.decide.rule import Line, Rule
from podgroup.decide.sparing import spared
from podgroup.facts import set_named
from podgroup.members import Flag
from podgroup.names import SINGLE_PODSET
from podgroup.records import Reopened
from podgroup.view import Group, Pod


def restoring(d: Deciding, group: Group) -> None:
    """Make the Workload of a complete group that has none, or let it be composed anew."""
    if not group.composition.done or group.mirror.workload is not None or group.mirror.lost:
        return
    if group.ending.finish is not None or group.spec.prebuilt or not workload_free(group):
        return
    if "Workload" in d.world.meta.missing or not len(d.members(group)):
        return
    if spared(d.world, group):
        return
    foreign = (group.namespace, group.mirror.name) in d.world.workloads
    pods = {} if foreign else _pods(d, group)
    sets = _pod_sets(group, pods)
    if sets:
        everyone = [pod for name in pods for pod in pods[name]]
        create(d, group, sets, everyone, "the Workload is missing and made again: ")
        return
    if group.quota.holding is not None and not foreign and not any(pods.values()):
        message = "no pod has a place in the group, and no Workload can be made of them"
        d.emit(
            group,
            "dissolve",
            "NoPodsLeft",
            message,
            ReleaseQuota(
                target=group_ref(group), reason="NoPodsLeft", message=message, requeue=True
            ),
        )
    if group.quota.holding is None:
        # Also tells why there can be no Workload, if that is so.
        d.record(Reopened(group.id))


def _pods(d: Deciding, group: Group) -> dict[str, list[Pod]]:
    """Return the active pods of roles that have places, first those that keep theirs."""
    found: dict[str, list[Pod]] = {name: [] for name, r in group.roles.items() if r.count}
    for uid in d.members(group).with_flags(Flag.ACTIVE):
        pod = d.pod(uid)
        if pod.role in found:
            found[pod.role].append(pod)
    return {
        name: sorted(found[name], key=active_key)[: group.roles[name].count]
        for name in sorted(found, key=lambda n: (n.lower(), n))
    }


def _pod_sets(group: Group, pods: dict[str, list[Pod]]) -> tuple[PodSetSpec, ...]:
    """Return the podsets as they were composed, none if no pod shows the shape of one."""
    found = []
    for name, some in pods.items():
        role, declared = group.roles[name], set_named(group, name)
        template = declared.template if declared is not None else ""
        if not some and not template:
            return ()
        found.append(
            PodSetSpec(
                name=SINGLE_PODSET if group.single else name.lower(),
                count=role.count,
                requests=dict(role.requests),
                sample=None if template else pod_ref(some[0]),
                template=template,
            )
        )
    return tuple(found) if any(pods.values()) else ()


RESTORE = Rule(
    run=restoring,
    says=(
        Line(
            "compose",
            "a complete group has no Workload",
            "creates it again; if that cannot be, and it holds nothing, it is composed anew",
        ),
    ),
)
