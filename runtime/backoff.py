"""How long to wait before trying again.

Waits grow by a factor up to a ceiling, and each is drawn at random between half of the grown wait
and all of it, so that many clients that lost the same server do not return in one instant.

Invariant: a wait is never zero and never above the ceiling; `reset` starts over after a success.
"""

import random
from collections.abc import Iterator


class Backoff(Iterator[float]):
    """An endless iterator of waits in seconds.

    The n-th wait (from 0) lies in `[w * (1 - jitter), w]` with `w = min(first_s * factor**n,
    ceiling_s)`.
    """

    def __init__(
        self,
        first_s: float = 0.2,
        factor: float = 2.0,
        ceiling_s: float = 30.0,
        jitter: float = 0.5,
        seed: int | None = None,
    ) -> None:
        if not 0 < first_s <= ceiling_s or factor < 1 or not 0 <= jitter < 1:
            raise ValueError(
                f"backoff: need 0 < first_s <= ceiling_s, factor >= 1, 0 <= jitter < 1; "
                f"got first_s={first_s}, ceiling_s={ceiling_s}, factor={factor}, jitter={jitter}"
            )
        self._first_s = first_s
        self._factor = factor
        self._ceiling_s = ceiling_s
        self._jitter = jitter
        self._random = random.Random(seed)
        self._next_s = first_s
        self.attempts = 0

    def __next__(self) -> float:
        """Return the next wait and count it in `attempts`."""
        self.attempts += 1
        wait_s = self._next_s
        self._next_s = min(wait_s * self._factor, self._ceiling_s)
        return wait_s * (1 - self._jitter * self._random.random())

    def reset(self) -> None:
        """Start over after a success."""
        self._next_s = self._first_s
        self.attempts = 0
