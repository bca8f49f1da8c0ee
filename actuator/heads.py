"""The head of a decision that cannot be read as a whole: enough to say that it failed."""

import msgspec
from msgspec import Struct


class DecisionHead(Struct, frozen=True):
    """The fields of a decision that the outcome of its failure needs."""

    id: str
    group: str


def decision_head(body: bytes) -> DecisionHead | None:
    """Return id and group of a decision that cannot be read as a whole, None if not even those."""
    try:
        return msgspec.json.decode(body, type=DecisionHead)
    except msgspec.MsgspecError:
        return None
