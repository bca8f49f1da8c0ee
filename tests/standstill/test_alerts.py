"""The shipped alerts over pages of two replicas of each part: none in health, one in a fault."""

import re

import pytest

from tests.deploy.manifests import DEPLOY
from tests.standstill.stack import RULES
from tests.support.promql import Prometheus

PARTS = ("ingest", "projector", "actuator")
ALERTS = [rule for group in RULES for rule in group["rules"] if "alert" in rule]
Pages = dict[str, str | None]


def page(
    part: str, ready: int = 1, *, leads: int | None = None, more: str = "", start: int = 1
) -> str:
    text = f'# TYPE gatelog_ready gauge\ngatelog_ready{{part="{part}"}} {ready}\n'
    text += f"# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {start}\n"
    if leads is not None:
        lease = f'gatelog_lease_is_leader{{lease="gatelog-{part}-default"}} {leads}\n'
        text += f"# TYPE gatelog_lease_is_leader gauge\n{lease}"
    return text + more


def health() -> Pages:
    led = {f"{p}-{n}": page(p, leads=int(n == 1)) for p in PARTS[:2] for n in (1, 2)}
    return {**led, "actuator-1": page("actuator"), "actuator-2": page("actuator")}


def firing(pages: Pages, scrapes: int = 5) -> list[str]:
    """Return what fires after so many scrapes of a fault, which follow on some of health."""
    prometheus = Prometheus(RULES)
    for n in range(-5, scrapes):
        prometheus.scrape(health() if n < 0 else pages, 1e9 + 15 * n)
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


def restored(ago_s: int) -> Pages:
    name = "gatelog_projector_restored_timestamp_seconds"
    text = f"# TYPE {name} gauge\n{name} {1e9 - ago_s}\n"
    return health() | {"projector-1": page("projector", leads=1, more=text)}


def test_a_restored_cluster_is_said_for_a_while_and_not_beside_a_standstill() -> None:
    assert firing(restored(10)) == ["GatelogClusterRestored"]
    assert firing(restored(2000)) == []
    away = restored(10) | {f"actuator-{n}": page("actuator", 0) for n in (1, 2)}
    assert firing(away) == ["GatelogPartNotReady"]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("ready", [0, 1])
def test_a_part_that_starts_again_and_again_is_absent(part: str, ready: int) -> None:
    prometheus = Prometheus(RULES)
    for n in range(5):
        # Every other scrape meets none, or one that was not there at the scrape before.
        again = {f"{part}-{r}": page(part, ready, start=n) if n % 3 else None for r in (1, 2)}
        prometheus.scrape({**health(), **(again if n > 1 else {})}, 1e9 + 15 * n)
    assert sorted(prometheus.firing()) == [f"Gatelog{part.title()}Absent"]


def test_a_roll_out_fires_nothing() -> None:
    prometheus = Prometheus(RULES)
    for n in range(8):
        new: Pages = {
            f"{part}-{r}": page(part, int(n > 3), start=9) for part in PARTS for r in (1, 2)
        }
        prometheus.scrape(health() if n < 3 else new, 1e9 + 15 * n)
        assert not prometheus.firing()


def test_an_installation_and_one_anew_fire_nothing_critical() -> None:
    """A reinstall fired GatelogPartNotReady: its parts take a minute to get ready."""
    prometheus = Prometheus(RULES)
    for n in range(12):
        new: Pages = {
            f"new-{part}-{r}": page(part, int(n > 8), start=9, leads=int(r == 1))
            for part in PARTS
            for r in (1, 2)
        }
        prometheus.scrape(health() if n < 4 else new, 1e9 + 15 * n)
        assert not prometheus.firing(), n


def slow(gates: int) -> str:
    """Of so many gates, each was removed after two minutes."""
    name = "gatelog_pod_scheduling_gate_removal_seconds"
    buckets = "".join(f'{name}_bucket{{le="{le}"}} {n}\n' for le, n in (("60", 0), ("+Inf", gates)))
    return f"# TYPE {name} histogram\n{buckets}{name}_count {gates}\n{name}_sum {gates * 120}\n"


def test_slow_gates_are_said_beside_no_other_cause_nor_after_its_end() -> None:
    """GatelogSlowGates fired beside an actuator that was away, and for a minute longer."""

    def play(*, away: bool) -> set[str]:
        prometheus, seen = Prometheus(RULES), set()
        for n in range(140):
            gone = away and 20 <= n < 60
            pages = without("actuator") if gone else health()
            # They go, late, once the actuator is back, for longer than the alert waits.
            removed = slow(max(0, min(n - 60, 39)) if away else n)
            pages["projector-1"] = page("projector", leads=1, more=removed)
            prometheus.scrape(pages, 1e9 + 15 * n)
            seen |= set(prometheus.firing())
        return seen

    assert play(away=False) == {"GatelogSlowGates"}
    assert play(away=True) == {"GatelogActuatorAbsent"}


def refused(messages: int) -> str:
    name = "gatelog_actuator_refused_messages"
    return f"# TYPE {name} counter\n{name}_total {messages}\n"


def test_a_forged_decision_is_said_in_and_after_a_standstill() -> None:
    """It was silent for ten minutes after any: whoever stops a part could forge unheard."""
    prometheus, seen = Prometheus(RULES), []
    for n in range(80):
        pages, wrong = health(), 10 <= n < 20
        for r in (1, 2):
            # One message at the standstill's end, and none since.
            count = refused(int(n >= 18))
            pages[f"actuator-{r}"] = page("actuator", int(not wrong), more=count)
        prometheus.scrape(pages, 1e9 + 15 * n)
        seen.append(set(prometheus.firing()))
    forged = [n for n, found in enumerate(seen) if "GatelogForgedDecision" in found]
    assert 18 <= forged[0] <= 19 and forged[-1] >= 56
    assert set().union(*seen) == {"GatelogForgedDecision", "GatelogPartNotReady"}
    assert seen[-1] == set(), "it ends ten minutes after the last"


def test_within_a_minute_and_not_at_once() -> None:
    assert firing(without("actuator"), 2) == []
    assert firing(without("actuator"), 3) == ["GatelogActuatorAbsent"]


def test_every_alert_has_a_severity_and_a_runbook() -> None:
    page = (DEPLOY.parent / "docs" / "runbook.md").read_text()
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
