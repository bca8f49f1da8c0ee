"""Registration: the objects that make the API server call the webhook, and for which pods.

A registration decides what breaks while the webhook is away. Kueue registers both of its pod
webhooks for every pod of every namespace with failurePolicy Fail; when it is down no pod can be
created or updated anywhere (kueue#5244), its own and kube-system's included (kueue#11006), and a
cluster can lock itself out of restarting it. Here the reach is cut down instead of the policy:

- pods that name a queue, or are gated for a parent, are mutated under the chosen failurePolicy:
  a gate cannot be added later, so by default they wait for the webhook rather than escape;
- pods without a queue are only looked at for a default queue: objectSelector leaves the others out,
  and a webhook that is away is ignored there after two seconds;
- only pods with a ``kueue.x-k8s.io/`` label or annotation are validated, never what the actuator
  changes (ungating and clean-up must not depend on this server; changes that only a person with the
  actuator's account can have made are looked at), and a pod that is being deleted only when queue,
  managed label or gate change (finalizers must come off);
- owners that carry the queue label are looked at where their template lacks it.

Which pods each webhook reaches is written in deploy/webhook/configuration.yaml; this module puts in
what settings change: the webhook's address, the authorities, the failurePolicy, namespaces, owners.

matchConditions need Kubernetes 1.28 (GA in 1.30). Invariant: a pod without any Kueue metadata is
never refused because the webhook is away, and pods of excluded namespaces are never seen.
"""

import base64
import copy
from collections.abc import Sequence
from functools import cache
from typing import Final, Literal

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
from podgroup.model.keys import KEYS
from runtime import manifests
from runtime.manifests import Object

FailurePolicy = Literal["Fail", "Ignore"]
CONFIGURATION_NAME: Final[str] = "gatelog-pods"
SERVICE_NAME: Final[str] = "gatelog-webhook"
TIMEOUT_S: Final[int] = 5
_BYSTANDERS: Final[str] = "unqueued.mpod.gatelog"
NOT_ITSELF: Final[str] = "not-gatelog-itself"
"""Name of the match condition that spares the API server asking about the actuator's changes."""


def _differs(field: str, *keys: str) -> str:
    def value(variable: str) -> str:
        path = f"{variable}.metadata.{field}"
        return f"(has({path}) && key in {path} ? {path}[key] : '')"

    listed = ", ".join(f"'{key}'" for key in keys)
    return f"[{listed}].exists(key, {value('object')} != {value('oldObject')})"


_MOVES_THE_POD: Final[str] = " || ".join(
    (
        _differs("labels", *(key.name for key in KEYS if key.moves and key.label)),
        _differs("annotations", *(key.name for key in KEYS if key.moves and key.annotation)),
    )
)
"""The change is about queue, group, Workload, priority, time limit or gating controllers: not the
actuator's.
"""


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
    """The fields of a registration."""

    endpoint: Endpoint = ServiceEndpoint()
    ca_bundle: bytes = b""
    """PEM certificates to trust; empty where cert-manager fills it in."""
    failure_policy: FailurePolicy = "Fail"
    """For pods that name a queue. ``Ignore`` lets such pods run unaccounted while we are away; they
    are then reported as running unadmitted.
    """
    excluded_namespaces: tuple[str, ...] = EXCLUDED_NAMESPACES
    every_pod: bool = False
    """Pods without a queue are managed too (manage_jobs_without_queue_name)."""
    actuator_user: str = ACTUATOR_USER
    label_kinds: tuple[OwnerKind, ...] = LABEL_KINDS
    """Owners whose queue label is copied to their pods; kinds that Kueue queues are left out."""
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
    mutating, validating = copy.deepcopy(_written())
    for configuration in (mutating, validating):
        del configuration["metadata"]["annotations"]  # for cert-manager, which is not asked
        hooks = configuration["webhooks"]
        configuration["webhooks"] = [one for hook in hooks if (one := _fitted(hook, registration))]
    return mutating, validating


@cache
def _written() -> list[Object]:
    return manifests.read("webhook/configuration.yaml")


def _fitted(hook: Object, registration: Registration) -> Object | None:
    """Return a webhook of the manifest as it is registered, None if it has nothing to do."""
    hook["clientConfig"] = _client_config(registration, hook["clientConfig"]["service"]["path"])
    hook["namespaceSelector"] = _not_in(registration.excluded_namespaces)
    if hook["name"] == _BYSTANDERS and not registration.every_pod:
        hook["timeoutSeconds"] = min(hook["timeoutSeconds"], registration.timeout_s)
    else:
        hook["failurePolicy"] = registration.failure_policy
        hook["timeoutSeconds"] = registration.timeout_s
    if hook["name"].startswith("owners."):
        hook["rules"] = owner_rules(registration.label_kinds)
    for condition in hook["matchConditions"]:
        if condition["name"] == NOT_ITSELF:
            condition["expression"] = not_itself(registration.actuator_user)
    return hook if hook["rules"] else None


def cel_text(value: str) -> str:
    """A text as a CEL literal."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def not_itself(user: str) -> str:
    """CEL for a change that is judged although `user`, the actuator's, may have made it.

    A service account is gatelog's alone: of its changes only creations are judged. A person who
    runs `gatelog up` makes changes of their own too; the changed fields distinguish these from the
    actuator's.
    """
    others = f"request.operation == 'CREATE' || request.userInfo.username != {cel_text(user)}"
    return others if user.startswith(SERVICE_ACCOUNT) else f"{others} || {_MOVES_THE_POD}"


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
