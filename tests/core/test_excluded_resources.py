"""Resources that an operator does not count: they need no quota, and take none."""

from podgroup.model.policy import Policy
from tests.support.toy import Toy, taken

NETWORK = "networking.example.com/vpc"
UNCOUNTED = Policy(exclude_resource_prefixes=("networking.example.com/", "example.org"))


def test_a_resource_that_no_queue_has_is_refused_unless_it_is_excluded() -> None:
    for policy, state in ((None, "Blocked"), (UNCOUNTED, "Admitted")):
        toy = Toy(policy=policy)
        toy.pod("foo", requests={"cpu": 1000, NETWORK: 1})
        group = toy.group("foo")
        assert group.explained.state == state
        assert (group.explained.reason == "NoMatchingFlavor") == (state == "Blocked")
        assert (NETWORK in group.explained.message) == (state == "Blocked")


def test_an_excluded_resource_takes_no_quota_and_is_not_in_the_admission() -> None:
    toy = Toy(cpu=2, policy=UNCOUNTED)
    toy.pod("foo", requests={"cpu": 1000, NETWORK: 1})
    (workload,) = toy.workloads.values()
    assert [a.usage for a in workload.assignments] == [{"cpu": 1000}]
    assert taken(toy.world, "cq") == {("f", "cpu"): 1000}


def test_a_resource_that_a_queue_has_is_not_counted_either_once_it_is_excluded() -> None:
    """Kueue takes excluded resources out of the requests before it looks at any queue."""
    toy = Toy(cpu=1, policy=Policy(exclude_resource_prefixes=("cpu",)))
    toy.pod("a")
    toy.pod("b")
    toy.pod("late", gated=False)
    toy.run("late")
    assert not toy.gated("a") and not toy.gated("b")
    assert not any(taken(toy.world, "cq").values())
