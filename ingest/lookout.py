"""Detects a restored cluster: whether the API server still has the history that the log follows.

Theory. A watch from a version that the API server has not reached is accepted and stays silent
until it does: no 410, no bookmark. So a cluster whose etcd was restored from a backup looks like a
quiet one (kubernetes#107457). Four signs show it, each an answer of the API server, at each
connection and between:

    another cluster   namespace kube-system has another uid
    rewound           a list that the quorum answers (`resourceVersion` unset: no cache) is at a
                      lower version than was seen. A lagging API server cannot say that.
    outgrown          the history has grown past what was seen, and did not have the object that
                      was seen last at its version (a list at exactly that version shows it)
    bumped            the version is further ahead than any etcd writes (`--bump-revision`)

A version is compared with a list of the same kind: API servers may keep kinds in several etcds,
whose versions have nothing to do with each other.

Invariant: conclusions need an answer, and no watch is opened before an answer.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from ingest.kinds import CLUSTER_SCOPED, Watched
from ingest.resume import Resume, Witness, witnessed
from ingest.translate.items import read_page, read_status
from podgroup.log.events import ClusterRestored, Event
from podgroup.model.ids import newer
from podgroup.model.objects import Kind
from runtime.kube_answer import HttpAnswer
from runtime.kube_errors import KubeError
from runtime.log import get_logger

IDENTITY: Final = "/api/v1/namespaces/kube-system"
"""A namespace that every cluster has and nothing can delete: its uid identifies the cluster."""
LOOK_S: Final = 20.0
"""Seconds between two looks."""
AGAIN_S: Final = 1.0
"""Seconds to the next look after a missing answer: a restored API server has just come back."""
PATIENCE_S: Final = 5.0
"""Seconds to wait for an answer: an API server keeps its clients waiting while its etcd is away."""
MOST_WRITES: Final = 20_000
"""Writes a second beyond what any etcd sustains under an API server."""
LEAST_JUMP: Final = 1_000_000
"""Versions ahead from which on their pace is looked at."""
LATE_S: Final = 180.0
"""Seconds by which a seen version may be older than it looks: bookmarks come each minute."""
_PASSING: Final = (429, 500, 502, 503, 504)

log = get_logger("ingest")


class LookApi(Protocol):
    """The part of a client of the API server that looks need, such as `runtime.kube.KubeClient`."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        timeout_s: float = PATIENCE_S,
    ) -> HttpAnswer:
        """Ask and read the whole answer; `KubeError` if there is none."""


class Restored(Exception):
    """The API server tells another history than the log; `event` says so in the log."""

    def __init__(self, event: ClusterRestored) -> None:
        super().__init__(f"the cluster was restored: {event.reason}")
        self.event = event


class Unanswered(Exception):
    """The API server gave no usable answer; the text quotes it."""


