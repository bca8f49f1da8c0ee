"""Samples of the metrics API, added up per pod."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.samples import Sample, Samples, read_samples
from podgroup.log.events import PodApplied, PodDeleted, PodMeasured, RelistStarted
from podgroup.model.objects import PodView

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def pod(uid: str = "u1", *, node: str = "n", phase: str = "Running", made: float = 0) -> PodView:
    return PodView(
        uid=uid,
        namespace="ns",
        name="a",
        resource_version="1",
        created_at=at(made),
        node=node,
        phase=phase,
    )


def applied(**changed: Any) -> list[PodApplied]:
    return [PodApplied(pod=pod(**changed))]


def used(seconds: float, cpu: int, name: str = "a") -> Sample:
    return Sample("ns", name, at(seconds), {"cpu": cpu})


def page(*items: dict[str, Any], token: str = "") -> bytes:
    return json.dumps({"metadata": {"continue": token}, "items": items}).encode()


def item(*usages: dict[str, str], when: str = "2026-01-01T00:00:15Z") -> dict[str, Any]:
    meta = {"name": "a", "namespace": "ns", "creationTimestamp": when}
    containers = [{"name": str(n), "usage": one} for n, one in enumerate(usages)]
    return {"metadata": meta, "timestamp": when, "window": "15s", "containers": containers}


def test_containers_are_added_up_in_the_units_of_requests() -> None:
    two = ({"cpu": "1400n", "memory": "4Ki"}, {"cpu": "249998600n", "memory": "1Mi", "gpu": "x"})
    found, token = read_samples(page(item(*two), item(), token="more"))
    assert token == "more"
    assert [one.used for one in found] == [{"cpu": 250, "memory": 4096 + 2**20}, {}]
    assert found[0].at == at(15)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "truncated"),
        (b'{"items": 3}', "items"),
        (page(item({"cpu": "many"})), "ns/a: cpu"),
        (page(item({}, when="2026-01-01T00:00:15")), "time zone"),
    ],
)
def test_what_cannot_be_read_says_where(body: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_samples(body)


def test_a_sample_counts_once_and_only_for_who_bore_the_name() -> None:
    samples = Samples()
    samples.saw(applied(made=10))
    assert samples.add([used(5, 900), used(10, 900), used(20, 100), used(30, 500, "b")]) == 1
    assert samples.add([used(20, 100), used(15, 900)]) == 0
    assert samples.add([used(40, 300)]) == 1
    assert samples.saw(applied(made=10)) == []
    (report,) = samples.saw(applied(uid="u2", made=50))
    assert (report.uid, report.samples, report.total, report.peak) == (
        *("u1", 2),
        *({"cpu": 400}, {"cpu": 300}),
    )
    assert (report.from_at, report.to_at) == (at(20), at(40))
    assert samples.add([used(45, 900), used(60, 7)]) == 1
    assert [one.uid for one in samples.reports()] == ["u2"]
    assert samples.reports() == []


def test_an_end_is_reported_before_it_and_then_the_pod_is_forgotten() -> None:
    for end in (
        applied(phase="Succeeded"),
        [PodDeleted(pod=pod(node=""))],
        [RelistStarted(kind="Pod", relist="r")],
    ):
        samples = Samples()
        samples.saw(applied())
        samples.add([used(20, 100)])
        assert [one.samples for one in samples.saw(end)] == [1]
        assert len(samples) == 0 and samples.namespaces() == []
        assert samples.saw(end) == []


def test_pods_without_a_node_are_not_asked_about_and_learning_overrules_nothing() -> None:
    samples = Samples()
    samples.saw(applied(node=""))
    assert samples.namespaces() == []
    samples.saw(applied(uid="u2"))
    samples.learn("ns", "a", "u1", BEGIN)
    samples.learn("other", "b", "u3", BEGIN)
    assert samples.namespaces() == ["ns", "other"]
    samples.add([used(20, 1)])
    assert [one.uid for one in samples.reports()] == ["u2"]
    assert samples.saw([PodDeleted(pod=pod(uid="u1"))]) == []
    assert len(samples) == 2


@given(st.lists(st.tuples(st.integers(0, 5000), st.booleans()), min_size=1, max_size=30))
def test_reports_add_up_to_the_samples_wherever_they_are_cut(told: list[tuple[int, bool]]) -> None:
    samples, found = Samples(), list[PodMeasured]()
    samples.saw(applied())
    for place, (cpu, cut) in enumerate(told, start=1):
        samples.add([used(place, cpu)])
        found += samples.reports() if cut else []
    found += samples.reports()
    assert sum(one.samples for one in found) == len(told)
    assert sum(one.total["cpu"] for one in found) == sum(cpu for cpu, _ in told)
    assert max(one.peak["cpu"] for one in found) == max(cpu for cpu, _ in told)
    spans = [moment for one in found for moment in (one.from_at, one.to_at)]
    assert spans == sorted(spans)
