"""Tests for exec, attach and port-forward streams."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import aiohttp
import pytest

from nodeagent.errors import RuntimeFailure
from tests.integration.embedded_runtime.test_pods import exited, texts

pytestmark = [pytest.mark.integration, pytest.mark.row("card.embedded-runtime")]

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
EVERYTHING = {"stdin": True, "stdout": True, "stderr": True, "tty": False}


async def converse(url: str, *sent: bytes, until: bytes = b"", protocols=PROTOCOLS) -> dict[int, bytes]:
    """Send messages and return the output per channel, until the end or *until* is received."""
    received: dict[int, bytes] = {}
    async with aiohttp.ClientSession() as session, session.ws_connect(url, protocols=protocols) as stream:
        for message in sent:
            await stream.send_bytes(message)
        async with asyncio.timeout(20):
            async for message in stream:
                channel, data = message.data[0], message.data[1:]
                if isinstance(channel, str):
                    channel, data = int(channel), base64.b64decode(data)
                received[channel] = received.get(channel, b"") + data
                if until and until in b"".join(received.values()):
                    break
    return received


async def test_exec_has_input_output_and_exit_code(cri, pods):
    container_id = await pods.container(await pods.sandbox(), "sleep 1000")
    command = ["sh", "-c", "read line; echo got $line; cat; echo bad >&2; exit 4"]
    url = await cri.exec_url(container_id, command, **EVERYTHING)

    received = await converse(url, b"\0hello\n", b"\0more", b"\xff\0")

    assert (received[1], received[2]) == (b"got hello\nmore", b"bad\n")
    assert json.loads(received[3])["details"]["causes"] == [{"reason": "ExitCode", "message": "4"}]


async def test_exec_may_have_a_terminal_with_a_size(cri, pods):
    container_id = await pods.container(await pods.sandbox(), "sleep 1000")
    command = ["sh", "-c", "test -t 0 && echo yes; read _; until stty size 2>&1 | grep 100; do sleep 0.1; done"]
    url = await cri.exec_url(container_id, command, **{**EVERYTHING, "stderr": False, "tty": True})

    received = await converse(url, b'\4{"Width":100,"Height":30}', b"\0\n")

    assert b"yes" in received[1]
    assert b"30 100" in received[1]
    assert json.loads(received[3])["status"] == "Success"


@pytest.mark.parametrize("protocols", [(), ("channel.k8s.io",), ("base64.channel.k8s.io",)])
async def test_unversioned_protocol_reports_only_failures(cri, pods, protocols):
    container_id = await pods.container(await pods.sandbox(), "sleep 1000")
    received = []
    for code in ("0", "4"):
        url = await cri.exec_url(container_id, ["sh", "-c", f"echo hi; exit {code}"], **EVERYTHING)
        received.append(await converse(url, protocols=protocols))

    assert received == [{1: b"hi\n"}, {1: b"hi\n", 3: b"command terminated with exit code 4"}]


async def test_missing_command_fails_the_stream(cri, pods):
    container_id = await pods.container(await pods.sandbox(), "sleep 1000")
    url = await cri.exec_url(container_id, ["no-such-command"], **EVERYTHING)

    received = await converse(url)

    assert "no-such-command" in json.loads(received[3])["message"]


async def test_command_is_killed_when_its_client_disconnects(cri, pods):
    container_id = await pods.container(await pods.sandbox(), "sleep 1000")
    url = await cri.exec_url(container_id, ["sh", "-c", "echo there; exec sleep 987"], **EVERYTHING)

    await converse(url, until=b"there")

    async with asyncio.timeout(10):
        while b"sleep 987" in (await cri.exec_sync(container_id, ["ps"], 10)).stdout:
            await asyncio.sleep(0.05)


async def test_attach_to_a_running_container(cri, pods):
    sandbox_id = await pods.sandbox()
    container_id = await pods.container(sandbox_id, "while read line; do echo got $line; done", stdin=True)
    url = await cri.attach_url(container_id, **EVERYTHING)

    received = await converse(url, b"\0one\n", until=b"got one")

    assert received[1] == b"got one\n"
    assert texts(pods.log(sandbox_id)) == ["got one"]


async def test_first_attachment_may_close_the_input(cri, pods):
    sandbox_id = await pods.sandbox()
    container_id = await pods.container(sandbox_id, "cat; echo done", stdin=True, stdin_once=True)
    url = await cri.attach_url(container_id, **EVERYTHING)

    received = await converse(url, b"\0all\n", b"\xff\0")

    assert received[1] == b"all\ndone\n"
    assert json.loads(received[3])["status"] == "Success"
    assert (await exited(cri, container_id)).exit_code == 0


async def test_container_may_have_a_terminal(cri, pods):
    sandbox_id = await pods.sandbox()
    script = "test -t 1 && echo terminal; read line; echo got $line; stty size"
    container_id = await pods.container(sandbox_id, script, stdin=True, tty=True)
    url = await cri.attach_url(container_id, **{**EVERYTHING, "stderr": False, "tty": True})

    await converse(url, b'\4{"Width":90,"Height":20}', b"\0word\n")

    await exited(cri, container_id)
    output = texts(pods.log(sandbox_id))
    assert "terminal" in output
    assert "got word" in output
    assert "20 90" in output


async def test_port_of_a_pod_is_forwarded(cri, pods):
    sandbox_id = await pods.sandbox()
    container_id = await pods.container(sandbox_id, "while :; do echo pong | nc -l -p 7000; done")
    listening = ["sh", "-c", "cat /proc/net/tcp /proc/net/tcp6 | grep -q ':1B58 .* 0A'"]
    async with asyncio.timeout(10):
        while (await cri.exec_sync(container_id, listening, 10)).exit_code:
            await asyncio.sleep(0.05)

    received = await converse(await cri.port_forward_url(sandbox_id, [7000, 7001]), protocols=PROTOCOLS[1:])

    assert received[0] == (7000).to_bytes(2, "little") + b"pong\n"
    assert b"refused" in received[3]


async def test_url_is_valid_once_and_unknown_protocol_is_rejected(cri, pods):
    sandbox_id = await pods.sandbox()
    container_id = await pods.container(sandbox_id, "sleep 1000")
    url = await cri.exec_url(container_id, ["true"], **EVERYTHING)

    async with aiohttp.ClientSession() as session:
        async with session.post(url, headers={"Upgrade": "SPDY/2", "Connection": "Upgrade"}) as response:
            assert (response.status, "WebSocket or SPDY/3.1" in await response.text()) == (400, True)
        await converse(url)
        async with session.get(url) as response:
            assert response.status == 404
    await cri.stop_container(container_id, 0)
    with pytest.raises(RuntimeFailure, match="is not running"):
        await cri.exec_url(container_id, ["true"], **EVERYTHING)


@pytest.mark.parametrize("kind", ["attach", "exec"])
async def test_disconnected_clients_leave_no_descriptors(cri, pods, daemon, kind):
    container_id = await pods.container(await pods.sandbox(), "while read line; do echo got $line; done", stdin=True)
    descriptors = Path(f"/proc/{daemon.process.pid}/fd")

    async def connect() -> None:
        if kind == "attach":
            url = await cri.attach_url(container_id, **EVERYTHING)
            await converse(url, b"\4" + b'{"Width":100,"Height":30}', b"\0one\n", until=b"got one")
        else:
            url = await cri.exec_url(container_id, ["cat"], **{**EVERYTHING, "stderr": False, "tty": True})
            await converse(url, b'\4{"Width":100,"Height":30}', b"\0one\n", until=b"one")

    await connect()
    before = len(list(descriptors.iterdir()))
    for _ in range(10):
        await connect()

    async with asyncio.timeout(20):
        while len(list(descriptors.iterdir())) > before + 2:
            await asyncio.sleep(0.05)
