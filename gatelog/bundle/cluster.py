"""gatelog's own pods, seen through the API server: states, metrics, last log lines.

Secrets that those pods mount are read where this account may, only to find their values in the
pods' logs and remove them.

Invariant: nothing is written; each answer is bounded, and an answer that cannot be had is named
with its reason.
"""

import base64
from collections.abc import Iterator
from typing import Any, NamedTuple

from gatelog.cluster.ownership import COMPONENT_LABEL, NAME_LABEL, OWN_NAME
from gatelog.shell.errors import explain
from runtime.kube import KubeClient, KubeError, connect
from runtime.settings import Settings

MOST_PODS = 50
_MOST_BYTES = 4 * 1024 * 1024
_PORT = "prometheus.io/port"
_DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"
_PODS = "/api/v1/namespaces/{}/pods"


class Found(NamedTuple):
    """gatelog's own objects: texts by their name in the archive, (name, reason) of missing answers,
    and contents of Secrets, which are not written.
    """

    parts: dict[str, Any]
    texts: dict[str, str]
    missing: list[tuple[str, str]]
    secrets: list[str]


async def ask(settings: Settings, namespace: str, lines: int) -> Found:
    """Return the texts of the deployments in a namespace, with `lines` of each container's log."""
    found = Found({}, {}, [], [])
    try:
        kube = await connect(settings.kubernetes, part="bundle")
    except KubeError as error:
        found.missing.append(("cluster", explain(error).sentence))
        return found
    try:
        await _parts(kube, namespace, lines, found)
    except KubeError as error:
        found.missing.append(("cluster", explain(error).sentence))
    finally:
        await kube.close()
    return found


async def _parts(kube: KubeClient, namespace: str, lines: int, found: Found) -> None:
    deployments = await _listed(kube, _DEPLOYMENTS.format(namespace), "deployments", found)
    pods = await _listed(kube, _PODS.format(namespace), "pods", found)
    found.parts.update(
        namespace=namespace,
        deployments=list(map(_deployment, deployments)),
        pods=list(map(_pod, pods)),
    )
    if not pods and not found.missing:
        found.missing.append(
            ("logs and metrics of pods", f"namespace {namespace} has none of ours")
        )
    for name in sorted({name for pod in pods for name in _mounted(pod)}):
        await _secret(kube, namespace, name, found)
    for pod in pods:
        path = f"{_PODS.format(namespace)}/{pod['metadata']['name']}"
        for name, query in _logs(pod, lines):
            await _text(kube, f"{path}/log", query, f"logs/{name}", found)
        port = (pod["metadata"].get("annotations") or {}).get(_PORT)
        if port:
            name = f"metrics/{pod['metadata']['name']}.txt"
            await _text(kube, f"{path}:{port}/proxy/metrics", {}, name, found)


def _mounted(pod: dict[str, Any]) -> Iterator[str]:
    """Yield names of the Secrets that a pod mounts or takes variables from."""
    spec = pod.get("spec") or {}
    for volume in spec.get("volumes") or ():
        sources = [volume, *((volume.get("projected") or {}).get("sources") or ())]
        for secret in (one.get("secret") or {} for one in sources):
            yield from filter(None, (secret.get("secretName"), secret.get("name")))
    for container in spec.get("containers") or ():
        for entry in container.get("env") or ():
            reference = (entry.get("valueFrom") or {}).get("secretKeyRef") or {}
            yield from filter(None, (reference.get("name"),))
        for source in container.get("envFrom") or ():
            yield from filter(None, ((source.get("secretRef") or {}).get("name"),))


async def _secret(kube: KubeClient, namespace: str, name: str, found: Found) -> None:
    answer = await kube.request("GET", f"/api/v1/namespaces/{namespace}/secrets/{name}")
    if answer.status == 200:
        values = ((answer.json() or {}).get("data") or {}).values()
        found.secrets.extend(base64.b64decode(v).decode(errors="replace") for v in values)
    elif answer.status != 404:
        found.missing.append(
            (
                f"knowledge of Secret {name}",
                f"{answer.status}: where it is written bare it was not found",
            )
        )


def _logs(pod: dict[str, Any], lines: int) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield name and query of each log of a pod; of a restarted container also the log before."""
    for state in (pod.get("status") or {}).get("containerStatuses") or ():
        name, query = state["name"], {"container": state["name"], "tailLines": str(lines)}
        title = f"{pod['metadata']['name']}.{name}"
        yield f"{title}.log", query
        if state.get("restartCount"):
            yield f"{title}.previous.log", {**query, "previous": "true"}


async def _listed(kube: KubeClient, path: str, what: str, found: Found) -> list[dict[str, Any]]:
    query = {"labelSelector": f"{NAME_LABEL}={OWN_NAME}", "limit": str(MOST_PODS)}
    answer = await kube.request("GET", path, params=query)
    if answer.status != 200:
        found.missing.append((what, f"{answer.status}: {answer.message()}"))
        return []
    return list((answer.json() or {}).get("items") or ())


async def _text(
    kube: KubeClient, path: str, query: dict[str, str], name: str, found: Found
) -> None:
    try:
        answer = await kube.request("GET", path, params=query)
    except KubeError as error:
        found.missing.append((name, explain(error).sentence))
        return
    if answer.status == 200:
        found.texts[name] = answer.body[-_MOST_BYTES:].decode(errors="replace")
    else:
        found.missing.append((name, f"{answer.status}: {answer.message()}"))


def _deployment(obj: dict[str, Any]) -> dict[str, Any]:
    status = obj.get("status") or {}
    containers = obj["spec"].get("template", {}).get("spec", {}).get("containers") or ()
    return {
        "name": obj["metadata"]["name"],
        "generation": obj["metadata"].get("generation"),
        "images": [container.get("image") for container in containers],
        "replicas": obj["spec"].get("replicas"),
        "ready": status.get("readyReplicas", 0),
        "updated": status.get("updatedReplicas", 0),
    }


def _pod(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the fields to look at when a pod does not run: no environment, no annotations."""
    meta, status = obj["metadata"], obj.get("status") or {}
    return {
        "name": meta["name"],
        "part": (meta.get("labels") or {}).get(COMPONENT_LABEL, ""),
        "created": meta.get("creationTimestamp"),
        "node": (obj.get("spec") or {}).get("nodeName"),
        "phase": status.get("phase"),
        "containers": [
            {key: state.get(key) for key in ("name", "ready", "restartCount", "image", "imageID")}
            | {"state": state.get("state"), "last": state.get("lastState")}
            for state in status.get("containerStatuses") or ()
        ],
    }
