"""Looking at the cluster: version, permissions, kinds, and the gating of pods.

Theory. The rights that each part needs are in its ClusterRole in `deploy/common`; here
SelfSubjectAccessReviews check the same rules for the user of the kubeconfig.

Invariant: nothing is stored; only access reviews and a pod with dryRun are sent.
"""

import asyncio
from typing import NamedTuple

import msgspec

from gatelog.cluster import clusterinfo, crds, roles
from gatelog.cluster.installation import installation
from gatelog.examine import gating, installed, leases, measuring, nodes, topology, unlabelled
from gatelog.examine.findings import Finding, fail, ok, skip, warn
from gatelog.shell import statedir
from gatelog.shell.errors import CommandFailed, explain
from gatelog.shell.remedies import UNKNOWN, Installation, here, remedy
from runtime import manifests
from runtime.access import Right, allowed
from runtime.kube import KubeClient, KubeError, connect
from runtime.settings import Settings

AREA = "cluster"
LEAST = (1, 30)


class Seen(NamedTuple):
    """The findings, and which installation they are about."""

    findings: list[Finding]
    at: Installation


async def examine(settings: Settings) -> Seen:
    """Look at the cluster of the settings."""
    at = here(settings)
    try:
        kube = await connect(settings.kubernetes, part="doctor")
    except KubeError as error:
        doing = "set KUBECONFIG, --kubeconfig or kubernetes.kubeconfig"
        return Seen([fail(AREA, "reachable", explain(error).sentence, doing)], at)
    try:
        version = await clusterinfo.version(kube)
        findings = [_version(kube.server, version)]
        found = await installation(kube, settings.webhook.service_namespace)
        at = found if found.how else at
        parts = await installed.deployments(kube, at)
        away = any(finding.verdict != "skip" for finding in parts)
        state = statedir.of(settings)
        one_pod = any(finding.what == installed.STANDALONE for finding in parts)
        alone = one_pod or (not away and state.held())
        if away and not one_pod and state.held():
            findings.append(
                fail(
                    AREA,
                    "processes",
                    f"gatelog up runs on {state.path} (process {state.holder()}) beside "
                    "deployments: two decide on the same pods, with a log each",
                    "end gatelog up, or gatelog uninstall --gates keep",
                )
            )
        if away and not alone and not settings.lease.enabled:
            settings = _as_installed(settings)
        accounts = {"ingest": "actuator" if alone else "ingest", "actuator": "actuator"}
        accounts |= dict.fromkeys(roles.chosen(settings), accounts["ingest"])
        for name, part in accounts.items():
            findings.append(await _permissions(kube, settings, name, part, at, away=away))
        findings += await nodes.examine(kube, at)  # a node that is away explains what follows
        findings.append(await kinds(kube, at))
        findings.append(await measuring.examine(kube, settings))
        findings += await _admission(kube, settings, at)
        findings.append(await unlabelled.examine(kube, settings))
        findings += await leases.examine(kube, settings, at)
        findings += parts
        findings += await installed.queues(kube)
        if away:
            findings.append(await installed.groups(kube))
        return Seen(findings, at)
    except (KubeError, CommandFailed) as error:
        doing = "is the API server up, and does kubectl work with the same kubeconfig?"
        return Seen([fail(AREA, "reachable", explain(error).sentence, doing)], at)
    finally:
        await kube.close()


def _as_installed(settings: Settings) -> Settings:
    """Return the settings with the Leases that the deployments of the cluster hold."""
    space = settings.webhook.service_namespace
    lease = msgspec.structs.replace(settings.lease, enabled=True, namespace=space)
    return msgspec.structs.replace(settings, lease=lease)


def _version(server: str, version: clusterinfo.Version) -> Finding:
    detail = f"{version.text} at {server}"
    if version.at_least(*LEAST):
        return ok(AREA, "reachable", detail)
    return warn(AREA, "reachable", detail, "gatelog is made for Kubernetes 1.30 or later")


_KNOWN_GROUPS = ("", clusterinfo.KUEUE_GROUP)
"""API groups that are not named in the findings; pods are in another group as well."""


