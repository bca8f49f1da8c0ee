"""Options that several commands share, and how they become settings.

Theory. Every setting can be given on the command line (`--set section.field=value`); the few that
people type daily have an option of their own. All go through `settings_source.load`, so a bad value
is refused in the same words from every source. Options that go together are one value: a command
takes the value, and `as_options` gives typer the value's options, after those of the command
itself.

Invariant: a command reads its settings once, here.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar, cast, get_type_hints

import msgspec
import typer

from gatelog.shell import statedir
from gatelog.shell.errors import NotHere, UsageFailed
from gatelog.shell.named import by_kubeconfig
from runtime.settings import Settings
from runtime.settings_source import load

R = TypeVar("R")


def _namespaces(ctx: Any, incomplete: str) -> list[str]:
    """Complete a namespace, by a module above this layer, loaded only for that."""
    found: list[str] = import_module("gatelog.terminal.completing").namespaces(ctx, incomplete)
    return found


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
        help="Any setting, e.g. --set queueing.status_interval_s=10. May be repeated.",
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
        "Default: that of the kubeconfig's cluster.",
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
    typer.Option(
        "--namespace",
        "-n",
        metavar="NS",
        help="Of this namespace. Default: of all.",
        autocompletion=_namespaces,
    ),
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
AsJson = Annotated[bool, typer.Option("--json", help="The same as -o json.")]
Form = Annotated[
    Literal["json", "yaml"] | None,
    typer.Option("--output", "-o", help="For programs. Default: text for people."),
]


Rows = Annotated[
    Literal["json", "yaml", "csv"] | None,
    typer.Option("--output", "-o", help="For programs. Default: text for people."),
]


def settings(
    config: Path | None,
    assign: list[str] | None,
    *,
    defaults: Mapping[str, Any] | None = None,
    **given: Any,
) -> Settings:
    """Return the settings; `given` are values by path with `__` for the dot, None if not given.

    `defaults` are a command's own, by path.

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
    return load(config, overrides=overrides, defaults=defaults)


def with_archive(given: Settings, url: str | None) -> Settings:
    """Return the settings with another archive, if `url` names one."""
    if url is None:
        return given
    return msgspec.structs.replace(given, archive=msgspec.structs.replace(given.archive, url=url))


def database_option(value: str | None) -> str | None:
    """Return the URL for `--db`: a path becomes that of an SQLite file."""
    if value is None or "://" in value:
        return value
    return f"sqlite:///{Path(value).expanduser().absolute()}"


def epilog(examples: str) -> str:
    """Return the text below the help of a command: its examples, one to a line."""
    return "\n\n".join(["[bold]Examples[/]", *examples.strip().splitlines()])


