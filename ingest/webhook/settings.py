"""From the settings of the process to a webhook policy.

Settings are what an operator writes; a policy is what the decisions read. The one thing to
work out is who else queues: in ``kueue`` mode Kueue's own job integrations do and their pods are
left to them, in ``builtin`` mode nobody does, so a Job's pods that name a queue are taken.

Invariant: the same settings give the same policy.
"""

from ingest.webhook.policy import JOB_KINDS, NAMESPACE_NAME_LABEL, WebhookPolicy
from podgroup.objects import Requirement, Selector
from podgroup.runtime.settings import Settings


def policy_for(settings: Settings) -> WebhookPolicy:
    """The policy that these settings ask for."""
    webhook = settings.webhook
    excluded = Requirement(
        key=NAMESPACE_NAME_LABEL, operator="NotIn", values=webhook.excluded_namespaces
    )
    return WebhookPolicy(
        manage_jobs_without_queue_name=webhook.manage_jobs_without_queue_name,
        topology_gate=webhook.topology_gate and settings.queueing.topology_aware_scheduling,
        annotated_names=settings.ingest.workload_identifier_annotations,
        role_hash=settings.ingest.role_hash,
        namespace_selector=Selector(expressions=(excluded,)),
        enabled_kinds=JOB_KINDS if settings.mode == "kueue" else (),
    )
