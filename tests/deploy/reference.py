"""The generated parts of the documentation: settings, tables and views, rules, a group's life.

    python -m tests.deploy.reference      writes them into the documents that `PARTS` names, and
                                          the settings into the chart's schema,
                                          and the generated rules of the validating policy,
                                          and copies of deploy/ into the chart

A test compares. Between `<!-- begin NAME -->` and `<!-- end NAME -->` nobody writes by hand.
"""

import argparse
import json
import re
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa

from gatelog.readmodel.questions import questions
from gatelog.shell.remedies import REMEDIES, Installation, remedy
from ingest.webhook import bypass as queue_bypass
from podgroup.model.keys import KEYS
from podgroup.model.lifecycle import ARROWS, GONE, STATES
from podgroup.model.names import PREFIX
from podgroup.model.reasons import FIELDS, REASONS, RECREATE, Reason
from podgroup.rules import RULES
from runtime.settings import Settings
from runtime.settings_source import FieldDoc, describe
from tests.deploy import chart_values, queue_fields
from tests.parity.document import left_out
from tests.replay import questions as answering
from tests.support.meanings import meanings

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = DOCS.parent / "deploy" / "chart" / "values.schema.json"

CHART_FILES = SCHEMA.parent / "files"
IN_CHART = (
    *("admission-policy", "aggregated-api", "base", "common", "crds", "doctor", "prometheus"),
    *("serve", "standalone", "uninstall", "webhook", "components/forecast", "components/measure"),
    *("components/nats", "components/serve-own-certificates", "components/webhook"),
    "components/devices",
    "components/owned-groups",
    "components/secrets",
    "components/webhook-own-certificates",
)
"""Directories of deploy/ that the chart renders: as copies, since GitOps tools follow no links."""

MANY = 5
"""Arrows with one end and one reason that are said in a sentence instead of drawn."""

NOT_YET: frozenset[str] = frozenset()
"""Settings that are read and checked but that nothing acts on yet; a test keeps the list true."""


def settings() -> str:
    """The table of all settings; a path begins with its section."""
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    for doc in describe():
        allowed = _allowed(doc)
        default = f"{_default(doc)} ({allowed})" if allowed else _default(doc)
        lines.append(f"| `{doc.path}` | {default} | {_meaning(doc)} |")
    return "\n".join(lines)


