"""How many watches and streams may be open at once: of all users, of each, and of each group.

Theory. One user must not take all the room and keep others out. So a user gets at most
`serve.streams_per_user`, and at most as many as then stay free for others: a user without streams
is served as long as fewer users than there is room for have any. Editors of a namespace can create
ServiceAccounts at no cost, so all ServiceAccounts of a namespace count as one user. And a group of
users gets at most as many as stay free for users outside the group; Kubernetes' own groups
(`system:`), which contain all users, do not count.

Invariant: at most `most` streams are open; work per stream is linear in its user's groups, of which
`MOST_GROUPS` count.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

MOST_GROUPS: Final = 100
"""Groups of a user that are counted, the first in order."""
_SYSTEM: Final = "system:"
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"


class UserAtLimit(Exception):
    """The user has as many open as they may; the message says how many, and what to do."""


class NoRoom(Exception):
    """All that there is room for are open; the message says how many."""


class StreamLimiter:
    """Counts open `what` (a plural noun): at most `most` in all, `per_user` of each user."""

    def __init__(self, what: str, most: int, per_user: int) -> None:
        self._what = what
        self._most = most
        self._per_user = per_user
        self._open: Counter[str] = Counter()
        self._total = 0

    @contextmanager
    def opened(self, user: str, groups: Sequence[str] = ()) -> Iterator[None]:
        """Count a stream of a user in these groups as long as the context lasts.

        Raises:
            UserAtLimit: this user, or a group of theirs, has no stream left.
            NoRoom: all streams are taken.
        """
        one, free = _one(user), self._most - self._total
        keys = [one, *(f"group {name!r}" for name in _counted(groups))]
        self._admit(one, min(self._per_user, free))
        for group in keys[1:]:
            self._admit(group, free)
        if not free:
            raise NoRoom(f"{self._most} {self._what} are open already: try again later")
        self._open.update(keys)
        self._total += 1
        try:
            yield
        finally:
            self._total -= 1
            for key in keys:
                self._open[key] -= 1
                if not self._open[key]:
                    del self._open[key]

    def _admit(self, who: str, most: int) -> None:
        own = self._open[who]
        if own and own >= most:
            raise UserAtLimit(
                f"{who} has {own} {self._what} open, at most {most} are allowed now: close some, "
                "or ask the operator for more (serve.streams_per_user, or a further replica)"
            )


def _one(user: str) -> str:
    """Return what counts as one user: a user, or all ServiceAccounts of a namespace."""
    if not user.startswith(_SERVICE_ACCOUNT):
        return f"user {user!r}"
    namespace = user.removeprefix(_SERVICE_ACCOUNT).partition(":")[0]
    return f"namespace {namespace!r} (its ServiceAccounts together)"


def _counted(groups: Sequence[str]) -> list[str]:
    return sorted({name for name in groups if not name.startswith(_SYSTEM)})[:MOST_GROUPS]
