"""What a person sees of a long replay: a bar in a terminal, plain lines in a pipe."""

import io

from rich.console import Console

from gatelog.terminal.progress import ProgressReport


def told(*, terminal: bool, every_s: float) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100)
    with ProgressReport("rebuild", console, every_s=every_s) as one:
        one.expect(0, 2000)
        one(500, 700)
        one(2000, 2800)
        one.say("switching over")
        if terminal:
            one._bar.refresh()
    return out.getvalue()


def test_a_pipe_gets_plain_lines_now_and_then() -> None:
    first, second, last = told(terminal=False, every_s=0).splitlines()
    assert first.startswith("rebuild: position 500 of 2,000, 700 events, ")
    assert second.startswith("rebuild: position 2,000 of 2,000, 2,800 events, ")
    assert last == "rebuild: switching over"
    assert told(terminal=False, every_s=60) == ""


def test_a_terminal_gets_a_bar() -> None:
    shown = told(terminal=True, every_s=0)
    assert (
        "100%" in shown
        and "switching over" in shown
        and "2,800 events" in shown
        and "rebuild: position" not in shown
    )
