"""Endpoints only a stand-in has under ``/_sim/``: faults, statistics, webhook addresses, backups.

Theory: tests that run the cluster in another process need the same levers as those that hold the
object; each is one small JSON request.

Invariant: reading never changes anything; a body that cannot be read changes nothing and is 400.
"""

from collections import Counter
from collections.abc import Sized
from typing import Any

import msgspec

from simcluster.backups import Backup, restore
from simcluster.errors import ApiError, bad_request
from simcluster.store import Store
from tests.support.standin.faults import Faults

_encode = msgspec.json.Encoder().encode


class Backdoor:
    """Answers ``/_sim/`` requests."""

    def __init__(
        self,
        store: Store,
        faults: Faults,
        services: dict[str, str],
        stats: Counter[tuple[str, str, int]],
        streams: Sized,
    ) -> None:
        self.store = store
        self.faults = faults
        self.services = services
        self.stats = stats
        self.streams = streams
        self.backups: dict[str, Backup] = {}

    def handle(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """One request: (status, JSON)."""
        try:
            match method, path:
                case "POST", "/_sim/faults":
                    self.faults.command(body)
                    return 200, b"{}"
                case "GET", "/_sim/faults":
                    return 200, _encode(self.faults.rules)
                case "GET", "/_sim/stats":
                    return 200, _encode(self.statistics())
                case "POST", "/_sim/services":
                    self.services.update(_addresses(body))
                    return 200, _encode(self.services)
                case "POST", "/_sim/backup":
                    self.backups[_asked_backup(body).name] = Backup(self.store)
                    return 200, b"{}"
                case "POST", "/_sim/restore":
                    self.restore(_asked_backup(body))
                    return 200, b"{}"
                case _:
                    return 404, _encode({"message": f"{method} {path} is nothing here"})
        except ApiError as error:
            return error.code, _encode(error.body)

    def restore(self, asked: "AskedBackup") -> None:
        """Put etcd back, then be away for a while."""
        if asked.name not in self.backups:
            raise bad_request(f"there is no backup {asked.name!r}")
        restore(self.store, self.backups[asked.name], bump=asked.bump)
        if asked.away_s:
            self.faults.refuse(asked.away_s)

    def statistics(self) -> dict[str, Any]:
        """Counts by verb, resource and status; objects by resource; open watches."""
        requests = [
            {"verb": verb, "resource": resource, "status": status, "count": count}
            for (verb, resource, status), count in sorted(self.stats.items())
        ]
        objects = {
            ".".join(part for part in (plural, group) if part): table.count()
            for (group, plural), table in self.store.tables.items()
            if table.count()
        }
        return {
            "requests": requests,
            "objects": objects,
            "watches": len(self.streams),
            "resourceVersion": str(self.store.version),
        }


class AskedBackup(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /_sim/backup`` and ``/_sim/restore``."""

    name: str = ""
    bump: int = 0
    away_s: float = 0.0


def _asked_backup(body: bytes) -> AskedBackup:
    try:
        return msgspec.json.decode(body, type=AskedBackup)
    except msgspec.DecodeError as error:
        raise bad_request(f"backup: {error}") from None


def _addresses(body: bytes) -> dict[str, str]:
    try:
        return msgspec.json.decode(body, type=dict[str, str])
    except msgspec.DecodeError as error:
        raise bad_request(f"services: {error}") from None
