"""Bytes of the fold's records: what the `folded` columns hold.

Theory. A projector starts from these instead of folding the log from its beginning. They are
msgpack of the Structs in `podgroup.state` and `podgroup.objects`. msgpack ends at 64 bits and sums
of absurd requests do not, so a record that does not fit is written as JSON; the first byte tells
which it is ("{" never begins a msgpack map).

Invariant: what is unpacked equals what was packed, but for `Frame.seen`, which is never stored: it
grows with the cluster and is read again from the log.
"""

from typing import Any, Generic, TypeVar

import msgspec

from podgroup.objects import QueueObject, WorkloadView
from podgroup.standing import Told
from podgroup.state import Frame, Group, Meta, Pod

T = TypeVar("T")

_encoder = msgspec.msgpack.Encoder()


def pack(record: Any) -> bytes:
    """Return the bytes of a record."""
    try:
        return _encoder.encode(record)
    except OverflowError:
        return msgspec.json.encode(record)


def pack_meta(meta: Meta) -> bytes:
    """Return the bytes of a Meta, without what its frames have seen."""
    frames = {kind: Frame(f.relist, f.started_seq) for kind, f in meta.frames.items()}
    return pack(msgspec.structs.replace(meta, frames=frames))


class Unpacker(Generic[T]):
    """Reads the bytes of one type of record.

    A record written by an older gatelog lacks newer fields and gets their defaults.
    """

    def __init__(self, kind: Any) -> None:
        self._msgpack: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(kind)
        self._json: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)

    def __call__(self, data: bytes | memoryview) -> T:
        """Return the record in `data`.

        Raises:
            msgspec.MsgspecError: not such a record.
        """
        if bytes(data[:1]) == b"{":
            return self._json.decode(data)
        return self._msgpack.decode(data)


unpack_meta: Unpacker[Meta] = Unpacker(Meta)
unpack_group: Unpacker[Group] = Unpacker(Group)
unpack_pod: Unpacker[Pod] = Unpacker(Pod)
unpack_object: Unpacker[QueueObject] = Unpacker(QueueObject)
unpack_told: Unpacker[Told] = Unpacker(Told)
unpack_workload: Unpacker[WorkloadView] = Unpacker(WorkloadView)
