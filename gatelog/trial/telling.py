"""An answer in lines: a title for each group, and its explanation, as in `gatelog why`.

Invariant: pure; `Answer.own_only` removes names that a user may not see.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gatelog.readmodel.explain import ExplanationLine
from gatelog.readmodel.starts import sentence
from gatelog.trial.answers import Answer, Change, Given, TriedGroup, Verdict
from podgroup.state.group import SINGLE

TITLES: dict[Verdict, str] = {
    "starts": "would start",
    "waits": "would wait",
    "refused": "is refused",
    "passes": "is not queued",
}


class Part(Struct, frozen=True):
    """A title, the verdict, and the lines below."""

    title: str
    verdict: Verdict
    lines: list[ExplanationLine]

    @property
    def words(self) -> str:
        """The verdict in words."""
        return TITLES[self.verdict]


def parts_of(answer: Answer) -> list[Part]:
    """Return an answer as titles and lines, in parts."""
    parts = list(_refused(answer))
    for _, alike in groupby(answer.groups, _alike):
        first, *others = alike
        lines = list(_lines(first, answer))
        parts.append(Part(_title(first, others), first.verdict, lines))
    beside = [*_listed("warning", answer.warnings), *_listed("passed over", answer.passed_over)]
    return [*parts, Part("", answer.verdict, beside)] if beside else parts


def _refused(answer: Answer) -> Iterator[Part]:
    for title in dict.fromkeys(one.object for one in answer.refusals):
        said = [one for one in answer.refusals if one.object == title]
        where = f"line {said[0].line}"
        lines = [ExplanationLine(one.field or "manifest", one.message) for one in said]
        yield Part(f"{title}, {where}" if title else where, "refused", lines)


def _listed(label: str, texts: tuple[str, ...]) -> Iterator[ExplanationLine]:
    for number, text in enumerate(texts):
        yield ExplanationLine("" if number else label, text)


def _alike(group: TriedGroup) -> Any:
    """Return the parts that equal single pods share; the title has the first pod's place."""
    if group.kind != SINGLE:
        return group
    return replace(group, name="", position=0, given=(), start=None)


def _title(group: TriedGroup, others: Sequence[TriedGroup]) -> str:
    what = "single pod" if group.kind == SINGLE else f"group, {_pods(group.pods)} of it here"
    if others:
        what = f"and {len(others)} more, to {others[-1].name}: single pods"
    queue = f", queue {group.queue}" if group.queue else ""
    behind = f" → {group.cluster_queue}" if group.cluster_queue else ""
    priority = f", priority {group.priority}" if group.priority else ""
    return f"{group.namespace}/{group.name}  {what}{queue}{behind}{priority}"


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def _lines(group: TriedGroup, answer: Answer) -> Iterator[ExplanationLine]:
    gets = tuple(_gets(one) for one in group.given)
    if group.verdict == "passes":
        yield ExplanationLine("runs at once", f"uncounted: {group.said[0]}")
        return
    if group.verdict == "starts":
        yield from _listed("starts", ("at once", *group.said))
        yield from _listed("gets", gets)
        if group.borrows:
            yield ExplanationLine("borrows", "more than its own ClusterQueue has")
        return
    yield ExplanationLine("waits for", group.reason or "a decision")
    yield from _listed("", group.said)
    yield from _listed("reserved", gets)
    victims = tuple(
        f"{f'{one.namespace}/{one.name}' if one.name else 'a group of another namespace'}: "
        f"{one.why}"
        for one in group.victims
    )
    yield from _listed("preempts", victims)
    if group.position:
        yield ExplanationLine("position", f"{group.position} in ClusterQueue {group.cluster_queue}")
    if (start := group.start) is not None:
        when = (start.expected, start.latest, start.never, answer.at)
        yield ExplanationLine("expected", start.unknown or sentence(*when))
    yield from _listed("would start", tuple(_change(one) for one in group.changes))


def _gets(one: Given) -> str:
    flavors = "/".join(dict.fromkeys(one.flavors.values())) or "no flavor"
    role = f" of role {one.role}" if one.role else ""
    place = f", {one.place}" if one.place else ""
    return f"{_pods(one.count)}{role} in flavor {flavors}{place}"


def _change(one: Change) -> str:
    if one.pods:
        role = f" of role {one.role}" if one.role else ""
        return f"at once with {_pods(one.pods)}{role}"
    if one.queue:
        return f"at once in LocalQueue {one.queue}"
    return f"at once in flavor {one.flavor}, with {' and '.join(one.needs)}"
