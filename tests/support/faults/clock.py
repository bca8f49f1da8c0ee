"""`python -m tests.support.faults.clock FILE COMMAND...`: gatelog, on a machine whose clock is set.

Theory. Only root may set a clock, and it is everybody's. This launcher runs the whole program with
a wall clock (`time.time`, `datetime.now`) that is as many seconds off as FILE says, looked at ten
times a second; as on a real machine the monotonic clock, which sleeps and timeouts go by, is not
touched by that. What gatelog runs is gatelog itself: nothing of it is replaced.

Invariant: without FILE, or while it says 0, the clock is the machine's.
"""

import sys
import threading
import time
from pathlib import Path

import time_machine

from gatelog.cli import main

LOOK_S = 0.1


def set_by(file: Path, command: str) -> list[str]:
    """The command line of a gatelog command whose clock `file` sets."""
    return [sys.executable, "-m", __name__, str(file), command]


def follow(file: Path) -> None:
    """Set the clock to what the file says, for as long as the process lives."""
    clock = time_machine.travel(time.time()).start()
    real = time_machine.escape_hatch.time
    off_s = 0.0

    def look() -> None:
        nonlocal off_s
        while True:
            wanted_s = asked(file)
            if wanted_s != off_s:
                off_s = wanted_s
                clock.move_to(real.time() + off_s)
            time.sleep(LOOK_S)

    off_s = asked(file)
    clock.move_to(real.time() + off_s)
    threading.Thread(target=look, daemon=True).start()


def asked(file: Path) -> float:
    """Return how many seconds the clock is to be off."""
    try:
        return float(file.read_text(encoding="ascii") or 0)
    except FileNotFoundError:
        return 0.0


if __name__ == "__main__":
    follow(Path(sys.argv.pop(1)))
    main()
