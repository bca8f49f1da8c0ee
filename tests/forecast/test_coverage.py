"""Estimates of days with wide and small jobs, held against what came."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from bench.forecasting import LOADS, measure


@pytest.mark.slow("four simulated days, with a forecast every four hours")
def test_wide_groups_have_an_upper_limit_and_mostly_start_within_it(tmp_path: Path) -> None:
    """Two thirds of their estimates had none: smaller jobs overtake them in many plays."""
    gangs = next(load for load in LOADS if load.name == "gangs")
    came = measure(replace(gangs, hours=96.0), tmp_path, seed=77)
    assert came.wide > 50 and came.wide_unbounded < 0.25
    assert came.wide_inside >= 0.8 and came.inside >= 0.8
