"""The orders in which pods are kept, replaced and started. All are total: they end in the uid.

Invariant: creation stamps have one-second resolution and a group is usually created within one
second, so no order here relies on them alone.
"""

from datetime import datetime

from podgroup.state.pod import Pod

OrderKey = tuple[bool, bool, datetime, str]


def active_key(pod: Pod) -> OrderKey:
    """Keep first, drop last: with our finalizer, ungated, older, smaller uid (Kueue's order)."""
    return (not pod.held, pod.gated, pod.view.created_at, pod.view.uid)


def replace_key(pod: Pod) -> tuple[bool, datetime, datetime, str]:
    """Released first: without our finalizer, failed first (B20), older, smaller uid.

    A pod that has lost our finalizer already uses up a replacement without any effect, as in Kueue.
    """
    return (
        pod.held,
        pod.failed_at or pod.view.created_at,
        pod.view.created_at,
        pod.view.uid,
    )


def start_key(pod: Pod) -> tuple[datetime, str]:
    """Ungated first: older, smaller uid."""
    return (pod.view.created_at, pod.view.uid)
