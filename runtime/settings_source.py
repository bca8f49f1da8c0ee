"""From file, environment and command line to one `Settings`, or to an error a person can act on.

Each field is converted by itself against its own type, so that the error names section.field, the
value, where it came from and what is allowed. Nothing is ignored silently: an unknown name is an
error in every source, with one exception: the variables that the kubelet injects for a Service
called gatelog-something (GATELOG_API_SERVICE_HOST, GATELOG_API_PORT=tcp://...), which no user set.

Invariant: `load` returns a checked `Settings` or raises `SettingsError`; values of fields marked
secret never appear in the error.
"""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import NODEFAULT, Meta, Struct

from runtime.settings import CONSTANT, Section, Settings, SettingsError

CONFIG_VARIABLE = "GATELOG_CONFIG"
_PREFIX = "GATELOG_"
_MAX_FILE_BYTES = 1024 * 1024
_SERVICE_LINK = re.compile(r"GATELOG_\w*?(SERVICE_HOST|SERVICE_PORT\w*|PORT_\d+_(TCP|UDP|SCTP)\w*)")
_SERVICE_LINK_VALUE = re.compile(r"(tcp|udp|sctp)://")


class FieldDoc(NamedTuple):
    """The facts about a setting; its meaning is the docstring of its field in `Settings`."""

    section: str
    name: str
    type: str
    allowed: str
    default: Any
    variable: str
    secret: bool
    constant: bool

    @property
    def path(self) -> str:
        """`section.field`, or the bare field at top level."""
        return f"{self.section}.{self.name}" if self.section else self.name


class _Given(NamedTuple):
    value: Any
    source: str
    text: bool


def describe() -> list[FieldDoc]:
    """Return every setting, in the order of the schema: for the manual, and for `load` itself."""
    return [doc for doc in _fields() if not doc.constant]


