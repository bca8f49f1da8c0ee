"""Objects the tests create, and small helpers to read watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

GATE = "kueue.x-k8s.io/admission"


def pod(name: str, *, gates: tuple[str, ...] = (), **spec: Any) -> dict[str, Any]:
    labels, annotations = spec.pop("labels", None), spec.pop("annotations", None)
    owners, finalizers = spec.pop("owners", None), spec.pop("finalizers", None)
    cpu = spec.pop("cpu", "1")
    meta: dict[str, Any] = {"name": name}
    for key, value in (
        ("labels", labels),
        ("annotations", annotations),
        ("ownerReferences", owners),
        ("finalizers", finalizers),
    ):
        if value:
            meta[key] = value
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    found: dict[str, Any] = {"restartPolicy": "Never", "containers": [container], **spec}
    if gates:
        found["schedulingGates"] = [{"name": gate} for gate in gates]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": found}


def owner(obj: dict[str, Any], **extra: Any) -> dict[str, Any]:
    meta = obj["metadata"]
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        **extra,
    }


def config_map(name: str, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **meta}, "data": {"k": "v"}}


async def take(
    items: AsyncIterator[tuple[str, dict[str, Any]]], count: int, timeout_s: float = 30
) -> list[tuple[str, dict[str, Any]]]:
    """The next items of a watch."""
    found = []
    async with asyncio.timeout(timeout_s):
        async for item in items:
            found.append(item)
            if len(found) == count:
                return found
    return found


def brief(items: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, str]]:
    return [(kind, obj["metadata"].get("name", "")) for kind, obj in items]
