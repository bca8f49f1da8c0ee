"""Annotation admission-gated-by: controllers that must agree before a pod's group is admitted.

Its form is Kueue's: distinct names with a domain and a path, like managedBy of a Job (KEP-6915 of
Kueue, pkg/util/webhook/validation_admissiongatedby.go). It can be set at the pod's creation only,
and then only become shorter. A bound on its length is ours, so that the policy, which compares each
name with each, has a bound on its work; a present value is not judged again.

Invariant: the policy `gatelog-pods` has the same rule in CEL, with the two patterns of this module.
"""

import re
from typing import Final

from ingest.webhook.fields import FieldError, annotation_path, forbidden, invalid
from ingest.webhook.pod import Pod
from podgroup.model.names import ADMISSION_GATED_BY, admission_gates

MAX_BYTES: Final[int] = 1024
_LABEL: Final[str] = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
FORM: Final[str] = (
    f"^ *{_LABEL}([.]{_LABEL})*/[-A-Za-z0-9/._~%!$&'()*+;=:]+ *"
    f"(, *{_LABEL}([.]{_LABEL})*/[-A-Za-z0-9/._~%!$&'()*+;=:]+ *)*$"
)
"""Names like example.com/budget, between commas."""
SHORT: Final[str] = "^ *[^, ]{1,63} *(, *[^, ]{1,63} *)*$"
"""At most 63 characters each."""

_PATH: Final[str] = annotation_path(ADMISSION_GATED_BY)
_DETAIL: Final[str] = (
    "must be a comma-separated list of distinct names such as example.com/budget, at most 63 "
    f"characters each and {MAX_BYTES} bytes in all"
)


def gated_by_errors(pod: Pod) -> list[FieldError]:
    """What is wrong with the annotation of a pod that is being created."""
    text = pod.annotations.get(ADMISSION_GATED_BY, "")
    return [] if _well_formed(text) else [invalid(_PATH, text, _DETAIL)]


def gated_by_change_errors(old: Pod, new: Pod) -> list[FieldError]:
    """The errors of a change of the annotation."""
    before = old.annotations.get(ADMISSION_GATED_BY, "")
    after = new.annotations.get(ADMISSION_GATED_BY, "")
    if before == after or not after:
        return []
    if not before:
        return [forbidden(_PATH, "cannot be added after the pod was created")]
    added = sorted(set(admission_gates(after)) - set(admission_gates(before)))
    errors = gated_by_errors(new)
    if added:
        names = ", ".join(added)
        errors.append(forbidden(_PATH, f"names can only be removed, but {names} was added"))
    return errors


def _well_formed(text: str) -> bool:
    if not text:
        return True
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return False
    names = admission_gates(text)
    distinct = len(set(names)) == len(names)
    return distinct and bool(re.fullmatch(FORM, text) and re.fullmatch(SHORT, text))
