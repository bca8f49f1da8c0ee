"""`python -m tests.oracle.better FILE…`: play cases as gatelog decides.

Checks what must always hold, and counts how many cases end otherwise than in Kueue. Exit status 1
if something does not hold.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.oracle.case import CaseError, read
from tests.oracle.compare import decided
from tests.oracle.invariants import CheckedPlay


def main(words: Sequence[str] | None = None) -> int:
    """Play what is asked for; `words` are the command line without its first word."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.better", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each Nth case")
    arguments = parser.parse_args(words)
    cases = broken = settled = same = 0
    try:
        for path in arguments.files:
            for number, recorded in enumerate(read(path)):
                if number % arguments.every:
                    continue
                cases += 1
                play = CheckedPlay(recorded.case)
                outcome = play.run()
                broken += bool(play.broken)
                for sentence in play.broken:
                    sys.stdout.write(f"{recorded.id} {sentence}\n")
                settled += outcome["quiescent"] and not recorded.outcome["quiescent"]
                same += decided(outcome) == decided(recorded.outcome)
    except CaseError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(
        f"{cases} cases: {same} end as in Kueue, {cases - same} do not; {settled} that never "
        f"settle in Kueue do; {broken} break what must hold\n"
    )
    return 1 if broken or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
