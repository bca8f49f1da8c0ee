"""Names, units, help texts and labels, as promtool would look at them; and docs/metrics.md."""

import re
from typing import Any

import pytest

from ingest.metrics import reason_class
from podgroup.applying import Applier
from podgroup.log.journal import At
from podgroup.model.lifecycle import IllegalTransition
from projector.measures.metrics import PARK_REASONS
from runtime.metrics import UNBOUNDED, Family
from tests.metrics.reference import PAGE, everything, table, written
from tests.support.toy import Toy

FAMILIES = list(everything().families.values())
UNITS = ("seconds", "bytes", "events")
"""Base units that names of distributions may end in; `events` is a count of them."""
LABELS = {
    *("cluster", "version", "mode", "cluster_queue", "flavor", "resource", "reason", "rule"),
    *("action", "status", "state", "source", "kind", "type", "outcome", "verb", "result"),
    *("webhook", "lease", "change", "outlook", "place", "chance", "stage", "part", "what"),
}
ABBREVIATIONS = ("_ms", "_sec", "_secs", "_millis", "_milliseconds", "_kb", "_mb", "_minutes")


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_names_units_and_labels(family: Family) -> None:
    name = family.name
    assert re.fullmatch(r"gatelog(_[a-z0-9]+)+", name)
    assert (family.kind == "counter") == name.endswith("_total")
    assert not name.removesuffix("_total").endswith(ABBREVIATIONS)
    if family.kind == "histogram":
        assert name.endswith(UNITS)
    # No name may look like a part of another's histogram or summary.
    assert not name.endswith(("_count", "_sum", "_bucket", "_created"))
    for kind in ("counter", "gauge", "histogram"):
        assert kind not in name.split("_")
    assert set(family.labels) <= LABELS
    assert not UNBOUNDED.intersection(family.labels)
    assert not {"le", "quantile", "job", "instance"}.intersection(family.labels)
    assert family.help[0].isupper() or family.help[0].isdigit()
    assert family.help.endswith(".")
    assert len(family.help) <= 120


def test_help_texts_are_all_different() -> None:
    assert len({family.help for family in FAMILIES}) == len(FAMILIES)


@pytest.mark.parity("B11")
def test_what_kep_976_asks_for_is_there() -> None:
    names = {family.name for family in FAMILIES}
    for name in ("pods_gated_total", "pods_ungated_total", "pods_rejected_total"):
        assert f"gatelog_{name}" in names


def test_the_reference_is_up_to_date() -> None:
    assert written() == table(), "run: python -m tests.metrics.reference"


def known_names() -> set[str]:
    names = {family.name for family in FAMILIES}
    for family in FAMILIES:
        if family.kind == "histogram":
            names |= {family.name + part for part in ("_bucket", "_sum", "_count")}
    return names


def test_expressions_name_metrics_and_labels_that_exist() -> None:
    text = PAGE.read_text()
    # What stands for a whole part is written with dots.
    used = set(re.findall(r"\bgatelog_[a-z0-9_]*[a-z0-9]\b(?!_?\.\.\.)", text))
    assert used <= known_names(), used - known_names()
    labels = {family.name: set(family.labels) for family in FAMILIES}
    for name, chosen in re.findall(r"(gatelog_\w+)\{([^}]*)\}", text):
        assert set(re.findall(r"(\w+)\s*[=!]", chosen)) <= labels[name], name


def rules() -> list[dict[str, Any]]:
    from tests.serve.test_dashboards import rules as found

    return found()


def test_alerts_are_rules_and_cover_what_they_should() -> None:
    found = {rule["alert"]: rule for rule in rules()}
    for rule in found.values():
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["expr"].count("(") == rule["expr"].count(")")
        assert rule["annotations"]["summary"].endswith((".", "?"))
    assert {"GatelogLagging", "GatelogParked", "GatelogDecisionUnresolved", "GatelogThrottled"} <= (
        set(found)
    )


def test_classes_of_relists_in_the_page_are_those_of_the_code() -> None:
    (row,) = re.findall(r"\| `reason` of relists \|(.*)\|", PAGE.read_text())
    from ingest.metrics import _CLASSES

    written_words = set(re.findall(r"`(\w+)`", row))
    assert written_words | {"start"} == {word for _, word in _CLASSES} | {"other"}
    assert reason_class("something new") == "other"


def test_every_reason_for_setting_something_aside_is_told_and_counted_from_nothing() -> None:
    row = next(
        line for line in PAGE.read_text().splitlines() if "`reason` of what is parked" in line
    )
    assert tuple(re.findall(r"`(\w+)`", row.split("|")[2])) == PARK_REASONS
    stopped = Toy()
    stopped.pod("a0", "g", 1)
    group = stopped.group("g")
    applier = Applier(stopped.world, At(9, stopped.now))
    for error in (ValueError("a bug"), IllegalTransition("not so")):
        applier.apply(applier.ctx.parked(group, error))
    assert {row.reason for row in stopped.world.journal.parked} <= set(PARK_REASONS)
    assert len(stopped.world.journal.parked) == 2
