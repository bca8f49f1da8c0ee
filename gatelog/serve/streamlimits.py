"""How many watches and streams may be open at once: of all users, and of each.

Theory. One user who opens all there is room for must not keep others out. So no user gets more than
the setting `serve.streams_per_user`, nor more than is then still left for others: a user who has
none is served as long as fewer users than there is room for have any.

Invariant: at most `most` are open; constant work per stream.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


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
    def opened(self, user: str) -> Iterator[None]:
        """Count one of a user as long as the context lasts.

        Raises:
            UserAtLimit: it would be one too many of this user.
            NoRoom: it would be one too many.
        """
        free, own = self._most - self._total, self._open[user]
        if own and own >= min(self._per_user, free):
            raise UserAtLimit(
                f"user {user!r} has {own} {self._what} open, at most {min(self._per_user, free)} "
                "are allowed now: close some, or ask the operator for more "
                "(serve.streams_per_user, or a further replica)"
            )
        if not free:
            raise NoRoom(f"{self._most} {self._what} are open already: try again later")
        self._open[user] += 1
        self._total += 1
        try:
            yield
        finally:
            self._total -= 1
            self._open[user] -= 1
            if not self._open[user]:
                del self._open[user]
