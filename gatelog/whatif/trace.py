"""A trace: a file of jobs, one per line, as published cluster traces can be brought into.

CSV with a header line, or JSON: one object per line, or the Standard Workload Format (`swf`).
Fields of the first two:

    submit     when it came: seconds since any beginning, or a time like 2026-01-31T08:00:00Z
    runtime    seconds that each of its pods runs
    size       how many pods it has; default 1. More than one is a pod group
    queue      LocalQueue, or namespace/LocalQueue; default: that which was named for the trace
    priority   a WorkloadPriorityClass by name, or a number; default none
    namespace  default: that of queue, else `default`
    id         default: its number in the file; capitals and `_` are written as pods' names are
    user, team, and other columns that begin with `label:` become labels
    cpu, memory, nvidia.com/gpu, ... (every other column): what each pod asks for, as Kubernetes
               writes amounts; empty is nothing of it

Theory. The file is read twice: first to check every line and to note where each begins and when its
job came, then in the order of time. A job takes 24 bytes, and a hash of its id while lines are
checked.

Invariant: an unusable value is refused with file, line and column, before the play.
"""

import csv
import io
import math
from array import array
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from gatelog.shell.errors import CommandFailed
from gatelog.whatif import swf
from gatelog.whatif.arrivals import Arrival, Delays, Life
from podgroup.model.names import (
    ADMISSION_GATE,
    GROUP_NAME,
    GROUP_TOTAL_COUNT,
    MANAGED_LABEL,
    POD_FINALIZER,
    PRIORITY_CLASS,
    QUEUE_NAME,
    group_name,
    is_dns_subdomain,
)
from podgroup.model.objects import (
    LocalQueueView,
    PodView,
    QueueObject,
    WorkloadPriorityClassView,
)
from podgroup.model.quantities import amount

BEGIN = datetime(2000, 1, 1, tzinfo=UTC)
"""Second 0 of traces that count seconds."""
MAX_LINE = 64 * 1024
MAX_PODS = 10_000
"""Most pods of a job."""
MAX_NAME = 52
"""Characters of an id: a name of a group is a label's value, and pods' names are longer."""
MAX_RUNTIME_S = 10 * 365 * 86_400
BACK_S = 1.0
"""Seconds after which a job that was preempted comes again."""

_PLAIN = frozenset({"submit", "runtime", "size", "queue", "priority", "namespace", "id"})
_LABELS = {"user": "user", "team": "team"}
_LABEL = "label:"
_NEEDED = ("submit", "runtime", "queue")


class TraceRefused(CommandFailed):
    """A trace that cannot be used; the message names file, line and column."""


class _Bad(Exception):
    def __init__(self, column: str, message: str) -> None:
        super().__init__(message)
        self.column = column


class Job(Struct, frozen=True, gc=False):
    """A line of a trace."""

    at: datetime
    runtime_s: float
    size: int
    namespace: str
    queue: str
    priority: str
    id: str
    labels: dict[str, str]
    requests: dict[str, int]


