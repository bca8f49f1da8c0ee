"""Sharing: which groups name which ResourceClaims, and which of them pays for a claim.

Theory. A ResourceClaim that pods name is held once, however many pods and groups use it. The first
group that holds quota and names the claim pays: by the time of its quota, then by id. The payer
follows from stored facts, so it is worked out anew on load.

Invariant: a claim has at most one payer, which holds quota and has a pod that names the claim.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from podgroup.model.ids import GroupID

Key = tuple[str, str]
"""Namespace and name of a ResourceClaim."""
Rank = tuple[int, bool, str]
"""Position of a group's quota, whether the claim was not counted then, the group's id."""


class Sharing(Struct):
    """Which groups name claims, which pay for them, and by which rank."""

    groups: dict[Key, dict[GroupID, int]] = field(default_factory=dict)
    """Claim -> groups that name it, with the number of their pods that do."""
    claims: dict[GroupID, dict[Key, None]] = field(default_factory=dict)
    ranks: dict[GroupID, Rank] = field(default_factory=dict)
    """Ranks of groups that hold quota and name a claim, or named one."""
    payers: dict[Key, GroupID] = field(default_factory=dict)

    def claims_of(self, group: GroupID) -> Iterable[Key]:
        """Return the claims that pods of a group name."""
        return self.claims.get(group, ())

    def naming(self, key: Key) -> Mapping[GroupID, int]:
        """Return the groups that name a claim, with the number of their pods that do."""
        return self.groups.get(key, {})

    def payer(self, key: Key) -> str:
        """Return the group that pays for a claim, "" if none does."""
        return self.payers.get(key, "")

    def name(self, key: Key, group: GroupID, pods: int) -> bool:
        """Enter that `pods` more of a group name a claim; tell whether another group pays now."""
        named = self.groups.setdefault(key, {})
        named[group] = named.get(group, 0) + pods
        if named[group] > 0:
            self.claims.setdefault(group, {})[key] = None
        else:
            del named[group]
            self.claims[group].pop(key)
            if not self.claims[group]:
                del self.claims[group]
            if not named:
                del self.groups[key]
        return self._settle(key, group)

    def hold(self, group: GroupID, rank: Rank | None) -> list[Key]:
        """Enter a group's rank, None without quota; return the claims that have another payer."""
        if rank is None:
            self.ranks.pop(group, None)
        else:
            self.ranks[group] = rank
        return [key for key in self.claims_of(group) if self._settle(key, group)]

    def _settle(self, key: Key, group: GroupID) -> bool:
        """Find the payer of a claim after a change of one group; tell whether it is another.

        All groups that name the claim are looked at only when the payer went.
        """
        ranks, payer = self.ranks, self.payers.get(key)
        if group in ranks and group in self.naming(key):
            if payer is not None and ranks[payer] <= ranks[group]:
                return False
            self.payers[key] = group
            return True
        if payer != group:
            return False
        paying = [one for one in self.naming(key) if one in ranks]
        if paying:
            self.payers[key] = min(paying, key=ranks.__getitem__)
        else:
            del self.payers[key]
        return True
