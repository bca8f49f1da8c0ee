"""Facts: everything outside the pod that a decision about it depends on.

The decisions are pure functions of a pod, a policy and these facts; gathering them is the only
part of the webhook that waits for the API server. Each question is asked only where its answer
can matter, in the order in which Kueue asks: most pods cost no question at all.

Invariant: facts describe one moment and are used for one request.
"""

import msgspec

from ingest.webhook.owners import Lookup, controller_is_managed, managed_ancestor
from ingest.webhook.pod import Pod
from ingest.webhook.policy import (
    NAMESPACE_NAME_LABEL,
    WebhookPolicy,
    selects,
    selects_by_name_only,
)
from podgroup.model import names


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts for one pod; the defaults are those of a plain cluster."""

    mirror: bool = False
    """A kubelet's record of a static pod, which runs whatever the API says."""
    namespace_selected: bool = True
    managed_ancestor: str = ""
    """``Kind/name`` of an owner that is queued itself."""
    has_default_queue: bool = False
    has_default_priority_class: bool = False


async def for_mutation(
    pod: Pod, policy: WebhookPolicy, lookup: Lookup, *, mirror: bool = False
) -> Facts:
    """Looks up what `mutate` needs to know about a pod being created.

    Raises:
        OwnershipError: the pod must be refused because of its owners.
        LookupFailed: the API server could not be asked.
    """
    if mirror:
        return Facts(mirror=True)
    namespace = pod.metadata.namespace
    if not await _selected(namespace, policy, lookup):
        return Facts(namespace_selected=False)
    if not pod.to_wait and (ancestor := await managed_ancestor(pod, policy, lookup)):
        return Facts(managed_ancestor=ancestor)
    default_queue = (
        not pod.queue
        and not pod.has_parent
        and policy.default_queue_name != ""
        and await lookup.has_local_queue(namespace, policy.default_queue_name)
    )
    taken = bool(pod.queue) or default_queue or policy.manage_jobs_without_queue_name
    default_priority = (
        taken
        and policy.default_priority_class != ""
        and names.PRIORITY_CLASS not in pod.labels
        and not controller_is_managed(pod, policy)
        and await lookup.has_priority_class(policy.default_priority_class)
    )
    return Facts(has_default_queue=default_queue, has_default_priority_class=default_priority)


async def for_update(old: Pod, new: Pod, policy: WebhookPolicy, lookup: Lookup) -> Facts:
    """Looks up what `validate_update` needs: only whether a removed queue name has a default.

    Raises:
        LookupFailed: the API server could not be asked.
    """
    if old.queue and not new.queue and policy.default_queue_name:
        namespace = new.metadata.namespace
        return Facts(
            has_default_queue=await lookup.has_local_queue(namespace, policy.default_queue_name)
        )
    return Facts()


async def _selected(namespace: str, policy: WebhookPolicy, lookup: Lookup) -> bool:
    selector = policy.namespace_selector
    if selects_by_name_only(selector):
        return selects(selector, {NAMESPACE_NAME_LABEL: namespace})
    return selects(selector, dict(await lookup.namespace_labels(namespace)))
