"""The shipped alerts over pages of two replicas of each part: none in health, one in a fault."""

import re

import pytest

from tests.deploy.manifests import DEPLOY
from tests.standstill.stack import RULES
from tests.support.promql import Prometheus

PARTS = ("ingest", "projector", "actuator")
ALERTS = [rule for group in RULES for rule in group["rules"] if "alert" in rule]
Pages = dict[str, str | None]


def page(part: str, ready: int = 1, *, leads: int | None = None, more: str = "") -> str:
    text = f'# TYPE gatelog_ready gauge\ngatelog_ready{{part="{part}"}} {ready}\n'
    if leads is not None:
        lease = f'gatelog_lease_is_leader{{lease="gatelog-{part}-default"}} {leads}\n'
        text += f"# TYPE gatelog_lease_is_leader gauge\n{lease}"
    return text + more


def health() -> Pages:
    led = {f"{p}-{n}": page(p, leads=int(n == 1)) for p in PARTS[:2] for n in (1, 2)}
    return {**led, "actuator-1": page("actuator"), "actuator-2": page("actuator")}


def firing(pages: Pages, scrapes: int = 5) -> list[str]:
    prometheus = Prometheus(RULES)
    for n in range(scrapes):
        prometheus.scrape(pages, 1e9 + 15 * n)
    return sorted(prometheus.firing())


def without(part: str) -> Pages:
    return {name: None if name.startswith(part) else text for name, text in health().items()}


def held(pods: int) -> str:
    return f"# TYPE gatelog_held_up_pods gauge\ngatelog_held_up_pods {pods}\n"


@pytest.mark.parametrize(
    ("pages", "wanted"),
    [
        (health(), []),
        *((without(part), [f"Gatelog{part.title()}Absent"]) for part in PARTS),
        (health() | {"ingest-1": page("ingest", 0, leads=1)}, ["GatelogPartNotReady"]),
        (health() | {"ingest-2": page("ingest", 0, leads=0)}, ["GatelogReplicaNotReady"]),
        (health() | {"actuator-1": page("actuator", 0)}, ["GatelogReplicaNotReady"]),
        (
            health() | {f"actuator-{n}": page("actuator", 0) for n in (1, 2)},
            ["GatelogPartNotReady"],
        ),
        (
            health()
            | {"projector-1": page("projector", leads=1, more=held(3))}
            | {"actuator-1": page("actuator", 0)},
            ["GatelogGatesNotRemoved"],
        ),
        (
            health()
            | {"projector-1": page("projector", leads=1, more=held(1))}
            | {f"actuator-{n}": page("actuator", 0) for n in (1, 2)},
            ["GatelogGatesNotRemoved"],
        ),
    ],
)
def test_one_cause_one_alert(pages: Pages, wanted: list[str]) -> None:
    assert firing(pages) == wanted


def test_within_a_minute_and_not_at_once() -> None:
    assert firing(without("actuator"), 2) == []
    assert firing(without("actuator"), 3) == ["GatelogActuatorAbsent"]


def test_every_alert_has_a_severity_and_a_runbook() -> None:
    page = (DEPLOY.parent / "docs" / "operations.md").read_text()
    for rule in ALERTS:
        assert rule["labels"]["severity"] in ("critical", "warning"), rule["alert"]
        assert f"### {rule['alert']}\n" in page
    headings = set(re.findall(r"^### (Gatelog\w+)$", page, re.MULTILINE))
    assert headings == {rule["alert"] for rule in ALERTS}


def test_every_expression_is_understood_and_silent_on_nothing() -> None:
    prometheus = Prometheus(RULES)
    prometheus.scrape({"a": ""}, 1e9)
    for rule in ALERTS:
        found = prometheus.query(rule["expr"])
        assert bool(found) is ("absent(" in rule["expr"]), rule["alert"]
