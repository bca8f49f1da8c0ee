"""`python -m tests.oracle.better FILE…`: play cases by the better ways, which are the default.

Checks what must always hold, and counts which ways make the outcome another than Kueue's. Exit
status 1 if something does not hold or a difference is of no kind that docs/differences.md has.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.oracle.case import CaseError, read
from tests.oracle.invariants import CheckedPlay
from tests.oracle.kinds import decided, kinds, rows


def main(words: Sequence[str] | None = None) -> int:
    """Play what is asked for; `words` are the command line without its first word."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.better", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each Nth case")
    arguments = parser.parse_args(words)
    known = rows()
    found: Counter[str] = Counter()
    cases = broken = settled = same = unknown = 0
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
                if decided(outcome) == decided(recorded.outcome):
                    same += 1
                    continue
                why = list(kinds(recorded.case, recorded.outcome))
                found.update(why)
                if not why or any(way not in known for way in why):
                    unknown += 1
                    sys.stdout.write(f"{recorded.id} differs for an unknown reason: {why}\n")
    except CaseError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for way, count in found.most_common():
        sys.stdout.write(f"{known.get(way, '?'):<5}{way:<22}{count:>6} cases\n")
    sys.stdout.write(
        f"{cases} cases: {same} end as in Kueue, {cases - same} do not; {settled} that never "
        f"settle in Kueue do; {broken} break what must hold, {unknown} differ for no known reason\n"
    )
    return 1 if broken or unknown or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
