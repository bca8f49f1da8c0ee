"""Every text of the product that reaches a person, from the tables it comes from.

Theory. A person reads reasons, Events, help, logs, metrics, settings, columns, CRDs, values of the
chart, the console, and pages. Most of these are declared in tables, which are read here as they
are. What is made up while it runs (messages of rules, errors, labels of the console) is a string
somewhere in the source, so each string with more than one word is read from there; docstrings are
for those who change the code.

Invariant: every source gives at least one text, and names its places as a person would look for
them.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import typer
import yaml

from gatelog.cli import app
from gatelog.readmodel.questions import questions
from gatelog.serve.api import discovery, openapi
from gatelog.viacluster.app import app as plugin
from podgroup.model.lifecycle import ARROWS, STATES
from podgroup.model.reasons import REASONS
from podgroup.rules import RULES
from projector.schema.views import COMMENTS
from projector.tables import metadata
from runtime.settings_source import describe
from tests.deploy import chart_values, queue_fields
from tests.metrics.reference import everything
from tests.support.meanings import meanings

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("podgroup", "runtime", "ingest", "projector", "actuator", "gatelog")
TITLES: Final = ("title", "description", "legendFormat", "label", "summary", "displayName")
LEVELS: Final = ("debug", "info", "warning", "error", "exception", "critical")


class Text(NamedTuple):
    """A text and where it is; `name`: it is one identifier, not prose."""

    place: str
    text: str
    name: bool = False


def _reasons() -> Iterator[Text]:
    for one in REASONS:
        yield Text(one.word, one.word, name=True)
        yield Text(one.word, one.says)
        yield Text(one.word, one.advice)


def _states() -> Iterator[Text]:
    for name, meaning in STATES.items():
        yield Text(name, name, name=True)
        yield Text(name, meaning)
    for before, after, when in ARROWS:
        yield Text(f"{before} -> {after}", when)


def _rules() -> Iterator[Text]:
    for rule in RULES:
        for one in rule.docs:
            yield Text(one.name, one.name, name=True)
            yield Text(one.name, one.when)
            yield Text(one.name, one.does)


def _command_line() -> Iterator[Text]:
    def of(command: Any, path: str) -> Iterator[Text]:
        for text in (command.help, command.epilog):
            if text:
                yield Text(path, text)
        for one in command.params:
            yield Text(path, str(one.name), name=True)
            if help := getattr(one, "help", ""):
                yield Text(f"{path} {one.name}", help)
        for name, inner in getattr(command, "commands", {}).items():
            yield Text(path, name, name=True)
            yield from of(inner, f"{path} {name}")

    yield from of(typer.main.get_command(app), "gatelog")
    yield from of(typer.main.get_command(plugin), "kubectl gatelog")


def _metrics() -> Iterator[Text]:
    for family in everything().families.values():
        yield Text(family.name, family.name, name=True)
        yield Text(family.name, family.help)


def _settings() -> Iterator[Text]:
    for doc in describe():
        yield Text(doc.path, doc.name, name=True)
        yield Text(doc.path, meanings()[doc.path])


def _database() -> Iterator[Text]:
    for table in metadata.sorted_tables:
        yield Text(table.name, table.name, name=True)
        yield Text(table.name, str(table.comment))
        for column in table.columns:
            yield Text(f"{table.name}.{column.name}", column.name, name=True)
            yield Text(f"{table.name}.{column.name}", column.comment or "")
    for name, comment in COMMENTS.items():
        yield Text(name, name, name=True)
        yield Text(name, comment)


def _questions() -> Iterator[Text]:
    for one in questions().values():
        yield Text(one.name, one.name, name=True)
        yield Text(one.name, one.asks)


def _described(node: Any, place: str) -> Iterator[Text]:
    """Descriptions anywhere in a document, each with the names that lead to it."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key == "description" and isinstance(value, str):
                yield Text(place, value)
            else:
                yield from _described(value, f"{place}.{key}" if key != "properties" else place)
    elif isinstance(node, list):
        for value in node:
            yield from _described(value, place)


def _api() -> Iterator[Text]:
    for group in discovery.VERSIONS:
        yield from _described(msgspec.json.decode(openapi.encoded(group)), group)


def _crds() -> Iterator[Text]:
    for page in sorted((ROOT / "deploy" / "crds").glob("*.yaml")):
        for document in yaml.load_all(page.read_text(), Loader=yaml.CSafeLoader):
            yield from _described(document, page.name)


