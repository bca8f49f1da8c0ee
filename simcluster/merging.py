"""List types of the API: which lists are maps by a key, which are sets, which are replaced whole.

Theory: strategic merge, server-side apply and managed fields all need the same knowledge about
lists and atomic maps; it lives here once, by field name, which is unambiguous for the kinds served.

Invariant: a name is in at most one of the three tables.
"""

from functools import lru_cache
from typing import Any

import msgspec

Key = tuple[str, ...]

MAP_KEYS: dict[str, Key] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "containerStatuses": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "imagePullSecrets": ("name",),
    "schedulingGates": ("name",),
    "resourceClaims": ("name",),
    "ports": ("containerPort", "protocol"),
    "volumeMounts": ("mountPath",),
    "hostAliases": ("ip",),
    "conditions": ("type",),
    "ownerReferences": ("uid",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "podSets": ("name",),
    "podSetAssignments": ("name",),
    "reclaimablePods": ("name",),
    "admissionChecks": ("name",),
    "webhooks": ("name",),
}
SETS = frozenset({"finalizers"})
ATOMIC = frozenset(
    {
        "nodeSelector",
        "involvedObject",
        "regarding",
        "related",
        "selector",
        "labelSelector",
        "namespaceSelector",
        "objectSelector",
        "secretRef",
        "configMapRef",
        "fieldRef",
        "resourceFieldRef",
        "claimRef",
    }
)
# Items of these lists are replaced whole although the list is a map.
ATOMIC_ITEMS = frozenset({"ownerReferences"})
# Names whose first key alone identifies an item in a strategic merge patch.
STRATEGIC_KEYS: dict[str, str] = {name: key[0] for name, key in MAP_KEYS.items()} | {
    "admissionChecks": "name"
}
_DEFAULTS = {"protocol": "TCP"}


def item_key(name: str, item: Any) -> str | None:
    """The ``k:{...}`` member of a list item as managed fields write it; ``None`` if it has none."""
    if not isinstance(item, dict):
        return None
    parts = MAP_KEYS[name]
    if len(parts) == 1 and isinstance(value := item.get(parts[0]), str):
        return _single_key(parts[0], value)
    found: dict[str, Any] = {}
    for part in parts:
        value = item.get(part, _DEFAULTS.get(part))
        if value is None:
            return None
        found[part] = value
    return "k:" + msgspec.json.encode(found).decode()


@lru_cache(maxsize=8192)
def _single_key(part: str, value: str) -> str:
    """The member of an item with one key; cached: container names and condition types repeat."""
    return "k:" + msgspec.json.encode({part: value}).decode()


def by_key(name: str, items: list[Any]) -> dict[str, Any] | None:
    """Items of an associative list by key; ``None`` when an item has no key or keys repeat."""
    found: dict[str, Any] = {}
    for item in items:
        key = item_key(name, item)
        if key is None or key in found:
            return None
        found[key] = item
    return found
