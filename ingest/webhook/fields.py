"""Field errors: what is wrong with a pod, where, and what to do about it.

Kubernetes reports an invalid object as a list of errors that each carry the path of a field,
one of a few kinds and a sentence. The same form is used here, so that a refusal by the webhook
reads like a refusal by the API server and tools can point at the field.

Invariant: every error has an exact path (``metadata.labels[key]``); a value quoted in an error is
cut short, so a huge annotation cannot make a huge answer.
"""

import re
from enum import Enum
from typing import Final

import msgspec

from podgroup.model.limits import LABEL_VALUE
from podgroup.model.names import integer as any_integer
from podgroup.model.names import is_dns_label, is_dns_subdomain

_QUOTED_CHARS: Final[int] = 100
_QUALIFIED_NAME: Final[re.Pattern[str]] = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


class ErrorKind(Enum):
    """The API's field error types used here; the value is the cause's ``reason`` in a Status."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    FORBIDDEN = "FieldValueForbidden"


class FieldError(msgspec.Struct, frozen=True):
    """One thing wrong with one field; ``detail`` ends in what to do where that is not obvious."""

    kind: ErrorKind
    path: str
    detail: str
    value: str = ""

    def message(self) -> str:
        """The sentence without the path, as in a Status cause."""
        match self.kind:
            case ErrorKind.REQUIRED:
                return f"Required value: {self.detail}"
            case ErrorKind.INVALID:
                return f'Invalid value: "{quoted(self.value)}": {self.detail}'
            case ErrorKind.FORBIDDEN:
                return f"Forbidden: {self.detail}"

    def __str__(self) -> str:
        return f"{self.path}: {self.message()}"


def required(path: str, detail: str) -> FieldError:
    """A field that must be set and is not."""
    return FieldError(ErrorKind.REQUIRED, path, detail)


def invalid(path: str, value: str, detail: str) -> FieldError:
    """A field whose value is not allowed."""
    return FieldError(ErrorKind.INVALID, path, detail, value)


def forbidden(path: str, detail: str) -> FieldError:
    """A field or a change of it that is not allowed here."""
    return FieldError(ErrorKind.FORBIDDEN, path, detail)


def label_path(key: str) -> str:
    """Path of a label."""
    return f"metadata.labels[{key}]"


def annotation_path(key: str) -> str:
    """Path of an annotation."""
    return f"metadata.annotations[{key}]"


def quoted(value: str) -> str:
    """``value`` on one line, cut to 100 characters."""
    flat = value.encode("unicode_escape", "backslashreplace").decode("ascii")
    return flat if len(flat) <= _QUOTED_CHARS else f"{flat[:_QUOTED_CHARS]}... ({len(value)} chars)"


def subdomain_problem(name: str) -> str | None:
    """Why ``name`` is no DNS-1123 subdomain (name of an object), or None when it is valid."""
    if is_dns_subdomain(name):
        return None
    return (
        "must be a DNS-1123 subdomain: at most 253 characters, lower case letters, digits, '-' "
        "and '.', each part beginning and ending with a letter or digit"
    )


def dns_label_problem(name: str) -> str | None:
    """Why ``name`` is no DNS-1123 label (name of a podset), or None when it is valid."""
    if is_dns_label(name):
        return None
    return (
        "must be a DNS-1123 label: at most 63 characters, lower case letters, digits and '-', "
        "beginning and ending with a letter or digit"
    )


def label_name_problem(name: str) -> str | None:
    """Why ``name`` cannot be the key of a label (qualified name), or None when it can."""
    prefix, slash, rest = name.rpartition("/")
    if slash and (prefix == "" or subdomain_problem(prefix)):
        return "must be a label key: the part before '/' is not a DNS-1123 subdomain"
    if len(rest) <= LABEL_VALUE and _QUALIFIED_NAME.fullmatch(rest):
        return None
    return (
        "must be a label key: at most 63 letters, digits, '-', '_' or '.', beginning and ending "
        "with a letter or digit, optionally after a domain and '/'"
    )


def integer(text: str) -> int | None:
    """``text`` as a 64-bit integer the way Go reads one (no spaces, no underscores), or None."""
    number = any_integer(text)
    return number if number is not None and -(2**63) <= number < 2**63 else None
