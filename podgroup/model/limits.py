"""Limits: how long a text may be that the API server takes, or that gatelog keeps.

Theory. The API server counts some texts in characters (fields of a schema: a condition's message)
and others in bytes of UTF-8 (fields that Go code checks: an Event's note). A text that is written,
and later compared with the text that is read, has to be cut the same way before both; otherwise the
two never become equal, and the write is repeated for ever.

Invariant: a limit is written here once, with its unit, and to cut a text again changes nothing.
"""

from typing import Final

TEXT_CHARS: Final[int] = 2048
"""Texts for people (messages of conditions and statuses) in views, and in conditions we write."""
CONDITION_MESSAGE_CHARS: Final[int] = 32_768
"""metav1.Condition, as the schemas of Kueue's kinds have it."""
CONDITION_REASON_CHARS: Final[int] = 1024
CONDITION_REASON: Final[str] = r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
"""What a reason of metav1.Condition has to match as a whole."""
NOTE_BYTES: Final[int] = 1024
"""Note of an Event of events.k8s.io/v1 (kubernetes pkg/apis/core/validation/events.go)."""
EVENT_REASON_BYTES: Final[int] = 128
"""Reason and action of such an Event, each."""
EVENT_INSTANCE_BYTES: Final[int] = 128
"""Its reportingInstance."""
OBJECT_NAME: Final[int] = 253
"""Names of objects (DNS-1123 subdomain) and prefixes of keys: ASCII, so either unit."""
LABEL_VALUE: Final[int] = 63
"""Values of labels, and names that are DNS-1123 labels: ASCII."""
ANNOTATIONS_BYTES: Final[int] = 256 * 1024
"""Keys and values of all annotations of an object together."""
ANNOTATION_BYTES: Final[int] = 4 * 1024
"""An annotation of ours; the declaration of a group's podsets may be `ANNOTATIONS_BYTES` long."""
WARNING_CHARS: Final[int] = 256
"""A warning of an admission webhook; the API server cuts longer warnings."""
PERSONS_REASON_CHARS: Final[int] = 512
"""Why a person stopped or resumed something."""
_ELLIPSIS: Final = "…"


def cut(text: str, chars: int = TEXT_CHARS) -> str:
    """Return `text`, at most `chars` characters of it; what was cut ends in an ellipsis."""
    return text if len(text) <= chars else text[: chars - 1] + _ELLIPSIS


def cut_to_bytes(text: str, limit: int) -> str:
    """Return `text`, at most `limit` bytes of UTF-8 of it; what was cut ends in an ellipsis."""
    # A character takes up to 4 bytes: count bytes only where that could matter.
    if len(text) * 4 <= limit or len(text.encode()) <= limit:
        return text
    return truncate(text, limit - len(_ELLIPSIS.encode())) + _ELLIPSIS


def truncate(text: str, limit_bytes: int) -> str:
    """``text`` cut to at most ``limit_bytes`` UTF-8 bytes, never inside a character.

    Kubernetes limits names in bytes; names are ASCII there, so the cut is exact for them.

    Raises:
        ValueError: ``limit_bytes`` is negative.
    """
    if limit_bytes < 0:
        raise ValueError(f"limit_bytes must not be negative, got {limit_bytes}")
    return text.encode()[:limit_bytes].decode(errors="ignore")
