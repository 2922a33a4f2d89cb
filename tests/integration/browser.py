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


class Elsewhere(AssertionError):
    """The page that was asked gave way to another one."""


class Page:
    """One tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self.complaints: list[str] = []
        """What the browser says on its console and refuses to do."""

    async def read(self) -> None:
        async for message in self._socket:
            said = json.loads(message.data)
            if "id" in said:
                self._answers.pop(said["id"]).set_result(said)
            elif said["method"] == "Runtime.exceptionThrown":
                self.complaints.append(str(said["params"]["exceptionDetails"]))
            elif said["method"] == "Log.entryAdded" and said["params"]["entry"]["source"] == "security":
                self.complaints.append(said["params"]["entry"]["text"])

    async def command(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        future = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        answer = await asyncio.wait_for(future, 20)
        if "error" in answer:
            raise Elsewhere(answer)
        return answer["result"]

    async def open(self, url: str) -> None:
        """Show a page; once more when the browser was still on its way to the one it began with."""
        there = f"location.href === {json.dumps(url)} && document.readyState === 'complete'"
        for last in (False, False, True):
            answer = await self.command("Page.navigate", url=url)
            try:
                assert "errorText" not in answer, answer
                await self.until(there, START_SECONDS / 3)
                return
            except AssertionError:
                if last:
                    raise

    async def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        answer = await self.command("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def until(self, script: str, seconds: float = 20.0) -> None:
        """Wait until an expression is true in the page."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    with contextlib.suppress(Elsewhere):
                        if await self.run(script):
                            return
                    await asyncio.sleep(0.05)
        text = await self.run("document.body.innerText")
        raise AssertionError(f"not within {seconds:g} s: {script}\n{text}\n{self.complaints}")

    async def sign_in(self, token: str) -> None:
        await self.until("document.getElementById('sign-in') && !document.getElementById('sign-in').hidden")
        await self.run(f"document.getElementById('token').value = {json.dumps(token)}")
        await self.run("document.querySelector('#sign-in button').click()")

    async def picture(self, path: Path, width: int = 1280, height: int = 800) -> None:
        """Write what a window of this size shows, as PNG."""
        await self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        answer = await self.command("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(answer["data"]))


@asynccontextmanager
async def browsing(directory: Path) -> AsyncIterator[Page]:
    """Run a browser with its files in *directory*; certificates that nobody vouches for are taken."""
    program = shutil.which("chromium")
    assert program, "chromium is not installed"
    process = await asyncio.create_subprocess_exec(
        program,
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
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                tabs = await answer.json()
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