def load(
    config: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Settings:
    """Return the settings of this process.

    `config` is the TOML file (default: GATELOG_CONFIG, else none); `overrides` are values from
    the command line by path (`"nats.url"`); an override that is None counts as not given.
    `defaults` are values by path of what nothing else gives.

    Raises:
        SettingsError: a file that cannot be read, an unknown name or a bad value.
    """
    env = os.environ if environ is None else environ
    docs = {doc.path: doc for doc in describe()}
    given: dict[str, _Given] = {}
    path = config if config is not None else env.get(CONFIG_VARIABLE) or None
    if path is not None:
        given.update(_from_file(Path(path), docs))
    given.update(_from_environment(env, docs))
    for name, value in (overrides or {}).items():
        if name not in docs:
            raise SettingsError(f"command line: {_unknown(name, docs)}")
        if value is not None:
            given[name] = _Given(value, "the command line", isinstance(value, str))
    found = {path: _convert(docs[path], value) for path, value in given.items()}
    return _build({**(defaults or {}), **found})


def _build(values: Mapping[str, Any]) -> Settings:
    top = {path: value for path, value in values.items() if "." not in path}
    for name, section in _sections().items():
        chosen = {p.split(".", 1)[1]: v for p, v in values.items() if p.startswith(f"{name}.")}
        top[name] = section(**chosen)
    settings = Settings(**top)
    check(settings)
    return settings


def check(settings: Settings) -> None:
    """Check rules between settings.

    Raises:
        SettingsError: they do not go together.
    """
    lease = settings.lease
    if not lease.retry_period_s < lease.renew_deadline_s < lease.duration_s:
        raise SettingsError(
            "lease: retry_period_s must be less than renew_deadline_s, and that less than "
            f"duration_s; they are {lease.retry_period_s}, {lease.renew_deadline_s} and "
            f"{lease.duration_s}"
        )


def _sections() -> dict[str, type[Section]]:
    hints = get_type_hints(Settings)
    return {n: t for n, t in hints.items() if isinstance(t, type) and issubclass(t, Section)}


def _fields() -> Iterator[FieldDoc]:
    yield from _docs_of("", Settings)
    for name, section in _sections().items():
        yield from _docs_of(name, section)


def _docs_of(section: str, struct: type[Struct]) -> Iterator[FieldDoc]:
    hints = get_type_hints(struct, include_extras=True)
    for item in msgspec.structs.fields(struct):
        kind = hints[item.name]
        if isinstance(kind, type) and issubclass(kind, Section):
            continue
        base, *metas = get_args(kind) if get_origin(kind) is Annotated else (kind,)
        meta = next((m for m in metas if isinstance(m, Meta)), Meta())
        variable = "_".join(filter(None, (_PREFIX.rstrip("_"), section, item.name))).upper()
        yield FieldDoc(
            section=section,
            name=item.name,
            type=_type_name(base),
            allowed=_allowed(base, meta),
            default=None if item.default is NODEFAULT else item.default,
            variable=variable,
            secret=bool((meta.extra or {}).get("secret")),
            constant=meta.extra == CONSTANT.extra,
        )


def _type_name(base: Any) -> str:
    if get_origin(base) is Union:  # a truth value, or a word instead
        words = (word for part in get_args(base) for word in get_args(part))
        return ", ".join((*words, "true or false"))
    if get_origin(base) is Literal:
        return "word"
    if get_origin(base) is tuple:
        return "list of text"
    return {str: "text", int: "whole number", float: "number", bool: "true or false"}[base]


def _allowed(base: Any, meta: Meta) -> str:
    if get_origin(base) is Literal:
        return "one of " + ", ".join(str(word) for word in get_args(base))
    if get_origin(base) is tuple and get_origin(get_args(base)[0]) is Literal:
        return "any of " + ", ".join(get_args(get_args(base)[0]))
    if meta.pattern is not None:
        return f"text matching {meta.pattern}"
    if meta.ge is not None and meta.le is not None:
        return f"a {_type_name(base)} from {meta.ge} to {meta.le}"
    if meta.ge is not None:
        return f"a {_type_name(base)} of at least {meta.ge}"
    return _type_name(base)


def _from_file(path: Path, docs: Mapping[str, FieldDoc]) -> dict[str, _Given]:
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise SettingsError(
                f"{path}: larger than {_MAX_FILE_BYTES} bytes; is it the right file?"
            )
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read the settings file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from error
    given: dict[str, _Given] = {}
    sections = _sections()
    for name, value in tree.items():
        if name not in sections:
            given[name] = _Given(value, str(path), text=False)
        elif isinstance(value, dict):
            for field, inner in value.items():
                given[f"{name}.{field}"] = _Given(inner, str(path), text=False)
        else:
            raise SettingsError(f"{path}: {name} is a section: write [{name}] and its fields below")
    for name in given:
        if name not in docs:
            raise SettingsError(f"{path}: {_unknown(name, docs)}")
    return given


def _from_environment(
    environ: Mapping[str, str], docs: Mapping[str, FieldDoc]
) -> dict[str, _Given]:
    by_variable = {doc.variable: doc for doc in docs.values()}
    given: dict[str, _Given] = {}
    for variable, value in environ.items():
        if not variable.startswith(_PREFIX) or variable == CONFIG_VARIABLE:
            continue
        link = _SERVICE_LINK.fullmatch(variable) or _SERVICE_LINK_VALUE.match(value)
        if link and (variable not in by_variable or variable.endswith("_PORT")):
            continue
        doc = by_variable.get(variable)
        if doc is None:
            raise SettingsError(f"environment: {_unknown(variable, by_variable)}")
        given[doc.path] = _Given(value, f"environment variable {variable}", text=True)
    return given


_ONE_PROJECTOR: Final = (
    "a cluster has one projector: leave the setting out, and where there were several shards begin "
    "under another `cluster` name (docs/upgrade.md)"
)


def gone() -> dict[str, str]:
    """Settings of earlier versions -> what to do instead."""
    constants = {
        doc.path: f"its value is always {doc.default}" for doc in _fields() if doc.constant
    }
    found = {
        "shards": _ONE_PROJECTOR,
        "projector.shard": _ONE_PROJECTOR,
        **{path: f"{why}: leave the setting out" for path, why in constants.items()},
        "nats.embedded_port": "any free port is taken: leave the setting out",
    }
    variables = {_PREFIX + path.replace(".", "_").upper(): why for path, why in found.items()}
    return found | variables


def _unknown(name: str, known: Mapping[str, Any]) -> str:
    import difflib

    if instead := gone().get(name):
        return f"{name} is no setting any more: {instead}"
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"no setting is called {name}{hint}"


def _convert(doc: FieldDoc, given: _Given) -> Any:
    struct = _sections()[doc.section] if doc.section else Settings
    kind = get_type_hints(struct, include_extras=True)[doc.name]
    value = given.value
    if given.text and doc.type == "list of text":
        value = [part.strip() for part in value.split(",") if part.strip()]
    try:
        return msgspec.convert(value, kind, strict=not given.text)
    except msgspec.ValidationError as error:
        shown = "(hidden)" if doc.secret else repr(given.value)
        raise SettingsError(
            f"{doc.path} = {shown} (from {given.source}): must be {doc.allowed}"
        ) from error
