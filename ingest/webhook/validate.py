"""Validation: refuses pods that could never be queued, and changes that would corrupt a group.

Refusing early is kindness: later a mistake in a label is an event that a user has to find. All
mistakes of one request are reported together, each with the path of its field. The rules are those
of Kueue's pod webhook, so a pod that passes there passes them here; on top come bounds and forms
that Kueue leaves to fail later (role-hash text, sizes, the first draft's keys). The added rules
apply to an update only where it changes the value, so that no rule of ours locks up a pod that
exists already.

A pod that is being deleted is exempt from all but the rules on changes: taking a finalizer off
must never be refused for metadata that came in while the webhook was away.

Invariant: pure, and total over every pod that `read_pod` accepts.
"""

from typing import Any

import msgspec

from ingest.webhook.bypass import bypasses
from ingest.webhook.facts import Facts
from ingest.webhook.fields import (
    FieldError,
    annotation_path,
    dns_label_problem,
    forbidden,
    integer,
    invalid,
    label_path,
    subdomain_problem,
)
from ingest.webhook.gatedby import gated_by_change_errors, gated_by_errors
from ingest.webhook.groups import dialect_errors, dialect_warnings, group_errors, read_from
from ingest.webhook.owners import controller_is_managed
from ingest.webhook.pod import Pod
from ingest.webhook.policy import WebhookPolicy
from ingest.webhook.topology import never_placed, topology_errors
from podgroup.model import names
from podgroup.model.keys import bound_of, enters_log
from podgroup.model.quantities import faults

OWNER_WARNING = (
    "pod owner is managed by kueue, label 'kueue.x-k8s.io/managed=true' might lead to unexpected "
    "behaviour"
)
IMMUTABLE = "field is immutable"
_GRACE = "terminationGracePeriodSeconds"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class Verdict(msgspec.Struct, frozen=True):
    """What validation found: an empty ``errors`` allows the request."""

    errors: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        """Whether the request may go on."""
        return not self.errors


def validate_create(pod: Pod, policy: WebhookPolicy) -> Verdict:
    """Judges a pod about to be created, after all mutation."""
    errors = [
        *_queue_name(pod),
        *_prebuilt_name(pod),
        *_max_exec_time(pod),
        *_no_elastic_job(pod),
        *gated_by_errors(pod),
        *_common(pod, policy),
        *_too_many(pod, None),
        *_bounds(pod, None, policy),
        *(_too_many_resources(pod) or _amounts(pod)),
        *_times(pod, policy),
        *dialect_errors(pod, policy),
        *never_placed(pod),
    ]
    warnings = _owner_warning(pod, policy) + dialect_warnings(pod) + _queueless_warning(pod)
    return Verdict(tuple(errors), tuple(warnings))


def validate_update(
    old: Pod, new: Pod, policy: WebhookPolicy, facts: Facts, *, by_gatelog: bool = False
) -> Verdict:
    """Judges a change of a pod; ``suspended`` is judged on each pod alone, even in a group.

    `by_gatelog`: the actuator makes the change; it alone may end the pod's time in its queue.
    """
    errors = [
        *_queue_change(old, new, facts),
        *_prebuilt_change(old, new),
        *_max_exec_change(old, new),
        *_priority_change(old, new),
        *_elastic_change(old, new),
        *gated_by_change_errors(old, new),
        *_retriable_change(old, new),
        *_group_change(old, new),
        *(() if by_gatelog else bypasses(old, new)),
    ]
    if new.metadata.deletion_timestamp is None:
        errors += _common(new, policy)
        errors += _too_many(new, old)
        errors += _bounds(new, old, policy)
        before = set(dialect_errors(old, policy))
        errors += [e for e in dialect_errors(new, policy) if e not in before]
    warnings = [] if new.has_parent else _owner_warning(new, policy)
    warnings += _release_warning(old, new)
    return Verdict(tuple(errors), tuple(warnings))


def _common(pod: Pod, policy: WebhookPolicy) -> list[FieldError]:
    errors = []
    if pod.labels.get(names.MANAGED_LABEL, names.MANAGED_VALUE) != names.MANAGED_VALUE:
        detail = "managed label value can only be 'true'"
        errors.append(forbidden(label_path(names.MANAGED_LABEL), detail))
    errors += group_errors(pod, policy)
    errors += topology_errors(pod.annotations)
    return errors


def _owner_warning(pod: Pod, policy: WebhookPolicy) -> list[str]:
    labelled = pod.labels.get(names.MANAGED_LABEL) == names.MANAGED_VALUE
    return [OWNER_WARNING] if labelled and controller_is_managed(pod, policy) else []


