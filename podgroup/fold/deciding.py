"""Fold of the settings of decisions: mode, policy, and which kinds must be listed first.

Theory. Everything that rules and fold read has to be in the log, or a replay under today's settings
would differ from what happened. So a projector publishes its settings unless the log has them
already; from that event on they hold, for every fold of the log.

Queue order and usage follow from state and settings, and are not stored: they are worked out anew,
as after a start.

Invariant: a world's settings are those of the newest such event, if there was one.
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
    """Fold an event with settings: they hold from here on."""
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
    # Rows of queues say whether use decides, and by which weights.
    world.journal.objects.update(("ClusterQueue", "", name) for name in world.cluster_queues)
    world.journal.objects.update(("LocalQueue", *key) for key in world.local_queues)
    for identity in sorted(world.groups):
        mark(world, identity)


def line_up(world: World) -> None:
    """Work out anew what follows from groups and queues; rules enter which groups wait."""
    world.quotas = Quotas()
    for group in world.groups.values():
        world.members[group.id].charged_for = None
        recharge(world, group)
    # Groups that could be admitted are looked at once more: which groups wait is not stored.
    world.loaded = True
    mark_conditions_stale(world)


def _words(before: SettingsRecorded | None, now: SettingsRecorded) -> str:
    """Word the settings: all of them the first time, changed settings afterwards."""
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

A setting of a later release is worded where it differs from its default: an old log, which reads as
the default, keeps its words."""


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
