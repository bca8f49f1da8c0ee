"""The generated parts of the documentation: settings, tables and views, rules, a group's life.

    python -m tests.deploy.reference      writes them into the documents that `PARTS` names, and
                                          the settings into the chart's schema,
                                          and the generated rules of the validating policy

A test compares. Between `<!-- begin NAME -->` and `<!-- end NAME -->` nobody writes by hand.
"""

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa

from ingest.webhook import bypass as queue_bypass
from podgroup.changes import WORDS
from podgroup.lifecycle import ARROWS, GONE, STATES
from podgroup.reasons import FIELDS, REASONS
from podgroup.rules import RULES
from podgroup.rules.helpers.rule import Rule
from podgroup.runtime.settings import Settings
from podgroup.runtime.settings_source import FieldDoc, describe
from tests.deploy import queue_fields
from tests.parity.document import left_out

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = DOCS.parent / "deploy" / "chart" / "values.schema.json"

NOT_YET: frozenset[str] = frozenset()
"""Settings that are read and checked but that nothing acts on yet; a test keeps the list true."""


def settings() -> str:
    """A table per section."""
    lines: list[str] = []
    section = None
    for doc in describe():
        if doc.section != section:
            section = doc.section
            lines += ["", f"**[{section}]**" if section else "**top level**", ""]
            lines += ["| setting | default | allowed | meaning |", "|---|---|---|---|"]
        lines.append(f"| `{doc.path}` | {_default(doc)} | {_allowed(doc)} | {_meaning(doc)} |")
    return "\n".join(lines).strip()


