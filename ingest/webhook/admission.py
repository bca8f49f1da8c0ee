"""From an admission request to a response: which rules apply, and with which facts.

The API server decides what is sent (operations and resources come from the registration); this
module decides the rules: creations are mutated or validated, updates validated, and everything else
passes, because a webhook that refuses unknown requests blocks clusters.

Owners that carry the queue label are a third kind of request (`ownerlabels`).

Invariant: nothing is written anywhere, so a dry run needs no special case.
"""

from typing import Any

import msgspec

from ingest.webhook import facts as facts_of
from ingest.webhook import review
from ingest.webhook.bypass import Exemption, bypasses, mirrored
from ingest.webhook.fields import forbidden, invalid
from ingest.webhook.mutate import mutate
from ingest.webhook.ownerlabels import copied_labels
from ingest.webhook.owners import Lookup, OwnershipError
from ingest.webhook.pod import Pod, PodError, read_pod
from ingest.webhook.policy import WebhookPolicy
from ingest.webhook.validate import Verdict, validate_create, validate_update

PASSED = "passed"
REFUSED = "refused"
LABELLED = "labelled"


class Reviewed(msgspec.Struct, frozen=True):
    """A response and the word under which it is counted."""

    response: review.Response
    outcome: str


class AdmissionWebhooks:
    """The webhooks for one policy; stateless apart from the cache of the lookup.

    All methods raise `owners.LookupFailed` when the API server did not answer. That is no verdict
    on the pod: the caller answers with a server error, and the registration's failurePolicy
    decides.
    """

    def __init__(self, policy: WebhookPolicy, lookup: Lookup) -> None:
        self._policy = policy
        self._lookup = lookup

    async def mutate(self, request: review.Request) -> Reviewed:
        """Answers the mutating webhook."""
        if not request.about_pod or request.operation != "CREATE":
            return _passed(request)
        try:
            pod = self._read(request.object, request)
        except PodError as error:
            return _not_a_pod(request, error)
        try:
            facts = await self._facts(pod, request)
        except OwnershipError as error:
            problem = forbidden("metadata.ownerReferences", str(error))
            return Reviewed(review.deny(request, pod, (problem,)), REFUSED)
        result = mutate(pod, self._policy, facts)
        if not result.allowed:
            return Reviewed(review.deny(request, pod, result.errors), REFUSED)
        word = result.disposition.value
        response = review.allow(
            request, patch=result.patch, warnings=result.warnings, disposition=word
        )
        return Reviewed(response, word)

    async def label(self, request: review.Request) -> Reviewed:
        """Answers the mutating webhook for owners of pods."""
        group, plural = request.resource.group, request.resource.resource
        wanted = any((k.group, k.plural) == (group, plural) for k in self._policy.label_kinds)
        if not wanted or request.sub_resource or request.operation not in ("CREATE", "UPDATE"):
            return _passed(request)
        try:
            patch = copied_labels(request.object)
        except PodError as error:
            return _not_a_pod(request, error)
        return Reviewed(review.allow(request, patch=patch), LABELLED if patch else PASSED)

    async def validate(self, request: review.Request) -> Reviewed:
        """Answers the validating webhook."""
        if not request.about_pod or request.operation not in ("CREATE", "UPDATE"):
            return _passed(request)
        try:
            pod = self._read(request.object, request)
            old = None
            if request.operation == "UPDATE":
                old = self._read(request.old_object, request)
        except PodError as error:
            return _not_a_pod(request, error)
        verdict = await self._verdict(old, pod, request)
        if verdict.allowed:
            return Reviewed(review.allow(request, warnings=verdict.warnings), PASSED)
        response = review.deny(request, pod, verdict.errors, warnings=verdict.warnings)
        return Reviewed(response, REFUSED)

    def _read(self, raw: Any, request: review.Request) -> Pod:
        named = self._policy.annotated_names
        return read_pod(raw, namespace=request.namespace, annotated_names=named)

    async def _facts(self, pod: Pod, request: review.Request) -> facts_of.Facts:
        user = request.user_info
        mirror = mirrored(pod, user.username, user.groups or ())
        return await facts_of.for_mutation(pod, self._policy, self._lookup, mirror=mirror)

    async def _verdict(self, old: Pod | None, pod: Pod, request: review.Request) -> Verdict:
        if old is None:
            found = validate_create(pod, self._policy)
            return found if not found.allowed else await self._let_pass(pod, request) or found
        facts = await facts_of.for_update(old, pod, self._policy, self._lookup)
        by_gatelog = request.user_info.username == self._policy.actuator_user
        return validate_update(old, pod, self._policy, facts, by_gatelog=by_gatelog)

    async def _let_pass(self, pod: Pod, request: review.Request) -> Verdict | None:
        """Refuse a pod that needs a gate and came out of mutation without it.

        The API server does not call a mutating webhook again whose conditions did not hold at
        first, though another webhook has named a queue since.
        """
        if not any(bypasses(None, pod)):
            return None
        try:
            facts = await self._facts(pod, request)
        except OwnershipError as error:
            return Verdict((forbidden("metadata.ownerReferences", str(error)),))
        if not facts.namespace_selected:
            return None
        exempt: list[Exemption] = ["kubelet"] if facts.mirror else []
        if facts.managed_ancestor:
            exempt.append("owner")
        errors = tuple(bypasses(None, pod, exempt))
        return Verdict(errors) if errors else None


def _passed(request: review.Request) -> Reviewed:
    return Reviewed(review.allow(request), PASSED)


def _not_a_pod(request: review.Request, error: PodError) -> Reviewed:
    unread = read_pod({"metadata": {"name": request.name, "namespace": request.namespace}})
    return Reviewed(review.deny(request, unread, (invalid("object", "", str(error)),)), REFUSED)