class _Meta(Struct, frozen=True, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class _Object(Struct, frozen=True):
    metadata: _Meta = _Meta()


_object: msgspec.json.Decoder[_Object] = msgspec.json.Decoder(_Object)


class Lookout:
    """Checks that the API server has the history of the log, from `begin` on.

    `begun` is set once that is known for the first time: watches wait for it. `identified` is
    called with the uid of the cluster.
    """

    def __init__(
        self,
        api: LookApi,
        specs: tuple[Watched, ...],
        begin: Resume,
        identified: Callable[[str], object],
    ) -> None:
        self.begun = asyncio.Event()
        self.problem = "it was not asked yet which cluster it is"
        """Why the history is not known, "" when it is."""
        self._api = api
        self._specs: dict[str, Watched] = {spec.kind: spec for spec in specs}
        self._uid = begin.cluster_uid
        self._seen = {kind: at for kind, at in begin.versions.items() if kind in self._specs}
        self._seen_s = dict.fromkeys(self._seen, time.monotonic() - begin.age_s)
        self._witness = begin.witness
        self._identified = identified
        self._unread = 0

    def saw(self, kind: Kind, events: tuple[Event, ...], position: str | None) -> None:
        """Note what a watcher hands on: versions only grow within a history."""
        witness = witnessed(events[-1]) if events else None
        known = self._witness.version if self._witness is not None else ""
        if witness is not None and newer(witness.version, known):
            self._witness = witness
        if position and newer(position, self._seen.get(kind, "")):
            self._seen[kind] = position
            self._seen_s[kind] = time.monotonic()

    async def run(self) -> None:
        """Look until cancelled.

        Raises:
            Restored: the API server has another history.
        """
        while True:
            try:
                await self._identify()
                if self._seen:
                    await self._compare(max(self._seen, key=lambda kind: int(self._seen[kind])))
                await self._confirm()
            except (KubeError, Unanswered) as error:
                self.problem = str(error)
                await asyncio.sleep(AGAIN_S)
                continue
            self.problem = ""
            self.begun.set()
            await asyncio.sleep(LOOK_S)

    async def vouch(self, spec: Watched) -> None:
        """Look before a connection for a kind.

        However the last connection ended: an orderly stop of an API server ends watches in order
        too.

        Raises:
            Restored: the API server has another history.
            KubeError, Unanswered: nothing is known, so do not watch.
        """
        await self._identify()
        if spec.kind in self._seen:
            await self._compare(spec.kind)
        await self._confirm()

    async def _ask(self, path: str, params: Mapping[str, str] | None = None) -> HttpAnswer:
        """Return an answer that is the API server's last word for now."""
        answer = await self._api.request("GET", path, params=params, timeout_s=PATIENCE_S)
        if answer.status in _PASSING and not _too_large(answer):
            raise Unanswered(f"GET {path}: {answer.status} {read_status(answer.body).message}")
        return answer

    async def _identify(self) -> None:
        answer = await self._ask(IDENTITY)
        if answer.status != 200:
            if answer.status != self._unread:
                log.warning("cluster_not_identified", path=IDENTITY, status=answer.status)
            self._unread = answer.status  # the versions still show a restore
            return
        uid = ""
        with suppress(msgspec.MsgspecError):
            uid = _object.decode(answer.body).metadata.uid
        if uid and self._uid and uid != self._uid:
            was = self._uid
            reason = f"it is another cluster: namespace kube-system has uid {uid}, and had {was}"
            raise self._restored(reason, cluster_uid=uid)
        if uid:
            self._uid = uid
            self._identified(uid)

    async def _compare(self, kind: str) -> None:
        """Compare the last seen version of a kind with a list of one object from the quorum."""
        known, since_s = self._seen[kind], self._seen_s[kind]
        for path in self._specs[kind].paths:
            answer = await self._ask(path, {"limit": "1"})
            if answer.status == 404:
                continue
            version = ""
            if answer.status == 200:
                with suppress(msgspec.MsgspecError):
                    version = read_page(answer.body).version
            if not version.isdigit():
                return  # the watch will get an error
            ahead = int(version) - int(known)
            pace = MOST_WRITES * (time.monotonic() - since_s + LATE_S)
            if ahead < 0:
                reason = (
                    f"etcd was put back to before version {known} that was seen of {kind}: the "
                    f"quorum is at {version}"
                )
            elif ahead > max(LEAST_JUMP, pace):
                reason = (
                    f"etcd was put back with a bumped revision: the quorum is at {version}, "
                    f"{ahead} versions after the newest that was seen of {kind}"
                )
            else:
                return
            raise self._restored(reason, kind=kind, resource_version=version, was_version=known)

    async def _confirm(self) -> None:
        """Check that the object seen last is in the history at its version."""
        seen = self._witness
        if seen is None:
            return
        spec = self._specs.get(seen.kind)
        params = {
            "fieldSelector": f"metadata.name={seen.name}",
            "resourceVersion": seen.version,
            "resourceVersionMatch": "Exact",
        }
        for path in spec.paths if spec is not None else ():
            answer = await self._ask(_inside(path, seen), params)
            if answer.status == 404:
                continue
            if answer.status != 200 and not _too_large(answer):
                return  # too old to be asked about
            with suppress(msgspec.MsgspecError):
                items = read_page(answer.body).items if answer.status == 200 else ()
                found = [_object.decode(raw).metadata for raw in items]
                if any(m.uid == seen.uid and m.resource_version == seen.version for m in found):
                    return
                where = f"{seen.namespace}/{seen.name}" if seen.namespace else seen.name
                reason = (
                    f"etcd was put back to before version {seen.version}, at which {seen.kind} "
                    f"{where} was seen: it is not in the history of this cluster"
                )
                raise self._restored(reason, kind=seen.kind, was_version=seen.version)
            return

    def _restored(self, reason: str, *, cluster_uid: str = "", **seen: str) -> Restored:
        event = ClusterRestored(
            incarnation=secrets.token_hex(4),
            reason=reason,
            cluster_uid=cluster_uid or self._uid,
            was_uid=self._uid,
            **seen,
        )
        log.warning("cluster_restored", reason=reason, incarnation=event.incarnation)
        return Restored(event)


def _too_large(answer: HttpAnswer) -> bool:
    """Return whether an answer means that a version is still to come."""
    return answer.status == 504 and "Too large resource version" in read_status(answer.body).message


def _inside(path: str, seen: Witness) -> str:
    """Return the collection of the namespace of an object."""
    if seen.kind in CLUSTER_SCOPED or not seen.namespace:
        return path
    base, _, plural = path.rpartition("/")
    return f"{base}/namespaces/{seen.namespace}/{plural}"
