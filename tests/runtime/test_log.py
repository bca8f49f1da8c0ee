import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from runtime import log
from runtime.settings import LogSettings


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    yield
    log.use_defaults()


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_lines_with_part_level_and_utc_time() -> None:
    out = io.StringIO()
    log.configure(LogSettings(format="json"), out)
    log.get_logger("ingest").info("relisted", kind="Pod", count=3)
    (line,) = lines(out)
    assert str(line.pop("timestamp")).endswith("Z")
    assert line == {
        "part": "ingest",
        "level": "info",
        "event": "relisted",
        "kind": "Pod",
        "count": 3,
    }


def test_lines_below_the_level_are_not_written() -> None:
    out = io.StringIO()
    log.configure(LogSettings(format="json", level="warning"), out)
    logger = log.get_logger("ingest")
    logger.info("quiet")
    logger.warning("loud")
    assert [line["event"] for line in lines(out)] == ["loud"]


def test_secrets_are_masked_wherever_they_come_from() -> None:
    out = io.StringIO()
    log.configure(LogSettings(format="json"), out)
    log.get_logger("x").info("login", password="sesame", Authorization="Bearer sesame", user="me")
    assert "sesame" not in out.getvalue()
    (line,) = lines(out)
    assert (line["password"], line["user"]) == ("***", "me")


def test_libraries_use_the_same_format() -> None:
    out = io.StringIO()
    log.configure(LogSettings(format="json"), out)
    logging.getLogger("aiohttp.server").warning("odd %s", "request")
    (line,) = lines(out)
    assert (line["part"], line["event"], line["level"]) == ("aiohttp", "odd request", "warning")


def test_an_error_is_one_line_with_its_traceback_inside() -> None:
    out = io.StringIO()
    log.configure(LogSettings(format="json"), out)
    try:
        raise ValueError("bad\nthing")
    except ValueError as error:
        log.get_logger("x").error("failed", exc_info=error)
    (line,) = lines(out)
    assert "ValueError: bad" in str(line["exception"])


def test_auto_means_console_only_on_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen, pipe = Terminal(), io.StringIO()
    log.configure(LogSettings(), screen)
    log.get_logger("x").info("hello", n=1)
    assert "hello" in screen.getvalue()
    assert not screen.getvalue().startswith("{")
    log.configure(LogSettings(), pipe)
    log.get_logger("x").info("hello", n=1)
    assert lines(pipe)[0]["event"] == "hello"


def test_before_configure_only_warnings_appear_and_never_on_stdout() -> None:
    code = "from runtime.log import get_logger as g; g('x').info('a'); g('x').error('b')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == ""
    assert "event='b'" in ran.stderr
    assert "'a'" not in ran.stderr


def test_a_logger_made_before_configure_follows_it() -> None:
    early = log.get_logger("early")
    out = io.StringIO()
    log.configure(LogSettings(format="json"), out)
    early.info("late")
    assert lines(out)[0]["event"] == "late"


def test_a_stream_that_takes_nothing_stops_nobody() -> None:
    out = io.StringIO()
    log.configure(LogSettings(format="json"), out)
    logger = log.get_logger("x")
    out.close()
    logger.info("lost")
    full = open("/dev/full", "w", encoding="ascii")  # noqa: SIM115  # closing it fails as well
    log.configure(LogSettings(format="json"), full)
    logger.error("lost too")
    with pytest.raises(OSError, match="No space"):
        full.close()
