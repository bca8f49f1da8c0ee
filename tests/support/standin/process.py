"""The stand-in cluster as a process: ``python -m tests.support.standin``.

Tests that kill things want a cluster that they can start from a shell. One line of JSON on standard
output says where it listens; SIGTERM and SIGINT end it.

Invariant: nothing is printed before the address answers.
"""

import argparse
import asyncio
import gc
import json
import signal
import sys

import msgspec

from runtime import eventloop
from simcluster.settings import MakeController, NodeSettings, Settings, WatchListMode
from tests.support.standin import SimCluster


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="simcluster", description="A stand-in Kubernetes cluster."
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--token", default="sim-token")
    parser.add_argument("--kubeconfig", help="write a kubeconfig here")
    parser.add_argument("--kubelet", choices=("scripted", "off"), default="off")
    parser.add_argument("--script", default="run=forever", help="script of pods without one")
    parser.add_argument(
        "--nodes",
        default="",
        help='JSON list of nodes, as [{"name": "n", "labels": {"pool": "a"}, "cpu": "64", '
        '"memory": "256Gi", "pods": 110}]; or a number of unlimited nodes',
    )
    parser.add_argument("--no-kueue", action="store_true", help="without Kueue's kinds")
    parser.add_argument("--kueue-versions", default="v1beta2", help="comma separated, stored first")
    parser.add_argument("--history", type=int, default=10_000, help="watch history per kind")
    parser.add_argument("--bookmark-interval", type=float, default=60.0, help="seconds")
    parser.add_argument("--event-ttl", type=float, default=3600.0, help="seconds Events are kept")
    parser.add_argument("--watch-list", choices=list(WatchListMode), default=WatchListMode.ON)
    parser.add_argument("--seed", type=int, default=0)
    return parser


def _nodes(text: str) -> tuple[NodeSettings, ...]:
    if not text:
        return Settings().nodes
    if text.isdigit():
        return tuple(NodeSettings(name=f"node-{i}", labels={"pool": "a"}) for i in range(int(text)))
    return msgspec.json.decode(text, type=tuple[NodeSettings, ...])


async def _serve(settings: Settings, kubeconfig: str | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    # Stored objects are trees without cycles: collecting less often avoids long pauses.
    gc.set_threshold(200_000, 20, 100)
    async with SimCluster(settings) as cluster:
        if kubeconfig:
            cluster.kubeconfig(kubeconfig)
        print(json.dumps({"url": cluster.url, "kubeconfig": kubeconfig}), flush=True)
        await stop.wait()


def main(*controllers: MakeController) -> int:
    """Run until asked to stop, with some `controllers` more.

    Exit code 2 for arguments that make no sense.
    """
    asked = _arguments().parse_args()
    try:
        settings = Settings(
            host=asked.host,
            port=asked.port,
            token=asked.token,
            kubelet=asked.kubelet,
            kubelet_default_script=asked.script,
            nodes=_nodes(asked.nodes),
            kueue_kinds=not asked.no_kueue,
            controllers=controllers,
            kueue_versions=tuple(asked.kueue_versions.split(",")),
            history=asked.history,
            bookmark_interval_s=asked.bookmark_interval,
            watch_list=WatchListMode(asked.watch_list),
            event_ttl_s=asked.event_ttl,
            seed=asked.seed,
        )
    except msgspec.DecodeError as error:
        print(f"--nodes: {error}", file=sys.stderr)
        return 2
    eventloop.run(_serve(settings, asked.kubeconfig))
    return 0
