"""`gatelog stop` and `gatelog resume`: a queue or a group, with a reason that the log keeps.

Invariant: one object is patched, on condition that it was not changed meanwhile; nothing else is
written, and with --dry-run nothing at all.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gatelog.shell import options

if TYPE_CHECKING:
    from gatelog.cluster.intent import Done, Stop, What
    from runtime.settings import Settings

EXAMPLES = """
gatelog stop clusterqueue research --reason "rack 7 is being moved" --keep-already-running
gatelog stop localqueue user-queue -n team-a --reason "budget is spent"
gatelog stop group team-a/train --reason "wrong data set"
gatelog stop clusterqueue research --dry-run=server
"""
RESUME_EXAMPLES = """
gatelog resume clusterqueue research --reason "rack 7 is back"
gatelog resume localqueue user-queue -n team-a
gatelog resume group team-a/train
"""

Kind = Annotated[
    str,
    typer.Argument(
        metavar="clusterqueue|localqueue|group", help="Also cq, lq, and workload for group."
    ),
]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="With -n, or NAMESPACE/NAME where it has one.")
]
Reason = Annotated[
    str,
    typer.Option("--reason", metavar="TEXT", help="Why: kept in the event log, with your name."),
]
Dry = Annotated[
    Literal["none", "client", "server"],
    typer.Option(
        "--dry-run",
        help="server: the API server checks it and stores nothing. client: only show what would "
        "be sent. --dry-run alone is server.",
    ),
]
Namespace = Annotated[
    str, typer.Option("--namespace", "-n", metavar="NS", help="Of a LocalQueue or group.")
]
_DRY_RUNS = (["none"], ["client"], ["server"])
_KINDS: "dict[str, What]" = {
    **dict.fromkeys(("clusterqueue", "clusterqueues", "cq"), "clusterqueue"),
    **dict.fromkeys(("localqueue", "localqueues", "lq"), "localqueue"),
    **dict.fromkeys(("group", "groups", "workload", "workloads", "wl"), "group"),
}


@dataclass(frozen=True)
class ChangeOptions:
    """Why an object is changed, whether it really is, and how the answer looks."""

    reason: Reason = ""
    dry_run: Dry = "none"
    output: options.Output = None


def stop(
    change: ChangeOptions,
    where: options.ClusterOptions,
    what: Kind,
    name: Name,
    namespace: Namespace = "",
    keep: Annotated[
        bool,
        typer.Option("--keep-already-running", help="Queues: what is admitted runs on (Hold)."),
    ] = False,
) -> None:
    """Stop a ClusterQueue, a LocalQueue or a group: nothing more is admitted, and what is admitted
    is evicted (queues: unless --keep-already-running). The reason is in gatelog why and history.
    """
    from gatelog.shell.errors import UsageFailed

    kind = _kind(what)
    if kind == "group" and keep:
        raise UsageFailed("--keep-already-running is for queues: a stopped group is evicted")
    policy: Stop = "Hold" if keep else "HoldAndDrain"
    _carry_out(where.settings(), kind, _qualified(kind, namespace, name), policy, change)


def resume(
    change: ChangeOptions,
    where: options.ClusterOptions,
    what: Kind,
    name: Name,
    namespace: Namespace = "",
) -> None:
    """Let a ClusterQueue, a LocalQueue or a group that was stopped go on."""
    kind = _kind(what)
    _carry_out(where.settings(), kind, _qualified(kind, namespace, name), "None", change)


def plain_dry_run(arguments: Sequence[str]) -> list[str]:
    """Return the words of a command line with the form that a bare --dry-run means."""
    found = list(arguments)
    if not set(found[:1]) & {"stop", "resume"}:
        return found
    for index, word in enumerate(found):
        if word == "--dry-run" and found[index + 1 : index + 2] not in _DRY_RUNS:
            found[index] = "--dry-run=server"
    return found


def _kind(text: str) -> "What":
    from gatelog.shell.errors import UsageFailed

    if text.lower() not in _KINDS:
        raise UsageFailed(f"{text}: name a clusterqueue, a localqueue or a group")
    return _KINDS[text.lower()]


def _qualified(kind: str, namespace: str, name: str) -> tuple[str, str]:
    """Return namespace and name of an object that was named with -n or as NAMESPACE/NAME.

    Raises:
        UsageFailed: the namespace is missing, given twice, or of no use.
    """
    from gatelog.shell.errors import UsageFailed

    space, slash, rest = name.rpartition("/")
    if kind == "clusterqueue":
        if slash or namespace:
            raise UsageFailed(f"a {kind} belongs to no namespace: name it without one")
        return "", name
    if slash and namespace and space != namespace:
        raise UsageFailed(f"{name} and -n {namespace} name two namespaces")
    if not (space or namespace):
        raise UsageFailed(f"{name}: name the {kind} as NAMESPACE/NAME, or with -n")
    return space or namespace, rest


def _carry_out(
    settings: "Settings",
    kind: "What",
    named: tuple[str, str],
    policy: "Stop",
    change: ChangeOptions,
) -> None:
    from gatelog.cluster.intent import Queue, set_group, set_queue
    from runtime.kube import connect

    space, plain = named
    reason, dry = change.reason, change.dry_run

    async def run() -> "Done":
        kube = await connect(settings.kubernetes, part="stop")
        try:
            if kind == "group":
                active = policy == "None"
                return await set_group(kube, space, plain, reason, active=active, dry=dry)
            return await set_queue(kube, Queue(kind, space, plain), policy, reason, dry=dry)
        finally:
            await kube.close()

    words = {"None": "resumed", "Hold": "stopped (what is admitted runs on)"}
    said = words.get(policy, "stopped (what is admitted is evicted)")
    _tell(asyncio.run(run()), said, change)


def _tell(done: "Done", said: str, change: ChangeOptions) -> None:
    """Print the result for an object: a line like kubectl's, or the object."""
    import sys

    from gatelog.terminal import printing

    if change.output in ("json", "yaml"):
        sys.stdout.write(printing.document(done.obj, change.output))
    elif change.output == "name":
        print(done.title)
    else:
        tried = {"none": "", "client": " (dry run)", "server": " (server dry run)"}[change.dry_run]
        print(f"{done.title} {said if done.changed else 'unchanged'}{tried}")
