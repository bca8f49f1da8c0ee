"""Every name in backticks in docstrings is the name of something that is there.

Theory. What a reader finds in backticks they look for: a module, a function, a setting, a column, a
command. A docstring speaks of its own file, of its package, of what it imports, or names a package
in full; the docs speak of all of it. So a docstring's lone word has to be found near it, and a name
that was renamed elsewhere is noticed where it is still used.

Invariant: `ABROAD` has only names of other people's software.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gatelog.cli import COMMANDS
from gatelog.readmodel.questions import questions
from podgroup import rules
from podgroup.log import events, records
from podgroup.model import commands, names, policy, reasons
from podgroup.model.lifecycle import STATES
from projector.schema import views
from projector.tables import metadata
from runtime.settings_source import describe
from tests.support.meanings import meanings

ROOT = Path(__file__).parents[2]
PACKAGES = ("podgroup", "runtime", "ingest", "projector", "actuator", "gatelog", "simcluster")
SOURCES = sorted(page for name in PACKAGES for page in (ROOT / name).rglob("*.py"))

_TICKED = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*(\(\))?")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def ticked(text: str) -> Iterator[str]:
    """Names in backticks; not paths, statements, flags and the like."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for found in _TICKED.findall(text):
        if _NAME.fullmatch(found):
            yield found.removesuffix("()")


class Scanned(NamedTuple):
    """What there is to know of a file."""

    identifiers: frozenset[str]
    """Whatever it names: definitions, arguments, attributes, and words of its strings."""
    defined: frozenset[str]
    """What it defines: functions, classes, their methods and fields, variables."""
    imported: frozenset[str]
    """Modules that it imports, or may import from."""
    docstrings: tuple[tuple[int, str], ...]
    """Its docstrings, those of attributes too: every string that is a statement."""


@cache
def scanned(page: Path) -> Scanned:
    """Go over a file once; its tree is not kept."""
    found, own, modules, quoted = set[str](), set[str](), set[str](), list[tuple[int, str]]()
    skipped: set[int] = set()
    for node in ast.walk(ast.parse(page.read_bytes())):
        match node:
            case ast.Expr(value=value):
                skipped.add(id(value))
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    quoted.append((node.lineno, value.value))
            case ast.Name(id=name, ctx=ctx) | ast.Attribute(attr=name, ctx=ctx):
                found.add(name)
                if isinstance(ctx, ast.Store):
                    own.add(name)
            case ast.Constant(value=str(text)) if id(node) not in skipped:
                found.update(_WORD.findall(text))
            case ast.Constant(value=bytes(text)):
                found.update(_WORD.findall(text.decode(errors="replace")))
            case ast.arg(arg=name) | ast.keyword(arg=str(name)):
                found.add(name)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.add(node.name)
                own.add(node.name)
            case ast.alias():
                found.update((node.asname or node.name).split("."))
            case ast.ImportFrom(module=str(module)):
                modules |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
            case ast.Import():
                modules |= {alias.name for alias in node.names}
    return Scanned(frozenset(found), frozenset(own), frozenset(modules), tuple(quoted))


@cache
def near(page: Path) -> frozenset[str]:
    """Names that a docstring of a file may use: its own, its package's, those it imports from."""
    found = set(scanned(page).identifiers)
    package = page.parent
    inside = package.rglob("*.py") if page.name == "__init__.py" else package.glob("*.py")
    for other in inside:
        found |= scanned(other).defined
        found.add(other.stem if other.stem != "__init__" else other.parent.name)
    up = package.parent
    while up != ROOT.parent and up != ROOT:
        found |= {one.stem for one in up.glob("*.py")} | {one.name for one in up.iterdir()}
        up = up.parent
    for module in scanned(page).imported:
        place = ROOT.joinpath(*module.split("."))
        for source in (place.with_suffix(".py"), place / "__init__.py"):
            if source.is_file():
                found |= scanned(source).defined
                found.add(source.stem if source.stem != "__init__" else place.name)
    return frozenset(found)


