"""Tests for the hairpin mode on real links, for running and new pods, by call and by restart."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
import subprocess
import sys
from collections.abc import Iterator

import grpc
import pytest

from nodeagent.base.aio import SystemClock
from nodeagent.contracts.runtime import PortMapping
from nodeagent_plugins.cri.client import CriRuntime
from nodeagent_plugins.embedded_runtime.hairpin_loop import HairpinLoop, set_hairpin_mode
from tests.integration.cri.conftest import until
from tests.integration.embedded_runtime.daemon import EmbeddedRuntime
from tests.integration.embedded_runtime.test_restart import reachable

pytestmark = pytest.mark.integration

FLAGS = {"promiscuous-bridge": (True, {False}), "hairpin-veth": (False, {True}), "none": (False, {False})}
"""Promiscuity of the bridge, and hairpin flags of the pods' ports."""
LISTEN = """
import socket
end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end.bind(("", 9000))
end.settimeout(30)
print("ready", flush=True)
while True:
    text = end.recv(100).decode()
    print(text, flush=True)
    if text == "end":
        break
"""
SEND = """
import socket, sys
end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for text in sys.argv[3:]:
    end.sendto(text.encode(), (sys.argv[1], int(sys.argv[2])))
"""


@pytest.fixture(scope="module")
def daemon() -> Iterator[EmbeddedRuntime]:
    """Runtime of this module."""
    running = EmbeddedRuntime("--hairpin-mode", "none")
    try:
        running.start()
        yield running
    finally:
        running.close()


def links(*which: str) -> list[dict]:
    """Return the properties of links in the kernel."""
    result = subprocess.run(["ip", "-d", "-j", "link", "show", *which], check=True, capture_output=True, text=True)
    return json.loads(result.stdout)


def flags(daemon: EmbeddedRuntime) -> tuple[bool, set[bool]]:
    ports = links("master", daemon.bridge)
    return (
        "PROMISC" in links(daemon.bridge)[0]["flags"],
        {port["linkinfo"]["info_slave_data"]["hairpin"] for port in ports},
    )


async def restart(daemon: EmbeddedRuntime, cri: CriRuntime, mode: str) -> None:
    await asyncio.to_thread(daemon.stop)
    daemon.options[daemon.options.index("--hairpin-mode") + 1] = mode
    await asyncio.to_thread(daemon.start)
    await until(lambda: reachable(cri))


def inside(daemon: EmbeddedRuntime, sandbox_id: str) -> list[str]:
    """Return the start of a command line that runs Python in the pod's network."""
    record = json.loads((daemon.root / "sandboxes" / sandbox_id / "record.json").read_text())
    return ["nsenter", f"--net=/proc/{record['holder']['pid']}/ns/net", sys.executable, "-c"]


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def gateway(daemon: EmbeddedRuntime) -> str:
    """Address of the bridge, the gateway of the pods."""
    return str(ipaddress.ip_network(daemon.subnet)[1])


@pytest.mark.row("config.hairpinMode")
@pytest.mark.parametrize("mode", FLAGS)
async def test_mode_applies_to_running_and_new_pods(cri, pods, daemon, mode):
    before = "none" if mode != "none" else "hairpin-veth"
    await set_hairpin_mode(daemon.endpoint, before)
    await pods.sandbox("first")
    assert flags(daemon) == FLAGS[before]

    await set_hairpin_mode(daemon.endpoint, mode)
    assert flags(daemon) == FLAGS[mode]

    await pods.sandbox("second")
    assert len(links("master", daemon.bridge)) == 2
    assert flags(daemon) == FLAGS[mode]


@pytest.mark.row("config.hairpinMode")
async def test_restart_with_another_mode_applies_to_running_pods(cri, pods, daemon):
    await set_hairpin_mode(daemon.endpoint, "none")
    container_id = await pods.container(await pods.sandbox(), "sleep 1000")
    before = await cri.container_status(container_id)

    for mode in ("hairpin-veth", "promiscuous-bridge"):
        await restart(daemon, cri, mode)
        assert flags(daemon) == FLAGS[mode]

    assert await cri.container_status(container_id) == before


async def test_mode_without_effect_on_containerd_is_logged(containerd, caplog):
    running = asyncio.create_task(HairpinLoop(containerd.endpoint, "hairpin-veth", SystemClock()).run())
    try:
        await until(lambda: asyncio.sleep(0, "Ignoring hairpinMode" in caplog.text))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_unknown_mode_is_rejected(daemon):
    with pytest.raises(grpc.RpcError, match="promiscuous-bridge, hairpin-veth, none"):
        await set_hairpin_mode(daemon.endpoint, "both")


@pytest.mark.row("config.hairpinMode")
async def test_pod_reaches_itself_by_a_host_port(cri, pods, daemon, port, gateway):
    await set_hairpin_mode(daemon.endpoint, "hairpin-veth")
    sandbox_id = await pods.sandbox(port_mappings=(PortMapping(8080, port),))
    container_id = await pods.container(sandbox_id, "while :; do echo hello | nc -l -p 8080; done")

    async def is_reachable() -> bool:
        connecting = ["sh", "-c", f"nc -w 5 {gateway} {port} < /dev/null"]
        return (await cri.exec_sync(container_id, connecting, 20)).stdout == b"hello\n"

    await until(is_reachable, 60)


async def test_promiscuous_bridge_delivers_no_duplicates(pods, daemon, port, gateway):
    await set_hairpin_mode(daemon.endpoint, "promiscuous-bridge")
    taking = await pods.sandbox("taking", port_mappings=(PortMapping(9000, port, "UDP"),))
    sending = await pods.sandbox("sending")
    listener = [*inside(daemon, taking), LISTEN]
    listening = await asyncio.create_subprocess_exec(*listener, stdout=asyncio.subprocess.PIPE)
    try:
        async with asyncio.timeout(60):
            assert await listening.stdout.readline() == b"ready\n"
            sender = [*inside(daemon, sending), SEND, gateway, str(port), "one", "two", "end"]
            await asyncio.to_thread(subprocess.run, sender, check=True)
            output, _ = await listening.communicate()
    finally:
        if listening.returncode is None:
            listening.kill()
            await listening.wait()

    assert output.split() == [b"one", b"two", b"end"]
