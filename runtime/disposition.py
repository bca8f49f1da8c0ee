"""What a consume loop does with a message: a closed set of values, not control flow by exception.

    Ack             done with; never deliver it again
    Retry(after_s)  not now; deliver it again, not before `after_s` seconds have passed
    Park(reason)    never by itself: a dead letter, for a person to see

Invariant: there is no fourth way. No message is only logged and skipped (armada#5100 is what
happens otherwise: acknowledged but not handled).
"""

from msgspec import Struct


class Ack(Struct, frozen=True, gc=False):
    """The message is dealt with."""


class Retry(Struct, frozen=True, gc=False):
    """Deliver again, not before `after_s` seconds; `reason` goes to the log and to outcomes."""

    after_s: float
    reason: str = ""


class Park(Struct, frozen=True, gc=False):
    """Park it; `reason` is a sentence for the person who will look at it."""

    reason: str


Disposition = Ack | Retry | Park
