"""Workloads as the API server last showed them to us: a look saved before the next write.

Theory. A Workload is written from a read and guarded by the version that was read, whatever its
age: a copy that is out of date costs a conflict, never another writer's update. Where gatelog alone
writes a Workload, the answer to one write is what the next one needs to read. Where others write it
too, copies are out of date more often than not, and `Guess` stops the attempts. That something *is
so already* is never concluded from a copy, only from a read.

Invariant: at most `MAX_BYTES` are kept, the least recently used go first; a failed write and a
deletion leave no copy behind.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

from actuator.replies import Reply
from podgroup.model.commands import ObjectRef

MAX_BYTES: Final = 16 * 1024 * 1024
COPY_BYTES: Final = 1024
"""Bytes of a copy beside its body: the reply, its texts, its place in the order."""
LARGEST_BYTES: Final = 256 * 1024
"""Bytes of a body at most: a Workload with a thousand owners has some 150,000."""


class Guess:
    """Whether a write that was not preceded by a look is worth trying, from how the last ones went.

    A miss costs one request more, a hit saves one; so the guess is made while at least about half
    of the recent ones hit, and every 32nd time otherwise, to notice when that changes.
    """

    def __init__(self) -> None:
        self._hits = 1.0
        self._passed = 0

    def worth_trying(self) -> bool:
        """Tell whether to try now."""
        self._passed = 0 if self._hits >= 0.5 else (self._passed + 1) % 32
        return self._passed == 0

    def learn(self, hit: bool) -> None:
        """Note how a try went."""
        self._hits += 0.1 * (hit - self._hits)


class Look(NamedTuple):
    """What decides how a pod is patched without a look."""

    annotated: bool
    """It has annotations."""
    untrack: bool
    """Its managedFields are to be cleared, and may be."""


class Unread:
    """How pods that are patched without a look probably are, from those that were looked at.

    A JSON patch adds an annotation in one of two ways, which depends on whether there are any. One
    of these is for single pods, which mostly have none, and one for those of groups, which have at
    least the count of their group: a wrong guess costs a request that is refused and a look.
    """

    def __init__(self, likely: Look) -> None:
        self.guess = Guess()
        """How such patches have fared."""
        self.likely = likely
        """As the last pod that was looked at."""

    def looked(self, seen: Look, tried: Look | None) -> None:
        """Learn from a pod: how it is, and what was `tried` on it in vain.

        Many are tried at once, and what all of them got wrong in one way is one miss: those that
        come back when the guess was mended already say nothing of it.
        """
        if tried is not None and tried in (seen, self.likely):
            self.guess.learn(False)
        self.likely = seen


class WorkloadCache:
    """Copies by namespace and name."""

    def __init__(self) -> None:
        self._copies: OrderedDict[tuple[str, str], Reply] = OrderedDict()
        self._bytes = 0
        self.guess = Guess()
        """How writes made from copies have fared."""

    def note(self, ref: ObjectRef, reply: Reply, *, gone: bool = False) -> None:
        """Keep the object in `reply`, or drop the copy if the answer holds none or it is `gone`."""
        self.forget(ref)
        size = len(reply.body) + COPY_BYTES
        if gone or not reply.ok or not reply.uid or len(reply.body) > LARGEST_BYTES:
            return
        self._copies[ref.namespace, ref.name] = reply
        self._bytes += size
        while self._bytes > MAX_BYTES:
            _, oldest = self._copies.popitem(last=False)
            self._bytes -= len(oldest.body) + COPY_BYTES

    def forget(self, ref: ObjectRef) -> None:
        """Drop the copy of an object."""
        old = self._copies.pop((ref.namespace, ref.name), None)
        if old is not None:
            self._bytes -= len(old.body) + COPY_BYTES

    def recall(self, ref: ObjectRef) -> Reply | None:
        """Return the copy of an object if it is worth a try; it must be the life `ref` names."""
        found = self._copies.get((ref.namespace, ref.name))
        if found is None or (ref.uid and found.uid != ref.uid) or not self.guess.worth_trying():
            return None
        self._copies.move_to_end((ref.namespace, ref.name))
        return found
