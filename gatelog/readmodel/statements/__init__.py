"""Statements on the read model, by question; each can be shown and pasted.

    groups      groups, life by life: by name, in lists and in pages
    story       history of a group, causes of its admissions, decisions
    waiting     waiting groups, their order, since when and how long
    starts      when groups are expected to start, and by which forecast
    shared      what a group is short of, and its holders
    holders     holders of quota, idle holders, groups that give way
    preempted   victims and preemptors, cost and gain
    pods        pods of a group
    objects     queues and other objects
    stuck       groups and writes without progress
    position    the position of the read model
    settings    published settings, and where the log began anew
    shown       a statement as people may paste it

Theory. Most statements have the same text for SQLite and PostgreSQL; statements that open a
document take the spelling from `projector.schema.dialect`. A filter of a user is a fragment here
with its value as a parameter. Lists are read in pages by key, so that the last page costs what the
first does.

Invariant: parameters are named, no text of a user becomes part of a statement that runs, and every
list has a LIMIT.
"""

from gatelog.readmodel.statements import (
    groups,
    holders,
    objects,
    pods,
    position,
    preempted,
    settings,
    shared,
    shown,
    starts,
    story,
    stuck,
    waiting,
)

__all__ = [
    "groups",
    "holders",
    "objects",
    "pods",
    "position",
    "preempted",
    "settings",
    "shared",
    "shown",
    "starts",
    "story",
    "stuck",
    "waiting",
]
