"""How a group ended, in a word of its own: what is over is not all that succeeded.

Theory. State and reason of a life say that it is over and whether it succeeded. Whether it was
preempted says its last admission; whether somebody deleted it, that no pod of it failed before its
deletion was asked for.

Invariant: texts of our own only, nothing of a user; a group that is not over has "".
"""

from typing import Final

from podgroup.model.lifecycle import OVER

ENDED: Final = ("Succeeded", "Failed", "Preempted", "Evicted", "Deleted")
_OVER: Final = ", ".join(f"'{state}'" for state in OVER)


def ended(g: str) -> str:
    """Return the word for how a group `g` ended, "" while it has not."""
    last = f"""(SELECT a.release_reason FROM admissions a
         WHERE a.cluster = {g}.cluster AND a.group_id = {g}.id ORDER BY a.number DESC LIMIT 1)"""
    failed = f"""EXISTS (SELECT 1 FROM pods p
         WHERE p.cluster = {g}.cluster AND p.group_id = {g}.id AND p.phase = 'Failed'
           AND NOT (p.deleted_at IS NOT NULL AND EXISTS (
               SELECT 1 FROM history h
                WHERE h.cluster = {g}.cluster AND h.group_id = {g}.id AND h.pod_uid = p.uid
                  AND h.kind = 'PodDeletionRequested' AND h.at < p.ended_at)))"""
    return f"""CASE WHEN {g}.state NOT IN ({_OVER}) THEN ''
            WHEN {g}.reason = 'Succeeded' THEN 'Succeeded'
            WHEN {last} = 'Preempted' THEN 'Preempted'
            WHEN {last} NOT IN ('', 'Finished', 'Gone') THEN 'Evicted'
            WHEN {failed} THEN 'Failed' ELSE 'Deleted' END"""
