"""Sentences that several rules say.

Invariant: wording is stable: it names what is missing, never how many are there so far.
"""

from podgroup.state.group import Group


def refusal(group: Group) -> str:
    """Say that the Workload could not be made, and what the API server had against it."""
    return f'the Workload "{group.mirror.name}" could not be created: {group.mirror.refused}'


def because_of(said: str, because: str) -> str:
    """Return what is so with what a person gave as the reason, if any."""
    return f"{said}: {because}" if because else said
