"""Playing a fault: do it, wait until everybody has said so, undo it, wait until all is well.

Invariant: every channel is asked again until it speaks or its time is over, so that the seconds are
those of the channel, to the pace of the asking.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable

from msgspec import Struct

from tests.standstill.faults import Fault
from tests.standstill.stack import SCRAPE_S, Stack

LIMIT_S = 60.0
CALM = 10
"""Scrapes after which nothing fires in health."""
CHANNELS = ("readyz", "doctor", "why", "metric", "alert", "healed")


class Said(Struct):
    """When a channel said so, in seconds since the fault; None: not in time, or not to be had."""

    at_s: float | None = None
    text: str = ""
    wanted: bool = True


async def play(stack: Stack, fault: Fault, limit_s: float = LIMIT_S) -> dict[str, Said]:
    """Return what each channel said, and when all was well again after it."""
    found = {name: Said() for name in CHANNELS}
    stack.forget_scrapes()
    for scrapes in range(1, CALM):
        if not await stack.scrape() and scrapes > 5:  # a new pod has a minute to get ready
            break
    async with fault.does(stack):
        began = time.monotonic()
        pod = await stack.pod(ok=()) if fault.why else ""
        asked = {
            "readyz": _readyz(stack, fault) if fault.parts else None,
            "doctor": _doctor(stack, fault) if not fault.lacks("doctor") else None,
            "why": _why(stack, fault, pod) if pod and not fault.lacks("why") else None,
        }
        waiting = [
            _until(found[name], began, limit_s, ask)
            for name, ask in asked.items()
            if ask is not None
        ]
        for name, ask in asked.items():
            found[name].wanted = ask is not None
        found["alert"].wanted = found["metric"].wanted = bool(fault.alert)
        if fault.alert:
            waiting.append(_alerts(stack, fault, found, began, limit_s))
        await asyncio.gather(*waiting)
    try:
        found["healed"].at_s = await stack.until_well(LIMIT_S)
    except AssertionError as error:
        found["healed"].text = str(error)
    return found


Ask = Callable[[], Awaitable[tuple[bool, str]]]


async def _until(said: Said, began: float, limit_s: float, ask: Ask) -> None:
    while time.monotonic() - began < limit_s:
        so, said.text = await ask()
        if so:
            said.at_s = time.monotonic() - began
            return
        await asyncio.sleep(1.0)


def _readyz(stack: Stack, fault: Fault) -> Ask:
    async def ask() -> tuple[bool, str]:
        texts = []
        for part in fault.parts:
            names = [name for name in stack.health if name.startswith(part)]
            answers = [await stack.readyz(name) for name in names]
            bad = [
                text
                for status, text in answers
                if (status == 0 if fault.silent else status == 503)
                and re.search(fault.says, text, re.DOTALL)
            ]
            if len(bad) < (1 if fault.one else len(names)):
                return False, str(answers)
            texts.append(bad[0].strip())
        return True, " | ".join(texts)

    return ask


def _doctor(stack: Stack, fault: Fault) -> Ask:
    async def ask() -> tuple[bool, str]:
        code, text = await stack.doctor()
        hits = [line for line in text.splitlines() if re.search(fault.doctor or fault.says, line)]
        return code == 1 and bool(hits), hits[0] if hits else f"exit {code}: {text}"

    return ask


def _why(stack: Stack, fault: Fault, pod: str) -> Ask:
    async def ask() -> tuple[bool, str]:
        text = await stack.why(pod)
        assert "waits for nothing" not in text or await stack.past_gate(pod), text
        hits = [line for line in text.splitlines() if re.search(fault.why, line)]
        if hits and fault.everywhere not in await stack.why():
            return False, f"why -A does not say {fault.everywhere}"
        return bool(hits), " ".join((hits[0] if hits else text).split())

    return ask


async def _alerts(
    stack: Stack, fault: Fault, found: dict[str, Said], began: float, limit_s: float
) -> None:
    """Scrape until exactly the right alert fires, and say when Prometheus would have fired it.

    Scrapes come at the pace of the stack, and count as 15 s each for what has moved since.
    """
    metric, alert, scrapes = found["metric"], found["alert"], 0
    while time.monotonic() - began < limit_s:
        firing = await stack.scrape()
        scrapes += metric.at_s is not None
        if metric.at_s is None:
            ready = stack.metric("min(gatelog_ready)")
            there = stack.metric("count(gatelog_ready)") or 0
            held = stack.metric("sum(gatelog_held_up_pods)") or 0
            if ready == 0 or there < len(stack.health) or held:
                metric.at_s = time.monotonic() - began
                metric.text = f"min ready {ready}, {there:.0f} replicas, {held:.0f} pods held up"
        alert.text = ", ".join(sorted(firing))
        if metric.at_s is not None and re.fullmatch(fault.alert, alert.text):
            alert.at_s = metric.at_s + scrapes * SCRAPE_S
            return
        await asyncio.sleep(stack.pace)
