"""Workloads from the API server's last answers: they save the read before the next write.

Theory. A Workload is written from a read and guarded by the version that was read, whatever its
age: a copy that is out of date costs a conflict, never another writer's update. Where gatelog alone
writes a Workload, the answer to a write is what the next write would read. Where others write the
Workload too, copies are out of date more often than not, and `Guess` stops the attempts. That
nothing needs to change is concluded from a read only, never from a copy.

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
    """Whether a write without a read first is worth trying, from the last results.

    A miss costs a request more, a hit saves a request; so the write is tried while at least about
    half of the recent tries hit, and every 32nd time otherwise, to notice when that changes.
    """

    def __init__(self) -> None:
        self._hits = 1.0
        self._passed = 0

    def worth_trying(self) -> bool:
        """Return whether to try now."""
        self._passed = 0 if self._hits >= 0.5 else (self._passed + 1) % 32
        return self._passed == 0

    def learn(self, hit: bool) -> None:
        """Note how a try went."""
        self._hits += 0.1 * (hit - self._hits)


class Look(NamedTuple):
    """The facts about a pod that a patch without a read depends on."""

    annotated: bool
    """The pod has annotations."""
    untrack: bool
    """The pod's managedFields are to be cleared, and may be."""


class Unread:
    """A guess about pods that are patched without a read, from the pods that were read.

    A JSON patch adds an annotation in one of two ways, which depend on whether the pod has any
    annotation. Single pods mostly have none; pods of groups have at least the count of their group,
    so each kind has its own guess. A wrong guess costs a refused request and a read.
    """

    def __init__(self, likely: Look) -> None:
        self.guess = Guess()
        """Whether such patches are worth a try."""
        self.likely = likely
        """The last pod that was read."""

    def looked(self, seen: Look, tried: Look | None) -> None:
        """Learn from a pod that was read, and from the guess that was `tried` on it in vain.

        Many pods are tried at once, and a guess that was wrong for all of them is one miss: pods
        that come back when the guess is mended already do not count.
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
        """Whether writes made from copies are worth a try."""

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
        """Return the copy of an object if it is worth a try; its uid must be that of `ref`."""
        found = self._copies.get((ref.namespace, ref.name))
        if found is None or (ref.uid and found.uid != ref.uid) or not self.guess.worth_trying():
            return None
        self._copies.move_to_end((ref.namespace, ref.name))
        return found
