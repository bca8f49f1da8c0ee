"""The command line's queries on the read model: plain SQL over the public tables.

Theory. The tables are a public contract, so the commands use them as any client could: every
statement here can be printed (`statement`) and pasted into sqlite3 or psql. Both databases take
the same text; what differs (times as text or as values, documents) is evened out on reading.

Invariant: read-only, parameterised, and bounded: every list has a LIMIT.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from gatelog.readmodel import overtaking, quota, repeats, reserving, running, statements
from gatelog.readmodel.overtaking import AdmittedRow
from gatelog.readmodel.quota import QuotaRow
from gatelog.readmodel.rates import Rates
from gatelog.readmodel.reserving import ReservedRow
from gatelog.readmodel.rows import (
    BorrowerRow,
    CauseRow,
    ChangeRow,
    CheckpointRow,
    EndingRow,
    ExpectedRow,
    GivingWayRow,
    GroupRow,
    HeldUpRow,
    HolderRow,
    KeptRow,
    MadeRow,
    ObjectRow,
    ParkedCount,
    ParkedOfRow,
    PendingRow,
    PoolRow,
    QueueRow,
    RepeatedRow,
    ReplicaRow,
    SayingRow,
    ShortageRow,
    ShortRow,
    StandingRow,
    SummaryRow,
    UnadmittedRow,
    UnreplacedRow,
    UnstartedRow,
    WaitRow,
)
from gatelog.readmodel.running import NotRunningRow, StillRow
from gatelog.readmodel.shared import Shared, as_of_now
from gatelog.readmodel.statements.preempted import PreemptorRow
from gatelog.readmodel.statements.waiting import WaitedRow
from gatelog.readmodel.timeline import TimelineEntry
from gatelog.shell.errors import CommandFailed
from gatelog.shell.whereabouts import read_model_at
from podgroup.model.objects import ClusterQueueView
from podgroup.model.reasons import (
    KEPT_AT_GATE,
    NAMESPACE_TOO_LARGE,
    POD_TOO_LARGE,
    WORKLOAD_REFUSED,
    WORKLOAD_TOO_LARGE,
    WRITE_REFUSED,
)
from projector.storage.asking import QuestionFailed, questions
from projector.times import bound

MOST_ENTRIES = 20_000
MOST_UNADMITTED = 500
"""Pods that run unadmitted and are looked at as holders."""
MOST_HELD = MOST_OBJECTS = 200_000
"""Rows of queues, flavors and resources, and objects, that are read at most."""

_LATELY = timedelta(days=7)
"""For so long admissions count as lately."""
Note = Callable[[str, str, Mapping[str, Any]], None]
"""Takes a title, a statement and its parameters: for pages that show their statements."""

Held = dict[str, dict[str, int]]
"""Amounts by flavor (or queue) and resource: cpu in thousandths, others in whole units."""

_NO_TABLE = re.compile(r'no such (table|column)|(relation|column) "[^"]+" does not exist')
"""The databases' messages about a missing schema; a missing role or database is not."""

T = TypeVar("T", bound=msgspec.Struct)
S = TypeVar("S", bound=ShortRow)
_DOCUMENTS = frozenset(("resources", "lost_hours"))
"""Columns of any statement that are documents."""


