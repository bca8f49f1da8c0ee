"""Registration: the objects that make the API server call the webhook, and for which pods.

A registration decides what breaks while the webhook is away. Kueue registers both of its pod
webhooks for every pod of every namespace with failurePolicy Fail; when it is down no pod can be
created or updated anywhere (kueue#5244), its own and kube-system's included (kueue#11006), and a
cluster can lock itself out of restarting it. Here the reach is cut down instead of the policy:

- pods that name a queue, or are gated for a parent, are mutated under the chosen failurePolicy:
  a gate cannot be added later, so by default they wait for the webhook rather than escape;
- pods that name none are only looked at for a default queue: objectSelector leaves the others
  out, and a webhook that is away is ignored there after two seconds;
- only pods with a ``kueue.x-k8s.io/`` label or annotation are validated, never what the actuator
  changes (ungating and clean-up must not depend on this server; what only a person who shares its
  account can have changed is looked at), and one that is being deleted only when queue,
  managed label or gate change (finalizers must come off);
- owners that carry the queue label are looked at where their template lacks it.

matchConditions need Kubernetes 1.28 (GA in 1.30). Invariant: a pod without any Kueue metadata is
never refused because the webhook is away, and pods of excluded namespaces are never seen.
"""

import base64
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from ingest.webhook.policy import (
    ACTUATOR_USER,
    EXCLUDED_NAMESPACES,
    LABEL_KINDS,
    NAMESPACE_NAME_LABEL,
    OWN_NAMESPACE,
    SERVICE_ACCOUNT,
    OwnerKind,
)
from ingest.webhook.server import LABEL_PATH, MUTATE_PATH, VALIDATE_PATH
from podgroup.model import names

FailurePolicy = Literal["Fail", "Ignore"]
Object = dict[str, Any]

CONFIGURATION_NAME: Final[str] = "gatelog-pods"
SERVICE_NAME: Final[str] = "gatelog-webhook"
TIMEOUT_S: Final[int] = 5
_BYSTANDER_TIMEOUT_S: Final[int] = 2

NAMES_QUEUE: Final[str] = (
    f"has(object.metadata.labels) && '{names.QUEUE_NAME}' in object.metadata.labels && "
    f"object.metadata.labels['{names.QUEUE_NAME}'] != ''"
)
HAS_PARENT: Final[str] = (
    "has(object.metadata.annotations) && "
    f"'{names.SUSPENDING_PARENT}' in object.metadata.annotations"
)


def _has_kueue_key(variable: str, field: str) -> str:
    path = f"{variable}.metadata.{field}"
    return f"(has({path}) && {path}.exists(key, key.startsWith('{names.PREFIX}')))"


HAS_KUEUE_METADATA: Final[str] = (
    f"{_has_kueue_key('object', 'labels')} || {_has_kueue_key('object', 'annotations')} || "
    f"(request.operation == 'UPDATE' && ({_has_kueue_key('oldObject', 'labels')} || "
    f"{_has_kueue_key('oldObject', 'annotations')}))"
)
NOT_ITSELF: Final[str] = "not-gatelog-itself"
"""Name of the match condition that spares the API server asking about the actuator's changes."""


def _gated(variable: str) -> str:
    path = f"{variable}.spec.schedulingGates"
    return f"(has({path}) && {path}.exists(gate, gate.name == '{names.ADMISSION_GATE}'))"


def _differs(field: str, *keys: str) -> str:
    def value(variable: str) -> str:
        path = f"{variable}.metadata.{field}"
        return f"(has({path}) && key in {path} ? {path}[key] : '')"

    listed = ", ".join(f"'{key}'" for key in keys)
    return f"[{listed}].exists(key, {value('object')} != {value('oldObject')})"


