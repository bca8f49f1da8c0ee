"""Pods of a StatefulSet or a LeaderWorkerSet: their group, as the pods themselves show it.

The pods of a StatefulSet are one group, those of a replica of a LeaderWorkerSet another. Each pod
shows its group when it is created: by its controller's kind and name, or by the labels and
annotations of its LeaderWorkerSet. Only the StatefulSet has its number of pods, which the fold
reads from the log. So CEL, which sees no other object, can have the same rule
(deploy/admission-policy).

A pod that names its group, or a parent to wait for, is left alone.

Invariant: pure; a second pass changes nothing.
"""

from collections.abc import Collection

import msgspec

from ingest.webhook.pod import Pod
from podgroup.log.dialects import OWNER, declared_owner
from podgroup.model import names
from podgroup.model.keys import KEYS

_STATED = tuple(key.name for key in KEYS if key.size)


class Member(msgspec.Struct, frozen=True):
    """A pod's membership: its `group`, its `role`, and the owner whose pods make up the group."""

    group: str
    role: str
    owner: str

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the membership."""
        return {names.GROUP_NAME: self.group, names.POD_GROUP_ROLE: self.role}

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations of the membership: pods that serve, and come again under the same names."""
        return {names.GROUP_OWNER: self.owner, names.SERVING: "true"}


def member(pod: Pod, kinds: Collection[str]) -> Member | None:
    """Return what makes a pod a member of its owner's group, None if nothing does."""
    says = names.group_name(pod.labels, pod.annotations) or names.prebuilt_name(
        pod.labels, pod.annotations
    )
    if says or pod.has_parent or not pod.metadata.name:
        return None
    if any(key in pod.annotations for key in _STATED) or names.POD_GROUP_ROLE in pod.labels:
        return None
    set_name = pod.labels.get(names.LWS_NAME)
    if set_name:
        return _of_replica(pod, set_name) if names.LEADER_WORKER_SET in kinds else None
    of = pod.controller
    if of is None or names.STATEFUL_SET not in kinds:
        return None
    if of.group != "apps" or of.kind != names.STATEFUL_SET:
        return None
    return Member(of.name, names.SINGLE_PODSET, f"{names.STATEFUL_SET}/{of.name}")


def _of_replica(pod: Pod, set_name: str) -> Member | None:
    owner = f"{names.LEADER_WORKER_SET}/{set_name}/{pod.annotations.get(names.LWS_SIZE, '')}"
    if declared_owner(f"{OWNER}/{owner}") is None:
        return None
    leader = pod.annotations.get(names.LWS_LEADER)
    if leader:
        return Member(leader, names.WORKER_ROLE, owner)
    return Member(pod.metadata.name, names.LEADER_ROLE, owner)
