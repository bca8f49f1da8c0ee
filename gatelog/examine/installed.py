"""The installation in a cluster, seen through the API server alone: deployments, queues, groups.

Theory. A laptop has a kubeconfig and neither log nor database. The API server shows how many
replicas of each part are ready, which queues are not active, and, where `gatelog serve` is
installed, which groups wait.

Invariant: nothing is written; a check that this account may not make is reported as skipped, never
as absent.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from gatelog.cluster import clusterinfo
from gatelog.cluster.ownership import COMPONENT_LABEL, NAME_LABEL, OWN_NAME
from gatelog.examine.findings import Finding, fail, ok, skip, some, warn
from gatelog.shell.remedies import Installation, remedy
from gatelog.viacluster.apiserver import BASE
from podgroup.admission.matching import contradiction
from podgroup.model import least_run
from podgroup.model.names import ACTIVE, FINISHED, LEAST_RUN_ANNOTATION
from podgroup.model.objects import FlavorView
from runtime.kube import KubeClient

AREA = "deployments"
QUEUES = "queues"
MOST = 500
"""Groups that are looked at."""
_NAMED = 5
_PARTS = ("ingest", "projector", "actuator")
STANDALONE = "standalone"
"""The part that has all others, in one pod."""


async def deployments(kube: KubeClient, at: Installation) -> list[Finding]:
    """Say how the parts run; [] where none is installed in the namespace of `at`."""
    namespace = at.namespace
    path, ours = f"/apis/apps/v1/namespaces/{namespace}", f"labelSelector={NAME_LABEL}%3D{OWN_NAME}"
    found = await clusterinfo.seen(kube, f"{path}/deployments?{ours}")
    if found is None:
        return [skip(AREA, "parts", f"this account may not look at deployments in {namespace}")]
    alone = f"{path}/statefulsets?{ours},{COMPONENT_LABEL}%3D{STANDALONE}"
    single = (await clusterinfo.seen(kube, alone) or {}).get("items") or []
    by_part: dict[str, dict[str, Any]] = {}
    for obj in (*(found.get("items") or ()), *single):
        labels, name = obj["metadata"].get("labels") or {}, obj["metadata"]["name"]
        by_part[labels.get(COMPONENT_LABEL, name)] = obj
    if not by_part:
        if not at.applied:
            return []
        said = f"no part runs in {namespace}, where gatelog is installed"
        return [fail(AREA, "parts", said, remedy("part away", at, _PARTS[0]))]
    findings = [_deployment(part, obj, at) for part, obj in sorted(by_part.items())]
    absent = [part for part in _PARTS if part not in by_part and STANDALONE not in by_part]
    if absent:
        findings.append(
            fail(
                AREA,
                "parts",
                f"{namespace} has no deployment of {', '.join(absent)}",
                remedy("objects", at),
            )
        )
    return findings


def _deployment(part: str, obj: dict[str, Any], at: Installation) -> Finding:
    name, status = obj["metadata"]["name"], obj.get("status") or {}
    wanted = (obj.get("spec") or {}).get("replicas", 1)
    ready = status.get("readyReplicas", 0)
    namespace = at.namespace
    detail = f"{ready} of {wanted} ready ({namespace}/{name})"
    kind = "statefulset" if part == STANDALONE else "deployment"
    look = f"kubectl -n {namespace} describe {kind} {name}, and logs {kind}/{name}"
    if wanted == 0:
        return fail(AREA, part, detail, remedy("part away", at, part))
    if not ready:
        return fail(AREA, part, detail, look)
    if ready < wanted:
        return warn(AREA, part, detail, look)
    return ok(AREA, part, detail)


async def queues(kube: KubeClient) -> list[Finding]:
    """Say which queues are there, which of them admit nothing, and which flavors are at odds."""
    version = (await clusterinfo.kueue(kube)).version
    if not version:
        return []
    api = f"/apis/{clusterinfo.KUEUE_GROUP}/{version}"
    found = [await _queues(kube, api, plural) for plural in ("clusterqueues", "localqueues")]
    return [*found, *await _flavors(kube, api), *await _classes(kube, api)]


async def _classes(kube: KubeClient, api: str) -> list[Finding]:
    """Report classes whose least run time cannot be read; [] where all can."""
    broken: list[str] = []
    for obj in await clusterinfo.every(kube, f"{api}/workloadpriorityclasses") or ():
        try:
            least_run.read((obj["metadata"].get("annotations") or {}).get(LEAST_RUN_ANNOTATION, ""))
        except ValueError as error:
            broken.append(f"WorkloadPriorityClass {obj['metadata']['name']}: {error}")
    if not broken:
        return []
    return [
        warn(
            QUEUES,
            "least run times",
            f"{some(broken, _NAMED)}: its groups run as long as queueing.least_run_s says",
            f"write annotation {LEAST_RUN_ANNOTATION} as it is said there, or take it off",
        )
    ]


async def _flavors(kube: KubeClient, api: str) -> list[Finding]:
    """Say in which ClusterQueues pods that ask for two resources find no node for both."""
    queues = await clusterinfo.every(kube, f"{api}/clusterqueues")
    flavors = await clusterinfo.every(kube, f"{api}/resourceflavors")
    if queues is None or flavors is None:
        return [skip(QUEUES, "flavors", "this account may not list resourceflavors")]
    known = {
        name: FlavorView(uid="", name=name, resource_version="", node_labels=labels)
        for obj in flavors
        for name in (obj["metadata"]["name"],)
        for labels in ((obj.get("spec") or {}).get("nodeLabels") or {},)
    }
    apart = [said for obj in queues for said in _apart(obj, known)]
    if not apart:
        return []
    return [
        warn(
            QUEUES,
            "flavors",
            some(apart, _NAMED),
            "give the flavors nodeLabels that one node can have, or put the resources into one "
            "resource group",
        )
    ]


def _apart(obj: Mapping[str, Any], known: Mapping[str, FlavorView]) -> Iterator[str]:
    """Say of each two resource groups of a ClusterQueue of which no two flavors share a node."""
    groups = (obj.get("spec") or {}).get("resourceGroups") or ()
    for one, other in combinations(groups, 2):
        pairs = [
            (known[a["name"]], known[b["name"]])
            for a in one["flavors"]
            for b in other["flavors"]
            if a["name"] in known and b["name"] in known
        ]
        at_odds = [contradiction(*pair) for pair in pairs]
        if pairs and all(at_odds):
            resources = f"{one['coveredResources'][0]} and {other['coveredResources'][0]}"
            yield (
                f"ClusterQueue {obj['metadata']['name']}: a pod that asks for {resources} never "
                f"starts, since {at_odds[0]}"
            )


async def _queues(kube: KubeClient, api: str, plural: str) -> Finding:
    items = await clusterinfo.every(kube, f"{api}/{plural}")
    if items is None:
        return skip(QUEUES, plural, f"this account may not list {plural}")
    if not items:
        return warn(
            QUEUES,
            plural,
            "there is none: no group can be admitted",
            "make one as in deploy/examples/first-queue.yaml",
        )
    broken = [said for obj in items if plural == "clusterqueues" for said in _incomplete(obj)]
    if broken:
        return fail(
            QUEUES,
            plural,
            some(broken, _NAMED),
            "set spec.namespaceSelector ({} selects every namespace) and spec.resourceGroups, or "
            "spec.stopPolicy: Hold where nothing is to be admitted",
        )
    ending = any(_ends(obj) for obj in items)
    workloads = await clusterinfo.every(kube, f"{api}/workloads") if ending else None
    idle = [
        said + (_holders(workloads, obj["metadata"]["name"]) if _ends(obj) else "")
        for obj in items
        if (said := _inactive(obj))
    ]
    if not idle:
        return ok(QUEUES, plural, f"{len(items)}, none of them says that it is inactive")
    return warn(
        QUEUES,
        plural,
        f"{len(idle)} of {len(items)} admit no group: {some(idle, _NAMED)}",
        "; ".join(
            [
                *_resumed(items, plural),
                "one that is being deleted goes when those that hold its quota have ended; of the "
                "others the message says what is missing",
            ]
        ),
    )


def _resumed(items: list[dict[str, Any]], plural: str) -> list[str]:
    """Return the lines that resume the queues that were stopped, the first few."""
    return [
        f"gatelog resume {plural.removesuffix('s')} {meta['name']}"
        + (f" -n {meta['namespace']}" if meta.get("namespace") else "")
        for obj in items
        for meta in (obj["metadata"],)
        if (obj.get("spec") or {}).get("stopPolicy", "None") != "None"
    ][:_NAMED]


def _incomplete(obj: Mapping[str, Any]) -> Iterator[str]:
    """Say what a ClusterQueue lacks without which it admits nothing, though it counts as active."""
    spec, name = obj.get("spec") or {}, obj["metadata"]["name"]
    if spec.get("stopPolicy", "None") != "None":
        return
    if spec.get("namespaceSelector") is None:
        yield f"ClusterQueue {name} has no namespaceSelector, so it admits from no namespace"
    if not spec.get("resourceGroups"):
        yield f"ClusterQueue {name} has no resourceGroups, so it has no quota for any resource"


def _ends(obj: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in obj["metadata"] and "namespace" not in obj["metadata"]


def _holders(found: list[dict[str, Any]] | None, queue: str) -> str:
    """Say which Workloads keep a ClusterQueue from being deleted; None: they may not be listed."""
    if found is None:
        return ", and this account may not list workloads, which may hold it"
    held = sorted(
        f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
        for obj in found
        if _admitted_by(obj) == queue and not _finished(obj)
    )
    if not held:
        return ", held by no Workload that is seen here"
    more = f" and {len(held) - _NAMED} more" if len(held) > _NAMED else ""
    return f", held by {', '.join(held[:_NAMED])}{more}"


def _admitted_by(workload: Mapping[str, Any]) -> str:
    admission = (workload.get("status") or {}).get("admission") or {}
    return str(admission.get("clusterQueue") or "")


def _finished(workload: Mapping[str, Any]) -> bool:
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == FINISHED and one.get("status") == "True" for one in conditions)


def _inactive(obj: Mapping[str, Any]) -> str:
    meta = obj["metadata"]
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == ACTIVE and condition.get("status") == "False":
            place = f"{meta['namespace']}/" if meta.get("namespace") else ""
            return f"{place}{meta['name']} ({condition.get('reason')}: {condition.get('message')})"
    return ""


async def groups(kube: KubeClient) -> Finding:
    """Report waiting groups, as `gatelog serve` lists them."""
    what = "groups"
    answer = await kube.request("GET", f"{BASE}/podgroups?limit={MOST}")
    if answer.status in (401, 403):
        return skip(QUEUES, what, "this account may not ask gatelog serve for all groups")
    if answer.status == 404:
        return skip(QUEUES, what, "gatelog serve is not installed: it would tell them from here")
    if answer.status != 200:
        return warn(
            QUEUES,
            what,
            f"gatelog serve answers {answer.status}: {answer.message()}",
            "kubectl get apiservices v1beta1.gatelog.io says why",
        )
    states: dict[str, int] = {}
    page = answer.json() or {}
    for item in page.get("items") or ():
        state = str((item.get("status") or {}).get("state") or "unknown")
        states[state] = states.get(state, 0) + 1
    said = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    if (page.get("metadata") or {}).get("continue"):
        said = f"of the first {sum(states.values())}: {said}"
    blocked = states.get("Blocked", 0)
    if blocked:
        return warn(QUEUES, what, said, "kubectl gatelog why -A tells what each is blocked by")
    return ok(QUEUES, what, said or "none")
