"""Bytes of the fold's records: what the `folded` columns hold.

Theory. A projector starts from these records instead of folding the log from its beginning. They
are msgpack of the Structs in `podgroup.state.world` and of the model. msgpack ends at 64 bits and
sums of absurd requests do not, so a record that does not fit is written as JSON; the first byte
shows the form ("{" never begins a msgpack map).

A group is stored without its parts, all fields on one level: while a deployment is rolled over,
projectors of both versions take turns at one read model, and a version with other parts, or none,
must read the records of this version.

Invariant: an unpacked record equals the packed record, but for `Frame.seen`, which is never stored:
it grows with the cluster and is read again from the log.
"""

from operator import attrgetter
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import NODEFAULT
from msgspec.structs import fields

from podgroup.model.objects import QueueObject, WorkloadView
from podgroup.model.standing import StandingReport
from podgroup.state.group import Group, Part
from podgroup.state.meta import Frame, Meta
from podgroup.state.pod import Pod

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


_PARTS: dict[str, type[Part]] = {
    one.name: one.type for one in fields(Group) if isinstance(one.type, type(Part))
}
_OWN = [one for one in fields(Group) if one.name not in _PARTS]
_OF_PARTS = [(part, one) for part, kind in _PARTS.items() for one in fields(kind)]
_Stored = msgspec.defstruct(
    "StoredGroup",
    [
        (one.encode_name, one.type, msgspec.field(default=one.default))
        if one.default is not NODEFAULT
        else (one.encode_name, one.type, msgspec.field(default_factory=one.default_factory))
        if one.default_factory is not NODEFAULT
        else (one.encode_name, one.type)
        for one in (*_OWN, *(one for _, one in _OF_PARTS))
    ],
)
_values = attrgetter(
    *(one.name for one in _OWN), *(f"{part}.{one.name}" for part, one in _OF_PARTS)
)
_stored = {
    kind: attrgetter(*(one.encode_name for one in some))
    for kind, some in ((Group, _OWN), *((kind, fields(kind)) for kind in _PARTS.values()))
}


def pack_group(group: Group) -> bytes:
    """Return the bytes of a group."""
    return pack(_Stored(*_values(group)))


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
_unpack_stored: Unpacker[Any] = Unpacker(_Stored)
unpack_pod: Unpacker[Pod] = Unpacker(Pod)
unpack_object: Unpacker[QueueObject] = Unpacker(QueueObject)
unpack_standing: Unpacker[StandingReport] = Unpacker(StandingReport)
unpack_workload: Unpacker[WorkloadView] = Unpacker(WorkloadView)


def unpack_group(data: bytes | memoryview) -> Group:
    """Return the group in `data`; errors are those of `Unpacker`."""
    stored = _unpack_stored(data)
    parts: dict[str, Any] = {name: kind(*_stored[kind](stored)) for name, kind in _PARTS.items()}
    return Group(*_stored[Group](stored), **parts)
