"""What rules read of pods' views, recorded while they run.

Theory. A field of a view is a descriptor of its class. While `recorded` is open, a property is in
its place that tells who reads. Rules are wrapped where the engine keeps them, so that what the fold
reads while a conclusion is applied is told apart from what the rule reads.

Invariant: afterwards classes and rules are what they were.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from podgroup import engine
from podgroup.model.objects import PodView
from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.rules.helpers.rule import Rule
from podgroup.state.group import Group

Noted = Callable[[str, RuleContext, Group, PodView, str], None]
"""Is told (rule, context, group, view, field) of each field that a rule reads."""


class _Reader:
    """The rule that runs, if one does."""

    running: tuple[str, RuleContext, Group] | None = None


def _watched(rule: Rule, reader: _Reader) -> Rule:
    """Return a rule that says while it runs that it does."""

    def run(ctx: RuleContext, group: Group) -> Conclusions:
        try:
            reader.running = rule.name, ctx, group
            found = iter(rule.run(ctx, group))
            while True:
                reader.running = rule.name, ctx, group
                try:
                    conclusion = next(found)
                except StopIteration:
                    return
                reader.running = None
                yield conclusion
        finally:
            reader.running = None

    return replace(rule, run=run)


def _noting(name: str, field: Any, reader: _Reader, noted: Noted) -> property:
    def read(view: PodView) -> Any:
        if reader.running is not None:
            noted(*reader.running, view, name)
        return field.__get__(view)

    return property(read)


@contextmanager
def recorded(noted: Noted) -> Iterator[None]:
    """Have each field of a pod's view that a rule reads told to `noted`."""
    reader = _Reader()
    fields = {name: vars(PodView)[name] for name in PodView.__struct_fields__}
    kept = engine._FIRST, engine._THEN
    before = [list(rules) for rules in kept]
    try:
        for name, field in fields.items():
            setattr(PodView, name, _noting(name, field, reader, noted))
        for rules in kept:
            rules[:] = [_watched(rule, reader) for rule in rules]
        engine._PLANS.clear()
        yield
    finally:
        for name, field in fields.items():
            setattr(PodView, name, field)
        for rules, old in zip(kept, before, strict=True):
            rules[:] = old
        engine._PLANS.clear()
