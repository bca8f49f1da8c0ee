"""What is said of a group (`state.Explained`)."""

from podgroup.model.reasons import Effect, effect_of
from podgroup.state.group import Group, Wait


def waits(group: Group, wait: Wait | None) -> None:
    """It waits for something else, or (None) for nothing."""
    group.explained.wait = wait


def said(
    group: Group,
    state: str | None,
    reason: str | None,
    message: str | None,
    effect: Effect | None,
) -> None:
    """Its state, reason or message is another; None: as before. `effect` is that of the reason."""
    explained = group.explained
    if state is not None:
        explained.state = state
    if reason is not None:
        explained.reason, explained.told = reason, effect or effect_of(reason)
    if message is not None:
        explained.message = message
