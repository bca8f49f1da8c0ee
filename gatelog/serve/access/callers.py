"""Callers, and the deeds that they ask for.

Invariant: values only, hashable, so that an answer about them can be kept.
"""

from msgspec import Struct


class Caller(Struct, frozen=True, kw_only=True):
    """A user as the API server describes users. `extra` is sorted by key."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Deed(Struct, frozen=True, kw_only=True):
    """A verb on a resource of a group; empty `namespace`: in all of them, or cluster-scoped."""

    verb: str
    group: str
    version: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def words(self) -> str:
        """As the API server words a refusal: `cannot list resource "x" in API group "y" ...`."""
        what = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        where = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        return f'cannot {self.verb} resource "{what}" in API group "{self.group}" {where}'


class NotKnown(Exception):
    """The caller is unknown; the message says what is missing."""


class NotAllowed(Exception):
    """The caller lacks the right to see the object."""


class CannotTell(Exception):
    """The API server, which knows, does not answer."""
