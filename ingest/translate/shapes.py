"""The role of a pod without the annotation, computed once per distinct shape.

Theory. Hashing a shape (`podgroup.model.roles`) costs ten times what reading the pod does, and the
pods of a role differ in what no shape contains: names, commands, the volume of a token. What does
belong to the shape is cut out of the bytes as it is, and that text is the key of a bounded table.

Invariant: the hash is that of `role_hash` for the whole pod; the key holds all it looks at.
"""

from hashlib import blake2b

import msgspec
from msgspec import Raw, Struct

from ingest.translate.fields import RefusedError, Wire
from podgroup.model.remembering import remembered
from podgroup.model.roles import ShapeError, Variant, role_hash

_NULL = Raw(b"null")
MAX_SHAPE_BYTES = 256 * 1024
"""Largest shape, in bytes of JSON, whose role is computed as Kueue does."""


class _Container(Wire, frozen=True, omit_defaults=True):
    ports: Raw = _NULL
    resources: Raw = _NULL


class _KepContainer(_Container, frozen=True, omit_defaults=True):
    image: Raw = Raw(b'""')


class _Shared(Wire, frozen=True, omit_defaults=True):
    affinity: Raw = _NULL
    node_selector: Raw = _NULL
    overhead: Raw = _NULL
    priority: Raw = _NULL
    resource_claims: Raw = _NULL
    runtime_class_name: Raw = _NULL
    tolerations: Raw = _NULL
    topology_spread_constraints: Raw = _NULL
    resources: Raw = _NULL


class _Spec(_Shared, frozen=True, omit_defaults=True):
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None


class _KepSpec(_Shared, frozen=True, omit_defaults=True):
    containers: tuple[_KepContainer, ...] | None = None
    init_containers: tuple[_KepContainer, ...] | None = None
    preemption_policy: Raw = _NULL


class _Labels(Struct, frozen=True, omit_defaults=True):
    labels: Raw = _NULL


class _Pod(Struct, frozen=True, omit_defaults=True):
    spec: _Spec = _Spec()


class _KepPod(Struct, frozen=True, omit_defaults=True):
    metadata: _Labels = _Labels()
    spec: _KepSpec = _KepSpec()


class _Line(_Pod, frozen=True, omit_defaults=True):
    """A pod, or the watch line that holds a pod."""

    object: _Pod | None = None


class _KepLine(_KepPod, frozen=True, omit_defaults=True):
    object: _KepPod | None = None


_lines: msgspec.json.Decoder[_Line] = msgspec.json.Decoder(_Line)
_kep_lines: msgspec.json.Decoder[_KepLine] = msgspec.json.Decoder(_KepLine)
_encode = msgspec.json.Encoder().encode


def computed_role(raw: bytes, variant: Variant) -> str:
    """Return the role hash of the pod in `raw`, which is its JSON or a watch line around it.

    Raises:
        RefusedError: a field of the shape is of a type that the API does not allow.
    """
    try:
        match variant:
            case "kueue":
                line = _lines.decode(raw)
                return _role(_encode(line.object or _Pod(line.spec)), variant)
            case "kep-976":
                kep = _kep_lines.decode(raw)
                return _role(_encode(kep.object or _KepPod(kep.metadata, kep.spec)), variant)
    except (ShapeError, msgspec.ValidationError) as error:
        raise RefusedError("spec", f"no role can be computed: {error}") from None


def _role(shape: bytes, variant: Variant) -> str:
    if len(shape) > MAX_SHAPE_BYTES:
        # Kueue's own takes a hundred times as long, and the group of such a pod waits.
        return blake2b(shape, digest_size=4).hexdigest()
    return _hash(shape, variant)


@remembered
def _hash(shape: bytes, variant: Variant) -> str:
    return role_hash(msgspec.json.decode(shape), variant)
