"""The generated part of docs/metrics.md: every family, from the declarations themselves.

    python -m tests.metrics.reference      writes it

A test compares. Between the marks nobody writes by hand.
"""

from collections import Counter
from pathlib import Path
from typing import Any, cast

from actuator.metrics import ActuatorMetrics
from gatelog.forecast.metering import Meters
from ingest.metrics import IngestMetrics, WebhookMetrics
from podgroup.engine import new_world
from podgroup.runtime.election import lease_metrics
from podgroup.runtime.health import Checks
from podgroup.runtime.metrics import Family, Metrics, of
from podgroup.runtime.settings import Settings
from projector.archive.keeping import ArchiveMetrics, Behind
from projector.measures.metrics import ProjectorMetrics

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
BEGIN, END = "<!-- begin metrics -->", "<!-- end metrics -->"

SECTIONS = {
    "Every part": "gatelog_ready",
    "Pods, groups and quota (projector)": "",
    "Ingest": "gatelog_ingest_",
    "Webhook (ingest)": "gatelog_webhook_",
    "Projector": "gatelog_projector_",
    "Archive (projector)": "gatelog_archive_",
    "Actuator": "gatelog_actuator_",
    "Leases (ingest and projector)": "gatelog_lease_",
    "Forecast (gatelog forecast --every)": "gatelog_forecast_",
}


def everything() -> Metrics:
    """The metrics of a process that runs all parts, with nothing behind them."""
    nobody = cast(Any, None)
    world = new_world("nobody")
    metrics = of(Checks(), Settings())
    ProjectorMetrics(metrics).watch(lambda: world, nobody, lambda: 0)
    ArchiveMetrics(metrics, Behind())
    IngestMetrics(metrics).watch(dict, lambda: 0)
    WebhookMetrics(metrics, Counter())
    ActuatorMetrics(metrics).watch(nobody, nobody, lambda: 0)
    lease_metrics(metrics, dict)
    Meters(metrics)
    return metrics


def tables() -> str:
    """A table per part."""
    families = sorted(everything().families.values(), key=lambda family: family.name)
    lines: list[str] = []
    for title in SECTIONS:
        found = [family for family in families if _section(family.name) == title]
        lines += [f"### {title}", "", "| metric | kind | labels | meaning |", "|---|---|---|---|"]
        lines += [*map(_row, found), ""]
    return "\n".join(lines).strip()


def _section(name: str) -> str:
    return max(
        (title for title, start in SECTIONS.items() if name.startswith(start)),
        key=lambda title: len(SECTIONS[title]),
    )


def _row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.name}` | {family.kind} | {labels} | {family.help} |"


def written() -> str:
    text = PAGE.read_text()
    assert text.count(BEGIN) == text.count(END) == 1
    return text.split(BEGIN)[1].split(END)[0].strip()


def main() -> None:
    text = PAGE.read_text()
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text(f"{head}{BEGIN}\n\n{tables()}\n\n{END}{tail}")


if __name__ == "__main__":
    main()
