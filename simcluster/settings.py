"""Settings of the stand-in cluster that a test can choose, with defaults.

Theory: everything that differs between two clusters a controller may meet (does the server know
WatchList, how long is history kept, are Kueue's kinds installed, how large are the nodes) is a
value here, so that a test sets values and never reaches into the server.

Invariant: settings never change after ``SimCluster.start``.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Literal, Protocol

import msgspec

from simcluster.access import User
from simcluster.scripts import ScriptSource
from simcluster.store import Store
from simcluster.writes import Writes


class WatchListMode(StrEnum):
    """How the server treats ``sendInitialEvents=true`` (KEP-3157)."""

    ON = "on"
    FORBIDDEN = "forbidden"  # the feature gate is off: 422, as 1.32 to 1.33 answer
    IGNORED = "ignored"  # a server older than the parameter


class Controller(Protocol):
    """A controller of a test's own, which follows the store."""

    def stop(self) -> None:
        """Follow it no more."""


MakeController = Callable[[Store, Writes], Controller]


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One node. Quantities as Kubernetes writes them; ``None`` means no limit at all."""

    name: str
    labels: dict[str, str] = {}
    taints: tuple[dict[str, str], ...] = ()
    cpu: str | None = None
    memory: str | None = None
    pods: int | None = None
    resources: dict[str, str] = {}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one stand-in cluster. Durations in seconds, counts in items."""

    host: str = "127.0.0.1"
    port: int = 0
    token: str = "sim-token"
    users: dict[str, User] = {}  # by token; their rights are in the stored roles
    kueue_kinds: bool = True
    kueue_versions: tuple[str, ...] = ("v1beta2",)
    controllers: tuple[MakeController, ...] = ()
    nodes: tuple[NodeSettings, ...] = (NodeSettings(name="node-a", labels={"pool": "a"}),)
    scheduler: bool = True
    scheduler_delay_s: float = 0.0
    scheduler_events: bool = False
    garbage_collector: bool = True
    kubelet: Literal["off", "scripted"] = "off"
    kubelet_default_script: str = "run=forever"
    kubelet_script: ScriptSource | None = None
    kubelet_start_s: float = 0.01
    kubelet_termination_s: float = 0.05
    watch_list: WatchListMode = WatchListMode.ON
    bookmark_interval_s: float = 60.0
    bookmark_before_timeout_s: float = 2.0
    watch_timeout_s: float = 3600.0
    watch_buffer: int = 100_000
    history: int = 10_000
    snapshots: int = 16
    future_version_wait_s: float = 3.0
    webhook_services: dict[str, str] = {}
    event_ttl_s: float = 3600.0
    seed: int = 0
    max_body_bytes: int = 3 * 1024 * 1024
    max_object_bytes: int = 1536 * 1024
    """Bytes of the largest object that etcd stores (--max-request-bytes)."""
