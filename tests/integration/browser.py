"""A headless Chromium, driven over its debugging protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

START_SECONDS = 30.0


class PageReplaced(AssertionError):
    """The page was replaced while it processed a command."""


class Page:
    """Browser tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._responses: dict[int, asyncio.Future[Any]] = {}
        self.errors: list[str] = []
        """Exceptions and security errors in the browser's log."""

    async def read(self) -> None:
        async for message in self._socket:
            self.receive(json.loads(message.data))

    def receive(self, event: dict[str, Any]) -> None:
        """Process a message of the browser."""
        if "id" in event:
            response = self._responses.pop(event["id"])
            if not response.done():  # The command may have been cancelled since it was sent.
                response.set_result(event)
        elif event["method"] == "Runtime.exceptionThrown":
            self.errors.append(str(event["params"]["exceptionDetails"]))
        elif event["method"] == "Log.entryAdded" and event["params"]["entry"]["source"] == "security":
            self.errors.append(event["params"]["entry"]["text"])

    async def command(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        future = self._responses[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        response = await asyncio.wait_for(future, 20)
        if "error" in response:
            raise PageReplaced(response)
        return response["result"]

    async def open(self, url: str) -> None:
        """Open a page; retried if the browser was still loading its initial one."""
        there = f"location.href === {json.dumps(url)} && document.readyState === 'complete'"
        for last in (False, False, True):
            response = await self.command("Page.navigate", url=url)
            try:
                assert "errorText" not in response, response
                await self.until(there, START_SECONDS / 3)
                return
            except AssertionError:
                if last:
                    raise

    async def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        response = await self.command("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in response, response
        return response["result"].get("value")

    async def until(self, script: str, seconds: float = 20.0) -> None:
        """Wait until an expression is true in the page."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    with contextlib.suppress(PageReplaced):
                        if await self.run(script):
                            return
                    await asyncio.sleep(0.05)
        text = ""
        with contextlib.suppress(AssertionError, TimeoutError):  # The page may be unable to respond.
            text = await self.run("document.body?.innerText")
        raise AssertionError(f"not within {seconds:g} s: {script}\n{text}\n{self.errors}")

    async def sign_in(self, token: str) -> None:
        await self.until("document.getElementById('sign-in') && !document.getElementById('sign-in').hidden")
        await self.run(f"document.getElementById('token').value = {json.dumps(token)}")
        await self.run("document.querySelector('#sign-in button').click()")

    async def screenshot(self, path: Path, width: int = 1280, height: int = 800) -> None:
        """Write a screenshot of a window of this size, as PNG."""
        await self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        response = await self.command("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(response["data"]))


@asynccontextmanager
async def browsing(directory: Path) -> AsyncIterator[Page]:
    """Run a browser with its files in *directory*; it accepts untrusted certificates."""
    executable = shutil.which("chromium")
    assert executable, "chromium is not installed"
    process = await asyncio.create_subprocess_exec(
        executable,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--no-first-run",
        "--ignore-certificate-errors",
        "--remote-debugging-port=0",
        "--window-size=1280,800",
        f"--user-data-dir={directory}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    reading = None
    try:
        port = await _port(directory / "DevToolsActivePort")
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as response:
                tabs = await response.json()
            tab = next(tab for tab in tabs if tab["type"] == "page")
            async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Page(socket)
                reading = asyncio.create_task(page.read())
                for domain in ("Page", "Runtime", "Log"):
                    await page.command(f"{domain}.enable")
                yield page
    finally:
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _port(file: Path) -> int:
    async with asyncio.timeout(START_SECONDS):
        while True:
            with contextlib.suppress(OSError, ValueError, IndexError):
                return int(file.read_text().splitlines()[0])
            await asyncio.sleep(0.05)
