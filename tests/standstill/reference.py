"""The generated part of bench/standstill.md: the table of faults, and what was measured of each by
`python -m tests.standstill`.

    python -m tests.standstill.reference      writes it

A test compares.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.standstill.faults import FAULTS, Fault
from tests.standstill.playing import CHANNELS, Said

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "bench" / "standstill.md"
PLAYED = ROOT / "bench" / "standstill.jsonl"
"""A line a fault and API server: after how many seconds each channel said it; null: not in time."""
BEGIN, END = "<!-- begin standstill -->", "<!-- end standstill -->"
STAND_IN, REAL = "stand-in", "real"


def played(where: str) -> dict[str, Any]:
    """Return the lines of one kind of API server, by fault."""
    lines = map(json.loads, PLAYED.read_text().splitlines()) if PLAYED.exists() else ()
    return {one["fault"]: one for one in lines if one["api_server"] == where}


def note(where: str, fault: str, found: Mapping[str, Said]) -> None:
    """Keep what was measured in place of what was measured before."""
    seconds = {
        name: None if one.at_s is None else round(one.at_s)
        for name, one in found.items()
        if one.wanted
    }
    both = {kind: played(kind) for kind in (STAND_IN, REAL)}
    both[where][fault] = {"api_server": where, "fault": fault, "seconds": seconds}
    lines = [
        json.dumps(both[kind][one.name])
        for kind in both
        for one in FAULTS
        if one.name in both[kind]
    ]
    PLAYED.write_text("\n".join(lines) + "\n")


def table() -> str:
    """Return the table in Markdown."""
    measured = played(STAND_IN)
    lines = [
        "| fault | not ready | doctor | why | alert | well again | not to be had |",
        "|---|---|---|---|---|---|---|",
        *(_row(fault, measured.get(fault.name)) for fault in FAULTS),
    ]
    return "\n".join(lines)


def _row(fault: Fault, measured: Mapping[str, Any] | None) -> str:
    seconds = (measured or {}).get("seconds", {})
    after = {name: _after(seconds[name]) if name in seconds else "" for name in CHANNELS}
    which = "no answer of " if fault.silent else "one of " if fault.one else ""
    parts = f"{which}{', '.join(fault.parts)} {after['readyz']}" if fault.parts else ""
    alerts = " or ".join(f"`{one}`" for one in fault.alert.split("|")) if fault.alert else ""
    cells = (
        *(fault.name, parts, after["doctor"], after["why"]),
        *(f"{alerts} {after['alert']}".strip(), after["healed"], fault.without),
    )
    return f"| {' | '.join(cells)} |"


def _after(seconds: int | None) -> str:
    return "not in time" if seconds is None else f"{seconds} s"


def written() -> str:
    """Return what the page has."""
    return PAGE.read_text().split(BEGIN)[1].split(END)[0].strip()


def main() -> None:
    """Write it into the page."""
    text = PAGE.read_text()
    PAGE.write_text(f"{text.split(BEGIN)[0]}{BEGIN}\n\n{table()}\n\n{END}{text.split(END)[1]}")


if __name__ == "__main__":
    main()
