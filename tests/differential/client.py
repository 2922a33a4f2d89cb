"""A small keep-alive HTTPS client: many short requests over few connections."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from nodeagent.base import yamlsafe

_REQUEST_SECONDS = 60.0


@dataclass(frozen=True)
class Response:
    """The status code, the decoded body and the texts of the ``Warning`` headers."""

    code: int
    body: Any
    warnings: tuple[str, ...]


class Connection:
    """One connection that is opened again when the server closes it."""

    def __init__(self, url: str, ca_file: str, token: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port
        self._context = ssl.create_default_context(cafile=ca_file)
        self._head = f"Host: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Send one request.

        :raises OSError: the server is unavailable.
        """
        content = body if isinstance(body, bytes) else b""
        if body is not None and not isinstance(body, bytes):
            content = json.dumps(body, separators=(",", ":")).encode()  # Some fields are stored as they are sent.
        extra = {"Accept": "application/json", "Content-Type": "application/json", **(headers or {})}
        lines = "".join(f"{name}: {value}\r\n" for name, value in extra.items())
        head = f"{method} {path} HTTP/1.1\r\n{self._head}{lines}Content-Length: {len(content)}\r\n\r\n"
        async with asyncio.timeout(_REQUEST_SECONDS):
            for attempt in (1, 2):
                reader, writer = await self._connected()
                try:
                    writer.write(head.encode() + content)
                    return await self._read(reader)
                except (asyncio.IncompleteReadError, ConnectionError):
                    self.close()
                    if attempt == 2:
                        raise
        raise AssertionError

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port, ssl=self._context, limit=1 << 24)
        return self._streams

    async def _read(self, reader: asyncio.StreamReader) -> Response:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = [line.partition(": ")[::2] for line in lines[1:] if line]
        values = {name.lower(): value for name, value in headers}
        if values.get("transfer-encoding") == "chunked":
            data = b""
            while size := int(await reader.readline(), 16):
                data += (await reader.readexactly(size + 2))[:-2]
            await reader.readline()
        else:
            data = await reader.readexactly(int(values.get("content-length", 0)))
        if values.get("connection") == "close":
            self.close()
        warnings = tuple(value for name, value in headers if name.lower() == "warning")
        return Response(int(lines[0].split()[1]), _decoded(data, values.get("content-type", "")), warnings)


def _decoded(data: bytes, content_type: str) -> Any:
    """Return the value of JSON or YAML, the list of values where there is one per line, or else the text."""
    if content_type.startswith("application/yaml"):
        return yamlsafe.load(data)
    if not content_type.startswith("application/json"):
        return data.decode()
    try:
        return json.loads(data)
    except json.JSONDecodeError:
        return [json.loads(line) for line in data.splitlines()]
