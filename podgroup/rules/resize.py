"""Rule: the owner of a group's pods wants another number of pods than the group has places.

A group of a StatefulSet has the set's size, a group of a LeaderWorkerSet its replica's size, at any
time. Fewer pods: places and their quota go at once, and pods that still run beyond them are charged
until they have ended. More pods: where the group holds quota the new places wait for theirs, as a
workload of their own (`admit`), and running pods go on; a group without quota requests all.

Invariant: a pod beyond a group's admission passes its gate only after its quota is charged.
"""

from collections.abc import Mapping

import msgspec

from podgroup.log.records import Wanted
from podgroup.model.commands import ResizeGroup
from podgroup.model.objects import Assignment
from podgroup.model.topology import fewer
from podgroup.rules.helpers.context import Conclusions, RuleContext, group_ref
from podgroup.rules.helpers.places import staffed
from podgroup.rules.helpers.rule import BUILTIN, Rule, RuleDoc
from podgroup.rules.helpers.wording import owner_wants
from podgroup.state.facts import follows_owner, role_of, wanted_counts
from podgroup.state.group import Group


def resize(ctx: RuleContext, group: Group) -> Conclusions:
    """Give a group the size that the owner of its pods wants."""
    if not group.spec.owner or not staffed(group):
        return ()
    return _resize(ctx, group)


def _resize(ctx: RuleContext, group: Group) -> Conclusions:
    found = wanted_counts(ctx.world, group) if follows_owner(ctx.world, group) else None
    holding = group.quota.holding
    other = {} if found is None else _other(group, found)
    larger = {n: c for n, c in other.items() if holding is not None and c > group.roles[n].count}
    now = {name: count for name, count in other.items() if name not in larger}
    if now:
        assignments = None
        if holding is not None:
            given = holding.admission.assignments
            assignments = tuple(_fewer(one, now.get(role_of(group, one.name))) for one in given)
        yield ctx.decision(
            group,
            "resize",
            "OwnerScaled",
            owner_wants(group, now),
            ResizeGroup(target=group_ref(group), counts=now, assignments=assignments),
        )
    wanted = tuple(sorted(larger.items()))
    if wanted != group.composition.wanted:
        yield Wanted(group.id, wanted)


def _other(group: Group, wanted: Mapping[str, int]) -> dict[str, int]:
    """Return the new counts of roles whose number of places is to change.

    The last pods of a set that is scaled to nothing are charged until they are gone.
    """
    counts = {name: max(1, wanted.get(name, 1)) for name, role in group.roles.items() if role.count}
    return {name: count for name, count in counts.items() if count != group.roles[name].count}


def _fewer(given: Assignment, count: int | None) -> Assignment:
    """Return an assignment for fewer pods; claims that its pods share stay whole."""
    if count is None or not given.count:
        return given
    shared = given.shared
    return msgspec.structs.replace(
        given,
        usage={name: given.each(name) * count + shared.get(name, 0) for name in given.usage},
        count=count,
        place=fewer(given.place, count) if given.place is not None else None,
    )


RULE = Rule(
    name="resize",
    run=resize,
    mode=BUILTIN,
    docs=(
        RuleDoc(
            "resize",
            "builtin: the StatefulSet or LeaderWorkerSet that the pods are of has another size",
            "gives places back at once; new ones wait for quota beside what runs",
        ),
    ),
)
