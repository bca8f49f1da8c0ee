"""The generated part of docs/metrics.md: every family, from the declarations themselves.

    python -m tests.metrics.reference      writes it

A test compares. Between the marks nobody writes by hand.
"""

import argparse
from collections import Counter
from pathlib import Path
from typing import Any, cast

from actuator.metrics import ActuatorMetrics
from gatelog.forecast.metering import Meters
from gatelog.serve.spending import Spending
from ingest.metrics import IngestMetrics, WebhookMetrics
from podgroup.engine import new_world
from projector.archive.periodic import ArchiveMetrics, Behind
from projector.measures.metrics import ProjectorMetrics
from runtime.election import lease_metrics
from runtime.health import Checks
from runtime.metrics import Family, Metrics, of
from runtime.settings import Settings

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
BEGIN, END = "<!-- begin metrics -->", "<!-- end metrics -->"


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
    Spending(metrics)
    return metrics


def table() -> str:
    """The table of all metrics; a name says its part."""
    families = sorted(everything().families.values(), key=lambda family: family.name)
    return "\n".join(["| metric, labels | meaning |", "|---|---|", *map(_row, families)])


def _row(family: Family) -> str:
    labels = "".join(f" {label}," for label in family.labels).removesuffix(",")
    kind = " (histogram)" if family.kind == "histogram" else ""
    return f"| `{family.name}`{labels} | {family.help}{kind} |"


def written() -> str:
    text = PAGE.read_text()
    assert text.count(BEGIN) == text.count(END) == 1
    return text.split(BEGIN)[1].split(END)[0].strip()


def main() -> None:
    argparse.ArgumentParser(
        prog="python -m tests.metrics.reference",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args()
    text = PAGE.read_text()
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text(f"{head}{BEGIN}\n\n{table()}\n\n{END}{tail}")


if __name__ == "__main__":
    main()
