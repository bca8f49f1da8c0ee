"""Group metadata: what a pod must declare to be a member of a group.

Every member names its group, and the size is declared in one of five dialects: KEP-976's total
count, the first draft's count (one shape), the first draft's roles (several shapes), story 3's pod
sets (a driver that describes the pods it will create), or the owner whose pods make it up. Kueue
has the first; the others are further dialects. A name without any size, or a size without a name,
can never become a group, so the pod is refused while its author is still looking.

Invariant: a pod without any group key passes; every error names the label or annotation to set.
"""

from typing import Final

from ingest.translate.podsets import parse_sets
from ingest.webhook.fields import (
    FieldError,
    annotation_path,
    dns_label_problem,
    integer,
    invalid,
    label_path,
    required,
    subdomain_problem,
)
from ingest.webhook.pod import Pod
from ingest.webhook.policy import WebhookPolicy
from podgroup.log.dialects import OWNER, declared_owner
from podgroup.model import names
from podgroup.model.keys import bound_of
from podgroup.model.roles import named_by

_SIZES: Final[tuple[str, ...]] = (
    names.GROUP_TOTAL_COUNT,
    names.POD_GROUP_COUNT,
    names.POD_GROUP_ROLES,
    names.POD_GROUP_SETS,
    names.GROUP_OWNER,
)


def read_from(pod: Pod, key: str) -> str:
    """Path at which a label-or-annotation key is read: a non-empty annotation wins."""
    return annotation_path(key) if pod.annotations.get(key) else label_path(key)


def group_errors(pod: Pod, policy: WebhookPolicy) -> list[FieldError]:
    """What is wrong with the group name, the total count and the prebuilt name of a pod."""
    return _metadata_errors(pod, policy) + _prebuilt_errors(pod)


def dialect_errors(pod: Pod, policy: WebhookPolicy) -> list[FieldError]:
    """What is wrong with pod-group-sets, the first draft's keys and the pod index."""
    errors = []
    for key, most in (
        (names.POD_GROUP_COUNT, policy.max_total_count),
        (names.POD_GROUP_ROLES, names.MAX_ROLES),
        (names.POD_GROUP_ROLE_COUNT, policy.max_total_count),
    ):
        text = pod.annotations.get(key)
        number = None if text is None else integer(text)
        if text is not None and (number is None or not 1 <= number <= most):
            detail = f"must be an integer from 1 to {most}"
            errors.append(invalid(annotation_path(key), text, detail))
    role = pod.labels.get(names.POD_GROUP_ROLE)
    if role is not None and (problem := dns_label_problem(role)):
        errors.append(invalid(label_path(names.POD_GROUP_ROLE), role, problem))
    if names.POD_GROUP_ROLES in pod.annotations and role is None:
        detail = f"must name the pod's role, because {names.POD_GROUP_ROLES} counts the roles"
        errors.append(required(label_path(names.POD_GROUP_ROLE), detail))
    return errors + _sets_errors(pod, policy) + _owner_errors(pod) + _index_errors(pod)


def _sets_errors(pod: Pod, policy: WebhookPolicy) -> list[FieldError]:
    """Mistakes in pod-group-sets, each with its line and field, and a pod that fits no set."""
    text = pod.annotations.get(names.POD_GROUP_SETS)
    if text is None or len(text.encode("utf-8", "surrogatepass")) > bound_of(names.POD_GROUP_SETS):
        return []  # too long is an error already
    declared = parse_sets(text, policy.role_hash)
    path = annotation_path(names.POD_GROUP_SETS)
    if declared.errors:
        lines = text.splitlines() or [""]
        return [
            invalid(path, lines[max(0, min(error.line, len(lines)) - 1)].strip(), str(error))
            for error in declared.errors
        ]
    role = pod.labels.get(names.POD_GROUP_ROLE, "")
    known = [one.name for one in declared.sets]
    bare = [one.name for one in declared.sets if not one.template]
    if role and not named_by(role, known):
        detail = f"names none of the sets that the pod declares: {', '.join(known)}"
        return [invalid(label_path(names.POD_GROUP_ROLE), role, detail)]
    if not role and len(bare) > 1:
        detail = (
            f"must say of which set the pod is, because several have no template: {', '.join(bare)}"
        )
        return [required(label_path(names.POD_GROUP_ROLE), detail)]
    return []


