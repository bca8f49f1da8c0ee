"""From the settings of the process to a webhook policy.

Settings are what an operator writes; a policy is what the decisions read. Only other controllers
that queue need thought: in ``kueue`` mode Kueue's job integrations queue their own pods, and its
scheduler assigns topologies; in ``builtin`` mode there are no others, so a Job's pods that name a
queue are taken.

Invariant: the same settings give the same policy.
"""

from ingest.webhook.policy import (
    JOB_KINDS,
    LABEL_KINDS,
    NAMESPACE_NAME_LABEL,
    OwnerKind,
    WebhookPolicy,
)
from podgroup.model.objects import Requirement, Selector
from runtime.settings import Settings


def policy_for(settings: Settings) -> WebhookPolicy:
    """The policy that these settings ask for."""
    webhook = settings.webhook
    excluded = Requirement(
        key=NAMESPACE_NAME_LABEL, operator="NotIn", values=webhook.excluded_namespaces
    )
    return WebhookPolicy(
        manage_jobs_without_queue_name=webhook.manage_jobs_without_queue_name,
        topology_gate=topology_gate(settings),
        annotated_names=settings.ingest.workload_identifier_annotations,
        role_hash=settings.ingest.role_hash,
        max_grace_s=settings.queueing.termination_grace_max_s,
        namespace_selector=Selector(expressions=(excluded,)),
        enabled_kinds=JOB_KINDS if settings.mode == "kueue" else (),
        label_kinds=label_kinds(settings),
        owned_kinds=settings.queueing.owned_groups,
        actuator_user=actuator_user(settings),
        untracked=settings.actuator.managed_fields == "clear",
    )


def topology_gate(settings: Settings) -> bool:
    """Whether queued pods get Kueue's topology gate."""
    chosen = settings.webhook.topology_gate
    wanted = settings.mode == "kueue" if chosen == "auto" else chosen
    return wanted and settings.queueing.topology_aware_scheduling


def label_kinds(settings: Settings) -> tuple[OwnerKind, ...]:
    """Kinds whose queue label is copied; kinds that Kueue queues as a whole are left to Kueue."""
    wanted: set[str] = {*settings.webhook.queue_owner_kinds}
    if settings.mode == "kueue":
        wanted -= {kind.kind for kind in JOB_KINDS}
    return tuple(kind for kind in LABEL_KINDS if kind.kind in wanted)


def actuator_user(settings: Settings) -> str:
    """User name of the actuator at the API server."""
    webhook = settings.webhook
    account = f"system:serviceaccount:{webhook.service_namespace}:gatelog-actuator"
    return webhook.actuator_user or account
