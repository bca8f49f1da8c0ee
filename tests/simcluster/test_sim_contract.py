"""The 74 recorded exchanges with a kube-apiserver 1.36, replayed in order.

Compared: status, content type, Warning and Retry-After headers, and the whole body (managedFields
included) with uids, versions, generated names and continue tokens paired (see ``replay``).

Loosened, each for a reason (``LOOSE``):
- version: build facts of another binary; major, minor and emulation must agree.
- core discovery / discovery of a custom group: we serve a part of the kinds; every entry we list
  must equal the recorded one except ``storageVersionHash`` and ``categories``.
- body is not JSON / nonsense continue token: the middle of the message is Go's JSON decoder.
- ungated nodeSelector: the tail of the message is a diff of Go's internal struct.
- list at a future version: the message names the server's present version.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from simcluster.client import Client
from tests.simcluster.replay import Pairs, comparable, differences
from tests.support.standin import SimCluster

RECORDED = Path(__file__).parent.parent / "recordings" / "api_exchanges.jsonl.gz"
EXCHANGES = [json.loads(line) for line in gzip.decompress(RECORDED.read_bytes()).splitlines()]
LOOSE = {
    "body is not JSON": "couldn't get version/kind; json parse error: ",
    "list with a nonsense continue token": "invalid continue token: continue key is not valid: ",
    "ungated: nodeSelector is frozen": "if it was previously negative)\n",
    "list at a resourceVersion of the future": "Timeout: Too large resource version: 99999999, ",
}


def pod(name: str, managed: str) -> dict[str, Any]:
    """A pod as the recording's script made between two exchanges (p0 to p4)."""
    requests = {"cpu": "1000m", "memory": "1024Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/managed": managed}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "schedulerName": "nobody",
            "containers": [{"name": "c", "image": "x", "resources": {"requests": requests}}],
        },
    }


def shorten(body: Any, what: str) -> Any:
    """Cut the loosened part of messages."""
    if not isinstance(body, dict) or what not in LOOSE:
        return body
    upto = LOOSE[what]
    text = json.dumps(body)
    assert json.dumps(upto)[1:-1] in text, text
    cut = {**body, "message": body["message"].partition(upto)[0] + upto}
    for cause in (cut.get("details") or {}).get("causes") or ():
        if upto in cause["message"]:
            cause["message"] = cause["message"].partition(upto)[0] + upto
    return cut


def check_discovery(wanted: Any, got: Any) -> None:
    def plain(entry: dict[str, Any]) -> dict[str, Any]:
        found = {k: v for k, v in entry.items() if k not in ("storageVersionHash", "categories")}
        return found | {"verbs": sorted(found["verbs"])}

    recorded = {entry["name"]: plain(entry) for entry in wanted["resources"]}
    assert {k: v for k, v in wanted.items() if k != "resources"} == {
        k: v for k, v in got.items() if k != "resources"
    }
    for entry in got["resources"]:
        assert plain(entry) == recorded[entry["name"]]


async def watch(client: Client, path: str, query: dict[str, str], count: int) -> tuple[int, Any]:
    """Read as many items as were recorded, or the error body."""
    async with client._session.get(client.url + path, params=query) as answer:
        if answer.status != 200:
            return answer.status, [await answer.json()]
        lines = [await asyncio.wait_for(answer.content.readline(), 3) for _ in range(count)]
        if "timeoutSeconds" in query:
            assert await asyncio.wait_for(answer.content.read(), 3) == b""
        return 200, [json.loads(line) for line in lines]


async def replay_one(client: Client, exchange: dict[str, Any], pairs: Pairs) -> list[str]:
    what, response = exchange["what"], exchange["response"]
    request = pairs.translate(exchange["request"])
    query = {k: str(v) for k, v in (request.get("query") or {}).items()}
    path = request["path"]
    if "watch" in response:
        status, items = await watch(client, path, query, len(response["watch"]))
        pairs.learn(response["watch"], items)
        wanted = comparable(pairs.translate(response["watch"]))
        if status != response["status"]:
            return [f"status {status}"]
        return differences(wanted, comparable(items))
    headers = {"Accept": request["accept"]} if request.get("accept") else {}
    if what == "wrong token":
        headers["Authorization"] = "Bearer wrong"
    content_type = request.get("content_type") or "application/json"
    status, body, answered = await client.request(
        request["method"],
        path,
        request.get("body"),
        params=query,
        content_type=content_type,
        headers=headers,
    )
    if status != response["status"]:
        return [f"status: wanted {response['status']}, got {status}: {body}"]
    if what == "version":
        names = ("major", "minor", "emulationMajor", "emulationMinor")
        return differences({n: response["body"][n] for n in names}, {n: body[n] for n in names})
    if what in ("core discovery", "discovery of a custom group"):
        check_discovery(response["body"], body)
        return []
    pairs.learn(response["body"], body)
    wanted = shorten(comparable(pairs.translate(response["body"])), what)
    found = differences(wanted, shorten(comparable(body), what))
    for name, header in (("warning", "Warning"), ("retry_after", "Retry-After")):
        if name in response:
            found += differences(response[name], answered.get(header), f"header {header}")
    if "content_type" in response:
        kind = answered["Content-Type"]
        found += differences(response["content_type"], kind, "header Content-Type")
    return found


