"""What a field of a view means to ingest and fold: declared once, on the field.

Theory. Most deltas of a pod change one or two of its fields. Ingest asks whether the change has to
be known at once; the fold asks whether any rule reads it, and which parts are the same objects as
before. All three follow from one declaration in the annotation of the field:

    phase: Annotated[str, Means(at_once=True, by=Write.STATUS, shared=Shared.VALUE)] = ""

Invariant: a declared view has a declaration on every field (tests/core/test_meaning.py).
"""

from collections.abc import Callable, Mapping
from enum import Enum, Flag, auto
from typing import Any, NamedTuple, get_type_hints

from msgspec import Struct


class View(Struct, frozen=True, omit_defaults=True, gc=False, kw_only=True):
    """Base of all views: immutable, defaults left out of the bytes."""


class Shared(Enum):
    """How equal values of a field become one object (`interning`)."""

    NO = "as it is: it differs from pod to pod, or its time would"
    VALUE = "a text, a number, or a tuple without times"
    MAP = "a mapping, in its order"
    TIME = "a time, with its offset"
    CONDITIONS = "conditions: each of them, and all that have no time"


class Write(Flag):
    """Which writes of a pod that is there change a field: a client's or a kubelet's."""

    METADATA = auto()
    STATUS = auto()
    ANY = METADATA | STATUS


class Means(NamedTuple):
    """What a field means.

    `at_once`: a change of it, or of the part that a function returns, goes to the log at once;
    another change waits for its turn. `read`: rules read the field beside the pod's flags. `by`:
    the writes that change it often; None for a field that rarely changes after creation.
    """

    at_once: bool | Callable[[Any], object] = False
    read: bool = False
    by: Write | None = None
    shared: Shared = Shared.NO


def declared(view: type[Any]) -> Mapping[str, Means]:
    """Return what the fields of a view mean, in their order; undeclared fields are left out."""
    hints = get_type_hints(view, include_extras=True)
    found: dict[str, Means] = {}
    for name in view.__struct_fields__:
        for one in getattr(hints[name], "__metadata__", ()):
            if isinstance(one, Means):
                found[name] = one
    return found


def compiled(parameters: str, expression: str, **names: object) -> Callable[..., Any]:
    """Return a function of these parameters that is as fast as if it were written by hand.

    A loop over names would cost every event twice as much. `expression` is made of names of fields
    alone; `names` are further names that it uses, beside the parameters.
    """
    made: Callable[..., Any] = eval(f"lambda {parameters}: {expression}", names)
    return made
