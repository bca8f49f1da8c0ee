"""A metrics server: what running pods use, as `metrics.k8s.io/v1beta1` behind an APIService.

Theory: the API server serves no metrics itself; without the APIService the group is unknown (404),
with one whose server does not answer it is 503. A metrics server samples kubelets every so often
and answers from its last samples, so two questions in between get the same; it knows label
selectors and no pages: ``limit`` and ``continue`` are ignored. Objects have no uid. What a pod
uses is in its annotation ``simcluster/usage``: ``cpu=250m,memory=1Gi``, for its first container.

Invariant: only pods in phase Running are listed, and only such as a sample was taken of.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from aiohttp import web

from simcluster import selectors
from simcluster.errors import Obj
from simcluster.quantity import parse
from tests.support.standin import SimCluster

ANNOTATION = "simcluster/usage"
GROUP_VERSION = "metrics.k8s.io/v1beta1"
SERVICE = "kube-system/metrics-server"
API_SERVICE: Obj = {
    "metadata": {"name": "v1beta1.metrics.k8s.io"},
    "spec": {
        "group": "metrics.k8s.io",
        "version": "v1beta1",
        "service": {"namespace": "kube-system", "name": "metrics-server", "port": 443},
        "insecureSkipTLSVerify": True,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
    },
}


class MetricsServer:
    """Serves a stand-in cluster's metrics, on loopback; `sample` takes a sample of every pod.

    ``asked`` are the path and query of each request. The cluster needs its ``front_proxy``.
    """

    def __init__(self, cluster: SimCluster) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self._cluster = cluster
        self._samples: list[Obj] = []
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> MetricsServer:
        """Register the APIService, and serve."""
        base = f"/apis/{GROUP_VERSION}"
        app = web.Application()
        app.router.add_get(base, self._discovery)
        app.router.add_get(f"{base}/pods", self._list)
        app.router.add_get(f"{base}/namespaces/{{namespace}}/pods", self._list)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self._cluster.webhook_services[SERVICE] = f"http://{host}:{port}"
        group, plural = "apiregistration.k8s.io", "apiservices"
        if not any(
            one["metadata"]["name"] == API_SERVICE["metadata"]["name"]
            for one in self._cluster.objects(group, plural)
        ):
            await self._cluster.create(group, plural, API_SERVICE)
        self.sample()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Be gone; the APIService stays, as it does when the pod behind it has died."""
        self._cluster.webhook_services.pop(SERVICE, None)
        if self._runner is not None:
            await self._runner.cleanup()

    def sample(self, at: datetime | None = None) -> None:
        """Look at all pods, now or as of `at`."""
        pods = self._cluster.objects("", "pods")
        running = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running"]
        self._samples = [_metrics(pod, at or datetime.now(UTC)) for pod in running]

    async def _discovery(self, request: web.Request) -> web.Response:
        pods = {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics"}
        found = {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": GROUP_VERSION,
            "resources": [pods | {"verbs": ["get", "list"]}],
        }
        return _json(found)

    async def _list(self, request: web.Request) -> web.Response:
        self.asked.append((request.path, dict(request.query)))
        namespace = request.match_info.get("namespace", "")
        holds = selectors.labels(request.query.get("labelSelector", ""))
        items = [
            one
            for one in self._samples
            if namespace in ("", one["metadata"]["namespace"])
            and (holds is None or holds(one["metadata"]["labels"]))
        ]
        found = {"kind": "PodMetricsList", "apiVersion": GROUP_VERSION, "metadata": {}}
        return _json(found | {"items": items})


def _metrics(pod: Obj, at: datetime) -> Obj:
    meta, when = pod["metadata"], at.strftime("%Y-%m-%dT%H:%M:%SZ")
    said = (meta.get("annotations") or {}).get(ANNOTATION, "cpu=1m,memory=4Mi")
    used = dict(part.split("=", 1) for part in said.split(","))
    usage: dict[str, Any] = {
        "cpu": f"{int(parse(used['cpu']) * 10**9)}n",
        "memory": f"{int(parse(used['memory']) / 1024)}Ki",
    }
    containers = [
        {"name": one["name"], "usage": usage if place == 0 else {"cpu": "0", "memory": "0"}}
        for place, one in enumerate(pod["spec"]["containers"])
    ]
    return {
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "creationTimestamp": when,
            "labels": meta.get("labels") or {},
        },
        "timestamp": when,
        "window": "15s",
        "containers": containers,
    }


def _json(found: Obj) -> web.Response:
    return web.Response(body=msgspec.json.encode(found) + b"\n", content_type="application/json")