@cache
def contract() -> frozenset[str]:
    """Names that users see: settings, tables, columns, commands, rules, events, reasons, states."""
    found: set[str] = set(PACKAGES) | set(STATES) | set(views.VIEWS) | {"Gone"}
    for doc in describe():
        found.update(doc.path.split("."))
    for table in metadata.tables.values():
        found.add(table.name)
        found.update(column.name for column in table.columns)
    found.update(COMMANDS)
    found.update(reason.word for reason in reasons.REASONS)
    found |= scanned(Path(str(views.__file__))).identifiers
    for module in (commands, events, policy, records):
        found |= scanned(Path(str(module.__file__))).defined
    found.update(value for value in vars(names).values() if isinstance(value, str))
    for page in Path(rules.__file__).parent.rglob("*.py"):
        found |= scanned(page).identifiers
    return frozenset(found)


@cache
def everything() -> frozenset[str]:
    """All names there are, for the docs."""
    found: set[str] = {*contract(), *questions()}
    for meaning in meanings().values():  # which name settings of Kueue's
        found.update(_WORD.findall(meaning))
    for page in (
        *SOURCES,
        *sorted((ROOT / "tests").rglob("*.py")),
        *(ROOT / "bench").rglob("*.py"),
    ):
        found |= scanned(page).identifiers | {page.stem, page.parent.name}
    for folder in ("deploy", "migrations"):
        for page in (ROOT / folder).rglob("*"):
            if page.is_file() and page.suffix in (".yaml", ".conf", ".sh", ".json", ".toml", ".py"):
                found.update(_WORD.findall(page.read_text(errors="replace")))
    found.update(_WORD.findall((ROOT / "pyproject.toml").read_text()))
    found.update(_WORD.findall((ROOT / "Makefile").read_text()))
    return frozenset(found)


ABROAD = frozenset(
    (
        "admissionChecks",
        "admissionChecksStrategy",
        "borrowWithinCohort",
        "cohortName",
        "labelKeysToCopy",
        "managedJobsNamespaceSelector",
        "topologyAssignment",
        "topologyRequest",
        "maxPriorityThreshold",
        "integrations",
        "FailedDiscoveryCheck",
        "PodScheduled",
        "ResourceQuota",
        "active",
        "cpu",
        "spec",
        "admission_wait_time_seconds",
        "evicted_workloads_total",
        "pending_workloads",
        "pod_scheduling_gate_removal_seconds",
        "SSLSocket",
        "fetch",
        "getpeercert",
        "readline",
        "wait_for",
        "CREATEDB",
        "CREATEROLE",
        "postgresql",
        "sslmode",
        "synchronous_commit",
        "inst_num",
        "plan_cpu",
        "plan_gpu",
        "plan_mem",
        "enter",
        "exit",
        "info",
    )
)
"""Names of other software that docs and docstrings speak of: Kueue's, Kubernetes', libraries',
PostgreSQL's, a published trace's, Python's."""
FOREIGN = frozenset(("kubernetes_asyncio", "nats", "web"))
"""Packages of others."""
EXAMPLES = frozenset(("history_20260105", "worker", "workers", "_s", "_ms"))
"""Names that stand for many: a partition, roles of a story, endings of settings."""


def missing(name: str, known: frozenset[str], page: Path | None = None) -> bool:
    """Whether nothing of that name is among `known`, nor from a package down that `page` is in."""
    parts = name.split(".")
    if name in EXAMPLES or parts[0] in FOREIGN:
        return False
    if all(part in known or part in ABROAD for part in parts):
        return False
    bases = [ROOT, *(up for up in (page.parents if page else ()) if ROOT in up.parents)]
    return not any(down_from(base, parts) for base in bases)


def down_from(place: Path, parts: list[str]) -> bool:
    """Whether names lead from a folder to a package, module or what is in one."""
    rest = parts
    while rest and (place / rest[0]).is_dir():
        place, rest = place / rest[0], rest[1:]
    if len(rest) == len(parts) and not (place / f"{rest[0]}.py").is_file():
        return False
    module = place / "__init__.py"
    if rest and (place / f"{rest[0]}.py").is_file():
        module, rest = place / f"{rest[0]}.py", rest[1:]
    return not rest or all(part in scanned(module).identifiers for part in rest)


def test_names_in_docstrings() -> None:
    wrong = [
        f"{page.relative_to(ROOT)}:{line}: `{name}`"
        for page in SOURCES
        for line, text in scanned(page).docstrings
        for name in ticked(text)
        if missing(name, contract(), page) and missing(name, near(page) | contract(), page)
    ]
    assert wrong == []
