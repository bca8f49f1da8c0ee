"""What pods really used: folded per pod, however cut and however often. Both databases."""

import json
from datetime import timedelta
from typing import Any

import pytest

from gatelog import cli
from podgroup.log import events as e
from podgroup.log.codec import decode_batch, encode_batch
from tests.projector.support import Writer
from tests.projector.test_views import ask
from tests.support.toy import Toy

ROWS = (
    "SELECT p.name, v.resource, v.asked, v.used, v.peak, v.samples FROM v_pod_used v "
    "JOIN pods p ON p.uid = v.pod_uid ORDER BY p.name, v.resource"
)


def measured(
    toy: Toy, name: str, samples: int, cpu: int, peak: int, late_s: float = 0
) -> e.PodMeasured:
    """A report of so many samples that come to `cpu` in all, until `late_s` ago."""
    to_at = toy.now - timedelta(seconds=late_s)
    report = e.PodMeasured(
        namespace="ns",
        uid=toy.named(name).uid,
        from_at=to_at - timedelta(seconds=samples - 1),
        to_at=to_at,
        samples=samples,
        total={"cpu": cpu, "memory": samples * 2**20},
        peak={"cpu": peak, "memory": 2**20},
    )
    toy.do(report)
    toy.wait(60)
    return report


def story() -> Toy:
    toy = Toy(cpu=20)
    for name in ("a", "b", "c"):
        toy.pod(name, cpu=2)
        toy.run(name)
    toy.wait(60)
    measured(toy, "a", 3, 1000, 500)
    measured(toy, "b", 1, 1999, 1999)
    twice = measured(toy, "a", 5, 200, 100)
    toy.do(twice)
    measured(toy, "a", 9, 90_000, 90_000, late_s=600)
    toy.end("a")
    toy.delete("a")
    unknown = e.PodMeasured(
        namespace="ns", uid="none", from_at=toy.now, to_at=toy.now, samples=1, total={}, peak={}
    )
    toy.do(unknown)
    return toy


WANTED = [
    ("a", "cpu", 2000, 150, 500, 8),
    ("a", "memory", 0, 2**20, 2**20, 8),
    ("b", "cpu", 2000, 1999, 1999, 1),
    ("b", "memory", 0, 2**20, 2**20, 1),
]


def told(url: str) -> list[tuple[Any, ...]]:
    return [
        tuple(int(v) if v is not None and not isinstance(v, str) else v for v in row.values())
        for row in ask(url, ROWS)
    ]


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
@pytest.mark.parametrize("size", [1, 1000])
def test_reports_add_up_and_what_was_counted_is_not_counted_again(url: str, size: int) -> None:
    toy = story()
    found = [m for m in toy.messages if isinstance(m[2].events[0], e.PodMeasured)]
    assert len(found) >= 6
    assert all(decode_batch(encode_batch(batch)) == batch for _, _, batch in found)
    for first in range(0, len(toy.messages), size):
        writer = Writer(url).load().feed(toy.messages[first : first + size])
        writer.store.close()
    assert told(url) == WANTED
    (other,) = ask(url, "SELECT used_mean, used_samples, used_to FROM pods WHERE name = 'c'")
    assert (other["used_samples"], other["used_to"]) == (0, None)


def test_nothing_is_decided_by_it() -> None:
    toy = story()
    assert not any(
        decision.as_of == position
        for position, _, batch in toy.messages
        if isinstance(batch.events[0], e.PodMeasured)
        for decision in toy.decisions
    )


def test_the_command_tells_who_asks_for_more_than_they_use(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = Writer(url).feed(story().messages)
    writer.store.close()
    common = ["usage", "--used", "--db", url, "--cluster", "test"]
    assert cli.run([*common, "--since", "2025-12-31T00:00:00Z", "-o", "json"]) == 0
    cpu, memory = json.loads(capsys.readouterr().out)["rows"]
    assert (cpu["pods"], cpu["samples"], cpu["asked"], cpu["peak"]) == (2, 9, 2, 1.999)
    # Eight samples of the one and one of the other.
    assert cpu["used"] == pytest.approx((8 * 0.150 + 1.999) / 9)
    assert cpu["times"] == pytest.approx(2 / cpu["used"])
    assert (memory["resource"], memory["asked"], memory["times"]) == ("memory", 0, 0)
    assert cli.run([*common, "--since", "2025-12-31T00:00:00Z"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[1].split()[3:] == ["cpu", "2", "2.000", "0.355", "1.999", "5.6"]
    before = ["--since", "2020-01-01T00:00:00Z", "--until", "2020-01-02T00:00:00Z"]
    assert cli.run([*common, *before]) == 0
    assert "ingest.measure_interval_s" in capsys.readouterr().err
