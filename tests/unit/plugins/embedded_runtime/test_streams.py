"""Tests for streams to commands, containers and ports."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime import streams
from nodeagent_plugins.embedded_runtime.channels import (
    CLOSE,
    ERROR,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    Feed,
    Session,
)
from nodeagent_plugins.embedded_runtime.errors import CallError
from nodeagent_plugins.embedded_runtime.streams import Streams, connect_inside


class Client(Session):
    """A client that sends messages, and disconnects on request."""

    def __init__(self, *messages: tuple[int, bytes], stays: bool = True) -> None:
        self.messages, self.stays = list(messages), stays
        self.received: dict[int, bytes] = {}

    async def send(self, channel: int, data: bytes) -> None:
        self.received[channel] = self.received.get(channel, b"") + data

    async def read(self, feed: Feed) -> None:
        for channel, data in self.messages:
            await feed(channel, data)
        if self.stays:
            await asyncio.Event().wait()

    @property
    def status(self) -> Any:
        return json.loads(self.received[ERROR])["status"]


class Command:
    """A prepared command of the host."""

    def __init__(self, *words: str, failure: str | None = None) -> None:
        self.words, self._failure = list(words), failure
        self.ended = 0

    async def end(self, runner: asyncio.subprocess.Process) -> None:
        self.ended += 1
        if runner.returncode is None:
            runner.kill()
            await runner.wait()

    def failure(self) -> str | None:
        return self._failure


class Harness:
    def __init__(self, root: Path) -> None:
        self.root, self.command = root, Command("/bin/true")
        self.prepared: list[tuple[list[str], bool]] = []
        container = SimpleNamespace(id="c")
        records = SimpleNamespace(get=lambda name: container, directory=lambda name: root / name)
        sandboxes = SimpleNamespace(
            records=SimpleNamespace(get=lambda name: SimpleNamespace(namespace=lambda kind: ""))
        )
        self.streams = Streams(sandboxes, SimpleNamespace(records=records), SimpleNamespace(prepared=self._prepare))  # type: ignore[arg-type]

    @contextmanager
    def _prepare(self, container: Any, words: list[str], *, terminal: bool) -> Any:
        self.prepared.append((words, terminal))
        yield self.command

    async def execute(self, client: Client, *words: str, **fields: Any) -> None:
        self.command = Command(*words)
        request = cri.ExecRequest(container_id="c", cmd=["given"], **fields)
        async with asyncio.timeout(10):
            await self.streams.run("exec", request, client)


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


async def test_output_and_errors_are_sent_to_their_channels(harness: Harness) -> None:
    client = Client()
    await harness.execute(client, "/bin/sh", "-c", "echo out; echo err >&2", stdout=True, stderr=True)

    assert client.received.pop(ERROR) and client.received == {STDOUT: b"out\n", STDERR: b"err\n"}
    assert harness.prepared == [(["given"], False)] and harness.command.ended == 1


@pytest.mark.parametrize(
    ("fields", "received"),
    [({"stdout": True}, {STDOUT: b"out\n"}), ({"stderr": True}, {STDERR: b"err\n"}), ({}, {})],
)
async def test_only_requested_outputs_are_sent(harness: Harness, fields: Any, received: dict[int, bytes]) -> None:
    client = Client()
    await harness.execute(client, "/bin/sh", "-c", "echo out; echo err >&2", **fields)
    assert client.status == "Success" and client.received.pop(ERROR) and client.received == received


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 143)])
async def test_exit_code_is_reported(harness: Harness, script: str, code: int) -> None:
    client = Client()
    await harness.execute(client, "/bin/sh", "-c", script, stdout=True)
    status = json.loads(client.received[ERROR])
    causes = status.get("details", {}).get("causes", [{"message": "0"}])
    assert causes[0]["message"] == str(code)


async def test_input_is_passed_until_the_client_closes_it(harness: Harness) -> None:
    client = Client((STDIN, b"a\n"), (CLOSE, bytes((STDOUT,))), (STDIN, b"b\n"), (CLOSE, bytes((STDIN,))))
    await harness.execute(client, "/bin/cat", stdin=True, stdout=True)
    assert client.received[STDOUT] == b"a\nb\n" and client.status == "Success"


async def test_input_that_was_not_requested_is_ignored(harness: Harness) -> None:
    client = Client((STDIN, b"a\n"))
    await harness.execute(client, "/bin/cat", stdout=True)
    assert STDOUT not in client.received and client.status == "Success"


async def test_command_is_killed_when_the_client_disconnects(harness: Harness) -> None:
    client = Client(stays=False)
    await harness.execute(client, "/bin/sleep", "60", stdout=True)
    assert client.received == {} and harness.command.ended == 1


@pytest.mark.parametrize("tty", [False, True])
async def test_command_that_did_not_start_is_a_failure(harness: Harness, tty: bool) -> None:
    harness.streams._execution = SimpleNamespace(prepared=harness._prepare)  # type: ignore[assignment]
    request = cri.ExecRequest(container_id="c", cmd=["x"], tty=tty, stdout=True)
    harness.command = Command("/bin/true", failure="no such file")
    with pytest.raises(CallError, match="no such file"):
        await harness.streams.run("exec", request, Client())


async def test_terminal_has_the_size_and_the_input_of_the_client(harness: Harness) -> None:
    client = Client((RESIZE, b'{"Width": 90, "Height": 30}'), (STDERR, b"x"), (STDIN, b"go\n"))
    await harness.execute(
        client, "/bin/sh", "-c", "read line; stty size; echo $line", tty=True, stdin=True, stdout=True
    )
    assert client.received[STDOUT].split() == [b"go", b"30", b"90", b"go"] and client.status == "Success"
    assert harness.prepared == [(["given"], True)]


async def test_terminal_without_input_ignores_that_of_the_client(harness: Harness) -> None:
    client = Client((STDIN, b"go\n"))
    await harness.execute(client, "/bin/sh", "-c", "echo shown", tty=True, stdout=True)
    assert client.received[STDOUT] == b"shown\r\n"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (b'{"Width": 100, "Height": 40}', (40, 100)),
        (b'{"Width": 0, "Height": -1}', (1, 1)),
        (b'{"Width": 70000, "Height": 65536}', (65535, 65535)),
        (b'{"Width": 100}', (24, 80)),
        (b'{"Height": "x", "Width": 1}', (24, 80)),
        (b"x", (24, 80)),
    ],
)
async def test_size_of_a_terminal_is_within_its_range(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, text: bytes, size: tuple[int, int]
) -> None:
    shim = await attach(harness, monkeypatch, Client((RESIZE, text), stays=False))
    assert shim == [(4, struct.pack("!HH", *size))]


# --- attach -------------------------------------------------------------------------------------------------------


async def attach(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, client: Client, sent: bytes = b"", **fields: Any
) -> list[tuple[int, bytes]]:
    """Attach a client to a shim that sends *sent* and closes if that is not empty; return the frames it received."""
    received = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if sent:
            writer.write(sent)
            writer.write_eof()
        received.extend(await reader.read())
        writer.close()
        done.set()

    done = asyncio.Event()
    server = await asyncio.start_unix_server(serve, harness.root / "shim")

    async def open_shim(directory: Path, command: str) -> Any:
        assert (directory, command) == (harness.root / "c", "attach")
        return await asyncio.open_unix_connection(harness.root / "shim")

    monkeypatch.setattr(streams, "open_shim", open_shim)
    async with server, asyncio.timeout(10):
        await harness.streams.run("attach", cri.AttachRequest(container_id="c", **fields), client)
        await done.wait()
    frames = []
    while received:
        length = int.from_bytes(received[1:5], "big")
        frames.append((received[0], bytes(received[5 : 5 + length])))
        del received[: 5 + length]
    return frames


def frame(kind: int, data: bytes) -> bytes:
    return bytes((kind,)) + len(data).to_bytes(4, "big") + data


@pytest.mark.parametrize(
    ("fields", "received"),
    [
        ({"stdout": True, "stderr": True}, {STDOUT: b"out", STDERR: b"err"}),
        ({"stdout": True}, {STDOUT: b"out"}),
        ({"stderr": True}, {STDERR: b"err"}),
        ({}, {}),
    ],
)
async def test_attached_client_receives_the_requested_outputs(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, fields: Any, received: dict[int, bytes]
) -> None:
    client = Client()
    await attach(harness, monkeypatch, client, frame(STDOUT, b"out") + frame(STDERR, b"err") + b"\1\0", **fields)
    assert client.status == "Success" and client.received.pop(ERROR) and client.received == received


@pytest.mark.parametrize(("stdin", "frames"), [(True, [(0, b"a"), (3, b"")]), (False, [(3, b"")])])
async def test_attached_client_sends_its_input_to_the_shim(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, stdin: bool, frames: list[tuple[int, bytes]]
) -> None:
    client = Client((CLOSE, bytes((STDOUT,))), (STDIN, b"a"), (STDOUT, b"x"), (CLOSE, bytes((STDIN,))), stays=False)
    assert await attach(harness, monkeypatch, client, stdin=stdin) == frames
    assert client.received == {}, "the client has disconnected"


# --- ports --------------------------------------------------------------------------------------------------------


@pytest.fixture
async def echo() -> AsyncIterator[int]:
    """Return the port of a server that responds with its input in capitals."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read(100)).upper())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