def _chart() -> Iterator[Text]:
    for line in chart_values.table().splitlines()[2:]:
        name, _, meaning = line.removeprefix("| ").removesuffix(" |").split(" |", 2)
        yield Text(name, meaning.strip())
    for line in queue_fields.table().splitlines()[2:]:
        yield Text("docs/queues.md", line)


@cache
def _strings() -> tuple[tuple[Text, ...], tuple[Text, ...]]:
    """Names of log events, and sentences, of the whole source; no tree is kept."""
    logged: list[Text] = []
    said: list[Text] = []
    for package in PACKAGES:
        for page in sorted((ROOT / package).rglob("*.py")):
            place, tree = str(page.relative_to(ROOT)), ast.parse(page.read_bytes())
            logged += _log_events(place, tree)
            said += sentences(place, tree)
    return tuple(logged), tuple(said)


def _log_events(place: str, tree: ast.Module) -> Iterator[Text]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in LEVELS
            and node.args
            and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, str)
            and re.fullmatch(r"[a-z0-9_]+", node.args[0].value)
        ):
            yield Text(f"{place}:{node.lineno}", node.args[0].value, name=True)


def spelled(node: ast.expr) -> str:
    """The text of a string or f-string, with `{}` for what is filled in; "" of anything else."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(
                one.value if isinstance(one, ast.Constant) and isinstance(one.value, str) else "{}"
                for one in values
            )
    return ""


def sentences(place: str, tree: ast.Module) -> Iterator[Text]:
    """Strings of more than one word in a module, without its docstrings."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            skipped.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            skipped.update(id(one) for one in node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in skipped:
            text = spelled(node)
            if " " in text.strip():
                yield Text(f"{place}:{node.lineno}", text)


def _console() -> Iterator[Text]:
    page = ROOT / "gatelog/serve/console/console.js"
    for number, line in enumerate(page.read_text().splitlines(), 1):
        for _, text in re.findall(r"""(["'`])((?:(?!\1).)* (?:(?!\1).)*)\1""", line):
            yield Text(f"{page.name}:{number}", text)


def _titled(node: Any, place: str) -> Iterator[Text]:
    """Titles, descriptions and legends of a dashboard, and the sentences of an alert."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if isinstance(value, str) and key in TITLES:
                yield Text(place, value)
            elif isinstance(value, str) and key == "alert":
                yield Text(place, value, name=True)
            else:
                yield from _titled(value, place)
    elif isinstance(node, list):
        for value in node:
            yield from _titled(value, place)


def _dashboards() -> Iterator[Text]:
    for page in sorted((ROOT / "deploy" / "grafana").glob("*.json")):
        yield from _titled(msgspec.json.decode(page.read_bytes()), page.name)


def _alerts() -> Iterator[Text]:
    for page in sorted((ROOT / "deploy").rglob("*.yaml")):
        if "chart" not in page.parts and "alert:" in page.read_text():
            for document in yaml.load_all(page.read_text(), Loader=yaml.CSafeLoader):
                yield from _titled(document, page.name)


def pages() -> tuple[Path, ...]:
    """Every page of the documentation."""
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    docs = sorted((ROOT / "docs").glob("*.md"))
    return (*top, *docs, *sorted((ROOT / "deploy").rglob("*.md")))


def _pages() -> Iterator[Text]:
    for page in pages():
        number = 1
        for block in page.read_text().split("\n\n"):
            if block.strip():
                yield Text(f"{page.relative_to(ROOT)}:{number}", block)
            number += block.count("\n") + 2


SOURCES: Final[Mapping[str, Callable[[], Iterator[Text]]]] = {
    "reasons": _reasons,
    "states": _states,
    "rules": _rules,
    "command line": _command_line,
    "metrics": _metrics,
    "settings": _settings,
    "database": _database,
    "questions": _questions,
    "aggregated API": _api,
    "CRDs": _crds,
    "chart": _chart,
    "dashboards": _dashboards,
    "alerts": _alerts,
    "log events": lambda: iter(_strings()[0]),
    "messages": lambda: iter(_strings()[1]),
    "console": _console,
    "pages": _pages,
}
"""What a person reads, and from where it is read here."""


@cache
def texts(source: str) -> tuple[Text, ...]:
    """Return all texts of a source."""
    return tuple(SOURCES[source]())
