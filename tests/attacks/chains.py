"""Chains of three requests of a user with role `edit`, drawn at random, put to an API server.

    python -m tests.attacks.chains 10000              so many by each of `WAYS`, on the stand-in
    python -m tests.attacks.chains 10000 webhook      by one of them

No chain may end in a pod that is past its gate, or would be charged, though nothing admits here.
What a pod can be made of is enumerated in `tests.webhook.test_bypass`; here the server's own rules,
mutation, patches and PUT take part.
"""

import asyncio
import copy
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from podgroup.model import names
from simcluster.client import ApiFailure, Client

PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
GATE = {"name": names.ADMISSION_GATE}
LABELS = {names.QUEUE_NAME: ("q", "other", ""), names.MANAGED_LABEL: ("true", "no")}
ANNOTATIONS = {names.SUSPENDING_PARENT: ("x", ""), "kubernetes.io/config.mirror": ("x",)}
FINALIZERS = (names.POD_FINALIZER, "example.com/f")


def draw(chance: random.Random) -> list[dict[str, Any]]:
    """Three requests; the first makes the pod."""
    return [_create(chance), *(_change(chance) for _ in range(2))]


async def run(user: Client, chain: list[dict[str, Any]], every: bool = False) -> str:
    """Make the requests of a chain in turn; return what is wrong in the end, "" if nothing."""
    try:
        made = await user.create("pods", copy.deepcopy(chain[0]["body"]), "default")
    except ApiFailure:
        return ""
    path = f"{PODS}/{made['metadata']['name']}"
    try:
        for request in chain[1:]:
            await _send(user, path, request)
        status, found, _ = await user.request("GET", path)
        return "" if status == 404 else _wrong(made, found, every)
    finally:
        free = {"metadata": {"finalizers": None}, "spec": {}}
        await user.request("DELETE", path, params={"gracePeriodSeconds": "0"})
        await user.request("PATCH", path, free, content_type=MERGE)


def _wrong(made: dict[str, Any], pod: dict[str, Any], every: bool) -> str:
    """What a pod that nothing admitted must not be: without its gate, and yet in a queue."""
    labels = pod["metadata"].get("labels") or {}
    going = "deletionTimestamp" in pod["metadata"] and not pod["spec"].get("nodeName")
    if GATE in (pod["spec"].get("schedulingGates") or ()) or going:
        return ""
    if labels.get(names.QUEUE_NAME) or labels.get(names.MANAGED_LABEL) == names.MANAGED_VALUE:
        return "it is past its gate, in a queue"
    if names.SUSPENDING_PARENT in (made["metadata"].get("annotations") or {}):
        return "it is past the gate that it had for its parent"
    return "it was never gated" if every else ""


async def _send(user: Client, path: str, request: dict[str, Any]) -> None:
    if request["verb"] == "DELETE":
        await user.request("DELETE", path, params=request["params"])
        return
    if request["verb"] == "PATCH":
        await user.request("PATCH", path, request["body"], content_type=MERGE)
        return
    status, pod, _ = await user.request("GET", path)
    if status < 300:
        for part, fields in request["body"].items():
            for key, value in fields.items():
                if not isinstance(value, dict):
                    pod[part][key] = value
                    continue
                both = {**(pod[part].get(key) or {}), **value}
                pod[part][key] = {k: v for k, v in both.items() if v is not None}
        await user.request("PUT", path, pod)


def _create(chance: random.Random) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "generateName": "c-",
        "labels": _some(chance, LABELS),
        "annotations": _some(chance, ANNOTATIONS),
        "finalizers": [one for one in FINALIZERS if chance.random() < 0.3],
    }
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "i"}],
        "schedulerName": "nobody",
        "terminationGracePeriodSeconds": chance.choice((0, 3600)),
    }
    if chance.random() < 0.4:
        spec["schedulingGates"] = [GATE]
    elif chance.random() < 0.5:
        spec["nodeName"] = "does-not-exist"
    return {"verb": "POST", "body": {"metadata": metadata, "spec": spec}}


def _change(chance: random.Random) -> dict[str, Any]:
    if chance.random() < 0.15:
        return {"verb": "DELETE", "params": chance.choice(({}, {"gracePeriodSeconds": "3600"}))}
    metadata: dict[str, Any] = {
        "labels": _some(chance, LABELS, absent=True),
        "annotations": _some(chance, ANNOTATIONS, absent=True),
    }
    if chance.random() < 0.5:
        metadata["finalizers"] = [one for one in FINALIZERS if chance.random() < 0.4]
    spec: dict[str, Any] = {"schedulingGates": []} if chance.random() < 0.6 else {}
    verb = chance.choice(("PATCH", "PUT"))
    return {"verb": verb, "body": {"metadata": metadata, "spec": spec}}


def _some(
    chance: random.Random, table: dict[str, tuple[str, ...]], *, absent: bool = False
) -> dict[str, Any]:
    values: dict[str, tuple[str | None, ...]] = {**table}
    if absent:
        values = {key: (*known, None) for key, known in table.items()}
    return {key: chance.choice(known) for key, known in values.items() if chance.random() < 0.45}


WAYS = ("policy", "webhook", "policy every pod", "webhook every pod")


async def main(count: int, ways: tuple[str, ...] = WAYS) -> None:
    """Run so many chains through each door; say what got past."""
    from tests.attacks.test_at_the_door import opened, stand_in

    for way in ways:
        began_s, chance = time.monotonic(), random.Random(count)
        every, past = way.endswith("every pod"), []
        with tempfile.TemporaryDirectory() as folder:
            async with opened(way, Path(folder), stand_in(Path(folder))) as door:
                for _ in range(count):
                    chain = draw(chance)
                    if wrong := await run(door.user, chain, every):
                        past.append((wrong, chain))
        print(f"{way}: {len(past)} got past, {time.monotonic() - began_s:.0f} s", flush=True)
        for wrong, chain in past[:5]:
            print(" ", wrong, chain, flush=True)
        if past:
            sys.exit(1)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), tuple(sys.argv[2:]) or WAYS))
