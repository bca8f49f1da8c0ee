"""Fold of the settings by which is decided: mode, policy, and which kinds must be listed first.

Theory. What rules and fold read besides the log has to be in the log, or a replay under today's
settings tells another story than the one that happened. So a projector says what it decides by when
the log does not say so already; from that event on it holds, for every fold of the log.

Queue order and usage follow from state and settings, and are not stored: they are worked out anew,
as after a start.

Invariant: what a world decides by is what the newest such event says, if there was one.
"""

from typing import Final

import msgspec

from podgroup.fold.claims import recount_all
from podgroup.fold.common import mark, note
from podgroup.fold.queues import mark_conditions_stale
from podgroup.fold.reservations import recharge
from podgroup.fold.workloads import disbelieve
from podgroup.log.events import SettingsRecorded
from podgroup.log.journal import At
from podgroup.model.policy import Policy
from podgroup.state.quota import Quotas
from podgroup.state.world import World


def settings_recorded(world: World, here: At, event: SettingsRecorded) -> None:
    """Go on by other settings."""
    meta = world.meta
    before, meta.settings, meta.unsettled = meta.settings, event, False
    classes = world.policy.device_classes
    world.mode, world.policy = event.mode, event.policy
    note(world, here, "SettingsRecorded", reason=event.mode, message=_words(before, event))
    if before is None and event.mode == "builtin":
        disbelieve(world, here)
    line_up(world)
    if classes or event.policy.device_classes:
        recount_all(world, here)
    # Whether use decides, and by which weights, is in the rows of queues.
    world.journal.objects.update(("ClusterQueue", "", name) for name in world.cluster_queues)
    world.journal.objects.update(("LocalQueue", *key) for key in world.local_queues)
    for identity in sorted(world.groups):
        mark(world, identity)


def line_up(world: World) -> None:
    """Work out anew what follows from groups and queues, but for who is pending: rules say that."""
    world.quotas = Quotas()
    for group in world.groups.values():
        world.members[group.id].charged_for = None
        recharge(world, group)
    # What could be admitted is looked at again once: who waits is not stored.
    world.loaded = True
    mark_conditions_stale(world)


def _words(before: SettingsRecorded | None, now: SettingsRecorded) -> str:
    """Say what holds now: all of it the first time, what is new afterwards."""
    if before is None:
        plain = by_name(msgspec.structs.replace(now, policy=Policy()))
        was = {name: plain[name] for name in _settings() - _ALWAYS}
    else:
        was = by_name(before)
    held = by_name(now)
    return ", ".join(f"{name} {text}" for name, text in held.items() if text != was.get(name))


def _settings() -> set[str]:
    return {f"queueing.{name}" for name in Policy.__struct_fields__}


_ALWAYS: Final = frozenset(
    f"queueing.{name}"
    for name in (
        *("label_keys_to_copy", "annotation_keys_to_copy", "exclude_resource_prefixes"),
        *("wait_for_pods_ready", "pods_ready_timeout_s", "pods_ready_recovery_timeout_s"),
        *("requeuing_backoff_s", "requeuing_backoff_max_s", "requeuing_limit"),
        *("topology_aware_scheduling", "elastic_jobs", "fast_quota_release", "skip_reassignment"),
        "retention_after_deactivation_s",
    )
)
"""The settings of the first logs with settings, which are always worded.

A setting that came later is worded where it is not at its default: an old log, which reads as that
default, says what it said."""


def by_name(event: SettingsRecorded) -> dict[str, str]:
    """Return the settings as text by name, as history words them; no value has a comma."""
    policy = event.policy
    values = {name: getattr(policy, name) for name in policy.__struct_fields__}
    chosen = {f"queueing.{name}": _text(value) for name, value in values.items()}
    return {
        "gatelog": event.gatelog,
        "rules": str(event.rules),
        "mode": event.mode,
        **chosen,
        "kinds": " ".join(event.kinds),
    }


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(value) or "none" if isinstance(value, tuple) else str(value)