class Trace:
    """A file of jobs; `jobs` and `pods` are counts, `never_ran` counts omitted jobs.

    Raises:
        TraceRefused: the file cannot be used.
    """

    def __init__(self, path: Path, runtime_factor: float = 1.0, queue: str = "") -> None:
        self.path = path
        self.delays = Delays()
        self.jobs = self.pods = self.never_ran = 0
        self._queue = queue
        self._swf = path.suffix == swf.SUFFIX
        self.namespaces: set[str] = set()
        self.numbered: set[int] = set()
        """Priorities that are numbers: classes are made for them."""
        self._queues: dict[tuple[str, str], int] = {}
        """Namespace and LocalQueue -> the first line that names it."""
        self.begin = self.last = BEGIN
        self._factor = runtime_factor
        self._heads: list[str] = []
        self._times = array("d")
        self._places = array("Q")
        self._numbers = array("Q")
        self._again = 0
        try:
            self._check()
        except OSError as error:
            raise TraceRefused(f"{path}: {error.strerror}") from None
        if not self.jobs:
            raise TraceRefused(f"{path}: has no jobs in it")

    def classes(self, known: list[QueueObject]) -> list[QueueObject]:
        """Return a WorkloadPriorityClass for each priority that is a number."""
        names = {view.name for view in known if isinstance(view, WorkloadPriorityClassView)}
        return [
            WorkloadPriorityClassView(
                uid=f"priority-{n}", name=_class_of(n), resource_version="", value=n
            )
            for n in sorted(self.numbered)
            if _class_of(n) not in names
        ]

    def check_queues(self, known: list[QueueObject]) -> None:
        """Refuse a job whose LocalQueue is not among objects: it would wait for ever.

        Raises:
            TraceRefused: there is such a job.
        """
        there = sorted((v.namespace, v.name) for v in known if isinstance(v, LocalQueueView))
        for queue, number in self._queues.items():
            if queue not in there:
                names = ", ".join("/".join(one) for one in there)[:200] or "none"
                message = f"there is no LocalQueue {'/'.join(queue)} in --objects; there is {names}"
                raise self._refused(number, "queue", message)

    def arrivals(self) -> Iterator[Arrival]:
        """Yield the pods of every job, in order of time, then of lines."""
        self._again = 0  # a second play is the same as the first
        order = range(len(self._times))
        if any(self._times[i] < self._times[i - 1] for i in range(1, len(self._times))):
            order = sorted(order, key=self._times.__getitem__)  # type: ignore[assignment]
        with self.path.open("rb") as file:
            for index in order:
                file.seek(self._places[index])
                number = self._numbers[index]
                row = self._row(file.readline(), number)
                assert row is not None  # its place was noted
                yield from self._pods(self._job(row, number))

    def stopped(self, pod: PodView, life: Life, at: datetime) -> Arrival | None:
        """Return a new pod in place of a stopped pod; it runs from its beginning.

        In a group it has a name of its own: the stopped pod exists until it is replaced.
        """
        self._again += 1
        name, uid = pod.name, f"{pod.uid.partition('--')[0]}--{self._again}"
        if group_name(pod.labels, pod.annotations):
            name = f"{name.partition('--')[0]}--{self._again}"
        again = at + timedelta(seconds=BACK_S)
        view = msgspec.structs.replace(pod, uid=uid, name=name, created_at=again)
        return Arrival(again, view, life)

    def ended(self, pod: PodView, at: datetime) -> Arrival | None:
        """Return nothing: a job of a trace runs once."""
        return None

    def _pods(self, job: Job) -> Iterator[Arrival]:
        labels = {**job.labels, QUEUE_NAME: job.queue, MANAGED_LABEL: "true"}
        annotations: dict[str, str] = {}
        if job.size > 1:
            labels[GROUP_NAME] = job.id
            annotations[GROUP_TOTAL_COUNT] = str(job.size)
        if job.priority:
            labels[PRIORITY_CLASS] = job.priority
        life = Life(run_s=job.runtime_s * self._factor)
        for index in range(job.size):
            name = f"{job.id}-{index}" if job.size > 1 else job.id
            yield Arrival(
                job.at,
                PodView(
                    uid=f"{job.namespace}-{name}",
                    namespace=job.namespace,
                    name=name,
                    resource_version="",
                    created_at=job.at,
                    labels=labels,
                    annotations=annotations,
                    finalizers=(POD_FINALIZER,),
                    gates=(ADMISSION_GATE,),
                    role="main",
                    role_annotated=True,
                    requests=job.requests,
                    phase="Pending",
                ),
                life,
            )

    # -- reading ---

    def _check(self) -> None:
        seen: set[int] = set()
        with self.path.open("rb") as file:
            first = file.readline(MAX_LINE + 1)
            place, number = 0, 1
            self._swf = self._swf or first.startswith(swf.COMMENT)
            if first.lstrip()[:1] == b"[":
                raise TraceRefused(
                    f"{self.path}, line 1: is a JSON array; write one object per line "
                    "(jq -c '.[]' makes that of it)"
                )
            if not self._swf and first.lstrip()[:1] != b"{":
                self._header(first)
                place, number = len(first), 2
            file.seek(place)
            while line := file.readline(MAX_LINE + 1):
                if len(line) > MAX_LINE:
                    raise TraceRefused(
                        f"{self.path}, line {number}: is longer than {MAX_LINE} bytes"
                    )
                row = self._row(line, number) if line.strip() else None
                if row is None:
                    self.never_ran += bool(line.strip()) and not line.startswith(swf.COMMENT)
                else:
                    job = self._job(row, number)
                    key = hash((job.namespace, job.id))
                    if key in seen:
                        raise self._refused(number, "id", f"{job.id} is there twice")
                    seen.add(key)
                    self._note(job, place, number)
                place += len(line)
                number += 1

    def _note(self, job: Job, place: int, number: int) -> None:
        self.begin = min(self.begin, job.at) if self.jobs else job.at
        self.last = max(self.last, job.at) if self.jobs else job.at
        self.jobs += 1
        self.pods += job.size
        self.namespaces.add(job.namespace)
        self._queues.setdefault((job.namespace, job.queue), number)
        self._times.append(job.at.timestamp())
        self._places.append(place)
        self._numbers.append(number)

    def _header(self, line: bytes) -> None:
        heads = _cells(line.decode("utf-8-sig", errors="replace"))
        self._heads = [head.strip() for head in heads]
        for needed in _NEEDED:
            if needed not in self._heads and not (needed == "queue" and self._queue):
                raise TraceRefused(
                    f"{self.path}, line 1: has no column {needed}; there is "
                    f"{', '.join(self._heads)[:200] or 'nothing'}"
                )
        for column, head in enumerate(self._heads, 1):
            if self._heads.index(head) + 1 < column:
                raise TraceRefused(
                    f"{self.path}, line 1, column {column}: {head or 'an empty name'} is there "
                    "twice"
                )

    def _row(self, line: bytes, number: int) -> dict[str, Any] | None:
        if self._swf:
            try:
                return swf.row(line, self._queue)
            except ValueError as error:
                raise self._refused(number, "", str(error)) from None
        if not self._heads:
            try:
                found = msgspec.json.decode(line)
            except msgspec.DecodeError as error:
                raise self._refused(number, "", f"is no JSON: {error}") from None
            if not isinstance(found, dict):
                raise self._refused(number, "", "must be a JSON object")
            return found
        try:
            cells = _cells(line.decode())
        except UnicodeDecodeError:
            raise self._refused(number, "", "is not UTF-8") from None
        except csv.Error as error:
            raise self._refused(number, "", f"is no CSV: {error}") from None
        if len(cells) != len(self._heads):
            raise self._refused(
                number, "", f"has {len(cells)} values, the header line has {len(self._heads)}"
            )
        return dict(zip(self._heads, cells, strict=True))

    def _job(self, row: dict[str, Any], number: int) -> Job:
        try:
            return self._read(row, number)
        except _Bad as bad:
            raise self._refused(number, bad.column, str(bad)) from None

    def _read(self, row: dict[str, Any], number: int) -> Job:
        queue = _text(row, "queue") or self._queue
        namespace, _, name = queue.rpartition("/")
        namespace = _text(row, "namespace") or namespace or "default"
        if not name:
            raise _Bad("queue", "is missing; --queue NAMESPACE/NAME names one for all")
        labels: dict[str, str] = {}
        requests: dict[str, int] = {}
        for head, value in row.items():
            if head in _PLAIN or value in ("", None):
                continue
            if head in _LABELS or head.startswith(_LABEL):
                labels[_LABELS.get(head, head.removeprefix(_LABEL))] = str(value)
                continue
            try:
                requests[head] = amount(head, str(value))
            except ValueError as error:
                raise _Bad(head, str(error)) from None
        return Job(
            at=_time(row),
            runtime_s=_number(row, "runtime", 0, MAX_RUNTIME_S),
            size=int(_number(row, "size", 1, MAX_PODS, "1")),
            namespace=namespace,
            queue=name,
            priority=self._priority(_text(row, "priority")),
            id=_name(_text(row, "id")) or f"job-{number}",
            labels=labels,
            requests=requests,
        )

    def _priority(self, text: str) -> str:
        try:
            number = int(text)
        except ValueError:
            return text
        if abs(number) > 1_000_000_000:
            raise _Bad("priority", f"{text} is not between -1000000000 and 1000000000")
        self.numbered.add(number)
        return _class_of(number)

    def _refused(self, number: int, column: str, message: str) -> TraceRefused:
        where = f"{self.path}, line {number}"
        if column:
            place = f"{self._heads.index(column) + 1} " if column in self._heads else ""
            where += f", column {place}({column})" if place else f", field {column}"
        return TraceRefused(f"{where}: {message}")