def chart_settings() -> dict[str, Any]:
    """The schema of the chart's values that are settings: all of `settings`, cluster and mode."""
    (top,), parts = msgspec.json.schema_components([Settings], ref_template="{name}")
    root = parts[top["$ref"]]["properties"]

    def plain(node: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in node:
            section = parts[node["$ref"]]["properties"]
            return _object({name: plain(field) for name, field in section.items()})
        if "allOf" in node:  # a section, with what is said of it
            return plain(node["allOf"][0])
        kept = {k: v for k, v in node.items() if k not in ("default", "description", "title")}
        # A list is also taken as the environment has it.
        return {"anyOf": [kept, {"type": "string"}]} if kept.get("type") == "array" else kept

    return _object({name: plain(field) for name, field in root.items()})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def chart_schema() -> dict[str, Any]:
    """The chart's schema with what settings say in it."""
    schema: dict[str, Any] = json.loads(SCHEMA.read_text())
    found = chart_settings()
    schema["properties"]["settings"] = found
    for name in ("cluster", "mode"):
        schema["properties"][name] = found["properties"][name]
    return schema


def _default(doc: FieldDoc) -> str:
    value = doc.default
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return "`" + ", ".join(value) + "`" if value else "none"
    if value in ("", None):
        return "empty"
    return f"`{value}`"


def _meaning(doc: FieldDoc) -> str:
    return _cell(doc.description) + (" *Not acted on yet.*" if doc.path in NOT_YET else "")


def _allowed(doc: FieldDoc) -> str:
    """What a setting may be; a pattern is code, not Markdown."""
    return re.sub(r"(?<=matching )\S+$", r"`\g<0>`", _cell(doc.allowed))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def tables() -> str:
    """A section per table."""
    from projector.tables import metadata

    parts: list[str] = []
    for table in metadata.sorted_tables:
        parts.append(f"### {table.name}\n\n{table.comment}.\n")
        parts.append("| column | type | |\n|---|---|---|")
        for column in table.columns:
            if column.name == "folded":
                continue
            key = "key" if column.primary_key else ("may be null" if column.nullable else "")
            parts.append(f"| `{column.name}` | {_type(column)} | {_cell(_mark(key, column))} |")
        parts.append("")
    return "\n".join(parts).strip()


def _mark(key: str, column: "sa.Column[object]") -> str:
    return f"*{key}.* {column.comment}" if key else str(column.comment)


def _type(column: "sa.Column[object]") -> str:
    from projector.tables import UtcTime

    if isinstance(column.type, UtcTime):
        return "time"
    names = {"TEXT": "text", "BIGINT": "number", "INTEGER": "number", "BOOLEAN": "yes/no"}
    return names.get(str(column.type), "document" if "JSON" in str(column.type) else "bytes")


def views() -> str:
    """A table of views with their columns, as a database gives them."""
    from projector.schema.views import COMMENTS
    from projector.storage.database import reader
    from projector.upkeep import migrate

    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/model.db"
        migrate.upgrade(url)
        engine = reader(url)
        lines = ["| view | what | columns |", "|---|---|---|"]
        with engine.connect() as connection:
            for name, comment in COMMENTS.items():
                found = connection.execute(sa.text(f"SELECT * FROM {name} LIMIT 0"))
                columns = ", ".join(f"`{key}`" for key in found.keys())  # noqa: SIM118
                lines.append(f"| `{name}` | {comment} | {columns} |")
        engine.dispose()
    return "\n".join(lines)


def states() -> str:
    """A table of the states of a group."""
    lines = ["| state | meaning |", "|---|---|"]
    return "\n".join(lines + [f"| {name} | {meaning} |" for name, meaning in STATES.items()])


def lifecycle() -> str:
    """A diagram of which state may follow which."""
    lines = ["```mermaid", "stateDiagram-v2"]
    for before, after, when in ARROWS:
        lines.append(f"    {before or '[*]'} --> {after}: {when}")
    return "\n".join([*lines, f"    {GONE} --> [*]", "```"])


def reasons() -> str:
    """A table of the reasons to wait, and of what pods are told besides."""
    heads = "| reason | says | Event | what ends it |\n|---|---|---|---|"
    parts = []
    for waits in (True, False):
        lines = [heads]
        for reason in REASONS:
            if reason.waits is waits:
                kind = "Warning" if reason.serious else "Normal"
                blocked = " *Blocked.*" if reason.blocked else ""
                cells = [f"`{reason.word}`", reason.says + "." + blocked]
                cells += [f"{kind} `{reason.event_name}`", reason.advice.format_map(FIELDS)]
                lines.append("| " + " | ".join(map(_cell, cells)) + " |")
        parts.append("\n".join(lines))
    between = "\n\nTold to pods, or beside an admission; no reasons to wait:\n\n"
    return between.join(parts)


def rules() -> str:
    """A table of what is decided, in the order in which rules run, from their declarations."""
    lines = ["| rule | mode | when | does | reads of pods at rest |", "|---|---|---|---|---|"]

    for rule in RULES:
        reads = rule.reads if isinstance(rule, Rule) else 0
        what = ", ".join(words for change, words in WORDS.items() if change & reads)
        lines.extend(
            f"| `{name}` | {rule.mode} | {_cell(when)} | {does} | {what} |"
            for name, when, does in rule.docs
        )
    return "\n".join(lines)


PARTS = {
    ("concepts.md", "states"): states,
    ("concepts.md", "lifecycle"): lifecycle,
    ("concepts.md", "reasons"): reasons,
    ("concepts.md", "rules"): rules,
    ("differences.md", "left out"): left_out,
    ("operations.md", "settings"): settings,
    ("queues.md", "fields"): queue_fields.table,
    ("sql.md", "tables"): tables,
    ("sql.md", "views"): views,
}


def bypass() -> str:
    """The policy's rules that no pod passes its queue."""
    return "\n".join(
        f"  # {rule['number']}\n  - expression: >-\n      {rule['expression']}\n"
        f"    reason: Forbidden\n    message: {json.dumps(rule['message'])}"
        for rule in queue_bypass.validations()
    )


def facts() -> str:
    """The policy's variables that these rules are about."""
    return "\n".join(
        f"  - name: {one['name']}\n    expression: >-\n      {one['expression']}"
        for one in queue_bypass.variables()
    )


POLICY = DOCS.parent / "deploy/admission-policy/validating-admission-policy.yaml"


def _begin(name: str) -> str:
    return f"  # begin {name}: written from ingest/webhook/bypass.py by tests.deploy.reference\n"


def policy() -> str:
    """The validating policy with its generated parts."""
    text = POLICY.read_text()
    for name, make in (("facts", facts), ("bypass", bypass)):
        head, rest = text.split(_begin(name))
        tail = rest.split(f"  # end {name}\n")[1]
        text = f"{head}{_begin(name)}{make()}\n  # end {name}\n{tail}"
    return text


def marks(name: str) -> tuple[str, str]:
    return f"<!-- begin {name} -->", f"<!-- end {name} -->"


def main() -> None:
    """Write every part into its document, and the settings into the chart's schema."""
    SCHEMA.write_text(json.dumps(chart_schema(), indent=1) + "\n")
    POLICY.write_text(policy())
    for (file, name), make in PARTS.items():
        path = DOCS / file
        begin, end = marks(name)
        head, rest = path.read_text().split(begin)
        tail = rest.split(end)[1]
        path.write_text(f"{head}{begin}\n{make()}\n{end}{tail}")


if __name__ == "__main__":
    main()
