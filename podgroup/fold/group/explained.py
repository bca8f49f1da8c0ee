"""The state of a group, and why it waits (`state.Explained`)."""

from podgroup.model.reasons import Effect, effect_of
from podgroup.state.group import Group, Wait


def waits(group: Group, wait: Wait | None) -> None:
    """The group waits for another reason; None: its wait is over."""
    group.explained.wait = wait


def said(
    group: Group,
    state: str | None,
    reason: str | None,
    message: str | None,
    effect: Effect | None,
) -> None:
    """State, reason or message changed; None: as before. `effect` is the reason's."""
    explained = group.explained
    if state is not None:
        explained.state = state
    if reason is not None:
        explained.reason, explained.told = reason, effect or effect_of(reason)
    if message is not None:
        explained.message = message
