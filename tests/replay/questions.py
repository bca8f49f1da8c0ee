"""The questions of `gatelog ask`: a history to ask them of, and what comes out.

    python -m tests.replay.questions      writes answers.txt beside this file

The history is a toy cluster's, so times and names are the same in every run and on both databases.
"""

import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from msgspec import structs

from gatelog.forecast.refreshing import Effort, refresh
from gatelog.readmodel.questions import Scope, questions, statement
from podgroup.log import events as e
from podgroup.model.names import PRIORITY_CLASS
from podgroup.model.objects import ContainerEnd, OwnerRef
from podgroup.model.policy import Policy
from projector.storage.database import reader
from tests.core.test_shared_quota import of, team
from tests.projector.support import Writer
from tests.support.databases import migrated
from tests.support.toy import Toy

ANSWERS = Path(__file__).with_name("answers.txt")
SCOPE = Scope(
    cluster="default",
    since=datetime(2026, 1, 1, tzinfo=UTC),
    until=datetime(2026, 1, 1, 1, tzinfo=UTC),
)


def history() -> Toy:
    """Two teams share ten cores for some minutes: waiting, preempted, replaced, killed, excess.

    Then each has four of its own, in a cohort, and blue may borrow two of those of red.
    """
    toy = Toy(cpu=10, policy=Policy(status_interval_s=10))
    red, blue = {"team": "red"}, {"team": "blue"}
    low, high = ({PRIORITY_CLASS: name} for name in ("low", "high"))
    for i in range(4):
        toy.pod(f"train-{i}", "training", 4, cpu=2, labels=red | low)
    toy.wait(20)
    toy.run(*(f"train-{i}" for i in range(4)))
    job = OwnerRef(kind="Job", name="etl", uid="j1", controller=True)
    toy.pod("etl", cpu=2, labels=blue, owners=(job,))
    toy.wait(5)
    toy.run("etl")
    for i in range(2):
        toy.pod(f"tune-{i}", "tuning", 3, cpu=1, labels=blue | low)
        toy.wait(30)
    toy.pod("tune-2", "tuning", 3, cpu=1, labels=blue | low)
    toy.wait(60)
    toy.change(
        toy.named("etl").uid,
        phase="Failed",
        ends=(
            ContainerEnd(
                name="job", exit_code=137, reason="OOMKilled", finished_at=toy.now, restarts=2
            ),
        ),
    )
    toy.wait(10)
    for i in range(2):
        toy.pod(f"urgent-{i}", "urgent", 2, cpu=4, labels=blue | high)
    toy.wait(15)
    toy.run("urgent-0", "urgent-1")
    for i in range(4):
        toy.pod(f"again-{i}", "training", 4, cpu=2, labels=red | low)
    toy.wait(90)
    toy.end("urgent-0", "urgent-1")
    tuning = ("tune-0", "tune-1", "tune-2")
    toy.run(*tuning)
    toy.wait(40)
    for number, name in enumerate(tuning):
        toy.do(
            e.PodMeasured(
                namespace="ns",
                uid=toy.named(name).uid,
                from_at=toy.now - timedelta(seconds=30),
                to_at=toy.now,
                samples=2,
                total={"cpu": 300 + number, "memory": 3 * 2**29},
                peak={"cpu": 250, "memory": 2**30},
            )
        )
    toy.end(*tuning)
    toy.wait(5)
    toy.run(*(f"again-{i}" for i in range(4)))
    toy.wait(12)
    toy.end("again-0", phase="Failed")
    toy.pod("again-4", "training", 4, cpu=2, labels=red | low)
    toy.pod("spare", "training", 4, cpu=2, labels=red | low)
    toy.pod("free", labels=blue, cpu=0)
    toy.wait(30)
    team(toy, "red", 4)
    team(toy, "blue", 4, borrows=2)
    sweep = [f"sweep-{i}" for i in range(7)]
    for name in sweep:
        toy.pod(name, cpu=1, labels={"team": "blue", **of("blue")})
    toy.run(*sweep[:6])
    toy.wait(60)
    toy.pod("mine", cpu=3, labels={"team": "red", **of("red")})
    toy.run("mine")
    toy.wait(30)
    toy.end("mine", *sweep[:5])
    toy.run(sweep[6])
    toy.end(sweep[6])
    toy.wait(5)
    toy.slow = True
    toy.delete("again-1")
    toy.pod("late", "late", 1, cpu=9, labels=blue)
    toy.pod("half", "incomplete", 2, cpu=1, labels=red)
    toy.wait(7)
    refused = e.DeltaRefused(
        kind="Pod",
        namespace="ns",
        name="odd",
        uid="u9999",
        resource_version=toy.bump(),
        field="spec.containers[0].resources.requests.cpu",
        message="'many' is no quantity",
        group="training",
    )
    toy.send(refused)
    toy.act = False
    toy.pod("fresh", cpu=1, labels=blue)
    return toy


def filled(url: str) -> sa.Engine:
    """A read model of `history` in an empty database, with forecasts made on the way."""
    migrated(url)
    writer = Writer(url, cluster="default")
    messages = history().messages
    begin = messages[0][1]
    for _, part in groupby(messages, key=lambda one: (one[1] - begin) // timedelta(minutes=2)):
        some = list(part)
        writer.feed(some)
        refresh(url, "default", some[-1][1], label="team", effort=Effort(60, 2))
    writer.store.close()
    return reader(url)


def asked(dialect: str, scope: Scope = SCOPE) -> Iterator[tuple[str, str]]:
    """Name and statement of every question, of all and of group `training`."""
    of_group = structs.replace(scope, namespace="ns", group="training")
    for one in questions().values():
        yield one.name, statement(one, of_group if "group" in one.parameters else scope, dialect)


def answers() -> dict[str, str]:
    """What is to come out, by name."""
    parts = ANSWERS.read_text().split("== ")[1:]
    return {head: rows.rstrip("\n") + "\n" for head, _, rows in (p.partition("\n") for p in parts)}


def answer(engine: sa.Engine, query: str) -> str:
    """The rows as text, the same for both databases."""
    with engine.connect() as connection:
        result = connection.execute(sa.text(query.removesuffix(";")))
        return printed(list(result.keys()), result)


def printed(names: list[str], found: Iterable[Iterable[Any]]) -> str:
    """Rows as text, aligned."""
    rows = [[_cell(value) for value in row] for row in found]
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [names, *rows]
    ]
    return "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", value):
        value = datetime.fromisoformat(value)
    match value:
        case None:
            return ""
        case datetime():
            return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3]
        case float() | Decimal():
            return f"{value:.3f}".rstrip("0").rstrip(".")
        case dict() | list():
            return json.dumps(value, sort_keys=True, separators=(",", ":"))
        case _:
            text = str(value)
            return text if len(text) <= 100 else f"{text[:97]}..."


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = filled(f"sqlite:///{folder}/model.sqlite3")
        found = [f"== {name}\n{answer(engine, query)}" for name, query in asked("sqlite")]
        engine.dispose()
    ANSWERS.write_text("\n".join(found))


if __name__ == "__main__":
    main()