def as_options(command: Callable[..., R]) -> Callable[..., R]:
    """Return a command for typer: values of this module become their options."""
    hints = get_type_hints(command, include_extras=True)
    values: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    seen = [
        one.replace(annotation=hints[one.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for one in inspect.signature(command).parameters.values()
        if one.name not in values
    ]
    for kind in values.values():
        of = get_type_hints(kind, include_extras=True)
        seen += [
            inspect.Parameter(
                each.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=each.default,
                annotation=of[each.name],
            )
            for each in fields(kind)
        ]

    @functools.wraps(command)
    def run(**given: Any) -> R:
        made = {
            name: kind(**{each.name: given.pop(each.name) for each in fields(kind)})
            for name, kind in values.items()
        }
        return command(**given, **made)

    run.__signature__ = inspect.Signature(seen)  # type: ignore[attr-defined] # typer reads it
    run.__annotations__ = {one.name: one.annotation for one in seen}
    return run


@dataclass(frozen=True)
class DatabaseOptions:
    """Which read model a command asks."""

    config: Config = None
    state_dir: StateDirOption = None
    db: Database = None
    assign: Assign = None

    def settings(self, *, search: bool = False, **given: Any) -> Settings:
        """Return the settings; `given` as of the function `settings`.

        With `search`, for commands that only read: without a named read model, the nearest read
        model of the kubeconfig's cluster is taken (`statedir.near`), and named on stderr if it is
        elsewhere. The read model of another cluster is never read.

        Raises:
            SettingsError: a setting that cannot be used.
            UsageFailed: `--set` without `=`.
            NotHere: no setting names a read model, and none here is of the kubeconfig's cluster.
        """
        found = settings(
            self.config,
            self.assign,
            state_dir=self.state_dir,
            database__url=database_option(self.db),
            **given,
        )
        default = Settings().state_dir
        named = found.database.url or found.state_dir != default or self.state_dir is not None
        if not search or named:
            return found
        place = _nearest(default, found)
        if place.path == statedir.of(found).path:
            return found
        sys.stderr.write(f"gatelog: reading {place.path} (--state-dir or --db name another)\n")
        return msgspec.structs.replace(found, state_dir=str(place.path))


def _nearest(name: str, given: Settings) -> statedir.StateDir:
    """Return the nearest state directory of the kubeconfig's cluster.

    Raises:
        NotHere: there is none.
    """
    asked = by_kubeconfig(given.kubernetes.kubeconfig, given.kubernetes.context)
    there = statedir.near(name)
    for place in there:
        if asked is None or place.cluster() == asked.identity:
            return place
    if asked is None:
        said = "no read model is here (no such database), and no kubeconfig names a cluster"
        raise NotHere(said, given)
    beside = ""
    if there:
        other = there[0].cluster().partition(" ")[0]
        beside = f" ({there[0].path} is {f'that of {other}' if other else 'of a cluster unknown'})"
    said = f"no read model of {asked.server or asked.context} is on this machine{beside}"
    raise NotHere(said, given)


@dataclass(frozen=True)
class ReadModelOptions(DatabaseOptions):
    """Which read model a command asks, and for which cluster."""

    cluster: Cluster = None

    def settings(self, *, search: bool = False, **given: Any) -> Settings:
        """Return the settings; see `DatabaseOptions`."""
        return super().settings(search=search, cluster=self.cluster, **given)


@dataclass(frozen=True)
class ClusterOptions:
    """Which cluster a command goes to."""

    config: Config = None
    kubeconfig: Kubeconfig = None
    context: KubeContext = None
    assign: Assign = None

    def settings(self, **given: Any) -> Settings:
        """Return the settings; `given` as of the function `settings`."""
        return settings(
            self.config,
            self.assign,
            kubernetes__kubeconfig=self.kubeconfig,
            kubernetes__context=self.context,
            **given,
        )


@dataclass(frozen=True)
class InstallationOptions(ReadModelOptions):
    """A cluster and the read model that belongs to it."""

    kubeconfig: Kubeconfig = None
    context: KubeContext = None

    def settings(self, *, search: bool = False, **given: Any) -> Settings:
        """Return the settings; see `DatabaseOptions`."""
        return super().settings(
            search=search,
            kubernetes__kubeconfig=self.kubeconfig,
            kubernetes__context=self.context,
            **given,
        )


_Form = TypeVar("_Form", bound=str)


@dataclass(frozen=True)
class _Answer(Generic[_Form]):
    """In which form a command answers."""

    output: _Form | None = None
    as_json: AsJson = False

    @property
    def form(self) -> _Form | None:
        """The form that `-o` or `--json` names.

        Raises:
            UsageFailed: two different forms.
        """
        if self.as_json and self.output not in (None, "json"):
            raise UsageFailed(f"--json and -o {self.output} exclude each other: one form")
        return cast("_Form", "json") if self.as_json else self.output


@dataclass(frozen=True)
class OutputOptions(_Answer[Literal["json", "yaml"]]):
    """Text for people, or a document for programs."""

    output: Form = None


@dataclass(frozen=True)
class RowsOptions(_Answer[Literal["json", "yaml", "csv"]]):
    """Rows of a statement: a table for people, a document for programs, or a spreadsheet's."""

    output: Rows = None


@dataclass(frozen=True)
class TableOptions(_Answer[Literal["wide", "json", "yaml", "name"]]):
    """A table for people, or a document for programs."""

    output: Output = None
    no_headers: NoHeaders = False


@dataclass(frozen=True)
class ScopeOptions:
    """Of one namespace, or of all."""

    namespace: Namespace = None
    all_namespaces: AllNamespaces = False

    @property
    def name(self) -> str:
        """The namespace that was asked for, "" for all.

        Raises:
            UsageFailed: one and all at the same time.
        """
        if self.namespace and self.all_namespaces:
            raise UsageFailed(
                f"-n {self.namespace} and -A exclude each other: one namespace, or all"
            )
        return self.namespace or ""
