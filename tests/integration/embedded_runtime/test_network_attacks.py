"""Tests for packets of pods that must not reach services or change routes of the node."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cri.conftest import Pods, until
from tests.integration.embedded_runtime.conftest import EmbeddedRuntime
from tests.integration.embedded_runtime.test_restart import reachable

pytestmark = pytest.mark.integration

# Sends a datagram to a loopback address, or from one, in a frame to the hardware address of the bridge.
SEND = """
import socket, struct, sys
target, source, destination, port, text = sys.argv[1:]
def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF
body = struct.pack("!HHHH", 9, int(port), 8 + len(text), 0) + text.encode()
head = [0x45, 0, 20 + len(body), 1, 0, 64, 17, 0, socket.inet_aton(source), socket.inet_aton(destination)]
head[7] = checksum(struct.pack("!BBHHHBBH4s4s", *head))
end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
end.bind(("eth0", 0))
own = end.getsockname()[4]
frame = bytes.fromhex(target.replace(":", "")) + own + b"\\x08\\x00"
end.send(frame + struct.pack("!BBHHHBBH4s4s", *head) + body)
"""


@pytest.fixture(scope="module")
def daemon() -> Iterator[EmbeddedRuntime]:
    """Runtime of this module."""
    running = EmbeddedRuntime()
    try:
        running.start()
        yield running
    finally:
        running.close()


def send(daemon: EmbeddedRuntime, sandbox_id: str, *words: str) -> None:
    """Send a datagram from the network namespace of a sandbox to the bridge."""
    record = json.loads((daemon.root / "sandboxes" / sandbox_id / "record.json").read_text())
    output = subprocess.check_output(["ip", "-j", "link", "show", daemon.bridge])
    enter = ["nsenter", f"--net=/proc/{record['holder']['pid']}/ns/net", sys.executable, "-c", SEND]
    subprocess.run([*enter, json.loads(output)[0]["address"], *words], check=True)


@pytest.mark.parametrize("upgraded", [False, True])
async def test_pod_cannot_reach_loopback_services_of_the_node(
    daemon: EmbeddedRuntime, pods: Pods, upgraded: bool
) -> None:
    sandbox_id = await pods.sandbox()
    if upgraded:  # From a release without these rules, while the pod runs.
        subprocess.run(["nft", "delete", "chain", "ip", f"nodeagent_{daemon.bridge}", "raw"], check=True)
        await asyncio.to_thread(daemon.stop)
        await asyncio.to_thread(daemon.start)
        await until(lambda: reachable(pods.runtime))
    address = (await pods.runtime.sandbox_status(sandbox_id)).ips[0]
    gateway = str(ipaddress.ip_network(daemon.subnet)[1])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as service:
        service.setblocking(False)
        service.bind(("0.0.0.0", 0))
        port = str(service.getsockname()[1])
        for source, destination, text in (
            (address, "127.0.0.1", "to loopback"),
            (address, "127.1.2.3", "to another loopback address"),
            ("127.0.0.1", gateway, "from loopback"),
            (address, gateway, "permitted"),
        ):
            await asyncio.to_thread(send, daemon, sandbox_id, source, destination, port, text)
        async with asyncio.timeout(20):
            received = await asyncio.get_running_loop().sock_recv(service, 100)

    assert received == b"permitted"


async def test_router_advertisements_of_pods_are_ignored(daemon: EmbeddedRuntime, pods: Pods) -> None:
    await pods.sandbox()
    setting = Path(f"/proc/sys/net/ipv6/conf/{daemon.bridge}/accept_ra")

    assert not setting.exists() or setting.read_text().strip() == "0"