def _owner_errors(pod: Pod) -> list[FieldError]:
    """An owner that can have no group."""
    text = pod.annotations.get(names.GROUP_OWNER)
    if text is None or declared_owner(f"{OWNER}/{text}") is not None:
        return []
    detail = (
        f"must be {names.STATEFUL_SET}/NAME or {names.LEADER_WORKER_SET}/NAME/SIZE; it is written "
        "by gatelog where queueing.owned_groups names the kind: leave it out"
    )
    return [invalid(annotation_path(names.GROUP_OWNER), text, detail)]


def dialect_warnings(pod: Pod) -> list[str]:
    """A warning when the size of the group is stated in more than one dialect."""
    sizes = [key for key in _SIZES if key in pod.annotations]
    if len(sizes) < 2:
        return []
    return [
        f"{pod.title()} states the size of its group in several dialects ({', '.join(sizes)}); the "
        "group will be blocked until all its pods use one of them"
    ]


def _metadata_errors(pod: Pod, policy: WebhookPolicy) -> list[FieldError]:
    total = pod.annotations.get(names.GROUP_TOTAL_COUNT)
    total_path = annotation_path(names.GROUP_TOTAL_COUNT)
    errors: list[FieldError] = []
    if not pod.group:
        stated = [key for key in _SIZES if key in pod.annotations]
        if stated:
            detail = (
                f"both the '{stated[0]}' annotation and the '{names.GROUP_NAME}' label should be "
                "set: give the group a name, or remove the annotation to queue a single pod"
            )
            return [required(label_path(names.GROUP_NAME), detail)]
        return []
    if problem := subdomain_problem(pod.group):
        errors.append(invalid(read_from(pod, names.GROUP_NAME), pod.group, problem))
    if total is None:
        if not _other_dialect(pod):
            detail = (
                f"both the '{names.GROUP_TOTAL_COUNT}' annotation and the '{names.GROUP_NAME}' "
                "label should be set: say how many pods the group has, or remove the name"
            )
            errors.append(required(total_path, detail))
        return errors
    number = integer(total)
    if number is None:
        errors.append(invalid(total_path, total, "must be an integer: the pods of the group"))
    elif number < 1:
        errors.append(invalid(total_path, total, "group total count should be greater than zero"))
    elif number > policy.max_total_count:
        detail = f"group total count should be at most {policy.max_total_count}"
        errors.append(invalid(total_path, total, detail))
    return errors


def _other_dialect(pod: Pod) -> bool:
    """Whether the size is stated otherwise: on this pod, or by the driver of this worker."""
    stated = any(key in pod.annotations for key in _SIZES)
    return stated or names.POD_GROUP_ROLE in pod.labels


def _prebuilt_errors(pod: Pod) -> list[FieldError]:
    prebuilt = names.prebuilt_name(pod.labels, pod.annotations)
    if prebuilt and pod.group and prebuilt != pod.group:
        detail = (
            "prebuilt workload and pod group should be equal: the Workload of a group has the "
            "group's name"
        )
        return [invalid(read_from(pod, names.PREBUILT_WORKLOAD), prebuilt, detail)]
    return []


def _index_errors(pod: Pod) -> list[FieldError]:
    text = pod.labels.get(names.POD_INDEX)
    if text is None or not pod.group:
        return []
    number = integer(text) if text.isdigit() else None
    path = label_path(names.POD_INDEX)
    if number is None:
        return [invalid(path, text, "must be an unsigned integer: the pod's index in its group")]
    total = integer(pod.annotations.get(names.GROUP_TOTAL_COUNT, ""))
    if total is not None and number >= total:
        return [invalid(path, text, f"must be less than the group's total count, {total}")]
    return []
