"""The reply subject of a delivered message: where its metadata is, and where acknowledgements go.

    v1  $JS.ACK.<stream>.<consumer>.<delivered>.<sseq>.<cseq>.<ns>.<pending>
    v2  $JS.ACK.<domain>.<account hash>.<stream>.<consumer>.<delivered>. ... <pending>[.<random>]

v2 is the default of servers from 2.15 on when a domain is set. Both are nine known tokens, v2 with
two before the stream, so the count tells them apart (nats architecture ADR-15).

Invariant: anything else is not a delivery, and `parse` says so with None.
"""

from typing import NamedTuple

_V1_TOKENS = 9
_V2_LEAST_TOKENS = 11


class DeliveryMetadata(NamedTuple):
    """The state of one delivery.

    `delivery` counts deliveries of this message (1 = first), `sequence` is the stream's,
    `consumer_sequence` counts deliveries of the consumer without gaps, `at_ns` is Unix time.
    """

    delivery: int
    sequence: int
    consumer_sequence: int
    at_ns: int
    pending: int


def parse(reply: str) -> DeliveryMetadata | None:
    """Return the metadata in a reply subject, or None when it is no delivery."""
    tokens = reply.split(".")
    count = len(tokens)
    if count < _V1_TOKENS or tokens[0] != "$JS" or tokens[1] != "ACK":
        return None
    if count == _V1_TOKENS:
        first = 4
    elif count >= _V2_LEAST_TOKENS:
        first = 6
    else:
        return None
    try:
        return DeliveryMetadata(
            int(tokens[first]),
            int(tokens[first + 1]),
            int(tokens[first + 2]),
            int(tokens[first + 3]),
            int(tokens[first + 4]),
        )
    except ValueError:
        return None
