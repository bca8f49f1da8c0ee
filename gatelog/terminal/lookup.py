"""What `history` and `why` share: naming a group, opening the read model, and finding nothing.

Theory. Finding nothing is the likeliest answer to a mistyped name, a wrong database or a projector
that is behind, so that answer says which of them it may be.

Invariant: nothing here writes.
"""

import contextlib
import sys
from datetime import UTC, datetime

from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.standstill import troubles
from gatelog.readmodel.timeline import duration
from gatelog.shell.errors import CommandFailed, UsageFailed
from gatelog.shell.remedies import here
from gatelog.terminal import printing
from gatelog.terminal.console import one_of
from runtime.settings import Settings

BEHIND_S = 30.0


def parse_title(title: str) -> tuple[str, str]:
    """Return namespace and name of `namespace/name`.

    Raises:
        UsageFailed: the title has another form.
    """
    namespace, slash, name = title.partition("/")
    if not (slash and namespace and name) or "/" in name:
        raise UsageFailed(f"{title!r}: name a group or pod as NAMESPACE/NAME, e.g. team-a/train")
    return namespace, name


def titled(title: str, namespace: str) -> tuple[str, str]:
    """Return namespace and name of an object named as NAMESPACE/NAME, or by name and `-n`.

    Raises:
        UsageFailed: the title has another form, or names two namespaces.
    """
    if "/" not in title and namespace:
        title = f"{namespace}/{title}"
    found, name = parse_title(title)
    if namespace and found != namespace:
        raise UsageFailed(f"{title} is not in the namespace of -n {namespace}")
    return found, name


def open_model(settings: Settings) -> ReadModel:
    """Return the read model of the settings.

    Raises:
        CommandFailed: there is no such database.
    """
    from projector.storage.urls import DatabaseError, database_url

    try:
        return ReadModel(database_url(settings), settings.cluster)
    except DatabaseError as error:
        raise CommandFailed(f"{error} (--state-dir or --db says where it is)") from error


def clock(settings: Settings) -> datetime:
    """Return the moment that a read model tells of (`ReadModel.clock`)."""
    with open_model(settings) as model:
        return model.clock()


def say_where(settings: Settings, form: str | None = None) -> None:
    """Say on a terminal which read model answers, of which cluster, and as of when.

    Errors of reading are left to the question itself.
    """
    if not sys.stdout.isatty():
        return
    with contextlib.suppress(CommandFailed), open_model(settings) as model:
        row = model.checkpoint()
        printing.say_where(model.place, model.cluster, row.written_at if row else None, form)


def say_standstill(model: ReadModel, settings: Settings) -> None:
    """Write to stderr which parts of gatelog do not work, if any.

    A read model without any heartbeat, such as a copy, gives no message.
    """
    rows = model.replicas()
    for trouble in troubles(rows, datetime.now(UTC), here(settings)) if rows else ():
        if trouble.stopped:
            sys.stderr.write(f"gatelog: {trouble.sentence}; {trouble.remedy}\n")


def nothing_known(model: ReadModel, namespace: str) -> bool:
    """Return whether nothing is known of a namespace ("": the cluster), with a note on stderr."""
    if model.knows(namespace) if namespace else model.cluster in model.clusters():
        return False
    near = model.similar("", namespace) if namespace else []
    where = f"namespace {namespace}" if namespace else f"cluster {model.cluster}"
    lines = [f"gatelog: nothing of {where} is in {model.place}"]
    if near:
        lines.append(f"  did you mean {one_of(near)}? A group or pod is named NAMESPACE/NAME")
    sys.stderr.write("\n".join([*lines, *_surroundings(model)]) + "\n")
    return True


def say_not_found(model: ReadModel, namespace: str, name: str) -> None:
    """Say on stderr that a name is not there, and what the reason may be."""
    lines = [f"gatelog: no group or pod {namespace}/{name} in {model.place}"]
    aside = model.parked_of(namespace, name)
    lines += [f"  {row.object} was parked: {row.message}" for row in aside]
    if aside:
        lines.append("  it stays as it is until that is mended: gatelog does not see it")
    near = [] if aside else model.similar(namespace, name)
    if near:
        lines.append(f"  did you mean {one_of(near)}?")
    lines += _surroundings(model)
    if not near and not aside and model.cluster in model.clusters():
        lines.append(
            "  only pods that name a queue (label kueue.x-k8s.io/queue-name) and were gated "
            "when they were created are known here"
        )
    sys.stderr.write("\n".join(lines) + "\n")


def _surroundings(model: ReadModel) -> list[str]:
    """Say why a read model may know less than a user expects."""
    clusters = model.clusters()
    if not clusters:
        return ["  no projector has written to it yet: is gatelog running on this database?"]
    if model.cluster not in clusters:
        return [f"  this database knows the clusters {one_of(clusters)}: add --cluster NAME"]
    lines = []
    row = model.checkpoint()
    age_s = (datetime.now(UTC) - row.written_at).total_seconds() if row else 0.0
    if row is not None and age_s > BEHIND_S:
        lines.append(
            f"  the projector last wrote {duration(age_s)} ago (seq {row.stream_seq}): it may "
            "be stopped or behind (gatelog doctor), or nothing has happened since"
        )
    pruned = model.pruned()
    if pruned is not None:
        lines.append(f"  groups and pods that were gone before {pruned:%Y-%m-%d} were pruned")
    return lines
