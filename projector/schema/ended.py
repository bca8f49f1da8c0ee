"""How a group ended, in one word: not every finished group succeeded.

Theory. State and reason of a life show that it is over and whether it succeeded. Its last admission
shows whether it was preempted; it was deleted if none of its pods failed before a deletion was
requested.

Pods and history of the group are read once each, not the history for each pod; a statement with a
LIMIT finds its page first and computes the words of that page, since a column is computed before
rows are sorted.

Invariant: texts of our own only, none of a user; a group that is not over has "".
"""

from typing import Final

from podgroup.model.lifecycle import OVER

ENDED: Final = ("Succeeded", "Failed", "Preempted", "Evicted", "Deleted")
_OVER: Final = ", ".join(f"'{state}'" for state in OVER)


def ended_as(g: str, state: str) -> str:
    """Return the condition that a group `g` ended as parameter `state` says, false if no word."""
    words = ", ".join(f"'{word}'" for word in ENDED)
    return f"CASE WHEN {state} IN ({words}) THEN {ended(g)} ELSE '' END = {state}"


def ended(g: str) -> str:
    """Return the word for how a group `g` ended, "" while it has not."""
    last = f"""(SELECT a.release_reason FROM admissions a
         WHERE a.cluster = {g}.cluster AND a.group_id = {g}.id ORDER BY a.number DESC LIMIT 1)"""
    of_group = f"p.cluster = {g}.cluster AND p.group_id = {g}.id AND p.phase = 'Failed'"
    failed = f"""(SELECT count(*) FROM pods p WHERE {of_group}) > (
         SELECT count(DISTINCT h.pod_uid) FROM history h CROSS JOIN pods p
          WHERE h.cluster = {g}.cluster AND h.group_id = {g}.id
            AND h.kind = 'PodDeletionRequested' AND h.at < p.ended_at
            AND p.uid = h.pod_uid AND {of_group})"""
    return f"""CASE WHEN {g}.state NOT IN ({_OVER}) THEN ''
            WHEN {g}.reason = 'Succeeded' THEN 'Succeeded'
            WHEN {last} = 'Preempted' THEN 'Preempted'
            WHEN {last} NOT IN ('', 'Finished', 'Gone') THEN 'Evicted'
            WHEN {failed} THEN 'Failed' ELSE 'Deleted' END"""
