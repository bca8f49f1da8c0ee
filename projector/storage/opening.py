"""Opening: from the database's rows to a world that can go on.

Theory. Starting is: checkpoint and live rows -> world; is the log still the log of the checkpoint
(`epochs`); fill in from the log what is not stored (the objects that open relist frames have seen).
The same steps, without the first, follow when the reader finds that its stream has changed.

Invariant: an open frame that cannot be filled in completely is given up, because completing it
would infer deletions that never happened.
"""

from datetime import datetime

from podgroup.folding import load_world, new_world, rejoin_frames
from podgroup.log import subjects
from podgroup.log.codec import decode_batch
from podgroup.model.policy import Policy
from podgroup.state.world import World
from projector.storage.loading import Loaded
from projector.writing.checkpoint import Checkpoint
from runtime.jetstream import Bus, StreamState
from runtime.log import get_logger
from runtime.settings import QueueingSettings, SettingsError

log = get_logger("projector")


def policy_of(settings: QueueingSettings) -> Policy:
    """Return the settings that rules need."""
    return Policy(
        label_keys_to_copy=settings.label_keys_to_copy,
        annotation_keys_to_copy=settings.annotation_keys_to_copy,
        exclude_resource_prefixes=settings.exclude_resource_prefixes,
        wait_for_pods_ready=settings.wait_for_pods_ready,
        pods_ready_timeout_s=settings.pods_ready_timeout_s,
        pods_ready_recovery_timeout_s=settings.pods_ready_recovery_timeout_s,
        requeuing_backoff_s=settings.requeuing_backoff_s,
        requeuing_backoff_max_s=settings.requeuing_backoff_max_s,
        requeuing_limit=settings.requeuing_limit,
        topology_aware_scheduling=settings.topology_aware_scheduling,
        elastic_jobs=settings.elastic_jobs,
        fast_quota_release=settings.fast_quota_release,
        stop_unadmitted=settings.stop_unadmitted,
        unreachable_timeout_s=settings.unreachable_timeout_s,
        deleted_node_timeout_s=settings.deleted_node_timeout_s,
        deleted_group_timeout_s=settings.deleted_group_timeout_s,
        termination_grace_max_s=settings.termination_grace_max_s,
        preemption_grace_s=settings.preemption_grace_s,
        skip_reassignment=settings.skip_reassignment,
        retention_after_deactivation_s=settings.retention_after_deactivation_s,
        compatibility=settings.compatibility,
        fair_sharing=settings.fair_sharing,
        usage_half_life_s=settings.usage_half_life_s,
        usage_sampling_s=settings.usage_sampling_s,
        usage_weights=settings.usage_weights,
        least_run_s=settings.least_run_s,
        least_run_by_reason=settings.least_run_by_reason,
        status_interval_s=settings.status_interval_s,
        workloads=settings.workloads,
        namespace_memory_mib=settings.namespace_memory_mib,
        device_classes=settings.device_classes,
        owned_groups=settings.owned_groups,
        longest_wait_s=settings.longest_wait_s,
    )


def world_of(loaded: Loaded | None, cluster: str, mode: str, policy: Policy | None = None) -> World:
    """Return the stored world, or a new world."""
    if loaded is None:
        return new_world(cluster, mode, policy)
    if loaded.checkpoint.mode != mode:
        log.warning("mode_changed", was=loaded.checkpoint.mode, now=mode)
    return load_world(cluster, mode, loaded, policy)


async def refuse_shards(bus: Bus, cluster: str) -> None:
    """See that the log has all of the cluster in one shard, as every log now has.

    Raises:
        SettingsError: the log has several shards, none with the whole cluster.
        BusError: the log went away meanwhile.
    """
    if await bus.last(subjects.EVENTS, f"events.{cluster}.1.*") is not None:
        raise SettingsError(
            f"cluster = {cluster!r}: its log was kept in several shards, and a cluster has one "
            "projector now: begin under another `cluster` name (docs/upgrade.md)"
        )


async def refill_frames(bus: Bus, world: World, checkpoint: Checkpoint, stream: StreamState) -> int:
    """Read again what open relist frames have seen; returns how many messages that took.

    Raises:
        BusError: the log went away meanwhile.
    """
    meta = world.meta
    for kind, frame in list(meta.frames.items()):
        if frame.started_seq - checkpoint.base < stream.first_sequence:
            log.warning("relist_frame_given_up", kind=kind, relist=frame.relist)
            del meta.frames[kind]
            meta.synced.discard(kind)
    if not meta.frames:
        return 0
    begin = min(frame.started_seq for frame in meta.frames.values()) - checkpoint.base
    reader = bus.read(subjects.EVENTS, subjects.events_of(world.cluster), begin)
    count = 0
    try:
        while reader.next_sequence <= checkpoint.stream_seq:
            for message in await reader.next(None):
                if message.sequence > checkpoint.stream_seq:
                    break
                position = message.sequence + checkpoint.base
                rejoin_frames(
                    world, decode_batch(message.body, subjects.source_of(message.subject)), position
                )
                count += 1
    finally:
        await reader.close()
    return count


def decisions_lost(stream: StreamState, created_at: datetime | None, last_sequence: int) -> bool:
    """Return whether the stream DECISIONS is another than we published to, or lost its end."""
    return created_at is not None and (
        stream.created != created_at or stream.last_sequence < last_sequence
    )
