"""`gatelog create clusterqueue|localqueue|resourceflavor`: as kueuectl makes them.

Invariant: one object is created, or with --dry-run none; what is there already is left alone.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from gatelog.commands.stopping import ChangeOptions, Namespace, qualified, tell
from gatelog.shell import options
from gatelog.shell.errors import CommandFailed, UsageFailed

HELP = (
    "Create a ClusterQueue, a LocalQueue or a ResourceFlavor. --dry-run=server lets the API server "
    "check it and stores nothing; --dry-run=client -o yaml prints what to keep in git."
)
EXAMPLES = """
gatelog create resourceflavor default
gatelog create clusterqueue research --nominal-quota "default:cpu=40;memory=160Gi"
gatelog create localqueue user-queue -n team-a -c research
gatelog create clusterqueue research --nominal-quota "default:cpu=40" --dry-run=client -o yaml
"""

app = typer.Typer(help=HELP, epilog=options.epilog(EXAMPLES), no_args_is_help=True)
_Never = Literal["Never", "LowerPriority", "Any"]
_Within = Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"]
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_QUOTA = "FLAVOR:RESOURCE=QUANTITY;... , several by commas or by repeating it"


@dataclass(frozen=True)
class QueueOptions:
    """How a ClusterQueue treats what waits in it, and whom it may preempt."""

    cohort: Annotated[str, typer.Option(help="It shares quota with.")] = ""
    strategy: Annotated[
        Literal["StrictFIFO", "BestEffortFIFO"],
        typer.Option("--queuing-strategy", help="Whether the head holds up the others."),
    ] = "BestEffortFIFO"
    selector: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace-selector",
            metavar="KEY=VALUE",
            help="Labels of namespaces that may use it. Default: all.",
        ),
    ] = None
    reclaim: Annotated[
        _Never, typer.Option("--reclaim-within-cohort", help="Whom it may preempt in its cohort.")
    ] = "Never"
    within: Annotated[
        _Within,
        typer.Option("--preemption-within-cluster-queue", help="Whom it may preempt in itself."),
    ] = "Never"


@dataclass(frozen=True)
class QuotaOptions:
    """How much of which resource a ClusterQueue has, may borrow and lends."""

    nominal: Annotated[
        list[str] | None, typer.Option("--nominal-quota", metavar="QUOTA", help=_QUOTA)
    ] = None
    borrowing: Annotated[
        list[str] | None, typer.Option("--borrowing-limit", metavar="QUOTA", help="As above.")
    ] = None
    lending: Annotated[
        list[str] | None, typer.Option("--lending-limit", metavar="QUOTA", help="As above.")
    ] = None


@dataclass(frozen=True)
class _ClusterOptions(options.ClusterOptions):
    """As of other commands, but for -c, which kueuectl gives to the ClusterQueue."""

    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Settings file (TOML).")] = (
        None
    )


@app.command("clusterqueue", help="Create a ClusterQueue (also: cq).")
@app.command("cq", hidden=True)
@options.as_options
def clusterqueue(
    queue: QueueOptions,
    quota: QuotaOptions,
    change: ChangeOptions,
    where: options.ClusterOptions,
    name: Annotated[str, typer.Argument()],
) -> None:
    """Create a ClusterQueue."""
    from gatelog.cluster.quotaspec import read, resource_groups

    spec: dict[str, Any] = {
        "queueingStrategy": queue.strategy,
        "namespaceSelector": _selector(queue.selector),
        "preemption": {"reclaimWithinCohort": queue.reclaim, "withinClusterQueue": queue.within},
    }
    if queue.cohort:
        spec["cohortName"] = queue.cohort
    groups = resource_groups(
        read("--nominal-quota", quota.nominal or ()),
        read("--borrowing-limit", quota.borrowing or ()),
        read("--lending-limit", quota.lending or ()),
    )
    if groups:
        spec["resourceGroups"] = groups
    body = {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}
    _create("clusterqueue", body, change, where)


@app.command("localqueue", help="Create a LocalQueue (also: lq).")
@app.command("lq", hidden=True)
@options.as_options
def localqueue(
    change: ChangeOptions,
    where: _ClusterOptions,
    name: Annotated[str, typer.Argument(help="With -n, or NAMESPACE/NAME.")],
    behind: Annotated[
        str,
        typer.Option("--clusterqueue", "-c", metavar="NAME", help="What is behind it."),
    ],
    namespace: Namespace = "",
    unknown: Annotated[
        bool,
        typer.Option("--ignore-unknown-cq", "-i", help="Though the ClusterQueue is not there."),
    ] = False,
) -> None:
    """Create a LocalQueue."""
    space, plain = qualified("localqueue", namespace, name)
    meta = {"name": plain, "namespace": space}
    body = {"kind": "LocalQueue", "metadata": meta, "spec": {"clusterQueue": behind}}
    needs = "" if unknown else behind
    _create("localqueue", body, change, where, needs)


@app.command("resourceflavor", help="Create a ResourceFlavor (also: rf).")
@app.command("rf", hidden=True)
@options.as_options
def resourceflavor(
    change: ChangeOptions,
    where: options.ClusterOptions,
    name: Annotated[str, typer.Argument()],
    labels: Annotated[
        list[str] | None,
        typer.Option("--node-labels", metavar="KEY=VALUE", help="Of nodes that are of it."),
    ] = None,
    taints: Annotated[
        list[str] | None,
        typer.Option("--node-taints", metavar="KEY=VALUE:EFFECT", help="Of those nodes."),
    ] = None,
    tolerations: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY[=VALUE][:EFFECT]", help="That pods of it are given."),
    ] = None,
) -> None:
    """Create a ResourceFlavor."""
    spec: dict[str, Any] = {}
    if labels:
        spec["nodeLabels"] = _pairs("--node-labels", labels)
    if taints:
        spec["nodeTaints"] = [_taint(text) for text in _parts(taints)]
    if tolerations:
        spec["tolerations"] = [_toleration(text) for text in _parts(tolerations)]
    body = {"kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}
    _create("resourceflavor", body, change, where)


def _create(
    what: str,
    body: dict[str, Any],
    change: ChangeOptions,
    where: options.ClusterOptions,
    behind: str = "",
) -> None:
    from gatelog.cluster.intent import Done, create, drafted, there
    from podgroup.model.names import is_dns_subdomain
    from runtime.kube import connect

    name, namespace = body["metadata"]["name"], body["metadata"].get("namespace", "")
    reason, dry = change.reason, change.dry_run
    if not is_dns_subdomain(name):
        raise UsageFailed(f"{name!r} is no name of an object: small letters, digits, - and .")
    settings = where.settings()

    if dry == "client":
        tell(drafted(what, body, reason), "created", change)
        return

    async def run() -> Done:
        kube = await connect(settings.kubernetes, part="create")
        try:
            if behind and not await there(kube, "clusterqueue", "", behind):
                raise CommandFailed(
                    f"there is no ClusterQueue {behind}: create it first, or add -i"
                )
            return await create(kube, what, namespace, body, reason, dry=dry)
        finally:
            await kube.close()

    tell(asyncio.run(run()), "created", change)


def _parts(given: Sequence[str]) -> list[str]:
    return [part.strip() for value in given for part in value.split(",") if part.strip()]


def _pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in _parts(given):
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise UsageFailed(f"{option} {text!r}: write it as KEY=VALUE")
        found[key] = value
    return found


def _selector(given: list[str] | None) -> dict[str, Any]:
    labels = _pairs("--namespace-selector", given or ())
    return {"matchLabels": labels} if labels else {}


def _taint(text: str) -> dict[str, str]:
    rest, colon, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    if not (key and colon and effect in _EFFECTS):
        raise UsageFailed(
            f"--node-taints {text!r}: write it as KEY=VALUE:EFFECT, with one of "
            f"{', '.join(_EFFECTS)}"
        )
    return {"key": key, "value": value, "effect": effect}


def _toleration(text: str) -> dict[str, str]:
    rest, colon, effect = text.partition(":")
    if colon and effect not in _EFFECTS:
        raise UsageFailed(f"--tolerations {text!r}: the effect is one of {', '.join(_EFFECTS)}")
    key, equals, value = rest.partition("=")
    if not key:
        raise UsageFailed(f"--tolerations {text!r}: write it as KEY, KEY=VALUE or KEY:EFFECT")
    found = {"key": key, "operator": "Equal" if equals else "Exists"}
    if equals:
        found["value"] = value
    return found | ({"effect": effect} if colon else {})