def chart_settings() -> dict[str, Any]:
    """The schema of the chart's values that are settings: all of `settings`, cluster and mode."""
    (top,), parts = msgspec.json.schema_components([Settings], ref_template="{name}")
    root = parts[top["$ref"]]["properties"]
    offered = {doc.path for doc in describe()}

    def plain(name: str, node: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in node:
            fields = parts[node["$ref"]]["properties"].items()
            inner = {n: plain(n, f) for n, f in fields if f"{name}.{n}" in offered}
            return _object(inner)
        if "allOf" in node:  # a section, with what is said of it
            return plain(name, node["allOf"][0])
        kept = {k: v for k, v in node.items() if k not in ("default", "description", "title")}
        # A list is also taken as the environment has it.
        return {"anyOf": [kept, {"type": "string"}]} if kept.get("type") == "array" else kept

    return _object({name: plain(name, field) for name, field in root.items()})


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
        return "`" + ", ".join(value) + "`" if value else ""
    if value in ("", None):
        return ""
    return f"`{value}`"


def _meaning(doc: FieldDoc) -> str:
    return _cell(meanings()[doc.path]) + (" *Not acted on yet.*" if doc.path in NOT_YET else "")


_SHORT = (
    (r"^(text|list of text|true or false)$", ""),
    (r"^a (whole )?number (from )?", ""),
    (r"^of at least ", "from "),
    (r"^(one|any) of ", ""),
    (r"^text matching (\S+)$", r"`\1`"),
)
"""What a setting may be, in fewer words than in an error; a pattern is code, not Markdown."""


def _allowed(doc: FieldDoc) -> str:
    """What a setting may be, "" where its default says so."""
    text = _cell(doc.allowed)
    for long, short in _SHORT:
        text = re.sub(long, short, text)
    return text


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def tables() -> str:
    """A table of tables with their columns; what each column means is in the database."""
    from projector.tables import metadata

    lines = ["| table | one row per | columns |", "|---|---|---|"]
    for table in metadata.sorted_tables:
        shown = [one for one in table.columns if one.name not in ("cluster", "folded")]
        columns = ", ".join(f"**{c.name}**" if c.primary_key else c.name for c in shown)
        what = str(table.comment).removeprefix("One row per ")
        lines.append(f"| `{table.name}` | {_cell(what)} | {columns} |")
    return "\n".join(lines)


def asked() -> str:
    """A table of the questions of `gatelog ask`."""
    lines = ["| name | asks | of |", "|---|---|---|"]
    for one in questions().values():
        lines.append(f"| `{one.name}` | {_cell(one.asks)} | {', '.join(one.parameters)} |")
    return "\n".join(lines)


def example() -> str:
    """One question, its statement and its answer on a small history."""
    query = dict(answering.asked("sqlite"))["overtook"]
    answer = answering.answers()["overtook"]
    command = "gatelog ask overtook --group ns/training"
    return f"`{command} --sql`:\n\n```sql\n{query}\n```\n\n`{command}`:\n\n```text\n{answer}```"


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
                names = [key for key in found.keys() if key != "cluster"]  # noqa: SIM118
                lines.append(f"| `{name}` | {comment} | {', '.join(names)} |")
        engine.dispose()
    return "\n".join(lines)


def states() -> str:
    """A table of the states of a group."""
    lines = ["| state | meaning |", "|---|---|"]
    return "\n".join(lines + [f"| {name} | {meaning} |" for name, meaning in STATES.items()])


def lifecycle() -> str:
    """A diagram of which state may follow which, without the ends that many states share."""
    reasons = Counter((after, when) for _, after, when in ARROWS)
    lines = ["```mermaid", "stateDiagram-v2"]
    for before, after, when in ARROWS:
        if reasons[after, when] < MANY:
            lines.append(f"    {before or '[*]'} --> {after}: {when}")
    return "\n".join([*lines, f"    {GONE} --> [*]", "```"])


def reasons() -> str:
    """Tables of the reasons to wait, and of what is written to pods besides."""
    kinds = {
        "A person must act (state Blocked):": [r for r in REASONS if r.waits and r.blocked],
        "The rest end by themselves, or by a decision of the queue's administrator:": [
            r for r in REASONS if r.waits and not r.blocked
        ],
        "Written to pods, or beside an admission; no reasons to wait:": [
            r for r in REASONS if not r.waits
        ],
    }
    heads = "| reason | meaning | what ends it |\n|---|---|---|"
    return "\n\n".join(
        "\n".join([f"{title}\n", heads, *map(_reason, found)]) for title, found in kinds.items()
    )


def _reason(reason: Reason) -> str:
    advice = reason.advice.format_map(FIELDS).removesuffix(RECREATE)
    cells = (f"`{reason.word}`", reason.says, advice)
    return "| " + " | ".join(map(_cell, cells)) + " |"


def rules() -> str:
    """A table of what is decided, in the order in which rules run, from their declarations."""
    lines = ["| rule | when | does |", "|---|---|---|"]
    for rule in RULES:
        mode = f"{rule.mode}: " if rule.mode else ""
        lines.extend(
            f"| `{one.name}` | {mode}{_cell(one.when)} | {one.does} |" for one in rule.docs
        )
    return "\n".join(lines)


AGAIN = "make again what was installed"


def slug(heading: str) -> str:
    """Return the anchor of a heading."""
    return heading.lower().replace(" ", "-")


def remedies() -> str:
    """A chapter for each cause: what to do about it, by how gatelog was installed."""
    places = {
        "`gatelog up`": Installation(how="up"),
        "one pod": Installation(profile="standalone"),
        "production": Installation(),
    }
    # What was installed is made again in one way, which stands once, below its own heading.
    again = remedy("rights")
    lines = []
    for cause in REMEDIES:
        said = [
            remedy(cause, at).replace(again, f"[{AGAIN}](#{slug(AGAIN)})") for at in places.values()
        ]
        lines += [f"### {cause.capitalize()}", ""]
        if len(set(said)) == 1:
            lines += [said[0], ""]
        else:
            lines += [f"- **{name}**: {text}" for name, text in zip(places, said, strict=True)]
            lines.append("")
    lines += [
        f"### {AGAIN.capitalize()}",
        "",
        "Images, settings and the number of replicas are then again as they were installed.",
        "",
    ]
    lines += [f"- {one}" for one in again.split("; ")]
    lines.append("- installed by `gatelog up`: `gatelog up`, as it was started")
    return "\n".join(lines)


def pod_keys() -> str:
    """The table of keys that a pod may bear."""
    lines = ["| key | is | says | from |", "|---|---|---|---|"]
    for key in KEYS:
        kinds = [kind for kind in ("annotation", "label") if getattr(key, kind)]
        short = key.name.removeprefix(PREFIX)
        name = f"`{key.name}…`" if key.prefix else f"`{short}`"
        says = f"{key.says}; needs a Workload" if key.workload else key.says
        by = "" if key.core or key.door else " (written by gatelog)"
        lines.append(f"| {name} | {' or '.join(kinds)} | {_cell(says)}{by} | {key.of} |")
    return "\n".join(lines)


PARTS = {
    ("dialects.md", "keys"): pod_keys,
    ("runbook.md", "remedies"): remedies,
    ("../deploy/chart/README.md", "values"): chart_values.table,
    ("concepts.md", "states"): states,
    ("concepts.md", "lifecycle"): lifecycle,
    ("concepts.md", "reasons"): reasons,
    ("concepts.md", "rules"): rules,
    ("differences.md", "left out"): left_out,
    ("settings.md", "settings"): settings,
    ("queues.md", "fields"): queue_fields.table,
    ("sql.md", "example"): example,
    ("sql.md", "questions"): asked,
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


def chart_files() -> dict[str, str]:
    """Path below the chart's files/ and text of each file that the chart carries of deploy/."""
    deploy = SCHEMA.parents[1]
    found = {
        path.relative_to(deploy).as_posix(): path
        for directory in IN_CHART
        for path in (deploy / directory).rglob("*")
        if path.suffix in (".yaml", ".toml", ".conf") and path.name != "kustomization.yaml"
    }
    return {name: path.read_text() for name, path in sorted(found.items())}


def marks(name: str) -> tuple[str, str]:
    return f"<!-- begin {name} -->", f"<!-- end {name} -->"


def main() -> None:
    """Write every part into its document, and the settings into the chart's schema."""
    argparse.ArgumentParser(
        prog="python -m tests.deploy.reference",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args()
    SCHEMA.write_text(json.dumps(chart_schema(), indent=1) + "\n")
    POLICY.write_text(policy())
    shutil.rmtree(CHART_FILES, ignore_errors=True)
    for name, text in chart_files().items():
        copy = CHART_FILES / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text)
    for (file, name), make in PARTS.items():
        path = DOCS / file
        begin, end = marks(name)
        head, rest = path.read_text().split(begin)
        tail = rest.split(end)[1]
        path.write_text(f"{head}{begin}\n{make()}\n{end}{tail}")


if __name__ == "__main__":
    main()
