"""What is asked of the read model, by question; each statement can be shown and pasted.

    groups      groups, life by life: by name, in lists and in pages
    story       what happened to a group, what let it in, what was decided
    waiting     who waits, in which order, since when and how long
    starts      when groups are expected to start, and by which forecast
    shared      what a group is short of, and who has it
    holders     who holds quota, who holds it idle, who gives way
    preempted   who had to go for whom, its cost and what it brought
    pods        pods of a group
    objects     queues and other objects
    stuck       what does not go on
    position    how far the read model is
    settings    which settings were said, and where the log began anew
    shown       a statement as people may paste it

Theory. Most have the same text for SQLite and PostgreSQL; those that open a document take the
spelling from `projector.schema.dialect`. A filter of a user is a fragment here with its value as a
parameter. Lists are read in pages by key, so that the last page costs what the first does.

Invariant: parameters are named, nothing of a user becomes part of a statement that is run, and
every list has a LIMIT.
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
