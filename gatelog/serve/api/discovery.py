"""Discovery: groups, versions and kinds, in the old documents and the aggregated document.

Invariant: both forms list the same.
"""

from typing import Any

from gatelog.serve.api import objects, visibility
from gatelog.serve.api.kinds import SERVED

VERSIONS = {objects.GROUP: objects.VERSION, visibility.GROUP: visibility.VERSION}
"""Group to the version that is served."""
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_QUEUES = (("clusterqueues", "ClusterQueue", False), ("localqueues", "LocalQueue", True))


def wants_aggregated(accept: str) -> bool:
    """Tell whether a client prefers the aggregated document."""
    first = accept.partition(",")[0]
    return {"g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"} <= set(first.split(";"))


def groups() -> dict[str, Any]:
    """Return the APIGroupList."""
    listed = [group(name) for name in VERSIONS]
    for one in listed:
        del one["kind"], one["apiVersion"]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}


def group(name: str) -> dict[str, Any]:
    """Return the APIGroup of a name."""
    version = {"groupVersion": f"{name}/{VERSIONS[name]}", "version": VERSIONS[name]}
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": name,
        "versions": [version],
        "preferredVersion": version,
    }


def resources(name: str) -> dict[str, Any]:
    """Return the APIResourceList of a group in its version."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{name}/{VERSIONS[name]}",
        "resources": _own() if name == objects.GROUP else _visible(),
    }


def _own() -> list[dict[str, Any]]:
    return [
        {
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": kind.verbs,
            "shortNames": list(kind.short_names),
            "categories": ["gatelog"],
        }
        for kind in SERVED
    ]


def _visible() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for plural, kind, namespaced in _QUEUES:
        own = {"namespaced": namespaced, "verbs": ["get"]}
        singular = kind.lower()
        summary = "PendingWorkloadsSummary"
        found += [
            {"name": plural, "singularName": singular, "kind": kind, **own, "verbs": []},
            {
                "name": f"{plural}/{visibility.PENDING}",
                "singularName": "",
                "kind": summary,
                **own,
            },
        ]
    return found


def aggregated() -> dict[str, Any]:
    """Return the APIGroupDiscoveryList."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": name},
                "versions": [
                    {
                        "version": version,
                        "resources": _aggregated(name, version),
                        "freshness": "Current",
                    }
                ],
            }
            for name, version in VERSIONS.items()
        ],
    }


def _aggregated(group: str, version: str) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for one in resources(group)["resources"]:
        plural, _, sub = one["name"].partition("/")
        kind = {"group": group, "version": version, "kind": one["kind"]}
        if sub:
            entry = {"subresource": sub, "responseKind": kind, "verbs": one["verbs"]}
            found[plural].setdefault("subresources", []).append(entry)
            continue
        found[plural] = {
            "resource": plural,
            "responseKind": kind,
            "scope": "Namespaced" if one["namespaced"] else "Cluster",
            "singularResource": one["singularName"],
            "verbs": one["verbs"],
            "shortNames": one.get("shortNames", []),
            "categories": one.get("categories", []),
        }
    return list(found.values())
