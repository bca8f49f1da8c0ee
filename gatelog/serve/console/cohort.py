"""The page of cohorts: quota held, borrowed and lent, at any moment of a window.

Invariant: the debts of a borrower add up to the amount that it borrows.
"""

from gatelog.readmodel import cohorts as pools
from gatelog.readmodel.asked import Asked
from gatelog.readmodel.cohorts import Debt, Pool
from gatelog.serve.api.status import Refused
from gatelog.serve.console import picture
from gatelog.serve.console.rendering import Page, page
from gatelog.serve.console.view import PageView
from gatelog.serve.console.window import fitting, slider
from gatelog.serve.words import amount

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
    shown = [
        {
            "pool": one,
            "picture": picture.pool(f"{_what(one)} in cohort {one.cohort}", one),
            "what": _what(one),
            "owing": _owing(pools.debts(one), one.resource),
        }
        for one in found[:_MOST_POOLS]
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
    left_out = _left_out(found[_MOST_POOLS:]) if len(found) > _MOST_POOLS else ""
    time = slider(seen, path, window)
    legend = picture.pool_legend()
    around = {"left_out": left_out, "named": not name, "time": time, "legend": legend}
    return page(title, data, seen, "cohorts", pools=shown, **around)


def _what(pool: Pool) -> str:
    return f"{pool.resource} of {pool.flavor or 'no flavor'}"


def _left_out(rest: list[Pool]) -> str:
    return (
        f"{len(rest):,} more pools, from {rest[0].resource} of {rest[0].flavor or 'no flavor'} in "
        f"cohort {rest[0].cohort} on, are not drawn: this page as JSON has them."
    )


def _owing(owed: list[Debt], resource: str) -> str:
    """Return a sentence of debts: which queue borrows how much of which."""
    if not owed:
        return "No queue borrows."
    by: dict[str, list[str]] = {}
    for one in owed:
        by.setdefault(one.borrower, []).append(f"{amount(resource, one.amount)} of {one.lender}")
    return "; ".join(f"{name} borrows {', '.join(parts)}" for name, parts in by.items()) + "."
