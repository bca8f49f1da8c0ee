"""Options that several commands share, and how they become settings.

Theory. Every setting can be given on the command line (`--set section.field=value`); the few that
people type daily have an option of their own. All go through `settings_source.load`, so a bad
value is refused in the same words wherever it came from.

Invariant: a command reads its settings once, here.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import typer

from gatelog.shell.errors import UsageFailed
from podgroup.runtime.settings import Settings
from podgroup.runtime.settings_source import load

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="Settings file (TOML). Default: GATELOG_CONFIG, else none.",
    ),
]
Assign = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SECTION.FIELD=VALUE",
        help="Any setting, e.g. --set projector.batch_messages=500. May be repeated.",
    ),
]
StateDirOption = Annotated[
    str | None,
    typer.Option(
        "--state-dir", metavar="DIR", help="Where embedded storage lives. Default: .gatelog."
    ),
]
Kubeconfig = Annotated[
    str | None,
    typer.Option(
        "--kubeconfig", metavar="FILE", help="Default: KUBECONFIG, in-cluster, ~/.kube/config."
    ),
]
KubeContext = Annotated[
    str | None, typer.Option("--context", metavar="NAME", help="Context in the kubeconfig.")
]
Cluster = Annotated[
    str | None,
    typer.Option("--cluster", metavar="NAME", help="Name of the cluster. Default: default."),
]
Database = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL|FILE",
        help="Read model: a database URL or an SQLite file. "
        "Default: database.url, else the one in the state directory.",
    ),
]
Archive = Annotated[
    str | None,
    typer.Option(
        "--archive",
        metavar="DIR|URL",
        help="Archive with what the streams dropped. Default: archive.url.",
    ),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show all log lines on a terminal, too.")
]
NoHeaders = Annotated[bool, typer.Option("--no-headers", help="Rows only, without headings.")]
Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", metavar="NS", help="Of this namespace. Default: of all."),
]
AllNamespaces = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces, as without -n.")
]
Output = Annotated[
    Literal["wide", "json", "yaml", "name"] | None,
    typer.Option("--output", "-o", help="Form of the answer. Default: a table."),
]
Watch = Annotated[
    bool, typer.Option("--watch", "-w", help="Show it again whenever it changes, until Ctrl-C.")
]
Picture = Annotated[
    Path | None,
    typer.Option("--picture", metavar="FILE.svg", help="Draw the answer as well, as SVG."),
]
AsJson = Annotated[bool, typer.Option("--json", help="The same as -o json.")]
Form = Annotated[
    Literal["json", "yaml"] | None,
    typer.Option("--output", "-o", help="For programs. Default: text for people."),
]
_Asked = TypeVar(
    "_Asked", Literal["json", "yaml"] | None, Literal["wide", "json", "yaml", "name"] | None
)


def settings(config: Path | None, assign: list[str] | None, **given: Any) -> Settings:
    """Return the settings; `given` are values by path with `__` for the dot, None if not given.

    Raises:
        SettingsError: a setting that cannot be used.
        UsageFailed: `--set` without `=`.
    """
    overrides: dict[str, Any] = {}
    for text in assign or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageFailed(f"--set {text}: write it as --set section.field=value")
        overrides[name.strip()] = value
    overrides.update({k.replace("__", "."): v for k, v in given.items() if v is not None})
    return load(config, overrides=overrides)


def of_cluster(
    config: Path | None,
    kubeconfig: str | None,
    context: str | None,
    assign: list[str] | None,
    **given: Any,
) -> Settings:
    """Return the settings of a command that needs a cluster; `given` as of `settings`."""
    return settings(
        config,
        assign,
        kubernetes__kubeconfig=kubeconfig,
        kubernetes__context=context,
        **given,
    )


def with_archive(given: Settings, url: str | None) -> Settings:
    """Return the settings with another archive, if one is named."""
    if url is None:
        return given
    return msgspec.structs.replace(given, archive=msgspec.structs.replace(given.archive, url=url))


def database_option(value: str | None) -> str | None:
    """Return the URL for `--db`: a path becomes that of an SQLite file."""
    if value is None or "://" in value:
        return value
    return f"sqlite:///{Path(value).expanduser().resolve()}"


def form(output: _Asked, *, as_json: bool) -> _Asked:
    """Return the form that was asked for by `-o` or by `--json`.

    Raises:
        UsageFailed: two different ones.
    """
    if as_json and output not in (None, "json"):
        raise UsageFailed(f"--json and -o {output} exclude each other: one form")
    return "json" if as_json else output


def namespace_of(name: str | None, *, every: bool) -> str:
    """Return the namespace that was asked for, "" for all.

    Raises:
        UsageFailed: one and all at the same time.
    """
    if name and every:
        raise UsageFailed(f"-n {name} and -A exclude each other: one namespace, or all")
    return name or ""
