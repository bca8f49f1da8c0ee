"""The commands of `kubectl gatelog`, with kubectl's flags.

Theory. kubectl runs `kubectl-gatelog` from PATH and passes everything behind the plugin's name;
`gatelog --via-cluster` is the same program by another name. Flags mean what they mean to kubectl,
and may stand before or behind the command's argument.

Invariant: exit code 0 done, 1 failed, 2 asked wrongly, 130 interrupted; one sentence on stderr.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
import typer

from gatelog.shell.ending import end, failed
from gatelog.shell.errors import CommandFailed, UsageFailed
from gatelog.shell.options import as_options
from gatelog.shell.visible import shown
from gatelog.terminal.printing import document, say_where, table
from gatelog.viacluster import answers
from gatelog.viacluster.answers import TableRow
from gatelog.viacluster.apiserver import (
    GROUP,
    VERSION,
    Cluster,
    Place,
    connected,
    destination,
    parted,
)
from podgroup.model.lifecycle import PENDING

Form = Literal["", "wide", "json", "yaml", "name"]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Default: the context's.")]
Everywhere = Annotated[bool, typer.Option("--all-namespaces", "-A", help="All namespaces.")]
Output = Annotated[Form, typer.Option("--output", "-o", help="wide, json, yaml or name.")]
Context = Annotated[str, typer.Option("--context", help="Context of the kubeconfig.")]
Kubeconfig = Annotated[str, typer.Option("--kubeconfig", help="Default: as kubectl has it.")]
Selector = Annotated[str, typer.Option("--selector", "-l", help="Labels of the group's first pod.")]
Name = Annotated[str, typer.Argument(metavar="[NS/]NAME", help="A group, or a pod of one.")]
Optional = Annotated[
    str, typer.Argument(metavar="[[NS/]NAME]", help="A group; none: all that wait.")
]
Filename = Annotated[
    str, typer.Option("--filename", "-f", metavar="FILE", help="Manifest; - is stdin.")
]
Queue = Annotated[str, typer.Argument(metavar="[QUEUE]", help="A LocalQueue; none: all.")]


@dataclass(frozen=True)
class ContextOptions:
    """Which cluster is asked, and in which namespace; in which form it is shown."""

    namespace: Namespace = ""
    output: Output = ""
    context: Context = ""
    kubeconfig: Kubeconfig = ""

    def place(self, namespace: str | None = None, *, everywhere: bool = False) -> Place:
        """Return where to ask; `namespace` is the namespace in a given name."""
        within = self.namespace if namespace is None else namespace
        return destination(self.kubeconfig, self.context, within, everywhere)


@dataclass(frozen=True)
class PlaceOptions(ContextOptions):
    """The same, or in all namespaces."""

    everywhere: Everywhere = False

    def place(self, namespace: str | None = None, *, everywhere: bool = False) -> Place:
        """Return where to ask; see `ContextOptions`."""
        return super().place(namespace, everywhere=everywhere or self.everywhere)


app = typer.Typer(
    name="kubectl gatelog",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Why pods wait at their gates, what happened to them, and what their queues do: asked "
    "through the API server, with your own rights.",
)


@app.command("why")
@as_options
def why(where: PlaceOptions, name: Optional = "", selector: Selector = "") -> None:
    """Say what a group waits for and how many come before it; without a name, of all that wait."""
    output = where.output
    name, namespace = parted(name, where.namespace)

    async def one(cluster: Cluster) -> None:
        group = await _group(cluster, name)
        own = group["metadata"]["name"]
        position = await cluster.maybe(cluster.path("podgrouppositions", own))
        reasons = await cluster.maybe(cluster.path("podgroupreasons", own))
        held = await cluster.maybe(cluster.path("podgroupadmissions", own))
        if output in ("json", "yaml"):
            found = {"group": group, "position": position, "reasons": reasons, "admissions": held}
            sys.stdout.write(document(found, output))
        else:
            _say(answers.why(group, reasons, held))

    async def all_of_them(cluster: Cluster) -> None:
        params = {"labelSelector": selector} if selector else {}
        path = cluster.path("podgroups")
        if output in ("json", "yaml", "name"):
            groups = await cluster.items(path, params)
            _list([group for group in groups if group["status"]["state"] in PENDING], output)
            return
        found = [row for row in await cluster.table(path, params) if row.cells["State"] in PENDING]
        if not found:
            within = f"namespace {cluster.namespace}" if cluster.namespace else "the cluster"
            sys.stderr.write(f"nothing waits in {within}\n")
            return
        placed = await cluster.table(cluster.path("podgrouppositions"), params)
        places = {row.uid: row.cells["Position"] for row in placed}
        for row in found:
            row.cells["Position"] = places.get(row.uid, "<none>")
        _table(found, answers.PENDING, not cluster.namespace)

    _run(one if name else all_of_them, where.place(namespace), where.output)


@app.command("try")
@as_options
def try_(where: ContextOptions, filename: Filename = "") -> int | None:
    """Say whether pods would start now that are not made yet, and what would make them; nothing is
    written. Exit code 0: they start, 1: they wait, 2: they are refused.
    """
    from gatelog.trial.answers import EXIT_CODES, Answer
    from gatelog.trial.commandline import print_answer, read_text

    text = read_text(filename)
    answer: Any = None

    async def ask(cluster: Cluster) -> None:
        nonlocal answer
        spec = {"manifest": text}
        body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "PodGroupTrial", "spec": spec}
        found = await cluster.create(cluster.path("podgrouptrials"), body)
        answer = msgspec.convert(found["status"], Answer)
        if where.output:
            _one(found, where.output)
        else:
            print_answer(answer)

    _run(ask, where.place(), where.output)
    return EXIT_CODES.get(answer.verdict)


@app.command("history")
@as_options
def history(where: ContextOptions, name: Name) -> None:
    """Tell what happened to a group or pod, and why; `-o wide` tells every entry."""
    output = where.output
    name, namespace = parted(name, where.namespace)

    async def ask(cluster: Cluster) -> None:
        found = await cluster.get(cluster.path("podgrouphistories", name))
        if output in ("json", "yaml", "name"):
            _one(found, output)
            return
        from gatelog.readmodel import timeline
        from gatelog.terminal import console

        group = await cluster.get(
            cluster.path("podgroups"), {"fieldSelector": f"metadata.uid={found['metadata']['uid']}"}
        )
        rows = answers.entries(found)
        out = console.console()
        for one in group["items"]:
            out.print("  ".join(answers.title(one)), style="bold", markup=False, highlight=False)
        lines = timeline.raw(rows) if output == "wide" else timeline.story_lines(rows)
        if lines:
            out.print(console.timeline(lines, rows[0].at, absolute=output == "wide"))

    _run(ask, where.place(namespace), where.output)


@app.command("queue")
@as_options
def queue(where: PlaceOptions, name: Queue = "") -> None:
    """Show LocalQueues: who waits, what is held; of one queue all in its line."""
    output = where.output
    name, namespace = parted(name, where.namespace)

    async def ask(cluster: Cluster) -> None:
        if not name:
            await _show(cluster, cluster.path("queueusages"), answers.QUEUES, output)
            return
        if not cluster.namespace:
            raise UsageFailed("a queue has a namespace: -n NAMESPACE, without -A")
        queue, line = cluster.path("queueusages", name), cluster.path("podgrouppositions")
        params = {"fieldSelector": f"spec.queue={name}"}
        if output in ("json", "yaml"):
            both = {"queue": await cluster.get(queue), "line": await cluster.items(line, params)}
            sys.stdout.write(document(both, output))
            return
        _table(await cluster.table(queue), answers.QUEUES)
        waiting = await cluster.table(line, params)
        if waiting:
            _say("")
            _table(sorted(waiting, key=lambda row: row.cells["Local-Position"]), answers.IN_LINE)

    _run(ask, where.place(namespace), where.output)


@app.command("usage")
@as_options
def usage(where: PlaceOptions) -> None:
    """Show resource-hours that pods asked for while they ran, by day (UTC), the last seven."""

    async def ask(cluster: Cluster) -> None:
        await _show(cluster, cluster.path("namespaceusages"), answers.DAYS, where.output)

    _run(ask, where.place(), where.output)


@app.command("top")
@as_options
def top(where: PlaceOptions) -> None:
    """Show how full queues are: ClusterQueues for those who may see quota, else LocalQueues."""
    output = where.output

    async def ask(cluster: Cluster) -> None:
        path = cluster.path("clusterqueueusages", namespace="")
        if await cluster.maybe(path, {"limit": "1"}) is None:
            await _show(cluster, cluster.path("queueusages"), answers.QUEUES, output)
        elif output in ("json", "yaml", "name"):
            found = await cluster.items(path)
            _list(sorted(found, key=lambda one: -one["groups"]["pending"]), output)
        else:
            rows = await cluster.table(path)
            _table(sorted(rows, key=lambda row: -row.cells["Pending"]), answers.CLUSTER_QUEUES)

    _run(ask, where.place(), where.output)


@app.command("watch")
@as_options
def watch(
    where: PlaceOptions,
    selector: Selector = "",
    timeout_s: Annotated[
        int, typer.Option("--timeout", help="Seconds after which to end; 0: never.", min=0)
    ] = 0,
) -> None:
    """Show groups as they change, a line each, until interrupted."""
    output = where.output

    async def ask(cluster: Cluster) -> None:
        params = {"labelSelector": selector} if selector else {}
        try:
            async with asyncio.timeout(timeout_s or None):
                while True:
                    async for one in cluster.watch("podgroups", params):
                        if one["type"] == "ERROR":
                            raise CommandFailed(str(one["object"].get("message")))
                        _say(
                            document(one, "json").replace("\n", "")
                            if output == "json"
                            else answers.event(one)
                        )
                        sys.stdout.flush()
        except TimeoutError:
            return

    _run(ask, where.place(), where.output)


async def _group(cluster: Cluster, name: str) -> Any:
    """Return a group by its name or that of one of its pods.

    Raises:
        UsageFailed: no namespace to look in.
        CommandFailed: the group does not exist.
    """
    if not cluster.namespace:
        raise UsageFailed("a group has a namespace: -n NAMESPACE, without -A")
    found = await cluster.maybe(cluster.path("podgroups", name))
    if found is not None:
        return found
    reasons = await cluster.get(cluster.path("podgroupreasons", name))
    uid = {"fieldSelector": f"metadata.uid={reasons['metadata']['uid']}"}
    return (await cluster.get(cluster.path("podgroups"), uid))["items"][0]


async def _show(cluster: Cluster, path: str, columns: Sequence[str], form: Form) -> None:
    """Print a list: chosen columns, or its objects."""
    if form in ("json", "yaml", "name"):
        _list(await cluster.items(path), form)
    else:
        _table(await cluster.table(path), columns, not cluster.namespace)


def _table(rows: list[TableRow], columns: Sequence[str], everywhere: bool = False) -> None:
    headings, cells = answers.texts(rows, columns, everywhere)
    table(headings, cells, headers=True, out=sys.stdout)


def _list(found: list[Any], form: Form) -> None:
    if form == "name":
        for one in found:
            _one(one, form)
        return
    _one({"apiVersion": "v1", "kind": "List", "items": found}, form)


def _one(found: Any, form: Form) -> None:
    if form == "name":
        _say(f"{found['kind'].lower()}.gatelog.io/{found['metadata']['name']}")
    else:
        sys.stdout.write(document(found, "yaml" if form == "yaml" else "json"))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


def _run(ask: Callable[[Cluster], Awaitable[None]], where: Place, form: Form = "") -> None:
    async def main() -> None:
        async with connected(where) as cluster:
            say_where("gatelog serve", cluster.server, datetime.now(UTC), form)
            await ask(cluster)

    asyncio.run(main())


for made in app.registered_commands:
    if made.callback is not None:
        made.callback = shown(made.callback)


def run(arguments: Sequence[str]) -> int:
    """Run one command line (without the program's name) and return its exit code."""
    try:
        result = app(args=list(arguments), prog_name="kubectl gatelog", standalone_mode=False)
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt) as error:
        return failed(error, "error", "kubectl gatelog --help")
    return result if isinstance(result, int) else 0


def main() -> None:
    """Entry point of `kubectl-gatelog`."""
    end(run)
