"""Looking at the read model: is it there, at our schema, and is anything stuck in it?

Invariant: opens the database for reading only.
"""

import os
import shutil
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from gatelog.examine import stuck
from gatelog.examine.findings import Finding, fail, ok, warn
from gatelog.readmodel import heldup, standstill
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.readiness import LISTS_REMEDY, WENT_BACK, awaited
from gatelog.readmodel.rows import CheckpointRow
from gatelog.readmodel.timeline import duration
from gatelog.shell.errors import CommandFailed, explain
from gatelog.shell.remedies import UNKNOWN, Installation, remedy
from gatelog.shell.whereabouts import read_model_at
from runtime.settings import Settings

AREA = "database"
NEWS = timedelta(hours=1)
"""Time for which a parked event is worth a warning even if no group is stuck."""
REPLICAS = "replicas"
LEAST_ROOM = 16 << 20
"""Bytes on the disk of a SQLite file below which the disk counts as full."""
MOST_READ = 1 << 30
"""Bytes of the largest SQLite file that is read from end to end: a second or two."""


class Examined(NamedTuple):
    """The findings, and the checkpoint for a comparison with the log."""

    findings: list[Finding]
    checkpoint: CheckpointRow | None


def is_copy(settings: Settings) -> bool:
    """Return whether the database of the settings is a copy; its log and cluster are not known."""
    from projector.storage.urls import DatabaseError, database_url

    if not settings.database.url or settings.nats.url:
        return False
    try:
        with ReadModel(database_url(settings), settings.cluster) as model:
            return model.checkpoint() is not None and not model.replicas()
    except (CommandFailed, DatabaseError):
        return False  # what is wrong with it, `examine` says


def examine(settings: Settings, at: Installation = UNKNOWN, *, copied: bool = False) -> Examined:
    """Look at the database of the settings; `at` is the installation that remedies are for.

    With `copied` it is a copy (`is_copy`), which is judged by its own last time.
    """
    from projector.storage.urls import DatabaseError, database_url

    try:
        url = database_url(settings)
        schema = _schema(url, at)
        if schema.verdict == "fail":
            return Examined([schema], None)
        with ReadModel(url, settings.cluster) as model:
            row = model.checkpoint()
            now = model.clock() if copied else datetime.now(UTC)
            findings = [schema, *_integrity(url), *_room(url, at), _checkpoint(model, row)]
            findings += [_copy(now)] if copied else _parts(model, at)
            if row is not None:
                findings += _lists(row) or _restored(row, now)
                findings += [_parked(model, now), _unresolved(model, settings, now)]
                findings += _spared(model)
                findings += stuck.examine(model, now)
                findings.append(_gates(model, at, now))
            return Examined(findings, row)
    except (CommandFailed, DatabaseError) as error:
        doing = f"is database.url right? {remedy('database', at)}"
        if "://" not in settings.database.url or settings.database.url.startswith("sqlite"):
            made = remedy("schema", at) if at.pod else "a first `gatelog up` makes the file"
            doing = f"is database.url (or state_dir) right? If so: {made}"
        return Examined([fail(AREA, "reachable", explain(error).sentence, doing)], None)


def _schema(url: str, at: Installation) -> Finding:
    from sqlalchemy.exc import SQLAlchemyError

    from projector.storage.database import reading
    from projector.upkeep import migrate

    try:
        with reading(url) as connection:
            found = migrate.revision(connection)
            lacks = migrate.lacking(connection) if found == migrate.head() else []
    except SQLAlchemyError as error:
        said = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise CommandFailed(f"{read_model_at(url)}: {said}") from error
    needed = migrate.head()
    if lacks:
        detail = f"{read_model_at(url)} lacks {migrate.first_of(lacks)}"
        return fail(AREA, "schema", detail, migrate.MADE_ANEW)
    if found == needed:
        return ok(AREA, "schema", f"{read_model_at(url)} is at {found}")
    detail = f"{read_model_at(url)} is at {found or 'none'}, this gatelog needs {needed}"
    return fail(AREA, "schema", detail, remedy("schema", at))


def _integrity(url: str) -> list[Finding]:
    """The result of SQLite's integrity check; [] for a large file, or PostgreSQL."""
    from sqlalchemy.exc import DBAPIError

    from projector.storage.damage import MOVE_AWAY
    from projector.storage.database import parse, reading

    file = parse(url)
    if file.get_backend_name() != "sqlite" or os.stat(file.database or "").st_size > MOST_READ:
        return []
    try:
        with reading(url) as connection:
            said = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar())
    except DBAPIError as error:
        said = str(error.orig)
    if said == "ok":
        return [ok(AREA, "integrity", "SQLite finds nothing wrong with the file")]
    return [fail(AREA, "integrity", f"{read_model_at(url)}: {' '.join(said.split())}", MOVE_AWAY)]


