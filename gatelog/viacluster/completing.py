"""Shell completion: what kubectl asks `kubectl_complete-gatelog` from PATH.

Theory. kubectl (1.26 and later) runs that program with the words behind the plugin's name, the last
one unfinished, and offers what it prints, a candidate a line; the line behind them says what the
shell does next (4: no file names). No user waits long for a completion, so whatever goes wrong just
offers nothing.

Invariant: it always ends with exit code 0 and a line that begins with a colon.
"""

import asyncio
import sys
from collections.abc import Sequence

from gatelog.shell.ending import end
from gatelog.shell.errors import CommandFailed
from gatelog.viacluster.apiserver import Cluster, connected, destination
from runtime.kube_errors import KubeError

NO_FILES = ":4"
_PATIENCE_S = 3.0
COMMANDS = {
    "why": "what a group waits for",
    "history": "what happened to a group or pod",
    "queue": "who waits in a queue",
    "usage": "resource-hours by day",
    "top": "how full queues are",
    "watch": "groups as they change",
}
_FLAGS = ("--namespace", "--all-namespaces", "--output", "--context", "--kubeconfig", "--selector")
_FORMS = ("wide", "json", "yaml", "name")
_TAKES_VALUE = frozenset(
    {"-n", "--namespace", "-o", "--output", "--context", "--kubeconfig", "-l", "--selector"}
    | {"--timeout"}
)
_NAMED = {"why": "podgroups", "history": "podgroups", "queue": "queueusages"}


def value(words: Sequence[str], *names: str) -> str:
    """Return what a flag was given, "" if it was not."""
    for number, word in enumerate(words):
        for name in names:
            if word == name and number + 1 < len(words):
                return words[number + 1]
            if name.startswith("--") and word.startswith(f"{name}="):
                return word.partition("=")[2]
    return ""


def positional(words: Sequence[str]) -> list[str]:
    """Return words that are neither flags nor what a flag is given."""
    found, skipped = [], False
    for word in words:
        if skipped:
            skipped = False
        elif word.startswith("-"):
            skipped = word in _TAKES_VALUE
        else:
            found.append(word)
    return found


async def candidates(words: Sequence[str]) -> list[str]:
    """Return what may stand for the last word.

    Raises:
        CommandFailed, KubeError: the cluster does not say.
    """
    *before, last = words or [""]
    previous = before[-1] if before else ""
    given = positional(before)
    if previous in ("-o", "--output"):
        return [form for form in _FORMS if form.startswith(last)]
    if previous in ("-n", "--namespace"):
        return await _asked(before, "namespaces", last)
    if last.startswith("-"):
        return [flag for flag in _FLAGS if flag.startswith(last)]
    if not given:
        return [f"{name}\t{what}" for name, what in COMMANDS.items() if name.startswith(last)]
    plural = _NAMED.get(given[0], "") if len(given) == 1 else ""
    return await _asked(before, plural, last) if plural else []


async def _asked(before: Sequence[str], plural: str, last: str) -> list[str]:
    where = destination(
        value(before, "--kubeconfig"),
        value(before, "--context"),
        value(before, "-n", "--namespace"),
        False,
    )
    async with asyncio.timeout(_PATIENCE_S), connected(where) as cluster:
        names = await (_namespaces(cluster) if plural == "namespaces" else _names(cluster, plural))
    return sorted({name for name in names if name.startswith(last)})


async def _names(cluster: Cluster, plural: str) -> list[str]:
    found = await cluster.get(cluster.path(plural), {"limit": "500"})
    return [one["metadata"]["name"] for one in found["items"]]


async def _namespaces(cluster: Cluster) -> list[str]:
    found = await cluster.maybe("/api/v1/namespaces", {"limit": "500"})
    return [one["metadata"]["name"] for one in found["items"]] if found else []


def run(arguments: Sequence[str]) -> int:
    """Print the candidates."""
    try:
        found = asyncio.run(candidates(arguments))
    except (CommandFailed, KubeError, TimeoutError):
        found = []
    sys.stdout.write("".join(f"{one}\n" for one in found) + NO_FILES + "\n")
    return 0


def main() -> None:
    """Entry point of `kubectl_complete-gatelog`."""
    end(run)
