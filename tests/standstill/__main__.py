"""`python -m tests.standstill`: the whole table, and what said so after how many seconds.

    python -m tests.standstill                      all faults, on the stand-in
    python -m tests.standstill "NATS gone"          one of them
    GATELOG_TEST_KUBECONFIG=... python -m tests.standstill      on a real control plane

Prints a line a fault: seconds until /readyz, doctor, why, a metric and exactly the right alert said
so, and from its end until every replica was ready and a new pod past its gate. `-`: not to be had,
`!`: not within a minute, with what was said instead. bench/standstill.jsonl keeps it, and
`python -m tests.standstill.reference` puts it into bench/standstill.md.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from shutil import rmtree

from msgspec.structs import replace

from tests.standstill.faults import FAULTS, ON_A_REAL_SERVER
from tests.standstill.playing import CHANNELS, Said, play
from tests.standstill.reference import REAL, STAND_IN, note
from tests.standstill.stack import running
from tests.support import realcluster

PACE_S = 4.0


async def main(names: list[str]) -> int:
    real = realcluster.kubeconfig() is not None
    chosen = [f for f in FAULTS if (not names or f.name in names) and not (real and f.standin)]
    if real:
        chosen = [replace(f, **ON_A_REAL_SERVER.get(f.name, {})) for f in chosen]
    folder = Path(tempfile.mkdtemp(prefix="gatelog-standstill-"))
    failed = 0
    print(f"{'fault':40}" + "".join(f"{name:>9}" for name in CHANNELS), flush=True)
    try:
        async with running(folder, PACE_S) as stack:
            firing: dict[str, int] = {}
            for _ in range(6):
                firing = await stack.scrape()
            print(f"in health: alerts {firing or 'none'}", flush=True)
            for fault in chosen:
                found = await play(stack, fault)
                note(REAL if real else STAND_IN, fault.name, found)
                print(f"{fault.name:40}" + "".join(f"{_cell(found[c]):>9}" for c in CHANNELS))
                for name in CHANNELS:
                    if found[name].wanted and name != "healed":
                        print(f"    {name}: {found[name].text[:300]}")
                    failed += found[name].wanted and found[name].at_s is None
                if found["healed"].at_s is None:
                    print(f"    healed: {found['healed'].text[-1500:]}")
                sys.stdout.flush()
    finally:
        rmtree(folder, ignore_errors=True)
    return failed


def _cell(said: Said) -> str:
    if not said.wanted:
        return "-"
    return "!" if said.at_s is None else f"{said.at_s:.0f} s"


if __name__ == "__main__":
    sys.exit(1 if asyncio.run(main(sys.argv[1:])) else 0)
