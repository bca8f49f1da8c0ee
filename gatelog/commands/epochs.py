"""`gatelog epochs`: the beginnings of the log, and which settings were in force when.

Invariant: reads only.
"""

import sys
from typing import TYPE_CHECKING

from gatelog.shell import options
from gatelog.shell.errors import FAILED
from gatelog.terminal.printing import document

if TYPE_CHECKING:
    from gatelog.readmodel.inforce import EpochLine, InForce

EXAMPLES = """
gatelog epochs
gatelog epochs --json | jq '.[].in_force[].settings.mode'
"""


def epochs(
    answer: options.OutputOptions,
    where: options.ReadModelOptions,
) -> int | None:
    """The beginnings of the log (epochs) with what is missing between them, when the cluster went
    back to a backup, and which settings, versions and kinds listed first were in force since when.
    """
    from gatelog.readmodel import inforce
    from gatelog.terminal import lookup

    output = answer.form
    settings = where.settings(search=True)
    lookup.say_where(settings, output)
    with lookup.open_model(settings) as model:
        lines = inforce.epochs(model)
        known = inforce.in_force(model)
        went_back = inforce.restores(model)
        pruned = model.pruned()
    if output is not None:
        found = [
            {
                "epoch": one,
                "in_force": [each for each in known if each.epoch == one.number],
                "restored": inforce.within(went_back, one, lines),
            }
            for one in lines
        ]
        sys.stdout.write(document(found, output))
        return None
    if not lines:
        sys.stderr.write(f"gatelog: no log of cluster {settings.cluster} was ever read\n")
        return FAILED
    for line in lines:
        _show(line, known)
        for each in inforce.within(went_back, line, lines):
            at = f"{each.at:%Y-%m-%d %H:%M:%S} UTC"
            _say(f"  cluster restored {at}, seq {each.seq}: {each.message}")
    if pruned is not None:
        _say(f"history before {pruned:%Y-%m-%d %H:%M:%S} UTC was pruned")
    return None


def _say(text: str) -> None:
    """Print a line, folded where the terminal is narrow."""
    from gatelog.terminal import console

    console.console().print(text, markup=False, highlight=False)


def _show(line: "EpochLine", known: "list[InForce]") -> None:
    at = f"{line.at:%Y-%m-%d %H:%M:%S} UTC" if line.at is not None else "at an unknown time"
    _say(f"epoch {line.number}  {at}  {line.reason}")
    if line.lost_from is not None:
        _say(f"  may be missing: positions {line.lost_from} to {line.lost_to}")
    mine = [one for one in known if one.epoch == line.number]
    if not mine:
        _say("  settings: the log does not say, or history was pruned")
    for number, one in enumerate(mine):
        since = f"{one.at:%Y-%m-%d %H:%M:%S} UTC, seq {one.seq}" if one.at else "before history"
        if one.was:
            _say(f"  since {since}: {one.changes()}")
        elif one.seq and one is not known[0]:
            _say(f"  since {since}: as before")
        else:
            _say(f"  since {since}:")
        if number == 0 and not one.was and one is known[0]:
            for name, value in one.settings.items():
                _say(f"    {name:<42} {value}")
