"""The page of cohorts: who holds, borrows and lends what, at any moment of a window.

Invariant: what each borrower owes adds up to what it borrows.
"""

from gatelog.readmodel import cohorts as pools
from gatelog.readmodel.cohorts import Debt, Pool
from gatelog.readmodel.moments import Asked
from gatelog.readmodel.quota import QuotaRow
from gatelog.serve.api.status import Refused
from gatelog.serve.console import picture
from gatelog.serve.console.html import Html, h, listing
from gatelog.serve.console.parts import Page, PageView, page, queue_link
from gatelog.serve.console.window import fitting, others, slider
from gatelog.serve.words import amount, quota

_MOST_POOLS = 24


def cohorts(asked: Asked, seen: PageView, name: str = "") -> Page:
    """Return one cohort with all that are below it, or all cohorts.

    Raises:
        Refused: 404, there is and was none of that name.
    """
    window = fitting(asked, seen, around=True)
    rows = asked.model.quota(at=seen.at, note=asked.note)
    found = pools.pools(rows, name)
    if name and not found and not any(row.name == name for row in rows):
        raise Refused(404, f"there is no cohort {name} with quota at that moment")
    path = f"/cohorts/{name}" if name else "/cohorts"
    body = [
        h(
            "p",
            "A loan comes out of one pool: each lender's part of it is its part of all that is "
            "lent.",
            class_="quiet",
        ),
        others(seen, path, window),
        slider(seen, path, window),
        [_pool(one, seen, named=not name) for one in found[:_MOST_POOLS]]
        or h("p", "No ClusterQueue was in a cohort.", class_="notice"),
        h("p", _left_out(found[_MOST_POOLS:]), class_="notice")
        if len(found) > _MOST_POOLS
        else None,
        picture.pool_legend() if found else None,
    ]
    title = f"Cohort {name}" if name else "Cohorts"
    data = {
        "cohorts": [
            {
                "cohort": one.cohort,
                "flavor": one.flavor,
                "resource": one.resource,
                "nominal": one.nominal,
                "held": one.held,
                "free": one.free,
                "members": one.members,
                "owed": pools.debts(one),
            }
            for one in found
        ]
    }
    return page(title, data, body)


def _left_out(rest: list[Pool]) -> str:
    return (
        f"{len(rest):,} more pools, from {rest[0].resource} of {rest[0].flavor or 'no flavor'} in "
        f"cohort {rest[0].cohort} on, are not drawn: this page as JSON has them."
    )


def _pool(pool: Pool, seen: PageView, *, named: bool) -> Html:
    what = f"{pool.resource} of {pool.flavor or 'no flavor'}"
    owed = pools.debts(pool)

    def says(number: int) -> str:
        return amount(pool.resource, number)

    def of_queue(one: QuotaRow, number: int) -> str:
        return says(number) if one.kind == "ClusterQueue" else "–"

    link = h("a", pool.cohort, href=seen.link(f"/cohorts/{pool.cohort}"))

    def may(number: int) -> str:
        return quota(pool.resource, number)

    summed = f"{says(pool.held)} of {may(pool.nominal)} held, {may(pool.free)} free."
    return h(
        "section",
        h("h2", [link, ": "] if named else None, what),
        h("p", summed, " ", _owing(owed, pool.resource)),
        picture.pool(f"{what} in cohort {pool.cohort}", pool),
        listing(
            {
                "queue": lambda one: (
                    queue_link(seen, one.name)
                    if one.kind == "ClusterQueue"
                    else f"Cohort {one.name} itself"
                ),
                "nominal": lambda one: may(one.nominal),
                "held": lambda one: of_queue(one, one.held),
                "borrowed": lambda one: of_queue(one, one.borrowed),
                "unadmitted": lambda one: of_queue(one, one.unadmitted),
                "idle": lambda one: may(one.idle),
                "lent": lambda one: says(one.lent),
            },
            pool.members,
            f"{what}, by queue",
        ),
    )


def _owing(owed: list[Debt], resource: str) -> str:
    """Say who owes whom."""
    if not owed:
        return "No queue borrows."
    by: dict[str, list[str]] = {}
    for one in owed:
        by.setdefault(one.borrower, []).append(f"{amount(resource, one.amount)} of {one.lender}")
    return "; ".join(f"{name} borrows {', '.join(parts)}" for name, parts in by.items()) + "."