@pytest.mark.retried("managedFields are in the order of their second, which may pass in between")
async def test_recorded_exchanges(cluster: SimCluster) -> None:
    pairs = Pairs()
    wrong: list[str] = []
    async with Client(cluster.url, cluster.token, "Python/3.11 aiohttp") as client:
        for i, exchange in enumerate(EXCHANGES):
            if exchange["what"] == "list with a limit: first page":
                namespace = exchange["request"]["path"].split("/")[4]
                for n, managed in enumerate(("false", "true", "false", "true", "false")):
                    await client.create("pods", pod(f"p{n}", managed), namespace)
            found = await replay_one(client, exchange, pairs)
            wrong += [f"{i} {exchange['what']}: {line}" for line in found]
    assert len(EXCHANGES) == 74
    assert not wrong, "\n".join(wrong)


FOO = {"name": "job", "image": "job", "resources": {"requests": {"cpu": "1"}}}
REFUSED = {
    "add-gate": ("merge", {"spec": {"schedulingGates": [{"name": "x.io/y"}]}}),
    "node-selector-after-ungate": ("merge", {"spec": {"nodeSelector": {"a": "b"}}}),
    "json-test-fails": (
        "json",
        [
            {"op": "test", "path": "/metadata/uid", "value": "nope"},
            {"op": "add", "path": "/metadata/labels/x", "value": "y"},
        ],
    ),
    "stale-resource-version": (
        "merge",
        {"metadata": {"resourceVersion": "1", "labels": {"x": "y"}}},
    ),
    "absent": ("merge", {}),
}


async def test_recorded_refusals(cluster: SimCluster) -> None:
    """The refusals of bad_requests that need no webhook, bodies equal (struct diff cut off)."""
    raw = gzip.decompress(RECORDED.with_name("bad_requests.jsonl.gz").read_bytes())
    items = [json.loads(line) for line in raw.splitlines()]
    wanted = {i["object"]["request"]: i["object"] for i in items if i["resource"] == "api"}
    base = "/api/v1/namespaces/default/pods"
    async with Client(cluster.url, cluster.token) as client:
        spec = {"containers": [FOO], "nodeSelector": {"pool": "a"}}
        await client.create("pods", {"metadata": {"name": "foo"}, "spec": spec}, "default")
        bad = {"name": "bad-name", "labels": {"kueue.x-k8s.io/pod-group-name": "G_!"}}
        status, body, _ = await client.request("POST", base, {"metadata": bad, "spec": spec})
        assert (status, body) == (wanted["bad-name"]["status"], wanted["bad-name"]["body"])
        for name, (kind, patch) in REFUSED.items():
            status, body, _ = await client.request(
                "PATCH",
                f"{base}/{'absent' if name == 'absent' else 'foo'}",
                patch,
                content_type=f"application/{kind}-patch+json",
            )
            cut = "ungated: nodeSelector is frozen" if "selector" in name else ""
            assert status == wanted[name]["status"], name
            assert shorten(body, cut) == shorten(wanted[name]["body"], cut), name


def test_pairs_translate_inside_text() -> None:
    pairs = Pairs()
    pairs.learn({"uid": "aaaaaaaa-1"}, {"uid": "bbbbbbbb-2"})
    assert pairs.translate({"m": "uid aaaaaaaa-1 gone"}) == {"m": "uid bbbbbbbb-2 gone"}


@pytest.mark.parametrize(
    ("wanted", "got", "count"),
    [({"a": 1}, {"a": 1}, 0), ({"a": [1]}, {"a": [2]}, 1), ({"a": 1}, {"b": 1}, 2)],
)
def test_differences_are_found(wanted: Any, got: Any, count: int) -> None:
    assert len(differences(wanted, got)) == count