async def forward(harness: Harness, client: Client, *ports: int) -> None:
    async with asyncio.timeout(10):
        await harness.streams.run("portforward", cri.PortForwardRequest(pod_sandbox_id="s", port=ports), client)


async def test_port_has_a_data_and_an_error_channel(harness: Harness, echo: int) -> None:
    closed = free_port()
    client = Client((2, b"hello"), (9, b"ignored"))
    await forward(harness, client, closed, echo)

    assert client.received[2] == struct.pack("<H", echo) + b"HELLO"
    assert client.received[3] == struct.pack("<H", echo)
    assert client.received[0] == struct.pack("<H", closed)
    assert client.received[1] == struct.pack("<H", closed) + f"port {closed}: Connection refused".encode()


async def test_forwarding_ends_without_an_open_port(harness: Harness) -> None:
    client = Client()
    await forward(harness, client, free_port())
    assert sorted(client.received) == [0, 1]


def test_service_on_the_other_loopback_address_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def connect(address: tuple[str, int], timeout: float) -> socket.socket:
        tried.append(address[0])
        if address[0] == "127.0.0.1":
            raise ConnectionRefusedError
        return socket.socket()

    monkeypatch.setattr(streams.socket, "create_connection", connect)
    connect_inside("", 80).close()
    assert tried == ["127.0.0.1", "::1"]


@pytest.mark.parametrize(("namespace", "joined"), [("", []), ("/proc/7/ns/net", ["/proc/7/ns/net"])])
def test_connection_is_made_in_the_network_namespace(
    monkeypatch: pytest.MonkeyPatch, namespace: str, joined: list[str]
) -> None:
    found: list[str] = []
    monkeypatch.setattr(streams.syscalls, "join", lambda path, kind: found.append(path))
    monkeypatch.setattr(streams.socket, "create_connection", lambda address, timeout: socket.socket())
    connection = connect_inside(namespace, 80)
    assert found == joined and connection.getblocking() is False
    connection.close()
