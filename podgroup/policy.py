"""Policy: the choices of an operator that decisions depend on.

A decision may depend on nothing but the log and this. It is fixed while a projector runs; replaying
a log under another policy shows what would have been decided differently.

Invariant: the defaults change nothing that a user has not asked for.
"""

from msgspec import Struct


class Policy(Struct, frozen=True, kw_only=True):
    """Settings of section `queueing`, as the rules see them. Times are seconds, 0 means off.

    `pods_ready_timeout_s` and what follows it hold in builtin mode only: in kueue mode Kueue times
    its Workloads itself. `requeuing_limit` is how often a group may be evicted for not being ready
    before it is deactivated, -1 for no limit.
    """

    label_keys_to_copy: tuple[str, ...] = ()
    pods_ready_timeout_s: int = 0
    pods_ready_recovery_timeout_s: int = 0
    requeuing_backoff_s: int = 60
    requeuing_backoff_max_s: int = 3600
    requeuing_limit: int = -1
