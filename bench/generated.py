"""A long history for queries: a story that is folded once and copied many times.

Theory. The cost of a query depends on the length of the history, and not on how it was made; so a
story of some hours is folded by the engine and written as a projector writes it, and then the
database copies its rows again and again, each time with other identities, at other positions and
some hours later. That is minutes faster than folding a million events, and every copy is as
consistent as the first. Names of groups repeat in every copy, as they do in life.

The copies end on the day of the small history of `tests.replay.questions`, which is added last, so
that every query finds its rows among all others. A cluster that is busy now can be added: groups
that run and wait, copied many times in a namespace each, and a group of `HUGE` pods.

Invariant: the same arguments give the same rows.
"""

from datetime import datetime, timedelta
from random import Random

import sqlalchemy as sa
from msgspec import Struct, structs

from podgroup.log import events as e
from podgroup.model.names import ADMISSION_GATE, PRIORITY_CLASS, QUEUE_NAME
from podgroup.model.objects import ContainerEnd, LocalQueueView
from projector import tables
from projector.schema import partitions
from projector.storage.database import writer
from projector.upkeep import migrate
from tests.projector.support import Writer
from tests.replay.questions import history as small_history
from tests.support.toy import Toy

CLUSTER = "default"
STEP = timedelta(hours=20)
"""Time between two copies."""
NAMESPACES = ("ns", "ml", "etl", "web")
HUGE = 10_000
"""Pods of group `huge/huge`."""
_GROUPS = 400
"""Groups of a namespace that is busy now, of `_SIZE` pods; half of them run, half wait."""
_SIZE = 15
_POSITIONS = frozenset(
    {"seq", "from_seq", "to_seq", "as_of_seq", "created_seq", "seen_seq", "admitted_seq"}
    | {"cause_seq"}
)
_IDENTITIES = frozenset(
    {"id", "uid", "group_id", "pod_uid", "decision_id", "target", "victim_id", "preemptor_id"}
)


class Made(Struct, frozen=True):
    """The content of a filled database."""

    events: int
    copies: int
    rows: dict[str, int]


def story(cycles: int, seed: int = 1) -> Toy:
    """Four teams share twenty cores; every cycle some groups come, wait, run, fail, and go."""
    random = Random(seed)
    toy = Toy(cpu=20)
    second = LocalQueueView(
        uid="lq2", namespace="ns", name="night", resource_version=toy.bump(), cluster_queue="cq"
    )
    toy.do(e.ObjectApplied(object=second))
    for cycle in range(cycles):
        _cycle(toy, random, cycle)
    return toy


def _cycle(toy: Toy, random: Random, cycle: int) -> None:
    jobs: list[tuple[str, list[str], int]] = []
    names = ["training", "etl", "tuning", "urgent", "report", "sweep", "index", "serve"]
    random.shuffle(names)
    for name in names:
        group = f"{name}-{cycle % 7}" if cycle % 7 else name
        size, cpu = random.randint(2, 7), random.choice((0, 1, 1, 2, 4))
        labels = {"team": random.choice(("red", "blue", "green", "gold"))}
        labels[QUEUE_NAME] = random.choice(("lq", "lq", "night"))
        labels[PRIORITY_CLASS] = "high" if name == "urgent" else "low"
        pods = [f"{group}-{cycle}-{i}" for i in range(size)]
        for pod in pods:
            gates = (ADMISSION_GATE, "example.com/volume") if cpu == 4 else ()
            view = toy.pod(pod, group, size, cpu, labels=labels, qos=_qos(cpu), settle=False)
            if gates:
                toy.change(view.uid, gates=gates)
            toy.settle()
            toy.wait(random.randint(1, 4))
        jobs.append((group, pods, cpu))
        if random.random() < 0.2:
            toy.pod(f"{group}-{cycle}-spare", group, size, cpu, labels=labels)
        toy.wait(random.randint(5, 40))
        _advance(toy, random, jobs)
    for _ in range(12):
        toy.wait(60)
        _advance(toy, random, jobs)
    for pod in [view.name for view in toy.pods.values()]:
        if pod in toy.there():
            toy.delete(pod)
    for workload in list(toy.workloads):
        if workload in toy.workloads:
            toy.delete_workload(workload)
    toy.wait(60)


def _advance(toy: Toy, random: Random, jobs: list[tuple[str, list[str], int]]) -> None:
    """Other gates go, ungated pods start, started pods end: well, badly, or out of memory."""
    for uid in list(toy.pods):
        view = toy.pods.get(uid)
        if view is None or view.deleted_at is not None:
            continue
        if "example.com/volume" in view.gates:
            toy.change(
                view.uid,
                gates=tuple(g for g in view.gates if g == ADMISSION_GATE),
                writer="volume-controller",
            )
        elif view.gates:
            continue
        elif view.phase == "Pending":
            toy.run(view.name)
        elif view.phase == "Running" and random.random() < 0.4:
            luck = random.random()
            if luck < 0.9:
                toy.end(view.name)
            else:
                reason = "OOMKilled" if luck < 0.95 else "Error"
                end = ContainerEnd(name="job", exit_code=137, reason=reason, finished_at=toy.now)
                toy.change(view.uid, phase="Failed", ends=(end,))


def _qos(cpu: int) -> str:
    return "BestEffort" if cpu == 0 else "Guaranteed" if cpu == 4 else "Burstable"