def _room(url: str, at: Installation) -> list[Finding]:
    """Report little room on the disk of a SQLite file, which may be the log's disk too."""
    from projector.storage.database import parse

    file = parse(url)
    if file.get_backend_name() != "sqlite":
        return []
    left = shutil.disk_usage(os.path.dirname(file.database or "") or ".").free
    if left >= LEAST_ROOM:
        return []
    said = f"the disk of {read_model_at(url)} has {left >> 20} MiB left, and log and database stop"
    return [fail(AREA, "room", said, remedy("database", at))]


def _checkpoint(model: ReadModel, row: CheckpointRow | None) -> Finding:
    if row is None:
        others = [name for name in model.clusters() if name != model.cluster]
        if others:
            detail = f"none for cluster {model.cluster}; there are {', '.join(others)}"
            return warn(AREA, "checkpoint", detail, "set cluster to one of these")
        return warn(
            AREA, "checkpoint", "none: no projector has written yet", "start gatelog up or project"
        )
    age = duration((datetime.now(UTC) - row.written_at).total_seconds())
    epochs = "" if row.epoch == 1 else f", epoch {row.epoch} (see table epochs for gaps)"
    return ok(AREA, "checkpoint", f"seq {row.stream_seq}, {age} ago, mode {row.mode}{epochs}")


def _restored(row: CheckpointRow, now: datetime) -> list[Finding]:
    """Say for a while that the cluster went back: lives of groups ended for it."""
    at = row.meta.restored_at
    if at is None or now - at > NEWS:
        return []
    ago = duration((now - at).total_seconds())
    doing = (
        "groups that it does not know any more began anew (gatelog history); what it lost of "
        "gatelog's own (CRDs, policies, webhook) comes back by gatelog up --install or the chart"
    )
    return [warn(AREA, "restored", f"{WENT_BACK}, {ago} ago (gatelog epochs)", doing)]


def _parts(model: ReadModel, at: Installation) -> list[Finding]:
    found = standstill.troubles(model.replicas(), datetime.now(UTC), at)
    if found:
        return [fail(REPLICAS, one.part, one.sentence, one.remedy) for one in found]
    return [ok(REPLICAS, "parts", f"{', '.join(standstill.PARTS)} say that they work")]


def _copy(now: datetime) -> Finding:
    said = f"no part of gatelog ever wrote to it: what is below is as of {now:%F %T} UTC"
    return ok(REPLICAS, "copy", said)


def _gates(model: ReadModel, at: Installation, now: datetime) -> Finding:
    rows = model.held_up(now - heldup.TOO_LONG)
    if not rows:
        return ok(AREA, "gates", "every admitted group has lost them")
    first, more = rows[0], f"; and {len(rows) - 1} more groups" if len(rows) > 1 else ""
    said = f"{first.namespace}/{first.name}: {heldup.sentence(first, now)}{more}"
    return fail(AREA, "gates", said, heldup.advice(first, at))


def _lists(row: CheckpointRow) -> list[Finding]:
    waits = awaited(row)
    return [fail(AREA, "lists", waits, LISTS_REMEDY)] if waits else []


def _parked(model: ReadModel, now: datetime) -> Finding:
    found = model.parked()
    if found.newest_at is None:
        return ok(AREA, "parked", "nothing is parked")
    said = (
        f"{found.kept} parked, the newest {duration((now - found.newest_at).total_seconds())} ago"
    )
    if found.standing:
        return warn(
            AREA,
            "parked",
            f"{said}; for {found.standing} of them a group is stuck",
            "look: gatelog parked; then gatelog parked release or discard",
        )
    if now - found.newest_at < NEWS:
        return warn(
            AREA,
            "parked",
            f"{said}; no group is stuck for it",
            f"look: gatelog parked. This is no warning any more {duration(NEWS.total_seconds())} "
            "after the newest, or after gatelog parked discard",
        )
    return ok(AREA, "parked", f"{said}; no group is stuck for it (gatelog parked lists them)")


def _spared(model: ReadModel) -> list[Finding]:
    count = model.without_workload()
    detail = (
        f"{count} single pods do without (queueing.workloads=groups): kubectl get podgroups lists "
        "them, kubectl get workloads does not"
    )
    return [ok(AREA, "workloads", detail)] if count else []


def _unresolved(model: ReadModel, settings: Settings, now: datetime) -> Finding:
    long_s = 2 * settings.projector.decision_timeout_s
    count = model.unresolved(now - timedelta(seconds=long_s))
    if not count:
        return ok(AREA, "decisions", "all older ones have an outcome")
    return warn(
        AREA,
        "decisions",
        f"{count} have had no outcome for more than {duration(long_s)}",
        "is the actuator running, and what do its log and table outcomes say?",
    )
