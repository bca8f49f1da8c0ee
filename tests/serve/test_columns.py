"""A column of a group that people see in tables is asked for, and the API shows it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import fields, replace

from gatelog.readmodel.rows import GroupRow, LifeRow
from gatelog.serve.api import finding
from projector import tables

AT = datetime(2026, 1, 1, tzinfo=UTC)
NOT_ASKED = {
    "cluster": "each question is of one cluster",
    "shard": "0 in each row",
    "folded": "private to the projector",
    "created_seq": "`LifeRow` has it: lists go by it",
    "precedence": "`v_queue_position` goes by it",
    "most_run_s": "who may pass a reserved start is counted by it",
}
"""Columns of table `groups` that no command, page or object shows by themselves, and why."""
ELSEWHERE = {
    "created_seq": "order of lists, as is `metadata.creationTimestamp`",
    "position": "kind PodGroupPosition",
    "local_position": "kind PodGroupPosition",
}
"""Fields of a life that a PodGroup lacks, and where they are."""


def life() -> LifeRow:
    """A life with a value in each field."""
    values: dict[str, Any] = {}
    for number, field in enumerate(fields(LifeRow)):
        kind = str(field.type)
        if "datetime" in kind:
            values[field.name] = AT + timedelta(hours=number)
        else:
            values[field.name] = number if "int" in kind else f"text-{number}"
    packed = {"labels": {"team": "red"}, "pods_not_running": "3 1 ImagePullBackOff"}
    return LifeRow(**values | packed)


def other(value: Any) -> Any:
    """A value that differs."""
    match value:
        case datetime():
            return value + timedelta(minutes=1)
        case int():
            return value + 1
        case dict():
            return {**value, "more": "x"}
        case _:
            return f"{value}x"


def test_each_column_of_a_group_is_asked_for() -> None:
    asked = {*GroupRow.__struct_fields__}
    missing = {one.name for one in tables.groups.columns} - asked - {*NOT_ASKED}
    assert not missing, (
        f"nothing that people see has {sorted(missing)} of table groups: add it to GroupRow in "
        "gatelog/readmodel/rows.py, or say in NOT_ASKED here why not"
    )
    assert not {*NOT_ASKED} - {one.name for one in tables.groups.columns}


@pytest.mark.parametrize("name", [one.name for one in fields(LifeRow)])
def test_the_api_shows_each_field_of_a_life(name: str) -> None:
    row = life()
    changed = replace(row, **{name: other(getattr(row, name))})
    shown, instead = (msgspec.json.encode(finding.podgroup(one)) for one in (row, changed))
    assert (shown == instead) == (name in ELSEWHERE), (
        f"{name}: add it to gatelog/serve/api/objects.py and to `podgroup` of "
        "gatelog/serve/api/finding.py, or say in ELSEWHERE here where people see it"
    )
