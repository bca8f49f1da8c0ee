"""`gatelog ask NAME`: a frequent question, on the user's own data.

Invariant: the connection is read-only; `--sql` prints the statement that runs.
"""

import difflib
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from gatelog.shell import options
from gatelog.shell.errors import CommandFailed, UsageFailed
from gatelog.terminal import completing

if TYPE_CHECKING:
    from gatelog.readmodel.model import ReadModel
    from gatelog.readmodel.questions import Question, Scope

EXAMPLES = """
gatelog ask
gatelog ask waiting --team red
gatelog ask latency --queue research --since 24h
gatelog ask preempted --sql
"""


@dataclass(frozen=True)
class AboutOptions:
    """The scope of a question; None: a default that fits the data."""

    namespace: options.Namespace = None
    queue: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of this ClusterQueue or LocalQueue.")
    ] = None
    group: Annotated[
        str | None, typer.Option(metavar="NS/NAME", help="Of this group. Default: the newest.")
    ] = None
    team: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of pods with this team label.")
    ] = None
    team_label: Annotated[str, typer.Option(metavar="LABEL", help="Label that names a team.")] = (
        "team"
    )
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME|SPAN", help="From: a time, or 7d, 12h before --until."),
    ] = None
    until: Annotated[
        str | None, typer.Option(metavar="TIME|SPAN", help="To. Default: the newest event, or now.")
    ] = None

    def given(self) -> dict[str, str | None]:
        """Return the given values by the name of their parameter."""
        names = ("namespace", "queue", "group", "team", "since", "until")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class ShownOptions:
    """The printed parts of an answer."""

    limit: Annotated[int, typer.Option(min=1, help="Rows printed at most.")] = 1000
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL instead.")] = False
    grafana: Annotated[
        bool, typer.Option("--grafana", help="Print the SQL with variables of a dashboard.")
    ] = False
    no_headers: options.NoHeaders = False


def ask(
    about: AboutOptions,
    shown: ShownOptions,
    answer: options.RowsOptions,
    where: options.ReadModelOptions,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A question. Default: list them.",
            autocompletion=completing.questions,
        ),
    ] = None,
) -> None:
    """Ask one of the questions of docs/sql.md; without a name, list them. What is not said is
    chosen to fit the data: all namespaces and queues, the newest group, the seven days before the
    newest event.
    """
    from gatelog.readmodel.questions import for_grafana, questions, readable, statement
    from gatelog.terminal import lookup, printing

    form, headers = answer.form, not shown.no_headers
    if name is None:
        rows = [(one.name, one.asks, ", ".join(one.parameters)) for one in questions().values()]
        printing.result(["name", "asks", "of"], rows, form, headers=headers)
        return
    question = _question(name)
    _check(question, [one for one, value in about.given().items() if value is not None])
    if shown.grafana:
        sys.stdout.write(for_grafana(question) + "\n")
        return
    settings = where.settings(search=True)
    with lookup.open_model(settings) as model:
        scope = _scope(question, model, about)
        query = statement(question, scope, model.dialect)
        if shown.sql:
            sys.stdout.write(query + "\n")
            return
        lookup.say_where(settings, form)
        # Each question ends with its order.
        names, found = model.answered(f"{query.removesuffix(';')}\n LIMIT {shown.limit + 1}")
    if "since" in question.parameters:
        sys.stderr.write(f"gatelog: from {scope.since:%F %T} to {scope.until:%F %T} UTC\n")
    answer_rows = found[: shown.limit]
    if form is None:
        answer_rows = [readable(names, row) for row in answer_rows]
    printing.result(names, answer_rows, form, headers=headers)
    if len(found) > shown.limit:
        sys.stderr.write(f"gatelog: more than {shown.limit} rows; see --limit\n")


def _question(name: str) -> "Question":
    from gatelog.readmodel.questions import questions

    known = questions()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        meant = f"did you mean {', '.join(near)}?" if near else "gatelog ask lists all questions"
        raise UsageFailed(f"there is no question {name!r}: {meant}")
    return known[name]


def _check(question: "Question", given: list[str]) -> None:
    """Refuse an option that the question would ignore."""
    for one in given:
        # A group is named with its namespace.
        if one not in question.parameters:
            takes = ", ".join(f"--{name}" for name in question.parameters) or "none"
            raise UsageFailed(f"question {question.name} takes no --{one}; it takes {takes}")


def _scope(question: "Question", model: "ReadModel", about: AboutOptions) -> "Scope":
    """Return the scope of a question, with defaults that fit the data."""
    from gatelog.readmodel.questions import Scope
    from gatelog.readmodel.statements.position import STORY, StoryRow
    from gatelog.shell.since import moment

    since, until = about.since, about.until
    texts = {one: getattr(about, one) or "" for one in ("namespace", "queue", "group", "team")}
    now = model.clock()
    (story,) = model.rows(StoryRow, STORY, {"limit": 1})
    if "group" in question.parameters:
        within, slash, name = texts["group"].partition("/")
        if slash:
            texts |= {"namespace": within, "group": name}
        elif not texts["group"]:
            newest = model.newest(texts["namespace"])
            if newest is None:
                raise CommandFailed("no group is known there yet: name one with --group")
            texts |= {"namespace": newest.namespace, "group": newest.name}
            sys.stderr.write(f"gatelog: of the newest group, {newest.title}\n")
        elif not texts["namespace"]:
            raise UsageFailed(f"--group {texts['group']}: write it as NAMESPACE/NAME")
    end = moment("--until", until, now) if until is not None else story.last or now
    begin = moment("--since", since or "7d", end)
    if begin >= end:
        raise UsageFailed(f"--since {since} is not before --until {until or f'{end:%F %T}'}")
    return Scope(
        cluster=model.cluster, since=begin, until=end, team_label=about.team_label, **texts
    )
