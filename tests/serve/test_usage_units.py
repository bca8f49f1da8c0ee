"""Hours of the aggregated API are those of `gatelog usage`: cores, GiB, and one of all else."""

import pytest

from gatelog.readmodel.rows import UsageRow
from gatelog.serve.api.finding import _resource_hours


@pytest.mark.parametrize(
    ("resource", "hours", "told"),
    [("cpu", 1.5, 1.5), ("memory", 3.0 * 2**30, 3.0), ("nvidia.com/gpu", 2.0, 2.0)],
)
def test_hours_are_what_people_count(resource: str, hours: float, told: float) -> None:
    row = UsageRow("ns", "2026-01-01", resource, hours, 1)
    assert _resource_hours(row, None, None).hours == told
