"""How many watches and streams may be open at once: of all users, of each, and of each group.

Theory. One user who opens all there is room for must not keep others out. So no user gets more than
the setting `serve.streams_per_user`, nor more than is then still left for others: a user who has
none is served as long as fewer users than there is room for have any. Whoever may change a
namespace makes ServiceAccounts in it for nothing, so those of one namespace count as one user. And
no group of users gets more than is left for those outside of it; groups of Kubernetes' own
(`system:`), which all users are in, do not count.

Invariant: at most `most` are open; work per stream in the number of its user's groups, of which
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
    """Counts what is open of `what` (a plural), `most` in all, `per_user` of each user."""

    def __init__(self, what: str, most: int, per_user: int) -> None:
        self._what = what
        self._most = most
        self._per_user = per_user
        self._open: Counter[str] = Counter()
        self._total = 0

    @contextmanager
    def opened(self, user: str, groups: Sequence[str] = ()) -> Iterator[None]:
        """Count one of a user, who is in these groups, as long as the context lasts.

        Raises:
            UserAtLimit: it would be one too many of this user, or of a group of theirs.
            NoRoom: it would be one too many.
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
    """Return who counts as one: a user, or all ServiceAccounts of a namespace."""
    if not user.startswith(_SERVICE_ACCOUNT):
        return f"user {user!r}"
    namespace = user.removeprefix(_SERVICE_ACCOUNT).partition(":")[0]
    return f"namespace {namespace!r} (its ServiceAccounts together)"


def _counted(groups: Sequence[str]) -> list[str]:
    return sorted({name for name in groups if not name.startswith(_SYSTEM)})[:MOST_GROUPS]
