"""The event log on NATS JetStream: the only package that imports `nats`.

    values      what comes out, and what can go wrong
    options     settings -> options of a client
    connection  one logical connection over many sockets
    api         the JetStream API in JSON
    streams     the configuration of the three streams
    acks        metadata in reply subjects
    pull        one pull session
    reader      in order, no acknowledgements, cursor with the caller
    worker      each message to one worker, acknowledged
    publisher   in order, many under way
    bus         the whole log, as the parts see it

Invariant: nats-py is used for sockets, framing, TLS and logins only; everything above that is
here, because that is where its open bugs are.
"""

from runtime.jetstream.bus import Bus, connect
from runtime.jetstream.publisher import Publisher
from runtime.jetstream.reader import Reader
from runtime.jetstream.values import (
    BusClosed,
    BusError,
    BusUnavailable,
    Consumption,
    LoginRefused,
    Message,
    MessagesLost,
    OrderLost,
    Overtaken,
    PublishRefused,
    ServerTooOld,
    StreamChanged,
    StreamMismatch,
    StreamMissing,
    StreamState,
)
from runtime.jetstream.worker import Delivery, Worker

__all__ = [
    "Bus",
    "BusClosed",
    "BusError",
    "BusUnavailable",
    "Consumption",
    "Delivery",
    "LoginRefused",
    "Message",
    "MessagesLost",
    "OrderLost",
    "Overtaken",
    "PublishRefused",
    "Publisher",
    "Reader",
    "ServerTooOld",
    "StreamChanged",
    "StreamMismatch",
    "StreamMissing",
    "StreamState",
    "Worker",
    "connect",
]