_MOVED_BY = (*names.NAMED_BY_ANNOTATION, names.GROUP_TOTAL_COUNT)
_MOVES_THE_POD: Final[str] = " || ".join(
    (
        _differs(
            "labels", names.QUEUE_NAME, names.PRIORITY_CLASS, names.MAX_EXEC_SECONDS, *_MOVED_BY
        ),
        _differs("annotations", *_MOVED_BY),
    )
)
"""It is about queue, group, prebuilt Workload, priority or time limit: never the actuator's."""
STAYS_OR_WOULD_ESCAPE: Final[str] = (
    "!has(object.metadata.deletionTimestamp) || (request.operation == 'UPDATE' && "
    f"({_differs('labels', names.QUEUE_NAME, names.MANAGED_LABEL)} || "
    f"{_gated('object')} != {_gated('oldObject')}))"
)
"""Not being deleted; or it is, and what says that it is in a queue changes before it has ended."""
LACKS_LABELS: Final[str] = "!has(object.spec.template.metadata.labels) || " + " || ".join(
    f"('{key}' in object.metadata.labels && object.metadata.labels['{key}'] != '' && "
    f"(!('{key}' in object.spec.template.metadata.labels) || "
    f"object.spec.template.metadata.labels['{key}'] != object.metadata.labels['{key}']))"
    for key in (names.QUEUE_NAME, names.PRIORITY_CLASS)
)
"""An owner that names a queue, whose template does not say the same."""


class ServiceEndpoint(msgspec.Struct, frozen=True):
    """The webhook behind a Service in the cluster."""

    namespace: str = OWN_NAMESPACE
    name: str = SERVICE_NAME
    port: int = 443


class UrlEndpoint(msgspec.Struct, frozen=True):
    """The webhook at an address that the API server can reach, ``https://host:port``."""

    url: str


Endpoint = ServiceEndpoint | UrlEndpoint


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """What to register."""

    endpoint: Endpoint = ServiceEndpoint()
    ca_bundle: bytes = b""
    """PEM certificates to trust; empty where cert-manager fills it in."""
    failure_policy: FailurePolicy = "Fail"
    """For pods that name a queue. ``Ignore`` lets them run unaccounted while we are away; they
    are then reported as running unadmitted."""
    excluded_namespaces: tuple[str, ...] = EXCLUDED_NAMESPACES
    default_queues: bool = True
    """Look at pods that name no queue, for a LocalQueue called ``default``."""
    every_pod: bool = False
    """Pods without a queue are managed too (manage_jobs_without_queue_name)."""
    actuator_user: str = ACTUATOR_USER
    label_kinds: tuple[OwnerKind, ...] = LABEL_KINDS
    """Owners whose queue label is copied to their pods; the server leaves out what Kueue queues."""
    timeout_s: int = TIMEOUT_S


def configurations(registration: Registration) -> tuple[Object, Object]:
    """The MutatingWebhookConfiguration and the ValidatingWebhookConfiguration.

    Raises:
        ValueError: the endpoint is a URL that does not begin with ``https://``, or the time-out
            is outside of the API's 1 to 30 seconds.
    """
    if not 1 <= registration.timeout_s <= 30:
        raise ValueError(
            f"webhook timeout: {registration.timeout_s} s is outside of the 1 to 30 s that the "
            "API server allows"
        )
    return (
        _configuration("MutatingWebhookConfiguration", _mutating(registration)),
        _configuration("ValidatingWebhookConfiguration", [_validating(registration)]),
    )


def _mutating(registration: Registration) -> list[Object]:
    queued = _webhook(
        registration,
        name="queued.mpod.gatelog",
        path=MUTATE_PATH,
        operations=["CREATE"],
        conditions={"names-a-queue-or-has-a-parent": f"({NAMES_QUEUE}) || ({HAS_PARENT})"},
    )
    webhooks = [queued]
    if registration.default_queues or registration.every_pod:
        others = _webhook(
            registration,
            name="unqueued.mpod.gatelog",
            path=MUTATE_PATH,
            operations=["CREATE"],
            conditions={"has-no-parent": f"!({HAS_PARENT})"},
        )
        others["objectSelector"] = {
            "matchExpressions": [{"key": names.QUEUE_NAME, "operator": "DoesNotExist"}]
        }
        if not registration.every_pod:
            others["failurePolicy"] = "Ignore"
            others["timeoutSeconds"] = min(_BYSTANDER_TIMEOUT_S, registration.timeout_s)
        webhooks.append(others)
    if registration.label_kinds:
        webhooks.append(_labelling(registration))
    for webhook in webhooks:
        # Another webhook may add the queue label after we ran; ours is idempotent.
        webhook["reinvocationPolicy"] = "IfNeeded"
    return webhooks


