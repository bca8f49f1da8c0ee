"""Which rows the conformance scenarios cover, end to end and in both modes.

Invariant: a scenario without rows is still run.
"""

from typing import Any

import pytest

ROWS_OF: dict[str, tuple[str, ...]] = {
    "single_pod_lifecycle": ("C-01", "C-09", "I-01"),
    "group_driver_workers": ("C-13", "C-22", "C-23", "C-24", "E-01", "E-05", "I-11"),
    "excess_before_admission": ("C-44", "C-45", "I-16"),
    "excess_after_admission": ("C-46", "E-03", "I-16"),
    "failed_pod_replaced": ("C-31", "C-77", "C-82", "I-14"),
    "two_failed_one_replaced": ("C-60", "B20"),
    "not_retriable_group_fails": ("C-41", "I-15", "B5"),
    "total_count_mismatch": ("C-28", "B1"),
    "workload_deleted": ("C-29",),
    "queue_full_then_admitted": ("I-29",),
    "preempted_and_resumed": ("C-08", "C-34", "E-06", "I-13"),
    "fast_admission": ("C-15", "I-12"),
    "serving_group": ("C-43", "I-20", "B3"),
    "other_gate_stays": ("S-22", "B13"),
    "user_deletes_gated_pod": ("E-02", "B2"),
    "user_deletes_running_pod": ("E-03", "C-75"),
    "bad_requests": ("W-35", "W-37", "W-39", "I-28"),
}


def params(names: list[str]) -> list[Any]:
    """The scenarios as parameters that carry their rows."""
    return [
        pytest.param(name, marks=pytest.mark.parity(*ROWS_OF[name])) if name in ROWS_OF else name
        for name in names
    ]
