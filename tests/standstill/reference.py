"""The generated part of docs/failure-modes.md: the table of faults, from the faults themselves.

    python -m tests.standstill.reference      writes it

A test compares.
"""

from pathlib import Path

from tests.standstill.faults import FAULTS, Fault

PAGE = Path(__file__).parents[2] / "docs" / "failure-modes.md"
BEGIN, END = "<!-- begin standstill -->", "<!-- end standstill -->"


def table() -> str:
    lines = [
        "| fault | not ready | alert | not to be had |",
        "|---|---|---|---|",
        *map(_row, FAULTS),
    ]
    return "\n".join(lines)


def _row(fault: Fault) -> str:
    which = "no answer of " if fault.silent else "one of " if fault.one else ""
    parts = f"{which}{', '.join(fault.parts)}" if fault.parts else ""
    alerts = " or ".join(f"`{one}`" for one in fault.alert.split("|")) if fault.alert else ""
    return f"| {fault.name} | {parts} | {alerts} | {fault.without} |"


def written() -> str:
    return PAGE.read_text().split(BEGIN)[1].split(END)[0].strip()


def main() -> None:
    text = PAGE.read_text()
    PAGE.write_text(f"{text.split(BEGIN)[0]}{BEGIN}\n\n{table()}\n\n{END}{text.split(END)[1]}")


if __name__ == "__main__":
    main()