def _class_of(priority: int) -> str:
    return f"priority-{priority}" if priority >= 0 else f"priority-minus{-priority}"


def _name(text: str) -> str:
    name = text.lower().replace("_", "-")
    if name and not (len(name) <= MAX_NAME and is_dns_subdomain(name)):
        raise _Bad(
            "id",
            f"{text!r} can name no pod: letters, digits, '-', '_' and '.', at most {MAX_NAME}",
        )
    return name


def _cells(line: str) -> list[str]:
    return next(csv.reader(io.StringIO(line), strict=True), [])


def _text(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    return "" if value is None else str(value).strip()


def _number(row: dict[str, Any], name: str, least: float, most: float, default: str = "") -> float:
    text = _text(row, name) or default
    try:
        value = float(text)
    except ValueError:
        raise _Bad(name, f"{text!r} is no number" if text else "is missing") from None
    if not math.isfinite(value) or not least <= value <= most:
        raise _Bad(name, f"{text} is not between {least:g} and {most:g}")
    return value


def _time(row: dict[str, Any]) -> datetime:
    text = _text(row, "submit")
    try:
        seconds = float(text)
    except ValueError:
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise _Bad(
                "submit",
                f"{text!r} is neither seconds nor a time like 2026-01-31T08:00:00Z"
                if text
                else "is missing",
            ) from None
        return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    if not math.isfinite(seconds) or not 0 <= seconds <= 1e10:
        raise _Bad("submit", f"{text} is not between 0 and 10000000000 seconds")
    return BEGIN + timedelta(seconds=seconds)
