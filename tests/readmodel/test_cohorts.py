"""A cohort as one pool: what is held, and who owes whom."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gatelog.readmodel.asked import Asked
from gatelog.readmodel.cohorts import Pool, debts, pools
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.quota import QuotaRow
from gatelog.serve.console.cohort import cohorts
from gatelog.serve.console.view import PageView
from podgroup.log.events import ObjectApplied
from podgroup.model.objects import FlavorQuotas, Quota, ResourceGroup
from tests.projector.support import Writer
from tests.support.toy import Toy


def row(name: str, kind: str = "ClusterQueue", **amounts: int) -> QuotaRow:
    zero = dict.fromkeys(("nominal", "held", "borrowed", "unadmitted", "idle", "lent"), 0)
    whose = {"root": "lab", "flavor": "f", "resource": "cpu", "namespace": ""}
    return msgspec.convert({"kind": kind, "name": name, **whose, **zero, **amounts}, QuotaRow)


LAB = [
    row("lab", "Cohort", nominal=2, held=13, idle=2, lent=1),
    row("red", nominal=8, held=3, idle=5, lent=3),
    row("blue", nominal=6, held=10, borrowed=4),
]


def test_a_cohort_is_one_pool_and_its_row_repeats_what_members_hold():
    (found,) = pools([*LAB, row("local", "LocalQueue", held=3)])
    assert [one.name for one in found.members] == ["blue", "red", "lab"]
    assert (found.nominal, found.held, found.free) == (16, 13, 3)
    assert pools(LAB, "elsewhere") == []


def test_what_was_never_admitted_takes_of_its_own_queue_alone():
    (found,) = pools([*LAB, row("gold", nominal=4, held=1, unadmitted=900)])
    assert (found.nominal, found.held, found.unadmitted, found.free) == (20, 14, 3, 3)


def test_who_borrows_owes_each_lender_by_its_part():
    (found,) = pools(LAB)
    assert [(one.borrower, one.lender, one.amount) for one in debts(found)] == [
        ("blue", "red", 3),
        ("blue", "lab", 1),
    ]


@given(st.lists(st.integers(0, 9), max_size=5), st.lists(st.integers(0, 9), max_size=5))
def test_debts_add_up_to_what_is_borrowed(borrowed: list[int], lent: list[int]):
    members = [row(f"b{i}", borrowed=n) for i, n in enumerate(borrowed)]
    members += [row(f"l{i}", lent=n, idle=n) for i, n in enumerate(lent)]
    owed = sum(one.amount for one in debts(Pool("lab", "f", "cpu", members)))
    assert owed == (sum(borrowed) if sum(lent) else 0)


def test_a_long_page_says_what_it_leaves_out(url: str):
    toy = Toy()
    quotas = tuple(
        FlavorQuotas(name=f"f{number:02}", resources={"cpu": Quota(nominal=1000)})
        for number in range(30)
    )
    queue = msgspec.structs.replace(
        toy.cluster_queue(1, cohort="lab"),
        groups=(ResourceGroup(covered=("cpu",), flavors=quotas),),
    )
    toy.do(ObjectApplied(object=queue))
    Writer(url).feed(toy.messages)
    seen = PageView(at=None, query={}, now=toy.now)
    with ReadModel(url, "test") as model:
        page = cohorts(Asked(model), seen)
    assert "6 more pools, from cpu of f24 in cohort lab on, are not drawn" in str(page.body)
    assert len(page.data["cohorts"]) == 30
