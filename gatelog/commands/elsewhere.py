"""Commands whose read model is not on this machine, answered by the installation in the cluster.

Theory. Where no setting names a read model, the kubeconfig names a cluster, and its gatelog is
meant. Questions that the aggregated API answers go there, with the user's own rights; for other
questions the error has a command line that asks in one of gatelog's own pods, ready to paste.

Invariant: nothing is run or written in the cluster from here.
"""

import asyncio
import shlex
import sys
from collections.abc import Sequence

from msgspec import Struct

from gatelog.cluster import clusterinfo
from gatelog.cluster.installation import installation
from gatelog.shell.errors import FAILED, NotHere, explain
from gatelog.shell.remedies import Installation
from gatelog.viacluster.apiserver import BASE
from runtime.kube import KubeError, connect
from runtime.settings import Settings

_SHORT = {
    "--json": ("-o", "json"),
    "--namespace": ("-n",),
    "--output": ("-o",),
    "--filename": ("-f",),
}
_WITH_VALUE = {"-n", "-o", "-f"}
_ALONE = {"-A", "--all-namespaces"}


class _There(Struct, frozen=True):
    """The cluster: its API server, whether gatelog serves there, its installation."""

    server: str
    serves: bool
    installed: Installation


def ask(arguments: Sequence[str], error: NotHere) -> int:
    """Put a command line to the installation in the cluster, or say how; return the exit code."""
    try:
        there = asyncio.run(_look(error.settings))
    except (KubeError, NotHere) as why:
        return _three_ways(error, f"the cluster does not answer: {explain(why).sentence}")
    kubernetes = error.settings.kubernetes
    named = {"--kubeconfig": kubernetes.kubeconfig, "--context": kubernetes.context}
    where = [word for option, value in named.items() if value for word in (option, value)]
    asked = _without_place(arguments)
    plain = translated(asked)
    if there.serves and plain is not None:
        from gatelog.viacluster.app import run

        return run([*plain, *where])
    asked, fed = _fed(asked)
    command = there.installed.run(shlex.join(["gatelog", *asked]))
    if fed and " exec " in command:
        command = command.replace(" exec ", " exec -i ", 1)
    command += fed if command else ""
    if where:
        command = command.replace("kubectl ", f"kubectl {shlex.join(where)} ", 1)
    if not command:
        return _three_ways(error, f"no gatelog is seen in {there.server}")
    sys.stderr.write(f"gatelog: {error}; its gatelog answers there:\n\n  {command}\n\n")
    return FAILED


async def _look(settings: Settings) -> _There:
    kube = await connect(settings.kubernetes, part="door")
    try:
        serves = (await clusterinfo.seen(kube, BASE)) not in (None, {})
        return _There(
            kube.server, serves, await installation(kube, settings.webhook.service_namespace)
        )
    finally:
        await kube.close()


def _without_place(arguments: Sequence[str]) -> list[str]:
    """Return a command line without options for the cluster and its configuration file."""
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        flag, equals, value = word.partition("=")
        if flag not in ("--config", "-c", "--set"):
            kept.append(word)
            continue
        value = value if equals else next(words, "")
        if flag == "--set" and not value.startswith("kubernetes."):
            kept += [flag, value]
    return kept


def _fed(arguments: Sequence[str]) -> tuple[list[str], str]:
    """Return a command line that reads stdin in place of a file, and what feeds the file to it."""
    asked = list(arguments)
    at = next((n for n, word in enumerate(asked) if word in ("-f", "--filename")), len(asked))
    if asked[:1] != ["try"] or at + 1 >= len(asked) or asked[at + 1] == "-":
        return asked, ""
    file, asked[at + 1] = asked[at + 1], "-"
    return asked, f" < {shlex.quote(file)}"


def translated(arguments: Sequence[str]) -> list[str] | None:
    """Return a command line of `kubectl gatelog` that asks the same; None: there is none.

    There a missing namespace means the context's, here it means all namespaces.
    """
    command, *rest = [*arguments, ""]
    if command not in ("why", "history", "try"):
        return None
    names: list[str] = []
    options: list[str] = []
    words = iter(rest[:-1] if rest else [])
    for word in words:
        flag, equals, value = word.partition("=")
        if word in _ALONE:
            continue
        if not word.startswith("-"):
            names.append(word)
            continue
        short = _SHORT.get(flag, (flag,))
        if short[0] not in _WITH_VALUE:
            return None
        given = [*short[1:], *([value] if equals else [])] or [next(words, "")]
        options += [short[0], *given]
    if command == "try" and "-n" not in options:
        options += ["-n", "default"]
    if command == "why" and "-n" not in options:
        if not names:
            options.append("-A")
        elif "/" not in names[0]:
            options, names = [*options, "-n", names[0]], []
    return [command, *names, *options]


def _three_ways(error: NotHere, why: str) -> int:
    sys.stderr.write(
        f"gatelog: {error}, and {why}. One of three says whom to ask:\n"
        "  --state-dir DIR    the state directory of a `gatelog up` on this machine\n"
        "  --db URL           the read model's database\n"
        "  KUBECONFIG or --set kubernetes.context=NAME\n"
        "                     a cluster with gatelog, which then answers itself\n"
    )
    return FAILED
