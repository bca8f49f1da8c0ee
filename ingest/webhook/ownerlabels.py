"""Owners that carry the queue label themselves: it is copied to the pods they will make.

Only a pod can wait at a gate. A label on the Deployment instead of its pod template means the same,
and without this module the pods would run outside of every quota, silently. Kueue's integrations of
these kinds copy the label too; beside gatelog they are off (a Job's is not, so Jobs are left to
Kueue there). The owner's label wins over another label in the template, as in Kueue.

A Job's template is immutable, so Jobs are looked at when created only; the other kinds also when
changed, which rolls their pods out anew.

Invariant: pure and idempotent; only the two labels of the template change.
"""

from typing import Any

import msgspec

from ingest.webhook.mutate import PatchOp, add_entries
from ingest.webhook.pod import PodError
from podgroup.model import names

COPIED = (names.QUEUE_NAME, names.PRIORITY_CLASS)


class _Labels(msgspec.Struct, frozen=True):
    labels: dict[str, str] | None = None


class _Template(msgspec.Struct, frozen=True):
    metadata: _Labels | None = None


class _Spec(msgspec.Struct, frozen=True):
    template: _Template | None = None


class _Owner(msgspec.Struct, frozen=True):
    metadata: _Labels
    spec: _Spec


def copied_labels(raw: Any) -> tuple[PatchOp, ...]:
    """The patch that gives an owner's template the labels that the owner has.

    Raises:
        PodError: the object has no metadata and spec of the usual form.
    """
    try:
        owner = msgspec.convert(raw, _Owner)
    except msgspec.ValidationError as error:
        raise PodError(f"the object under review has no pod template: {error}") from None
    own = owner.metadata.labels or {}
    if not own.get(names.QUEUE_NAME) or owner.spec.template is None:
        return ()
    wanted = {key: own[key] for key in COPIED if own.get(key)}
    metadata = owner.spec.template.metadata
    if metadata is None:
        return (PatchOp("/spec/template/metadata", {"labels": wanted}),)
    return add_entries("/spec/template/metadata/labels", metadata.labels, wanted)
