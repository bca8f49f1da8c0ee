"""Completion of names that are in the read model: groups, namespaces, queues, questions.

Theory. A shell asks at each press of a key, so the read model is that of the typed line (`--db`,
`--state-dir`) or the nearest, and every query is short.

Invariant: no message and no error: without completions the list is empty.
"""

from collections.abc import Callable, Iterator
from typing import Any

_MOST = 200
_GROUPS = """
SELECT namespace || '/' || name AS word FROM groups
 WHERE cluster = :cluster AND namespace || '/' || name LIKE :like
 GROUP BY namespace, name ORDER BY max(created_seq) DESC LIMIT :limit
"""
_NAMESPACES = """
SELECT DISTINCT namespace AS word FROM groups
 WHERE cluster = :cluster AND namespace LIKE :like ORDER BY word LIMIT :limit
"""
_QUEUES = """
SELECT DISTINCT name AS word FROM objects
 WHERE cluster = :cluster AND kind IN ('ClusterQueue', 'LocalQueue') AND name LIKE :like
 ORDER BY word LIMIT :limit
"""


def _words(query: str) -> Callable[[Any, str], list[str]]:
    def complete(ctx: Any, incomplete: str) -> list[str]:
        try:
            return list(_asked(query, ctx.params, incomplete))
        except Exception:  # a shell shows any output amid the line that is typed
            return []

    return complete


def _asked(query: str, given: dict[str, Any], incomplete: str) -> Iterator[str]:
    from gatelog.readmodel.model import ReadModel
    from gatelog.shell.options import ReadModelOptions
    from projector.storage.urls import database_url

    names = ("config", "state_dir", "db", "assign", "cluster")
    settings = ReadModelOptions(**{name: given.get(name) for name in names}).settings(search=True)
    with ReadModel(database_url(settings), settings.cluster, statement_timeout_s=1.0) as model:
        like = incomplete.replace("%", "").replace("_", "") + "%"
        for row in model.dicts(query, {"like": like, "limit": _MOST}):
            if str(row["word"]).startswith(incomplete):
                yield str(row["word"])


groups, namespaces, queues = _words(_GROUPS), _words(_NAMESPACES), _words(_QUEUES)


def questions(incomplete: str) -> list[str]:
    """Return names of questions."""
    from gatelog.readmodel.questions import questions as known

    return [name for name in known() if name.startswith(incomplete)]
