import pytest

from runtime.jetstream.acks import DeliveryMetadata, parse
from runtime.jetstream.values import from_nanoseconds

WANTED = DeliveryMetadata(
    delivery=2, sequence=30, consumer_sequence=4, at_ns=1_795_227_015_222_370_484, pending=7
)


@pytest.mark.parametrize(
    "reply",
    [
        "$JS.ACK.EVENTS.c1.2.30.4.1795227015222370484.7",
        "$JS.ACK.hub.Abc123.EVENTS.c1.2.30.4.1795227015222370484.7",
        "$JS.ACK._.Abc123.EVENTS.c1.2.30.4.1795227015222370484.7.rAnDoM",
        "$JS.ACK._.Abc123.EVENTS.c1.2.30.4.1795227015222370484.7.more.and.more",
    ],
)
def test_both_versions_of_the_ack_subject(reply: str) -> None:
    assert parse(reply) == WANTED


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "_INBOX.abc.1",
        "$JS.ACK.EVENTS.c1.2.30.4.1795227015222370484",
        "$JS.ACK._.EVENTS.c1.2.30.4.1795227015222370484.7",
        "$JS.ACK.EVENTS.c1.x.30.4.1795227015222370484.7",
        "$JS.FC.EVENTS.c1.2.30.4.1795227015222370484.7",
    ],
)
def test_anything_else_is_no_delivery(reply: str) -> None:
    assert parse(reply) is None


def test_times_are_cut_to_microseconds_and_aware() -> None:
    assert from_nanoseconds(WANTED.at_ns).isoformat() == "2026-11-21T02:10:15.222370+00:00"
    assert from_nanoseconds(1_999_999_999).isoformat() == "1970-01-01T00:00:01.999999+00:00"
