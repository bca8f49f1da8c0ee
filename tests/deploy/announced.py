"""Names that people use, and whether CHANGELOG.md tells of those that came or went.

    python -m tests.deploy.announced      keeps the names of now: part of a release

Kept in `announced.txt` are settings, tables, columns, views, rules, reasons, metrics and commands.
What is there now and was not kept, or the other way round, is new or gone since then.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from gatelog.cli import COMMANDS
from podgroup.model.reasons import REASONS
from podgroup.rules import RULES
from projector import tables
from projector.schema.views import VIEWS
from runtime.settings_source import describe
from tests.metrics.reference import everything

KEPT = Path(__file__).with_name("announced.txt")
CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


def _names() -> Iterator[str]:
    yield from (f"setting {one.path}" for one in describe())
    for table in tables.metadata.tables.values():
        yield f"table {table.name}"
        yield from (f"column {table.name}.{column.name}" for column in table.columns)
    yield from (f"view {name}" for name in VIEWS)
    yield from (f"rule {rule.name}" for rule in RULES)
    yield from (f"reason {reason.word}" for reason in REASONS)
    yield from (f"metric {family.name}" for family in everything().families.values())
    yield from (f"command {name}" for name in COMMANDS)


def names() -> set[str]:
    """Return each name with its kind before it."""
    return set(_names())


def kept() -> set[str]:
    """Return the names of the latest release."""
    return set(KEPT.read_text().splitlines())


def unreleased(changelog: str) -> str:
    """Return what the changelog says of what was not released yet."""
    return changelog.split("\n## Unreleased\n")[1].split("\n## ")[0]


def untold(changed: set[str], text: str) -> list[str]:
    """Return which names, of what came or went, no code span of a text has."""
    told = {word for span in re.findall(r"`([^`]+)`", text) for word in re.findall(r"[\w-]+", span)}
    return sorted(name for name in changed if re.split(r"[ .]", name)[-1] not in told)


if __name__ == "__main__":
    KEPT.write_text("".join(f"{name}\n" for name in sorted(names())))