def cel_text(value: str) -> str:
    """A text as a CEL literal."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def not_itself(user: str) -> str:
    """CEL for a change that is judged although `user`, the actuator's, may have made it.

    A service account is gatelog's alone: only creations are. A person who runs `gatelog up` makes
    changes of their own too, told from the actuator's by what they are about.
    """
    others = f"request.operation == 'CREATE' || request.userInfo.username != {cel_text(user)}"
    return others if user.startswith(SERVICE_ACCOUNT) else f"{others} || {_MOVES_THE_POD}"


def _labelling(registration: Registration) -> Object:
    webhook = _webhook(
        registration,
        name="owners.mpod.gatelog",
        path=LABEL_PATH,
        operations=["CREATE", "UPDATE"],
        conditions={"template-lacks-the-queue": LACKS_LABELS},
    )
    webhook["objectSelector"] = {
        "matchExpressions": [{"key": names.QUEUE_NAME, "operator": "Exists"}]
    }
    webhook["rules"] = owner_rules(registration.label_kinds)
    return webhook


def owner_rules(kinds: Sequence[OwnerKind]) -> list[Object]:
    """Rules for creations and updates of these kinds; a Job's template is fixed once made."""
    return [
        {
            "apiGroups": [kind.group],
            "apiVersions": ["v1"],
            "operations": ["CREATE"] if kind.kind == "Job" else ["CREATE", "UPDATE"],
            "resources": [kind.plural],
            "scope": "Namespaced",
        }
        for kind in kinds
    ]


def _validating(registration: Registration) -> Object:
    return _webhook(
        registration,
        name="vpod.validate.gatelog",
        path=VALIDATE_PATH,
        operations=["CREATE", "UPDATE"],
        conditions={
            NOT_ITSELF: not_itself(registration.actuator_user),
            "has-kueue-metadata": HAS_KUEUE_METADATA,
            "stays-or-would-escape": STAYS_OR_WOULD_ESCAPE,
        },
    )


def _webhook(
    registration: Registration,
    *,
    name: str,
    path: str,
    operations: list[str],
    conditions: dict[str, str],
) -> Object:
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": _client_config(registration, path),
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": operations,
                "resources": ["pods"],
                "scope": "Namespaced",
            }
        ],
        "namespaceSelector": _not_in(registration.excluded_namespaces),
        "matchPolicy": "Equivalent",
        "matchConditions": [{"name": n, "expression": e} for n, e in conditions.items()],
        "failurePolicy": registration.failure_policy,
        "sideEffects": "None",
        "timeoutSeconds": registration.timeout_s,
    }


def _not_in(namespaces: Sequence[str]) -> Object:
    if not namespaces:
        return {}
    expression = {"key": NAMESPACE_NAME_LABEL, "operator": "NotIn", "values": [*namespaces]}
    return {"matchExpressions": [expression]}


def _client_config(registration: Registration, path: str) -> Object:
    config: Object = {}
    match registration.endpoint:
        case ServiceEndpoint(namespace, name, port):
            config["service"] = {"namespace": namespace, "name": name, "port": port, "path": path}
        case UrlEndpoint(url):
            if not url.startswith("https://"):
                raise ValueError(
                    f"webhook url {url!r}: the API server calls webhooks over https:// only"
                )
            config["url"] = url.rstrip("/") + path
    if registration.ca_bundle:
        config["caBundle"] = base64.b64encode(registration.ca_bundle).decode()
    return config


def _configuration(kind: str, webhooks: list[Object]) -> Object:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {
            "name": CONFIGURATION_NAME,
            "labels": {"app.kubernetes.io/name": "gatelog"},
        },
        "webhooks": webhooks,
    }
