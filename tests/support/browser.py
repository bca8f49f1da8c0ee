"""A Chromium without a window, spoken to by its own protocol.

Invariant: it loads nothing but what it is asked to open, and its profile is a folder of its own.
"""

import asyncio
import base64
import contextlib
import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

WIDE, PHONE = (1400, 900), (390, 844)
_QUIETLY = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--hide-scrollbars"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--remote-debugging-port=0", "--remote-allow-origins=*"),
)


def chromium() -> str | None:
    """Return the program, if there is one."""
    return shutil.which("chromium") or shutil.which("google-chrome")


class Tab:
    """One page of the browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self.said: list[str] = []
        self._size = WIDE
        self.loaded = asyncio.Event()
        self._task = asyncio.create_task(self._hear())

    async def _hear(self) -> None:
        async for message in self._socket:
            found = json.loads(message.data)
            match found.get("method", ""):
                case "":
                    self._answers.pop(found["id"]).set_result(found)
                case "Page.loadEventFired":
                    self.loaded.set()
                case "Runtime.exceptionThrown":
                    self.said.append(found["params"]["exceptionDetails"]["text"])
                case "Log.entryAdded" if found["params"]["entry"]["level"] == "error":
                    entry = found["params"]["entry"]
                    if entry.get("source") != "network":  # the answer's own code, 404 and so on
                        self.said.append(entry["text"])

    async def do(self, method: str, **params: Any) -> Any:
        """Send a command and return its result."""
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        found = await asyncio.wait_for(answer, 120)
        if "error" in found:
            raise RuntimeError(f"{method}: {found['error']}")
        return found["result"]

    async def value(self, expression: str) -> Any:
        """Evaluate JavaScript past the page's policy."""
        found = await self.do(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"])
        return found["result"].get("value")

    async def open(self, url: str, size: tuple[int, int], scheme: str) -> None:
        """Show a page."""
        self.said.clear()
        self._size = size
        await self._resize(size[1])
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.do("Emulation.setEmulatedMedia", features=features)
        await self.go(url)

    async def _resize(self, height: int) -> None:
        await self.do(
            "Emulation.setDeviceMetricsOverride",
            width=self._size[0],
            height=height,
            deviceScaleFactor=1,
            mobile=self._size == PHONE,
        )

    async def go(self, url: str) -> None:
        """Go to a page, and wait until it is loaded."""
        self.loaded.clear()
        await self.do("Page.navigate", url=url)
        await asyncio.wait_for(self.loaded.wait(), 120)

    async def picture(self, most: int) -> bytes:
        """Return the whole page as PNG, up to a height."""
        whole = (await self.do("Page.getLayoutMetrics"))["cssContentSize"]
        # What is outside of the window need not be drawn (content-visibility).
        await self._resize(min(int(whole["height"]), most))
        await self.value("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))")
        found = await self.do("Page.captureScreenshot")
        return base64.b64decode(found["data"])


@contextlib.asynccontextmanager
async def browser(folder: Path, zone: str = "") -> AsyncIterator[Tab]:
    """A Chromium of our own, in a time zone; yields its page."""
    program = chromium()
    if program is None:
        raise SystemExit("no chromium on PATH")
    process = await asyncio.create_subprocess_exec(
        program,
        *_QUIETLY,
        f"--user-data-dir={folder}",
        "about:blank",
        env={**os.environ, **({"TZ": zone} if zone else {})},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        file = folder / "DevToolsActivePort"
        async with asyncio.timeout(60):
            while not file.exists() or not file.read_text().strip():
                await asyncio.sleep(0.1)
        port = int(file.read_text().split()[0])
        async with aiohttp.ClientSession() as http:
            async with http.get(f"http://127.0.0.1:{port}/json/list") as answer:
                found = await answer.json(content_type=None)
            (url,) = [one["webSocketDebuggerUrl"] for one in found if one["type"] == "page"][:1]
            async with http.ws_connect(url, max_msg_size=0) as socket:
                tab = Tab(socket)
                for domain in ("Page", "Runtime", "Log"):
                    await tab.do(f"{domain}.enable")
                await tab.do("Page.setBypassCSP", enabled=True)  # for axe; policies are tested
                yield tab
    finally:
        process.terminate()
        await process.wait()