class ReadModel:
    """Read access for one cluster. Blocking calls; close it."""

    def __init__(
        self,
        url: str,
        cluster: str,
        *,
        statement_timeout_s: float = 60.0,
        connections: int = 4,
        rates: Rates | None = None,
    ) -> None:
        self.place = read_model_at(url)
        self.rates = rates
        self.cluster = cluster
        self._questions = questions(url, statement_timeout_s, connections)

    @property
    def dialect(self) -> str:
        """Name of the database's dialect, as SQLAlchemy has it."""
        return self._questions.database

    def close(self) -> None:
        """Close connections."""
        self._questions.close()

    def __enter__(self) -> "ReadModel":
        """Nothing to do: connections are made on demand."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def groups(self, namespace: str, name: str, limit: int = 100) -> list[GroupRow]:
        """Return the lives of a name, newest first; names of pods and Workloads find them."""
        given = {"namespace": namespace, "name": name, "limit": limit}
        for query in (
            statements.groups.GROUPS,
            statements.groups.GROUPS_OF_POD,
            statements.groups.GROUPS_OF_WORKLOAD,
        ):
            found = list(self.rows(GroupRow, query, given))
            if found:
                return found
        return []

    def newest(self, namespace: str = "") -> GroupRow | None:
        """Return the group that was seen last, in a namespace or anywhere."""
        given = {"namespace": namespace, "limit": 1}
        return next(self.rows(GroupRow, statements.groups.NEWEST_GROUP, given), None)

    def similar(self, namespace: str, name: str) -> list[str]:
        """Return `namespace/name` of groups that may have been meant, best first."""
        import difflib

        with self._asked(statements.groups.RECENT_NAMES, {"limit": 2000}) as rows:
            known = [f"{row['namespace']}/{row['name']}" for row in rows]
        wanted = f"{namespace}/{name}"
        same_name = [title for title in known if title.partition("/")[2] == name]
        close = difflib.get_close_matches(wanted, known, n=4, cutoff=0.6)
        return list(dict.fromkeys([*same_name[:3], *close]))[:4]

    def knows(self, namespace: str) -> bool:
        """Return whether a group of a namespace was ever seen."""
        return bool(self._value(statements.groups.KNOWS, {"namespace": namespace}))

    def pending(self, namespace: str = "", limit: int = 1000) -> list[PendingRow]:
        """Return groups that are not admitted, in a namespace or everywhere, by queue and its
        order.
        """
        given = {"namespace": namespace, "limit": limit}
        rows = list(self.rows(PendingRow, statements.waiting.PENDING, given))
        return as_of_now(rows, self.shortages(row.id for row in rows))

    def shortages(self, ids: Iterable[str]) -> list[ShortageRow]:
        """Return what groups that wait are short of, of those with these ids."""
        given = {"ids": msgspec.json.encode(list(ids)).decode(), "limit": MOST_HELD}
        query = statements.shared.SHORTAGES[self.dialect]
        return self.with_room(list(self.rows(ShortageRow, query, given)))

    def with_room(self, rows: list[S], at: datetime | None = None) -> list[S]:
        """Return rows with the free amounts, now or at a moment, where no ledger has them.

        Without a ledger (a play of what-if, counts that are off) the amounts of admissions are
        added up.
        """
        if all(row.room_known or row.ever for row in rows):
            return rows
        free: dict[tuple[str, str, str, str], int] = defaultdict(int)
        for one in self.quota("ClusterQueue", at=at):
            left = one.nominal - one.held - one.unadmitted
            free["ClusterQueue", one.name, one.flavor, one.resource] += left
            free["Cohort", one.root, one.flavor, one.resource] += left
        return [
            row if row.room_known else msgspec.structs.replace(row, room=free.get(key))
            for row in rows
            for key in ((row.kind, row.name, row.flavor, row.resource),)
        ]

    def listed(
        self, namespace: str, queue: str = "", state: str = "", *, gone: bool = False, limit: int
    ) -> list[GroupRow]:
        """Return groups by namespace and name, newest life first; `gone`: ended ones as well."""
        given = {"namespace": namespace, "queue": queue, "state": state, "gone": int(gone)}
        return list(self.rows(GroupRow, statements.groups.LISTED_GROUPS, {**given, "limit": limit}))

    def queues(self, namespace: str, limit: int) -> list[QueueRow]:
        """Return ClusterQueues (not with a namespace) and LocalQueues, by kind and name."""
        given = {"namespace": namespace, "limit": limit}
        rows = list(self.rows(QueueRow, statements.objects.LISTED_QUEUES, given))
        Key = tuple[str, str, str]
        nominal: dict[Key, Held] = defaultdict(lambda: defaultdict(dict))
        held: dict[Key, Held] = defaultdict(lambda: defaultdict(dict))
        unadmitted: dict[Key, Held] = defaultdict(lambda: defaultdict(dict))
        for one in self.quota(namespace=namespace):
            key = (one.kind, one.namespace, one.name)
            of = ((nominal, one.nominal), (held, one.held), (unadmitted, one.unadmitted))
            for into, amount in of:
                if amount:
                    into[key][one.flavor][one.resource] = amount
        return [
            msgspec.structs.replace(
                row, nominal=nominal[key], held=held[key], unadmitted=unadmitted[key]
            )
            for row in rows
            for key in ((row.kind, row.namespace, row.name),)
        ]

    def waited(self, now: datetime) -> dict[str, WaitedRow]:
        """Return how long groups waited lately, by ClusterQueue; those that wait still count."""
        given = {"since": now - _LATELY, "at": now, "namespace": "", "limit": MOST_HELD}
        query = statements.waiting.waited(self.dialect, past=False)
        return {row.cluster_queue: row for row in self.rows(WaitedRow, query, given)}

    def quota(
        self,
        kind: str = "",
        namespace: str = "",
        name: str = "",
        at: datetime | None = None,
        note: Note | None = None,
    ) -> list[QuotaRow]:
        """Return the quota of queues and cohorts, now or at a moment, by kind, name and flavor.

        `note` takes the title, the statement and its parameters.
        """
        given = {"kind": kind, "namespace": namespace, "name": name, "limit": MOST_HELD}
        query = (quota.NOW if at is None else quota.AT)[self.dialect]
        given |= {"at": at} if at is not None else {}
        if note is not None:
            note("quota", query, given)
        return list(self.rows(QuotaRow, query, given))

    def entries(
        self, group_id: str, *, own_only: bool = False, causes: list[CauseRow] | None = None
    ) -> list[TimelineEntry]:
        """Return a group's whole history, in order of the log.

        `own_only`: for users who may see the group's own namespace alone. `causes`: the causes of
        its admissions, if the caller has them already.
        """
        given = {"group_id": group_id, "own_only": int(own_only), "limit": MOST_ENTRIES}
        with self._asked(statements.story.ENTRIES, given) as rows:
            entries = [_entry(row) for row in rows]
        let_in = [
            TimelineEntry(
                seq=one.seq,
                ord=0,
                at=one.at,
                source="cause",
                kind=one.cause,
                message=one.says_to_own if own_only else one.says,
            )
            for one in (self.causes(group_id) if causes is None else causes)
        ]
        # A cause comes before its admission: sorting is stable.
        return sorted(let_in + entries, key=lambda entry: entry.seq)

    def waits(self, group_id: str) -> list[WaitRow]:
        """Return the waits of a group, newest first."""
        return list(
            self.rows(WaitRow, statements.waiting.WAITS, {"group_id": group_id, "limit": 50})
        )

    def holders(self, cluster_queue: str, limit: int = 5) -> list[HolderRow]:
        """Return holders of quota of a ClusterQueue, oldest admission first, without empty ones.

        Before them come groups that run in it or its cohort without an admission.
        """
        given = {"cluster_queue": cluster_queue, "limit": MOST_UNADMITTED}
        found: dict[tuple[str, str], HolderRow] = {}
        for pod in self.rows(UnadmittedRow, statements.holders.UNADMITTED, given):
            new = HolderRow(pod.namespace, pod.name, pod.state, pod.priority, pod.since, {})
            _add(found.setdefault((pod.namespace, pod.name), new).resources, {"": pod.resources})
        admitted = self.rows(
            HolderRow, statements.holders.HOLDERS[self.dialect], given | {"limit": limit}
        )
        return [*list(found.values())[:limit], *(one for one in admitted if one.resources)]

    def shared(self, group_id: str, limit: int = 200) -> Shared:
        """Return what a waiting group is short of, the state of its tree, and possible givers."""
        given = {"group_id": group_id, "limit": limit}
        short = self.with_room(list(self.rows(ShortRow, statements.shared.SHORT, given)))
        if not short:
            return Shared([], [], [])
        return Shared(
            short,
            list(self.rows(PoolRow, statements.shared.POOLS, given)),
            list(self.rows(BorrowerRow, statements.shared.BORROWERS[self.dialect], given)),
            self.reclaims(short[0].cluster_queue),
        )

    def reclaims(self, cluster_queue: str) -> str:
        """Return from whom a ClusterQueue reclaims its own quota, "" if unknown."""
        found = next(self.objects("ClusterQueue", name=cluster_queue, limit=1), None)
        view = None if found is None else found.view
        return view.reclaim_within_cohort if isinstance(view, ClusterQueueView) else ""

    def objects(
        self,
        kind: str,
        namespace: str = "",
        name: str = "",
        after: tuple[str, str] = ("", ""),
        limit: int = MOST_OBJECTS,
    ) -> Iterator[ObjectRow]:
        """Yield objects of a kind by namespace and name, from behind the names `after`."""
        given = {"kind": kind, "namespace": namespace, "name": name, "limit": limit}
        given |= {"after_namespace": after[0], "after_name": after[1]}
        return self.rows(ObjectRow, statements.objects.OBJECTS, given)

    def position(self, group_id: str) -> int | None:
        """Return the position of a group in its ClusterQueue, from 1; None without a position."""
        with self._asked(statements.waiting.POSITION, {"group_id": group_id}) as rows:
            return int(rows[0]["position"]) if rows else None

    def expected(self, group_id: str) -> ExpectedRow | None:
        """Return when a group that waits is expected to start, None without an estimate."""
        return next(
            self.rows(ExpectedRow, statements.starts.EXPECTED, {"group_id": group_id}), None
        )

    def reserved(self, group_id: str, now: datetime) -> ReservedRow | None:
        """Return the start that is reserved for a group, and how many may still pass it."""
        given = {"group_id": group_id}
        row = next(self.rows(ReservedRow, reserving.RESERVED, given), None)
        if row is None or row.start_by is None:
            return row
        left_s = int((row.start_by - now).total_seconds())
        asked = {**given, "cluster_queue": row.cluster_queue, "left_s": left_s}
        passing = int(self._value(reserving.PASSING, asked))
        return msgspec.structs.replace(row, passing=passing)

    def forecast(self) -> MadeRow | None:
        """Return the latest forecast, None if none was ever made."""
        return next(self.rows(MadeRow, statements.starts.MADE, {}), None)

    def admitted(self, group: GroupRow, at: datetime) -> list[AdmittedRow]:
        """Return the newest admissions of others in a group's ClusterQueue up to a moment."""
        given = {"cluster_queue": group.cluster_queue, "group_id": group.id, "at": at}
        limit = overtaking.MOST
        return list(self.rows(AdmittedRow, overtaking.ADMITTED, given | {"limit": limit}))

    def without_workload(self) -> int:
        """Return how many single pods do without a Workload."""
        return int(self._value(statements.stuck.SPARED, {}))

    def summary(self, since_seq: int = 0, limit: int = 1000) -> list[SummaryRow]:
        """Return the groups first seen after a position, in that order."""
        given = {"since": since_seq, "limit": limit}
        return list(self.rows(SummaryRow, statements.groups.SUMMARY, given))

    def changes(self, after: int, limit: int = 500) -> list[ChangeRow]:
        """Return changes of groups' states at positions above `after`, oldest first."""
        given = {"after": after, "limit": limit}
        return list(self.rows(ChangeRow, statements.groups.CHANGES, given))

    def checkpoint(self) -> CheckpointRow | None:
        """Return the checkpoint, None before the first."""
        return next(self.rows(CheckpointRow, statements.position.CHECKPOINT, {}), None)

    def clock(self) -> datetime:
        """Return the time up to which the read model is known, by its database's clock.

        It is now while gatelog's parts send heartbeats; in a copy (an import, a replay up to a
        position, the file of a gatelog that ended) it is the last known time
        (`projector.schema.clock`).
        """
        with self._asked(statements.position.CLOCK[self.dialect], {}) as rows:
            found = rows[0]["at"]
        at = datetime.fromisoformat(found) if isinstance(found, str) else found
        assert isinstance(at, datetime), "the view always has a moment"
        return at

    def clusters(self) -> list[str]:
        """Return the clusters this database knows."""
        with self._asked(statements.position.CLUSTERS, {}) as rows:
            return [str(row["cluster"]) for row in rows]

    def pruned(self) -> datetime | None:
        """Return the time before which history was pruned, None if it never was."""
        with self._asked(statements.position.PRUNED, {}) as rows:
            found = next((row["before"] for row in rows), None)
        return datetime.fromisoformat(found) if isinstance(found, str) else found

    def parked(self) -> ParkedCount:
        """Return how many events are parked and wait for a person, and how many stop a group."""
        return next(self.rows(ParkedCount, statements.stuck.PARKED_COUNT, {}))

    def parked_of(self, namespace: str, name: str, group_id: str = "") -> list[ParkedOfRow]:
        """Return parked events of a group or pod that were not accepted since, newest first.

        A refused pod is found by its own name and by its group's name.
        """
        pods = f"Pod {namespace}/"
        given = {"group_id": group_id or "-", "name": name, "pods": pods, "pod": pods + name}
        return list(self.rows(ParkedOfRow, statements.stuck.PARKED_OF, {**given, "limit": 5}))

    def unstarted(self, group_id: str) -> list[UnstartedRow]:
        """Return pods of a group that are there and at their gate, newest first; five at most."""
        return list(
            self.rows(UnstartedRow, statements.pods.UNSTARTED, {"group_id": group_id, "limit": 5})
        )

    def not_running(self, group_id: str) -> list[NotRunningRow]:
        """Return why pods of a group do not run that were let go, most pods first; 100 reasons."""
        return list(self.rows(NotRunningRow, running.NOW, {"group_id": group_id, "limit": 100}))

    def standing_still(self, before: datetime, namespace: str, limit: int) -> list[StillRow]:
        """Return why pods of groups do not run since before a time, though they were let go.

        By group, most pods first; not what every pod goes through in its first moments.
        """
        given = {"before": before, "namespace": namespace, "limit": limit}
        return list(self.rows(StillRow, running.LISTED, given))

    def kept_at_gate(self, group_id: str) -> list[KeptRow]:
        """Return pods of a group that its admission does not let start, oldest first; five."""
        words = dict(zip(("role", "larger", "place", "flavor", "size"), KEPT_AT_GATE, strict=True))
        given = {"group_id": group_id, "limit": 5, **words}
        return list(self.rows(KeptRow, statements.pods.KEPT, given))

    def unreplaced(self, group_id: str) -> list[UnreplacedRow]:
        """Return pods of a group that failed and are kept for a replacement; five at most."""
        given = {"group_id": group_id, "limit": 5}
        return list(self.rows(UnreplacedRow, statements.pods.UNREPLACED, given))

    def ending(self, group_id: str) -> list[EndingRow]:
        """Return pods of a group that are being deleted and have not ended; five at most."""
        given = {"group_id": group_id, "limit": 5}
        return list(self.rows(EndingRow, statements.pods.ENDING, given))

    def placed(self, group_id: str) -> bool:
        """Return whether pods of a group ever had places."""
        with self._asked(statements.pods.PLACED, {"group_id": group_id}) as rows:
            return bool(rows)

    def causes(self, group_id: str) -> list[CauseRow]:
        """Return what let a group in, admission by admission, in order of the log."""
        given = {"group_id": group_id, "limit": MOST_ENTRIES}
        return list(self.rows(CauseRow, statements.story.CAUSES[self.dialect], given))

    def giving_way(self, preemptor: str = "", limit: int = 5) -> list[GivingWayRow]:
        """Return preempted groups that still stop, for one group or for all, first to end first."""
        given = {"group_id": preemptor, "limit": limit}
        return list(self.rows(GivingWayRow, statements.holders.GIVING_WAY, given))

    def preempted_for(self, group_id: str, at: datetime) -> PreemptorRow | None:
        """Return the preemptor that took a group's latest admission up to a moment, or None."""
        given = {"group_id": group_id, "at": at}
        return next(self.rows(PreemptorRow, statements.preempted.PREEMPTED_FOR, given), None)

    def unresolved(self, before: datetime) -> int:
        """Return how many decisions from before a time have no outcome yet."""
        return int(self._value(statements.stuck.UNRESOLVED_COUNT, {"before": before}))

    def repeated(self, now: datetime, group_id: str = "", limit: int = 100) -> list[RepeatedRow]:
        """Return writes that go on without effect, of a group or of all, most often tried first."""
        query = statements.stuck.REPEATED_OF_GROUP if group_id else statements.stuck.REPEATED
        given = {"group_id": group_id, "times": repeats.TIMES, "limit": limit}
        times = {"since": now - repeats.WINDOW, "lately": now - repeats.LATELY}
        return list(self.rows(RepeatedRow, query, {**given, **times}))

    def held_up(
        self, before: datetime, *, namespace: str = "", group_id: str = "", limit: int = 100
    ) -> list[HeldUpRow]:
        """Return admitted groups whose pods should have lost their gate before a time."""
        given = {"namespace": namespace, "group_id": group_id, "before": before, "limit": limit}
        return list(self.rows(HeldUpRow, statements.stuck.HELD_UP, given))

    def idle(self, namespace: str = "", queue: str = "", limit: int = 100) -> list[PendingRow]:
        """Return groups that hold quota and run nothing until failed pods are replaced, longest
        first.
        """
        given = {"namespace": namespace, "queue": queue, "limit": limit}
        return list(self.rows(PendingRow, statements.holders.IDLE, given))

    def replicas(self) -> list[ReplicaRow]:
        """Return what the replicas of all parts say of themselves, by part and instance."""
        return list(self.rows(ReplicaRow, statements.position.REPLICAS, {"limit": 1000}))

    def standing(self, before: datetime, limit: int = 100) -> list[StandingRow]:
        """Return groups that are parked, or over since before a time and not released yet."""
        return list(
            self.rows(StandingRow, statements.stuck.STANDING, {"before": before, "limit": limit})
        )

    def refused(self, limit: int = 100) -> list[SayingRow]:
        """Return groups for which the API server refuses a write, by their present reason."""
        words = {"one": WRITE_REFUSED, "two": WORKLOAD_REFUSED, "three": WORKLOAD_TOO_LARGE}
        return list(self.rows(SayingRow, statements.stuck.SAYING, {**words, "limit": limit}))

    def too_large(self, limit: int = 100) -> list[SayingRow]:
        """Return groups whose pods take too much memory to be read, by their reason now."""
        words = {"one": POD_TOO_LARGE, "two": NAMESPACE_TOO_LARGE, "three": NAMESPACE_TOO_LARGE}
        return list(self.rows(SayingRow, statements.stuck.SAYING, {**words, "limit": limit}))

    def statement(self, query: str, given: Mapping[str, Any]) -> str:
        """Return a statement as it may be pasted into sqlite3 or psql."""
        return statements.shown.filled(
            query, {"cluster": self.cluster, "limit": MOST_ENTRIES, **given}
        )

    def rows(self, kind: type[T], query: str, given: Mapping[str, Any]) -> Iterator[T]:
        """Run a statement; its columns are the fields of `kind`."""
        with self._asked(query, given) as rows:
            for row in rows:
                yield msgspec.convert(row, kind, strict=False)

    def dicts(self, query: str, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Run a statement that says how many rows it gives at most."""
        with self._asked(query, given) as rows:
            return rows

    def _value(self, query: str, given: Mapping[str, Any]) -> Any:
        with self._asked(query, given) as rows:
            return next(iter(rows[0].values()))

    @contextmanager
    def _asked(self, query: str, given: Mapping[str, Any]) -> Iterator[list[dict[str, Any]]]:
        values = bound(self.dialect, {"cluster": self.cluster, **given})
        try:
            names, found = self._questions.ask(query, values)
        except QuestionFailed as error:
            raise CommandFailed(self._why(error)) from error
        rows = [dict(zip(names, row, strict=True)) for row in found]
        for name in _DOCUMENTS.intersection(names):  # PostgreSQL's driver has read them already
            for row in rows:
                if isinstance(row[name], str):
                    row[name] = msgspec.json.decode(row[name])
        yield rows

    def answered(self, statement: str) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """Return names of columns and rows of a statement that has its values in it."""
        plain = self.dialect == "sqlite"
        # A colon is SQL here (a cast, a time), never a parameter of ours.
        query = statement if plain else statement.replace(":", "\\:")
        try:
            return self._questions.ask(query, {})
        except QuestionFailed as error:
            raise CommandFailed(self._why(error)) from error

    def _why(self, error: QuestionFailed) -> str:
        said = next(iter(str(error).splitlines()), "")
        if _NO_TABLE.search(said):
            return (
                f"{self.place} has no read model of gatelog yet, or one of an older gatelog "
                f"({said}): run `gatelog migrate`"
            )
        if "interrupted" in said or "statement timeout" in said:
            return f"{self.place} took too long to answer: ask for less at once"
        return f"cannot read {self.place}: {said}"


def _add(total: Held, more: Held) -> None:
    for key, resources in more.items():
        amounts = total.setdefault(key, {})
        for resource, amount in resources.items():
            amounts[resource] = amounts.get(resource, 0) + amount


def _entry(row: Mapping[str, Any]) -> TimelineEntry:
    values = dict(row)
    target = str(values.pop("target") or "").split(" ")
    if target[0] == "Pod" and len(target) > 1:
        values["pod"] = target[1].rpartition("/")[2]
    values["pod"] = values["pod"] or ""
    return msgspec.convert(values, TimelineEntry, strict=False)
