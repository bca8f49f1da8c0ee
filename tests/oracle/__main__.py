"""`python -m tests.oracle FILE…`: play cases by Kueue's ways, and hold them against what it did.

Prints what differs, and per field how many cases agree and how many differ. Exit status 1 if any
differs, 2 if a file cannot be read.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from podgroup.admission import KUEUE
from tests.oracle.case import CaseError, Recorded, read
from tests.oracle.compare import FIELDS, differences
from tests.oracle.play import Play

SHOWN = 20


def main(words: Sequence[str] | None = None) -> int:
    """Play what is asked for; `words` are the command line without its first word."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--only", metavar="ID", help="one case, with all its differences in full")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each Nth case")
    arguments = parser.parse_args(words)
    differ: Counter[str] = Counter()
    cases = failed = 0
    try:
        for path in arguments.files:
            for number, recorded in enumerate(read(path)):
                if number % arguments.every or arguments.only not in (None, recorded.id):
                    continue
                cases += 1
                fields = _play(recorded, failed < SHOWN, arguments.only is not None)
                differ.update(fields)
                failed += bool(fields)
    except CaseError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{'field':<28}{'agree':>8}{'differ':>8}\n")
    for name in FIELDS:
        sys.stdout.write(f"{name:<28}{cases - differ[name]:>8}{differ[name]:>8}\n")
    sys.stdout.write(f"{cases} cases: {cases - failed} agree, {failed} differ\n")
    return 1 if failed or not cases else 0


def _play(recorded: Recorded, show: bool, everything: bool) -> set[str]:
    """Play a case; return the fields that differ."""
    fields = set()
    try:
        played = Play(recorded.case, KUEUE).run()
        found = list(differences(played, recorded.outcome))
    except (KeyError, ValueError) as error:
        raise CaseError(f"{recorded.id} cannot be played: {error!r}") from error
    for number, one in enumerate(found):
        fields.add(one.field)
        if everything or (show and not number):
            where = f"step {one.step}" if one.step else "end"
            limit = None if everything else 600
            sys.stdout.write(f"{recorded.id} {where} {one.field}\n")
            for who, value in (("here", one.played), ("kueue", one.recorded)):
                written = json.dumps(value, default=str, ensure_ascii=False)
                sys.stdout.write(f"  {who:<6}{written[:limit]}\n")
    return fields


if __name__ == "__main__":
    sys.exit(main())
