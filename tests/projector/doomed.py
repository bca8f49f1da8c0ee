"""`python -m tests.projector.doomed URL CLUSTER NATS WINDOW MOMENT`: a projector to be killed.

`NATS` is JSON of the settings, `WINDOW` how many decisions may be open (0: the default). At a
MOMENT (before, within or after its first commit of decisions) it kills itself; `never`: it waits
to be killed.
"""

import asyncio
import os
import signal
import sys
from typing import Any

import msgspec

from projector.live.projection import Projection
from projector.storage.store import SqlStore
from runtime.jetstream import connect
from runtime.settings import NatsSettings
from tests.projector.running import settings_for


class Doomed(SqlStore):
    """A store whose process is killed around a commit."""

    moment = "never"

    def commit(self, rows: Any, new: Any, old: Any, *, again: bool = False) -> Any:
        if "decisions" not in rows.tables or self.moment not in ("before", "after"):
            return super().commit(rows, new, old, again=again)
        if self.moment == "after":
            super().commit(rows, new, old, again=again)
        os.kill(os.getpid(), signal.SIGKILL)
        return new

    def _write(self, connection: Any, rows: Any, new: Any, old: Any) -> Any:
        done = super()._write(connection, rows, new, old)
        if self.moment == "within" and "decisions" in rows.tables:
            os.kill(os.getpid(), signal.SIGKILL)
        return done


async def main(url: str, cluster: str, nats: str, window: str, moment: str) -> None:
    bus = await connect(msgspec.json.decode(nats, type=NatsSettings), "child", deadline_s=20)
    store = Doomed(url, cluster)
    store.moment = moment
    more = {"open_decisions": int(window)} if int(window) else {}
    await Projection(settings_for(url, cluster, **more), bus, store, asyncio.Event()).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
