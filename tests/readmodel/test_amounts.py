"""Amounts without limit, and as large as they come: each place says so, and no sum overflows."""

import random
from datetime import timedelta
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from gatelog.readmodel import quota, usage
from gatelog.readmodel.asked import Asked
from gatelog.readmodel.cohorts import pools
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.rates import Rates
from gatelog.serve.api import finding_queues
from gatelog.serve.api.params import Listing
from gatelog.serve.console import groups
from gatelog.serve.console.cohort import cohorts
from gatelog.serve.console.view import PageView
from podgroup.log.events import ObjectApplied
from podgroup.model.objects import FlavorQuotas, Quota, ResourceGroup
from podgroup.model.quantities import MAX_INT64
from projector import tables
from projector.schema.dialect import IN_HALVES, home
from projector.storage.database import writer
from tests.projector.support import Writer
from tests.readmodel.test_quota import NOON, put, stands
from tests.support.toy import Toy

EXTREMES = [0, 1, 2**31, 2**32 - 1, 2**32, 2**62, MAX_INT64 - 1, MAX_INT64]


def test_sums_are_exact_or_the_largest_there_is(url: str) -> None:
    engine = writer(url)
    rng = random.Random(7)
    with engine.connect() as connection:
        for total in (home(engine.dialect.name).total, IN_HALVES):
            for _ in range(200):
                amounts = [rng.choice(EXTREMES) for _ in range(rng.randint(1, 5))]
                rows = " UNION ALL ".join(f"SELECT {one} AS x" for one in amounts)
                query = f"SELECT {total.format(x='r.x')} FROM ({rows}) r"
                found = connection.execute(sa.text(query)).scalar()
                assert found == min(sum(amounts), MAX_INT64), amounts
    engine.dispose()


UNLIMITED = [
    stands("red", MAX_INT64, 16_000, borrowed=0),
    stands("blue", MAX_INT64, MAX_INT64, borrowed=0),
    stands("gold", 1_000, MAX_INT64, unadmitted=MAX_INT64),
]


def test_queues_without_limit_are_listed(url: str) -> None:
    put(url, tables.usage, *UNLIMITED)
    with ReadModel(url, "test") as model:
        for at in (None, NOON + timedelta(hours=1)):
            found = {one.name: one for one in model.quota(at=at)}
            assert (found["red"].nominal, found["red"].idle) == (MAX_INT64, MAX_INT64)
            assert (found["gold"].held, found["gold"].idle) == (MAX_INT64, 0)
            assert found["red"].lent > 0
        assert [one.kind for one in model.queues("", 10)] == []
        (pool,) = pools(model.quota())
        assert (pool.nominal, pool.held, pool.free) == (MAX_INT64, MAX_INT64, MAX_INT64)


def test_a_window_of_what_has_no_limit_is_added_up(url: str) -> None:
    put(url, tables.usage, *UNLIMITED, stands("red", MAX_INT64, 1, flavor="f", from_seq=2))
    with ReadModel(url, "test") as model:
        given = {**quota.window(NOON, NOON + timedelta(hours=4)), "limit": 1000, "name": "red"}
        rows = model.rows(quota.StepRow, quota.OVER_TIME[model.dialect], given)
        (series,) = quota.over_time("red", rows)
    assert min(series.nominal) >= MAX_INT64


@pytest.mark.parametrize("amount", [MAX_INT64, 1 << 70])
def test_where_kueue_admits_amounts_beyond_64_bits_are_added_up(url: str, amount: int) -> None:
    given = {"queued_at": NOON, "admitted_at": NOON, "cluster_queue": "cq"}
    for number in (1, 2, 3):
        row = {"group_id": f"g{number}", "number": 1, "resources": {"f": {"memory": amount}}}
        put(url, tables.admissions, {**given, **row, "flavors": {}})
    with ReadModel(url, "test") as model:
        (found,) = model.quota("ClusterQueue")
        assert (found.name, found.held) == ("cq", MAX_INT64)


def unlimited_queue(toy: Toy, name: str, cohort: str = "lab") -> Any:
    quotas = {"cpu": Quota(nominal=MAX_INT64), "memory": Quota(nominal=MAX_INT64)}
    group = ResourceGroup(
        covered=("cpu", "memory"), flavors=(FlavorQuotas(name="f", resources=quotas),)
    )
    made = toy.cluster_queue(1, cohort=cohort)
    return msgspec.structs.replace(made, name=name, uid=name, groups=(group,))


def test_each_place_says_what_has_no_limit(url: str) -> None:
    """One queue with `cpu: 1E` once ended `gatelog list queues` for everybody."""
    toy = Toy()
    toy.do(*(ObjectApplied(object=unlimited_queue(toy, name)) for name in ("cq", "other")))
    for number in range(3):
        toy.pod(f"p{number}", requests={"cpu": MAX_INT64, "memory": MAX_INT64})
    toy.run("p0", "p1", "p2")
    assert not any(toy.gated(f"p{number}") for number in range(3))
    toy.wait(60)
    Writer(url).feed(toy.messages)
    with ReadModel(url, "test") as model:
        listed = {one.name: one for one in model.queues("", 10)}
        assert listed["cq"].held == {"f": {"cpu": MAX_INT64, "memory": MAX_INT64}}
        page, _ = finding_queues.cluster_queues_page(model, "", Listing())
        usage = {u.resource: u for one in page if one.metadata.name == "cq" for u in one.usage}
        assert (usage["cpu"].nominal, usage["cpu"].held) == ("unlimited", "≥ 9.22e+15")
        assert (usage["memory"].idle, usage["memory"].held) == ("unlimited", "≥ 9.22e+18")
        drawn = str(cohorts(Asked(model), PageView(at=None, query={}, now=toy.now)).body)
        assert "≥ 9.22e+15 of unlimited held, unlimited free" in drawn
        assert "9223372036854775807" not in drawn
        seen = PageView(at=None, query={"sort": "use"}, now=toy.now)
        assert "≥ 9.22e+15" in str(groups.groups(Asked(model), seen).body)


def test_what_pods_of_one_group_use_is_added_up(url: str) -> None:
    toy = Toy()
    toy.do(ObjectApplied(object=unlimited_queue(toy, "cq")))
    for number in range(3):
        toy.pod(f"p{number}", "many", 3, requests={"cpu": MAX_INT64 // 2})
    toy.run("p0", "p1", "p2")
    toy.wait(60)
    Writer(url).feed(toy.messages)
    with ReadModel(url, "test") as model:
        seen = PageView(at=None, query={"sort": "use"}, now=toy.now)
        assert "≥ 9.22e+15" in str(groups.groups(Asked(model), seen).body)
        (cq,) = [one for one in model.queues("", 10) if one.name == "cq"]
        assert cq.held == {"f": {"cpu": MAX_INT64}}


def test_usage_says_of_which_quota_nothing_can_be_idle(url: str) -> None:
    toy = Toy()
    toy.do(ObjectApplied(object=unlimited_queue(toy, "cq")))
    toy.pod("a")
    toy.wait(60)
    Writer(url).feed(toy.messages)
    with ReadModel(url, "test") as model:
        since, until = toy.now - timedelta(hours=1), toy.now
        given = {"since": since, "until": until, "cut": until, "limit": 100}
        found = usage.idle(model.dicts(usage.quota_query(home(model.dialect)), given))
    assert {(one.resource, one.unlimited) for one in found} == {("cpu", True), ("memory", True)}
    assert all(one.cost(Rates()) == 0 for one in found)
