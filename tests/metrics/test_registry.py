"""The process's registry: what may be declared, what is bounded, what a page looks like."""

from functools import partial

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from runtime.health import Checks, _server
from runtime.metrics import MAX_QUEUES, MAX_VALUES, NONE, OTHER, Labels, Metrics, of
from runtime.settings import HealthSettings, Settings


def samples(metrics: Metrics) -> dict[tuple[str, tuple[str, ...]], float]:
    """(name, label values by label name) -> value."""
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics().decode())
        for sample in family.samples
    }


@pytest.mark.parametrize(
    ("kind", "name", "help", "labels", "why"),
    [
        ("counter", "gatelog_pods", "Pods.", (), "end in _total"),
        ("histogram", "gatelog_wait_total", "Waits.", (), "end in _total"),
        ("counter", "pods_total", "Pods.", (), "a name is gatelog_"),
        ("counter", "gatelog_Pods_total", "Pods.", (), "a name is gatelog_"),
        ("counter", "gatelog_pods_total", "Pods.", ("pod",), "no bound on the values of pod"),
        ("counter", "gatelog_pods_total", "Pods.", ("group",), "no bound"),
        ("counter", "gatelog_pods_total", "Pods.", ("kind", "namespace"), "no bound"),
        ("counter", "gatelog_pods_total", "Pods", (), "sentence"),
    ],
)
def test_what_may_not_be_declared(
    kind: str, name: str, help: str, labels: tuple[str, ...], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        getattr(Metrics(), kind)(name, help, labels)


def test_a_label_shows_a_bounded_number_of_values() -> None:
    metrics = Metrics()
    counted = metrics.counter("gatelog_x_total", "X.", ("reason",))
    queues: dict[Labels, float] = {(f"q{i}",): 1.0 for i in range(MAX_QUEUES + 5)}
    queues[("",)] = 3.0
    metrics.read("gatelog_y", "Y.", ("cluster_queue",), read=lambda: queues)
    for i in range(MAX_VALUES + 20):
        counted(f"r{i}").inc()
    for word in ("", "r1", "never seen before", "x" * 1000):
        counted(word).inc()
    found = samples(metrics)
    assert found["gatelog_x_total", ("r1",)] == 2
    assert found["gatelog_x_total", (OTHER,)] == 22
    assert found["gatelog_x_total", (NONE,)] == 1
    assert len([key for key in found if key[0] == "gatelog_x_total"]) == MAX_VALUES + 2
    assert found["gatelog_y", (OTHER,)] == 5
    assert found["gatelog_y", (NONE,)] == 3


def test_a_part_that_is_run_again_goes_on_counting_and_is_read_anew() -> None:
    metrics = Metrics()
    for value in (1.0, 2.0):
        metrics.counter("gatelog_x_total", "X.")().inc()
        metrics.histogram("gatelog_x_seconds", "X.")().observe(value)
        metrics.read("gatelog_y", "Y.", read=partial(dict[Labels, float], {(): value}))
    found = samples(metrics)
    assert found["gatelog_x_total", ()] == 2
    assert found["gatelog_x_seconds_sum", ()] == 3
    assert found["gatelog_y", ()] == 2
    with pytest.raises(ValueError, match="declared as"):
        metrics.counter("gatelog_x_total", "Another.")


def test_processes_share_nothing() -> None:
    one, other = Metrics(), Metrics()
    one.counter("gatelog_x_total", "X.")().inc()
    assert ("gatelog_x_total", ()) in samples(one)
    assert ("gatelog_x_total", ()) not in samples(other)


def test_the_page_tells_version_and_cluster_and_leaves_created_series_out() -> None:
    metrics = Metrics(Settings(cluster="east", mode="kueue"))
    metrics.counter("gatelog_x_total", "X.", ("kind",))("Pod").inc()
    page = metrics().decode()
    assert 'gatelog_info{cluster="east",mode="kueue",version="' in page
    assert 'gatelog_x_total{kind="Pod"} 1.0' in page
    assert "process_resident_memory_bytes" in page
    assert "_created" not in page


async def test_parts_with_the_same_checks_are_served_on_one_page() -> None:
    checks, settings = Checks(), Settings()
    of(checks, settings).counter("gatelog_one_total", "One.")().inc()
    of(checks, settings).counter("gatelog_two_total", "Two.")().inc()
    async with (
        _server(HealthSettings(), checks) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/metrics") as answer,
    ):
        page = await answer.text()
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "gatelog_one_total 1.0\n" in page
    assert "gatelog_two_total 1.0\n" in page
