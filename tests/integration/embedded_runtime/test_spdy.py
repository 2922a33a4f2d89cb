"""Tests for SPDY streams of the runtime with kubectl: exec, attach, port-forward."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from nodeagent_plugins.cri.client import CriRuntime
from tests.integration.programs import free_port

pytestmark = [pytest.mark.integration, pytest.mark.row("card.embedded-runtime")]


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"containers": [{"name": "main", "image": "any", "stdin": True}]},
    "status": {"phase": "Running"},
}
PODS = {"name": "pods", "singularName": "pod", "kind": "Pod", "namespaced": True, "verbs": ["get", "list"]}
KNOWN = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [PODS]},
}
NO_WEB_SOCKETS = ("KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false", "KUBECTL_PORT_FORWARD_WEBSOCKETS=false")


class Front:
    """Minimal API server for ``kubectl``: has one pod and forwards its streams to the runtime."""

    def __init__(self, cri: CriRuntime, sandbox_id: str, container_id: str) -> None:
        self._cri, self._sandbox_id, self._container_id = cri, sandbox_id, container_id
        self.port = free_port()
        self._tasks: set[asyncio.Task[None]] = set()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
            if method == "POST":
                await self._pass_on(target, head, reader, writer)
            else:
                self._show(urlsplit(target).path, writer)
                await writer.drain()
        await _end(writer)

    def _show(self, path: str, writer: asyncio.StreamWriter) -> None:
        body = json.dumps(KNOWN.get(path, POD)).encode()
        lead = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
        writer.write(f"{lead}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    async def _pass_on(
        self, target: str, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        parts = urlsplit(await self._url(target))
        theirs, ours = await asyncio.open_connection(parts.hostname, parts.port)
        ours.write(b"POST %s HTTP/1.1\r\n" % parts.path.encode() + head.split(b"\r\n", 1)[1])
        try:
            await asyncio.gather(_pump(reader, ours), _pump(theirs, writer))
        finally:
            await _end(ours)
            await _end(writer)

    async def _url(self, target: str) -> str:
        parts = urlsplit(target)
        stdin = parse_qs(parts.query)
        streams = {name: stdin.get(name) == ["true"] for name in ("stdin", "stdout", "stderr", "tty")}
        if parts.path.endswith("/exec"):
            return await self._cri.exec_url(self._container_id, stdin["command"], **streams)
        if parts.path.endswith("/attach"):
            return await self._cri.attach_url(self._container_id, **streams)
        return await self._cri.port_forward_url(self._sandbox_id, [])


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _end(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


Kubectl = Callable[..., Awaitable[tuple[int, bytes, bytes]]]


@pytest.fixture
async def front(cri, pods) -> AsyncIterator[Front]:
    sandbox_id = await pods.sandbox()
    script = "nc -ll -p 7000 -e cat & while read line; do echo main says $line; done"
    container_id = await pods.container(sandbox_id, script, stdin=True)
    front = Front(cri, sandbox_id, container_id)
    server = await asyncio.start_server(front.accept, "127.0.0.1", front.port)
    yield front
    server.close()
    await front.close()
    await server.wait_closed()


def command(front: Front, home: Path, *words: str) -> list[str]:
    return ["env", f"HOME={home}", *NO_WEB_SOCKETS, "kubectl", f"--server=http://127.0.0.1:{front.port}", *words]


@pytest.fixture
def kubectl(front: Front, tmp_path: Path) -> Kubectl:
    async def run(*words: str, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command(front, tmp_path, *words), stdin=pipe, stdout=pipe, stderr=pipe
        )
        async with asyncio.timeout(30):
            output, errors = await process.communicate(stdin)
        return process.returncode or 0, output, errors

    return run


async def test_exec_has_output_errors_and_exit_code(kubectl: Kubectl) -> None:
    code, output, errors = await kubectl("exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 7")

    assert (code, output) == (7, b"out\n"), errors
    assert errors.startswith(b"err\n")
    assert b"exit code 7" in errors


async def test_input_of_any_size_is_transferred_completely(kubectl: Kubectl) -> None:
    sent = b"".join(b"%07d\n" % number for number in range(200_000))

    code, output, _ = await kubectl("exec", "-i", "web", "--", "cat", stdin=sent)

    assert code == 0
    assert output == sent


async def test_attach_streams_input_and_output(front: Front, tmp_path: Path) -> None:
    async with started(command(front, tmp_path, "attach", "-i", "web")) as process:
        process.stdin.write(b"hello\n")
        assert await process.stdout.readline() == b"main says hello\n"


async def test_port_forward_reports_a_port_without_a_listener(front: Front, tmp_path: Path) -> None:
    open_port, closed_port = free_port(), free_port()
    pairs = (f"{open_port}:7000", f"{closed_port}:7001")

    async with started(command(front, tmp_path, "port-forward", "web", *pairs)) as process:
        for _ in range(2):
            assert b"Forwarding from" in await process.stdout.readline()
        for word in (b"first", b"second"):
            assert await _echo(open_port, word) == word
        assert await _echo(closed_port, b"") == b""
        assert b"refused" in await _line_with(process.stderr, b"7001")


async def _echo(port: int, sent: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        writer.write_eof()
        return await reader.read()
    finally:
        await _end(writer)


async def _line_with(reader: asyncio.StreamReader, text: bytes) -> bytes:
    while text not in (line := await reader.readline()):
        assert line
    return line


@asynccontextmanager
async def started(words: list[str]) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        async with asyncio.timeout(30):
            yield process
    finally:
        process.kill()
        await process.communicate()