def _release_warning(old: Pod, new: Pod) -> list[str]:
    taken_off = names.MANAGED_LABEL in old.labels and names.MANAGED_LABEL not in new.labels
    if not taken_off or names.ADMISSION_GATE not in new.gates:
        return []
    return [
        f"{new.title()} is not queued without label {names.MANAGED_LABEL}: its scheduling gate "
        f"{names.ADMISSION_GATE} stays; put the label back to have it queued again"
    ]


def _queueless_warning(pod: Pod) -> list[str]:
    if pod.group and not pod.queue and names.ADMISSION_GATE not in pod.gates:
        return [
            f"{pod.title()} names no queue (label {names.QUEUE_NAME}); it is not gated and will "
            "not count as a member of its group"
        ]
    return []


def _too_many(pod: Pod, old: Pod | None) -> list[FieldError]:
    """Errors for more labels or annotations than gatelog reads; an update may not add to them."""
    if not (pod.queue or pod.has_parent or pod.labels.get(names.MANAGED_LABEL)):
        return []
    errors = []
    for field in ("labels", "annotations"):
        known = getattr(old, field) if old is not None else None
        errors += _more_than(f"metadata.{field}", getattr(pod, field), known)
    meta = pod.raw.get("metadata") or {}
    before = (old.raw.get("metadata") or {}) if old is not None else {}
    for field in ("finalizers", "ownerReferences"):
        errors += _more_than(f"metadata.{field}", meta.get(field), before.get(field))
    return errors + _too_choosy(pod, old)


def _more_than(path: str, found: Any, before: Any) -> list[FieldError]:
    """Refuse more entries than gatelog goes over, unless there were as many before."""
    count = len(found or ())
    if count <= max(names.MAX_ENTRIES, len(before or ())):
        return []
    detail = f"are too many, gatelog takes at most {names.MAX_ENTRIES}: leave some out"
    return [invalid(path, str(count), detail)]


def _too_choosy(pod: Pod, old: Pod | None) -> list[FieldError]:
    """More node selectors, tolerations or terms than gatelog keeps; an update may keep present
    values.
    """
    spec = pod.raw.get("spec") or {}
    errors: list[FieldError] = []
    before = (old.raw.get("spec") or {}) if old is not None else {}
    for field in ("nodeSelector", "tolerations"):
        errors += _more_than(f"spec.{field}", spec.get(field), before.get(field))
    affinity = spec.get("affinity") or {}
    if old is not None and affinity == (before.get("affinity") or {}):
        return errors
    required = (affinity.get("nodeAffinity") or {}).get(_REQUIRED) or {}
    terms = [one.get("matchExpressions") or () for one in required.get("nodeSelectorTerms") or ()]
    count = sum(1 + len(one.get("values") or ()) for term in terms for one in term)
    most = max(len(terms), *map(len, terms)) if terms else 0
    if count > names.MAX_SELECTING or most > names.MAX_ENTRIES:
        detail = (
            f"is too large, gatelog takes at most {names.MAX_SELECTING} expressions and values, "
            f"and {names.MAX_ENTRIES} terms: leave some out"
        )
        errors.append(invalid("spec.affinity.nodeAffinity", str(count), detail))
    return errors


def _bounds(pod: Pod, old: Pod | None, policy: WebhookPolicy) -> list[FieldError]:
    """Bounds of our own; on an update only for annotations whose value it changes."""
    errors = []
    before = old.annotations if old is not None else {}
    if len(pod.annotations) > names.MAX_ENTRIES:
        return []  # reported already
    for key, value in pod.annotations.items():
        if not enters_log(key) or before.get(key) == value:
            continue
        size = len(value.encode("utf-8", "surrogatepass"))
        bound = bound_of(key)
        if size > bound:
            detail = f"is {size} bytes long, gatelog takes at most {bound}: shorten it"
            errors.append(invalid(annotation_path(key), value, detail))
        elif key == names.ROLE_HASH and value and (problem := dns_label_problem(value)):
            detail = f"{problem}; it names a podset of the Workload"
            errors.append(invalid(annotation_path(key), value, detail))
    return errors


def _amounts(pod: Pod) -> list[FieldError]:
    """Amounts that no pod can have: one with more than a node has waits for ever."""
    found = faults(pod.raw.get("spec") or {}, limits=False)
    return [invalid(f"spec.{path}", str(text), why) for path, text, why in found]


def _too_many_resources(pod: Pod) -> list[FieldError]:
    """More resources than gatelog goes over: of a container, or of the pod as a whole."""
    spec = pod.raw.get("spec") or {}
    found = [("spec.resources.requests", spec)]
    for field in ("containers", "initContainers"):
        for number, container in enumerate(spec.get(field) or ()):
            found.append((f"spec.{field}[{number}].resources.requests", container))
    errors = []
    for path, holder in found:
        count = len((holder.get("resources") or {}).get("requests") or {})
        if count > names.MAX_RESOURCES:
            bound = f"gatelog takes at most {names.MAX_RESOURCES} of a container"
            detail = f"are too many, {bound}: leave some out"
            errors.append(invalid(path, str(count), detail))
    return errors


