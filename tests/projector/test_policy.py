"""Section `queueing` of the settings reaches the rules, every field of it."""

import msgspec

from podgroup.model.policy import Policy
from projector.storage.opening import policy_of, world_of
from runtime.settings import QueueingSettings


def test_defaults_change_nothing() -> None:
    # Logs from before it was told how queues stand do not tell it when they are replayed.
    before = QueueingSettings(
        status_interval_s=0, namespace_memory_mib=0, deleted_group_timeout_s=0, longest_wait_s=0
    )
    assert policy_of(before) == Policy()


def test_every_field_is_passed_on() -> None:
    fields: dict[str, object] = {
        field.name: not field.default if isinstance(field.default, bool) else i + 2
        for i, field in enumerate(msgspec.structs.fields(Policy))
    }
    fields["label_keys_to_copy"] = ("team",)
    found = policy_of(QueueingSettings(**fields))  # type: ignore[arg-type] # all of them
    passed = msgspec.structs.asdict(found)
    lost = [name for name in fields if passed[name] != fields[name]]
    assert not lost, f"pass {lost} of the settings on in projector/storage/opening.py"
    assert world_of(None, "c", "builtin", found).policy == found
