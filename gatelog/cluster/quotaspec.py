"""Quotas as kueuectl takes them on a command line, and the resourceGroups they make.

    alpha:cpu=9;memory=36Gi,beta:cpu=4;memory=8Gi

Theory. A resource belongs to one group, and all flavors of a group cover the same resources. So
flavors that name the same resources share a group, and two that name some of the same and some
others go together in no way.

Invariant: what is refused is named with the option, the flavor and the resource.
"""

from collections.abc import Sequence
from typing import Any

from gatelog.shell.errors import UsageFailed
from podgroup.model.quantities import parse

Amounts = dict[str, dict[str, str]]
"""Quantity by flavor and resource."""


def read(option: str, given: Sequence[str]) -> Amounts:
    """Return what an option says.

    Raises:
        UsageFailed: it is not of the form above, or a quantity is none.
    """
    found: Amounts = {}
    for text in (part.strip() for value in given for part in value.split(",")):
        flavor, colon, rest = text.partition(":")
        if not (flavor and colon and rest):
            raise UsageFailed(f"{option} {text!r}: write it as FLAVOR:cpu=9;memory=36Gi")
        for pair in rest.split(";"):
            resource, equals, amount = (part.strip() for part in pair.partition("="))
            if not (resource and equals and amount):
                raise UsageFailed(f"{option} {text!r}: {pair!r} is not RESOURCE=QUANTITY")
            try:
                negative = parse(amount) < 0
            except ValueError as error:
                raise UsageFailed(f"{option}: {flavor} {resource}: {error}") from None
            if negative:
                raise UsageFailed(f"{option}: {flavor} {resource}: {amount} is less than nothing")
            if resource in found.setdefault(flavor, {}):
                raise UsageFailed(f"{option}: {flavor} {resource} is given twice")
            found[flavor][resource] = amount
    return found


def resource_groups(nominal: Amounts, borrowing: Amounts, lending: Amounts) -> list[dict[str, Any]]:
    """Return the resourceGroups of a ClusterQueue.

    Raises:
        UsageFailed: a limit for what has no nominal quota, or flavors that fit into no group.
    """
    for option, limits in (("--borrowing-limit", borrowing), ("--lending-limit", lending)):
        for flavor, resources in limits.items():
            for resource in resources:
                if resource not in nominal.get(flavor, {}):
                    raise UsageFailed(
                        f"{option}: {flavor} {resource} has no --nominal-quota: give it one"
                    )
    groups: list[dict[str, Any]] = []
    owners: dict[str, tuple[str, ...]] = {}
    for flavor, resources in nominal.items():
        covered = tuple(resources)
        group = next((g for g in groups if set(g["coveredResources"]) == set(covered)), None)
        if group is None:
            for resource in covered:
                if resource in owners:
                    raise UsageFailed(
                        f"--nominal-quota: flavor {flavor} has {', '.join(covered)} and another "
                        f"has {', '.join(owners[resource])}: flavors that share a resource have to "
                        "name the same ones"
                    )
            owners.update(dict.fromkeys(covered, covered))
            group = {"coveredResources": list(covered), "flavors": []}
            groups.append(group)
        group["flavors"].append(
            {
                "name": flavor,
                "resources": [
                    {"name": resource, "nominalQuota": resources[resource]}
                    | _limit("borrowingLimit", borrowing, flavor, resource)
                    | _limit("lendingLimit", lending, flavor, resource)
                    for resource in group["coveredResources"]
                ],
            }
        )
    return groups


def _limit(field: str, limits: Amounts, flavor: str, resource: str) -> dict[str, str]:
    amount = limits.get(flavor, {}).get(resource)
    return {} if amount is None else {field: amount}
