"""Hours of the aggregated API are those of `gatelog usage`: cores, GiB, and one of all else."""

import pytest

from gatelog.readmodel.usage import Share
from gatelog.serve.api.finding_usage import resource_hours

HOUR_US = 3_600_000_000


@pytest.mark.parametrize(
    ("resource", "amount", "told"),
    [("cpu", 1500, 1.5), ("memory", 3 * 2**30, 3.0), ("nvidia.com/gpu", 2, 2.0)],
)
def test_hours_are_what_people_count(resource: str, amount: int, told: float) -> None:
    share = Share(key="ns", resource=resource)
    share.spent.add("running", "", amount * HOUR_US)
    share.spent.add("unadmitted", "", 2 * amount * HOUR_US)
    found = resource_hours(share, None)
    assert (found.running, found.unadmitted, found.held) == (told, 2 * told, 0)
