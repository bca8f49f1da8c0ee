"""Rules for names, label keys and label values.

Theory: the rules are from the Kubernetes documents "Object Names and IDs" and "Labels and
Selectors"; the sentences are the server's, since people search for them.

Invariant: an object whose metadata passes ``metadata_causes`` would pass the server's own check.
"""

import random
import re
from functools import lru_cache

from simcluster.errors import Cause, Obj

_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_QUALIFIED = re.compile(r"^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$")
_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")
_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"

SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex "
    "used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value', "
    " or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
QUALIFIED_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@lru_cache(maxsize=4096)
def is_label(text: str) -> bool:
    """A DNS label of at most 63 characters."""
    return len(text) <= 63 and _LABEL.match(text) is not None


@lru_cache(maxsize=4096)
def is_subdomain(text: str) -> bool:
    """A DNS subdomain of at most 253 characters."""
    return len(text) <= 253 and _SUBDOMAIN.match(text) is not None


@lru_cache(maxsize=4096)
def qualified_fault(text: str) -> str | None:
    """What is wrong with a qualified name (label key, gate, finalizer); ``None`` if nothing."""
    prefix, slash, name = text.rpartition("/")
    if slash and not prefix:
        return "prefix part must be non-empty"
    if prefix and not is_subdomain(prefix):
        return f"prefix part {SUBDOMAIN_TEXT}"
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 bytes"
    return None if _QUALIFIED.match(name) else QUALIFIED_TEXT


def generated(prefix: str, source: random.Random) -> str:
    """A name from ``generateName``: the prefix (cut to 58) and five random characters."""
    return prefix[:58] + "".join(source.choice(_SUFFIX) for _ in range(5))


def metadata_causes(meta: Obj, label_name: bool = False) -> list[Cause]:
    """Findings in a new object's metadata, in the server's order."""
    found: list[Cause] = []
    name = meta.get("name") or ""
    if not name:
        found.append(Cause.required("metadata.name", "name or generateName is required"))
    elif label_name and not is_label(name):
        found.append(Cause.invalid("metadata.name", f'"{name}"', LABEL_TEXT))
    elif not label_name and not is_subdomain(name):
        found.append(Cause.invalid("metadata.name", f'"{name}"', SUBDOMAIN_TEXT))
    return found + changeable_causes(meta)


def changeable_causes(meta: Obj, old: Obj | None = None) -> list[Cause]:
    """Findings in labels, annotations, finalizers and owner references.

    ``old``: the stored metadata; a part that is the same object there was checked when it was
    written.
    """
    found: list[Cause] = []
    if old is not None:
        meta = {k: v for k in _CHANGEABLE if (v := meta.get(k)) is not old.get(k)}
    for key, value in (meta.get("labels") or {}).items():
        fault = qualified_fault(key)
        if fault:
            found.append(Cause.invalid("metadata.labels", f'"{key}"', fault))
        if not isinstance(value, str) or len(value) > 63:
            text = "must be no more than 63 bytes"
            found.append(Cause.invalid("metadata.labels", f'"{value}"', text))
        elif not _VALUE.match(value):
            found.append(Cause.invalid("metadata.labels", f'"{value}"', VALUE_TEXT))
    annotations = meta.get("annotations") or {}
    for key in annotations:
        fault = qualified_fault(key.lower())
        if fault:
            found.append(Cause.invalid("metadata.annotations", f'"{key}"', fault))
    if sum(len(k) + len(v) for k, v in annotations.items()) > 256 * 1024:
        text = "may not be more than 262144 bytes"
        found.append(Cause("metadata.annotations", "FieldValueTooLong", f"Too long: {text}"))
    for finalizer in meta.get("finalizers") or ():
        fault = qualified_fault(finalizer)
        if fault:
            found.append(Cause.invalid("metadata.finalizers", f'"{finalizer}"', fault))
    return found + _owner_causes(meta)


_CHANGEABLE = ("labels", "annotations", "finalizers", "ownerReferences")


def _owner_causes(meta: Obj) -> list[Cause]:
    found: list[Cause] = []
    controllers = 0
    for i, owner in enumerate(meta.get("ownerReferences") or ()):
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                path = f"metadata.ownerReferences[{i}].{key}"
                found.append(Cause.invalid(path, '""', "must not be empty"))
        controllers += bool(owner.get("controller"))
    if controllers > 1:
        text = "Only one reference can have Controller set to true."
        found.append(Cause.invalid("metadata.ownerReferences", "[]", text))
    return found
