"""`python -m tests.oracle FILE…`: play cases as Kueue decides, and hold them against what it did.

Prints what differs, and per field how many cases agree and how many differ. Exit status 1 if any
differs, 2 if a file cannot be read. Cases of quota and cases of places have a table each.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.oracle.case import CaseError, Recorded, read
from tests.oracle.compare import FIELDS, differences
from tests.oracle.places import (
    PLACE_FIELDS,
    RecordedPlace,
    about_places,
    place_differences,
    read_places,
)
from tests.oracle.play import Play

SHOWN = 20


def main(words: Sequence[str] | None = None) -> int:
    """Play what is asked for; `words` are the command line without its first word."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--only", metavar="ID", help="one case, with all its differences in full")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each Nth case")
    arguments = parser.parse_args(words)
    whole = arguments.only is not None
    quota, places = Tally(FIELDS), Tally(PLACE_FIELDS)
    try:
        for path in arguments.files:
            about = about_places(path)
            lines: Iterable[Recorded | RecordedPlace] = read_places(path) if about else read(path)
            for number, one in enumerate(lines):
                if number % arguments.every or arguments.only not in (None, one.id):
                    continue
                tally = places if about else quota
                tally.add(_play(one, tally.failed < SHOWN, whole))
    except CaseError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for tally in (quota, places):
        tally.write()
    return 1 if quota.failed or places.failed or not (quota.cases or places.cases) else 0


class Tally:
    """How many cases agree and differ, and in which fields."""

    def __init__(self, fields: Sequence[str]) -> None:
        self.fields = fields
        self.cases = self.failed = 0
        self.differ: Counter[str] = Counter()

    def add(self, fields: set[str]) -> None:
        """Count a case that differs in these fields."""
        self.cases += 1
        self.failed += bool(fields)
        self.differ.update(fields)

    def write(self) -> None:
        """Print the table, if there is anything in it."""
        if self.cases:
            sys.stdout.write(f"{'field':<28}{'agree':>8}{'differ':>8}\n")
            for name in self.fields:
                number = self.differ[name]
                sys.stdout.write(f"{name:<28}{self.cases - number:>8}{number:>8}\n")
            agree = self.cases - self.failed
            sys.stdout.write(f"{self.cases} cases: {agree} agree, {self.failed} differ\n")


def _play(recorded: Recorded | RecordedPlace, show: bool, everything: bool) -> set[str]:
    """Play a case; return the fields that differ."""
    fields = set()
    try:
        if isinstance(recorded, RecordedPlace):
            found = list(place_differences(recorded.played(), recorded.outcome))
        else:
            found = list(differences(Play(recorded.case, as_kueue=True).run(), recorded.outcome))
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