def _times(pod: Pod, policy: WebhookPolicy) -> list[FieldError]:
    """A grace period that is too long: for that time a pod may hold quota that is another's."""
    seconds, most = (pod.raw.get("spec") or {}).get(_GRACE), policy.max_grace_s
    if not isinstance(seconds, int) or seconds <= most:
        return []
    detail = f"is too long, gatelog takes at most {most} seconds: shorten it"
    return [invalid(f"spec.{_GRACE}", str(seconds), detail)]


def _queue_name(pod: Pod) -> list[FieldError]:
    queue = pod.labels.get(names.QUEUE_NAME)
    if queue is not None and (problem := subdomain_problem(queue)):
        return [invalid(label_path(names.QUEUE_NAME), queue, problem)]
    return []


def _queue_change(old: Pod, new: Pod, facts: Facts) -> list[FieldError]:
    path = label_path(names.QUEUE_NAME)
    errors = []
    if not new.suspended and old.queue != new.queue:
        errors.append(invalid(path, new.queue, IMMUTABLE))
    if old.queue and not new.queue and facts.has_default_queue:
        detail = "queue-name must not be empty in namespace with default queue"
        errors.append(invalid(path, new.queue, detail))
    return errors


def _prebuilt_name(pod: Pod) -> list[FieldError]:
    name = names.prebuilt_name(pod.labels, pod.annotations)
    present = names.PREBUILT_WORKLOAD in pod.labels or bool(name)
    if present and (problem := subdomain_problem(name)):
        return [invalid(read_from(pod, names.PREBUILT_WORKLOAD), name, problem)]
    return []


def _prebuilt_change(old: Pod, new: Pod) -> list[FieldError]:
    if new.suspended:
        return _prebuilt_name(new)
    name = names.prebuilt_name(new.labels, new.annotations)
    if name != names.prebuilt_name(old.labels, old.annotations):
        return [invalid(read_from(new, names.PREBUILT_WORKLOAD), name, IMMUTABLE)]
    return []


def _max_exec_time(pod: Pod) -> list[FieldError]:
    text = pod.labels.get(names.MAX_EXEC_SECONDS)
    if text is None:
        return []
    path = label_path(names.MAX_EXEC_SECONDS)
    number = integer(text)
    if number is None:
        return [invalid(path, text, "must be an integer: a number of seconds")]
    if number > names.MAX_INT32:
        return [invalid(path, text, f"should be at most {names.MAX_INT32}")]
    return [] if number > 0 else [invalid(path, text, "should be greater than 0")]


def _max_exec_change(old: Pod, new: Pod) -> list[FieldError]:
    key = names.MAX_EXEC_SECONDS
    if (old.suspended and new.suspended) or old.labels.get(key) == new.labels.get(key):
        return []
    return [invalid(label_path(key), new.labels.get(key, ""), IMMUTABLE)]


def _priority_change(old: Pod, new: Pod) -> list[FieldError]:
    before = old.labels.get(names.PRIORITY_CLASS, "")
    after = new.labels.get(names.PRIORITY_CLASS, "")
    path = label_path(names.PRIORITY_CLASS)
    if before and not after:
        return [invalid(path, after, "a priority class cannot be removed from a workload")]
    if after and not before and not new.suspended:
        detail = "a priority class cannot be added to a non-suspended workload"
        return [invalid(path, after, detail)]
    return []


def _no_elastic_job(pod: Pod) -> list[FieldError]:
    if names.ELASTIC_JOB in pod.annotations:
        detail = "a plain pod cannot be an elastic job: remove the annotation"
        return [forbidden(annotation_path(names.ELASTIC_JOB), detail)]
    return []


def _elastic_change(old: Pod, new: Pod) -> list[FieldError]:
    key = names.ELASTIC_JOB
    if old.annotations.get(key) == new.annotations.get(key):
        return []
    return [invalid(annotation_path(key), new.annotations.get(key, ""), IMMUTABLE)]


def _retriable_change(old: Pod, new: Pod) -> list[FieldError]:
    key = names.RETRIABLE_IN_GROUP
    before, after = old.annotations.get(key), new.annotations.get(key)
    if before == "false" and new.group and after != "false":
        detail = "unretriable pod group can't be converted to retriable"
        return [forbidden(annotation_path(key), detail)]
    return []


def _group_change(old: Pod, new: Pod) -> list[FieldError]:
    if old.group and old.group != new.group:
        return [invalid(read_from(new, names.GROUP_NAME), new.group, IMMUTABLE)]
    return []
