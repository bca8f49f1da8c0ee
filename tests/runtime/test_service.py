import json
import signal
import subprocess
import sys
import time

import aiohttp
import pytest

from runtime.health import Checks, _server
from runtime.listening import ListenError
from runtime.service import serve_health
from runtime.settings import HealthSettings

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

PROGRAM = """
import asyncio, sys
from runtime.log import configure
from runtime.service import run
from runtime.settings import LogSettings, SettingsError
configure(LogSettings(format="json"))
async def main(stop):
    print("ready", flush=True)
{body}
run(main, name="part", grace_s={grace_s})
print("after", flush=True)
"""


def start(body: str, grace_s: float = 10) -> "subprocess.Popen[str]":
    indented = "\n".join("    " + line for line in body.splitlines())
    program = PROGRAM.format(body=indented, grace_s=grace_s)
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def finish(process: "subprocess.Popen[str]") -> tuple[int, str, list[dict[str, str]]]:
    # Not communicate(): it reads past what readline has already put into its buffer.
    assert process.stdout is not None
    assert process.stderr is not None
    with process:  # closes its pipes
        out, err = process.stdout.read(), process.stderr.read()
        process.wait(timeout=20)
    return process.returncode, out, [json.loads(line) for line in err.splitlines()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_gracefully(number: signal.Signals) -> None:
    process = start("await stop.wait()\nawait asyncio.sleep(0.1)\nprint('flushed', flush=True)")
    process.send_signal(number)
    code, out, lines = finish(process)
    assert (code, out) == (0, "flushed\nafter\n")
    assert lines[0]["event"] == "stopping"
    assert lines[0]["signal"] == number.name


def test_returning_by_itself_is_success() -> None:
    assert finish(start("pass"))[:2] == (0, "after\n")


def test_an_error_is_one_line_and_exit_code_1() -> None:
    code, out, lines = finish(start("raise RuntimeError('pipe burst')"))
    assert (code, out, len(lines)) == (1, "", 1)
    assert lines[0]["event"] == "failed"
    assert lines[0]["error"] == "pipe burst"
    assert "RuntimeError" in lines[0]["exception"]


def test_a_bad_setting_is_one_line_without_traceback_and_exit_code_2() -> None:
    body = "async with asyncio.TaskGroup() as group:\n"
    body += "    async def part():\n        raise SettingsError('nats.url: bad')\n"
    body += "    group.create_task(part())"
    code, _, lines = finish(start(body))
    assert (code, len(lines)) == (2, 1)
    assert lines[0]["error"] == "nats.url: bad"
    assert "exception" not in lines[0]


def test_one_that_does_not_stop_is_cancelled_after_the_grace() -> None:
    process = start("await asyncio.sleep(60)", grace_s=0.3)
    started = time.monotonic()
    process.send_signal(signal.SIGTERM)
    code, _, lines = finish(process)
    assert time.monotonic() - started < 10
    assert code == 0
    assert [line["event"] for line in lines] == ["stopping", "stop_took_too_long"]


def test_a_second_signal_cuts_it_short() -> None:
    process = start("print('x', flush=True)\nawait asyncio.sleep(60)", grace_s=60)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    code, _, _ = finish(process)
    assert code == 130


async def get(port: int, path: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}") as response,
    ):
        return response.status, await response.text()


async def test_health_is_off_by_default() -> None:
    async with serve_health(HealthSettings(), Checks()) as port:
        assert port == 0


async def test_an_address_that_is_taken_is_named_with_its_settings() -> None:
    async with _server(HealthSettings(), Checks()) as port:
        taken = HealthSettings(host="127.0.0.1", port=port)
        words = rf"127\.0\.0\.1:{port}: address already in use.*health\.port"
        with pytest.raises(ListenError, match=words):
            async with serve_health(taken, Checks()):
                raise AssertionError("two servers on one port")


async def test_health_answers_name_what_fails() -> None:
    checks = Checks()
    lag = 5

    async def slow() -> str:
        return "" if lag < 3 else f"{lag} messages behind"

    checks.ready("projector", slow)
    checks.live("loop", lambda: "")
    async with _server(HealthSettings(), checks) as port:
        assert await get(port, "/healthz") == (200, "ok\n")
        assert await get(port, "/readyz") == (503, "projector: 5 messages behind\n")
        lag = 0
        assert await get(port, "/readyz") == (200, "ok\n")
        checks.live("loop", lambda: "stuck")
        assert await get(port, "/healthz") == (503, "loop: stuck\n")
        assert await get(port, "/readyz") == (503, "loop: stuck\n")
        checks.live("loop", lambda: str(1 // 0))
        assert (await get(port, "/healthz"))[1].startswith("loop: check failed: ZeroDivisionError")
        assert (await get(port, "/metrics"))[0] == 404
        checks.metrics = lambda: b"gatelog_up 1\n"
        assert await get(port, "/metrics") == (200, "gatelog_up 1\n")
        assert (await get(port, "/"))[0] == 404