async def _permissions(
    kube: KubeClient, settings: Settings, name: str, part: str, at: Installation, *, away: bool
) -> Finding:
    """Check that the account of a part has the rights of its ClusterRole `gatelog-NAME`.

    The account is this user; where the parts run in the cluster (`away`), and in a pod of another
    part, it is the service account of `part`, about which most accounts may not ask.
    """
    file = roles.chosen(settings).get(name, roles.ALWAYS)
    ours = f"system:serviceaccount:{settings.webhook.service_namespace}:gatelog-"
    me, account = await clusterinfo.user(kube), f"{ours}{part}"
    other = account if (away or me.startswith(ours)) and me != account else ""
    asked = [
        Right(group, resource, verb)
        for role in manifests.read(file)
        if (role["kind"], role["metadata"]["name"]) == ("ClusterRole", f"gatelog-{name}")
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if not rule.get("resourceNames")
    ]
    if not (settings.mode == "builtin" and await topology.flavor_naming_one(kube)):
        asked = [right for right in asked if right.resource != "nodes"]
    answers = await asyncio.gather(*(allowed(kube, one, other) for one in asked))
    if None in answers:
        return skip(AREA, f"may {name}", f"{me} may not ask what {account} may")
    who = f"account gatelog-{part}" if other else f"this user, {me}," if me else "this user"
    denied = [
        f"{verb} {resource}{'' if group in _KNOWN_GROUPS else f' of {group}'}"
        for (group, resource, verb), yes in zip(asked, answers, strict=True)
        if not yes
    ]
    what = f"may {name}"
    if denied:
        return fail(
            AREA,
            what,
            f"{who} may not {', '.join(denied)}",
            remedy("rights", at, name),
        )
    return ok(AREA, what, f"{who} may do all {len(asked)} things it needs")


_WITHOUT = {
    "workloadpriorityclasses": "priorities come from PriorityClasses only",
    "cohorts": "cohorts have the quota of their ClusterQueues and no parents",
    "admissionchecks": "ClusterQueues that ask for admission checks are inactive",
    "topologies": "ClusterQueues with a flavor that names a Topology are inactive",
}
"""Effects of an optional kind that is not served."""


async def kinds(kube: KubeClient, at: Installation = UNKNOWN) -> Finding:
    """Look whether Kueue's kinds are served, and whether our CRDs are this release's."""
    found = await clusterinfo.kueue(kube)
    if found.missing:
        return fail(
            AREA,
            "kinds",
            f"not served: {', '.join(found.missing)} ({clusterinfo.KUEUE_GROUP})",
            remedy("objects", at),
        )
    absent = [kind for kind in clusterinfo.OPTIONAL_KINDS if kind not in found.kinds]
    if absent:
        return warn(
            AREA,
            "kinds",
            f"{found.version}, without {', '.join(absent)}",
            f"{'; '.join(_WITHOUT[kind] for kind in absent)}: {remedy('objects', at)}",
        )
    outdated = [o["spec"]["names"]["plural"] for o in (await crds.compare(kube)).outdated]
    if outdated:
        return warn(
            AREA,
            "kinds",
            f"the CRDs of {', '.join(outdated)} are gatelog's, of another release: the API server "
            "may drop fields that this one writes",
            f"gatelog up --install, or {crds.BY_HAND}",
        )
    return ok(AREA, "kinds", f"{clusterinfo.KUEUE_GROUP}/{found.version}")


async def _admission(kube: KubeClient, settings: Settings, at: Installation) -> list[Finding]:
    found = await clusterinfo.admission(kube)
    findings = [await gating.examine(kube, found, at)]
    if findings[0].verdict == "ok":
        findings.append(await gating.tried(kube))
    if found.kueue_pods:
        findings.append(await _kueue(kube, settings, found.kueue_pods))
    return findings + await topology.examine(
        kube, settings, bool(found.policy and not found.webhook)
    )


async def _kueue(kube: KubeClient, settings: Settings, configuration: str) -> Finding:
    taken = await clusterinfo.kueue_pod_frameworks(kube)
    if taken:
        return fail(
            AREA,
            "kueue",
            "Kueue's own pod integration is on: both would gate and ungate the same pods",
            f"take {', '.join(taken)} out of integrations.frameworks in its configuration",
        )
    if settings.mode == "builtin":
        return warn(
            AREA,
            "kueue",
            f"Kueue is installed ({configuration}) while mode is builtin: two would admit the "
            "same Workloads",
            "set mode = kueue, or remove Kueue",
        )
    if taken is None:
        return warn(
            AREA,
            "kueue",
            f"Kueue is installed ({configuration}); its configuration cannot be read from here",
            'make sure that "pod" is not in its integrations.frameworks',
        )
    return ok(AREA, "kueue", "installed, and its own pod integration is off")