def busy(groups: int, size: int) -> Toy:
    """Groups of which the first half runs and the others wait."""
    toy = Toy(cpu=max(groups * size // 2, size // 2))
    for number in range(groups):
        name = f"job-{number}"
        pods = [
            toy.pod(f"{name}-{i}", name, size, cpu=1 if groups > 1 else 0, settle=False).uid
            for i in range(size)
        ]
        toy.settle(limit=10 * size + 100)
        for uid in pods:
            if not toy.pods[uid].gates:
                toy.change(uid, node="node", phase="Running", settle=False)
        toy.settle()
    return toy


def fill(url: str, events: int, cycles: int = 20, present: int = 0) -> Made:
    """Fill an empty PostgreSQL database with a history of at least `events` events.

    `present`: about so many pods exist now besides, `HUGE` of them in one group.
    """
    migrate.upgrade(url)
    told = story(cycles)
    small = small_history()
    now = {}
    if present:
        now = {"busy": busy(_GROUPS, _SIZE), "huge": busy(1, HUGE)}
    for cluster, toy in {"template": told, "small": small, **now}.items():
        one = Writer(url, 1000, cluster)
        one.feed(toy.messages)
        one.store.close()
    copies = max(1, -(-events // len(told.messages)))
    engine = writer(url, 600)
    with engine.begin() as connection:
        partitions.ensure(connection, CLUSTER, _weeks(told, copies))
    for number in range(copies):
        with engine.begin() as connection:
            _copy(
                connection,
                "template",
                _Shift(
                    f"-{number}",
                    NAMESPACES[number % len(NAMESPACES)],
                    len(told.messages) * number,
                    told.world.meta.decisions * number,
                    STEP * (copies - 1 - number),
                ),
            )
    seq, decided = len(told.messages) * copies, told.world.meta.decisions * copies
    jobs = -(-max(present - HUGE, 0) // (_GROUPS * _SIZE))
    for number, template in enumerate([*["busy"] * jobs, *(["huge"] if present else [])]):
        toy = now[template]
        where = f"{template}-{number}" if template == "busy" else template
        with engine.begin() as connection:
            _copy(
                connection,
                template,
                _Shift(f"-{where}", where, seq, decided, toy.now - told.now),
            )
        seq, decided = seq + len(toy.messages), decided + toy.world.meta.decisions
    with engine.begin() as connection:
        _copy(connection, "small", _Shift("", NAMESPACES[0], seq, decided), same=True)
        for name in tables.metadata.tables:
            connection.execute(
                sa.text(
                    f"DELETE FROM {name} WHERE cluster IN ('template', 'small', 'busy', 'huge')"
                )
            )
    rows = _counted(engine)
    engine.dispose()
    return Made(seq + len(small.messages), copies, rows)


def _weeks(told: Toy, copies: int) -> set[datetime]:
    """Return the weeks that copies of a story lie in, the last of them where it is itself."""
    last = told.now - told.messages[0][1]
    first = told.messages[0][1] - STEP * copies
    days = int((STEP * copies + last) / timedelta(days=1)) + 8
    return {partitions.week_of(first + timedelta(days=day)) for day in range(days)}


def _counted(engine: sa.Engine) -> dict[str, int]:
    """Tidy up, and return how many rows each table has."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM ANALYZE")
        return {
            name: connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0
            for name, table in tables.metadata.tables.items()
        }


class _Shift(Struct, frozen=True):
    """The differences of a copy from its original."""

    suffix: str
    namespace: str
    positions: int
    decisions: int
    back: timedelta = timedelta(0)


def _copy(connection: sa.Connection, template: str, shift: _Shift, *, same: bool = False) -> None:
    """Copy every row of a cluster; `same`: with its checkpoint and its queues."""
    given = {"template": template, "cluster": CLUSTER, **structs.asdict(shift)}
    for name, table in tables.metadata.tables.items():
        if not same and name in ("checkpoints", "objects"):
            continue
        names = ", ".join(f'"{column.name}"' for column in table.columns)
        values = ", ".join(_value(column) for column in table.columns)
        connection.execute(
            sa.text(
                f"INSERT INTO {name} ({names}) SELECT {values} FROM {name} "
                "WHERE cluster = :template"
            ),
            {key: value for key, value in given.items() if f":{key}" in values + ":template"},
        )


def _value(column: "sa.Column[object]") -> str:
    """Return SQL for the value of a column in a copy."""
    name = f'"{column.name}"'
    if isinstance(column.type, tables.UtcTime):
        return f"{name} - CAST(:back AS interval)"
    if column.name == "cluster":
        return "CAST(:cluster AS text)"
    if column.name in _POSITIONS or (column.table.name, column.name) == ("epochs", "number"):
        return f"{name} + CAST(:positions AS bigint)"
    if column.table.name in ("decisions", "conclusions") and column.name == "number":
        return f"{name} + CAST(:decisions AS bigint)"
    if column.name == "namespace":
        return f"CASE {name} WHEN '' THEN '' ELSE CAST(:namespace AS text) END"
    if column.name in _IDENTITIES or column.name == "decided_by":
        return f"CASE {name} WHEN '' THEN '' ELSE {name} || CAST(:suffix AS text) END"
    if column.name == "command":
        return (
            "CASE WHEN command ? 'preempted_by' THEN jsonb_set(command, '{preempted_by}', "
            "to_jsonb((command ->> 'preempted_by') || CAST(:suffix AS text))) ELSE command END"
        )
    return name
