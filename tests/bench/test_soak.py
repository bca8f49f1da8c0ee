"""The soak finds what grows, and a short one runs from the first pod to the last finalizer."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.soak.growth import Sample, judge, per_pod


def samples(name: str, growth_per_s: float) -> list[Sample]:
    return [Sample(at, {name: 100 + growth_per_s * at}) for at in range(0, 1801, 10)]


@pytest.mark.parametrize("name", ["ingest memory", "ingest files", "nats-server memory"])
def test_what_grows_is_found_and_what_is_level_is_not(name: str) -> None:
    assert [one.good for one in judge(samples(name, 0))] == [True]
    assert [one.good for one in judge(samples(name, 2))] == [False]


def test_one_high_sample_is_no_growth() -> None:
    found = samples("ingest memory", 0)
    found[-3] = Sample(found[-3].at_s, {"ingest memory": 900})
    assert judge(found)[0].good


def test_rows_are_held_against_pods() -> None:
    first, second = ({"history": 700}, 100), ({"history": 1400}, 200)
    assert per_pod(first, second, ({"history": 2100}, 300))[0].good
    assert not per_pod(first, second, ({"history": 2400}, 300))[0].good


@pytest.mark.slow("a soak, if a short one")
@pytest.mark.retried("it waits for processes that share two cores with other tests")
@pytest.mark.timeout(400)
def test_a_short_soak_leaves_nothing(tmp_path: Path) -> None:
    kept = tmp_path / "soak.json"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "bench.soak",
            "--minutes",
            "0.1",
            "--rate",
            "20",
            "--every",
            "1",
            "--keep",
            str(kept),
        ],
        check=False,
        timeout=180,
        capture_output=True,
    )
    found = json.loads(kept.read_text())
    # Whether something grows shows in half an hour, not in six seconds; what is left shows.
    assert not any(found["left"].values())
    assert found["stuck"] == found["ended_early"] == []
    assert found["pods"] >= 100
    assert found["jobs"]["pods seen through"] >= 100
