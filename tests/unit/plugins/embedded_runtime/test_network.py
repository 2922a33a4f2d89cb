"""Tests for the pod network: subnet, bridge, addresses and host ports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime.errors import CallError, FailedPrecondition, InvalidArgument
from nodeagent_plugins.embedded_runtime.network import BridgeNetwork, HostNetwork


def network(memory: Path) -> BridgeNetwork:
    """Return the network as after a restart of the runtime."""
    return BridgeNetwork("br0", "10.0.0.0/24", memory=memory)


def gateway(bridge: BridgeNetwork) -> str:
    return bridge._gateway


def test_pod_cidr_persists_across_runtime_restarts(tmp_path: Path) -> None:
    memory = tmp_path / "pod-network"
    assert gateway(network(memory)) == "10.0.0.1"

    network(memory).set_subnet("10.1.2.0/24")
    assert gateway(network(memory)) == "10.1.2.1"

    later = network(memory)
    later.set_subnet("10.1.3.0/24")
    assert gateway(later) == gateway(network(memory)) == "10.1.3.1"


def test_subnet_that_is_invalid_or_set_after_first_use_is_not_stored(tmp_path: Path) -> None:
    memory = tmp_path / "pod-network"
    with pytest.raises(InvalidArgument):
        network(memory).set_subnet("10.1.2.0/99")
    busy = network(memory)
    busy.occupy(["10.0.0.2"])
    busy.set_subnet("10.1.2.0/24")

    assert gateway(network(memory)) == "10.0.0.1"


def test_unreadable_stored_subnet_is_logged_and_ignored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (memory := tmp_path / "pod-network").write_text("nonsense")

    assert gateway(network(memory)) == "10.0.0.1"
    assert "Failed to read stored pod subnet" in caplog.text


async def test_deleted_bridge_is_recreated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    devices: set[str] = set()
    created: list[str] = []

    class RecordingNetwork(BridgeNetwork):
        async def _make_bridge(self) -> None:
            devices.add("br0")
            created.append("br0")

    monkeypatch.setattr("nodeagent_plugins.embedded_runtime.network._is_device", devices.__contains__)
    bridge = RecordingNetwork("br0", "10.0.0.0/24", memory=tmp_path / "pod-network")

    await bridge.prepare()
    await bridge.prepare()
    assert created == ["br0"]

    devices.clear()
    await bridge.prepare()
    assert created == ["br0", "br0"]


def port(host_port: int, protocol: int = cri.TCP, container_port: int = 80, host_ip: str = "") -> cri.PortMapping:
    return cri.PortMapping(protocol=protocol, host_port=host_port, container_port=container_port, host_ip=host_ip)


async def test_host_network_maps_no_ports() -> None:
    shared = HostNetwork()
    assert len(await shared.attach("s", 1, [port(0), port(80)])) == 1
    with pytest.raises(FailedPrecondition, match="host port 8080 cannot be mapped to port 80"):
        await shared.attach("s", 1, [port(8080)])


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Input and arguments of the commands that the network runs, instead of running them."""
    made: list[str] = []

    async def run(command: Sequence[str], attempt: str, *, given: str = "", timeout_seconds: float = 60.0) -> str:
        made.append(f"{' '.join(command)}\n{given}")
        if command[1:3] == ["-o", "link"] and "master" in command:
            return "3: na0123456789a@if2: <UP>\n"
        return "2: br0: <UP> link/ether 0a:58:00:00:00:01 brd ff:ff\n"

    monkeypatch.setattr("nodeagent_plugins.embedded_runtime.network.commands.run", run)
    monkeypatch.setattr("nodeagent_plugins.embedded_runtime.network.find_executable", lambda name: name)
    monkeypatch.setattr("nodeagent_plugins.embedded_runtime.network._is_device", lambda name: True)
    return made


class PreparedNetwork(BridgeNetwork):
    """A network whose bridge exists."""

    async def prepare(self) -> None:
        pass


async def test_sandboxes_get_free_addresses_of_the_subnet(tools: list[str]) -> None:
    bridge = PreparedNetwork("br0", "10.0.0.0/29")
    bridge.occupy(["10.0.0.3"])

    addresses = [await bridge.attach(f"s{number}", 9, []) for number in range(4)]

    assert addresses == [["10.0.0.2"], ["10.0.0.4"], ["10.0.0.5"], ["10.0.0.6"]]
    assert "addr add 10.0.0.2/29 dev eth0" in tools[1]
    assert "default via 10.0.0.1\n" in tools[1]
    with pytest.raises(CallError, match=r"no free address in 10\.0\.0\.0/29"):
        await bridge.attach("s5", 9, [])
    await bridge.detach(["10.0.0.4"], [])
    assert await bridge.attach("s6", 9, []) == ["10.0.0.4"]


async def test_host_ports_are_opened_with_the_sandbox_and_closed_with_it(tools: list[str]) -> None:
    bridge = PreparedNetwork("br-0", "10.0.0.0/24")
    ports = [port(0), port(8080), port(53, cri.UDP, 5353, "0.0.0.0")]

    addresses = await bridge.attach("s", 9, ports)
    rules = [text for text in tools if text.startswith("nft add element")]
    assert len(rules) == 2
    assert "nodeagent_br_0 ports { tcp . 8080 : 10.0.0.2 . 80 }" in rules[0]
    assert "ports { udp . 53 : 10.0.0.2 . 5353 }" in rules[1]
    tools.clear()
    await bridge.detach(addresses, ports)
    assert [text.partition("ip ")[2].strip() for text in tools] == [
        "nodeagent_br_0 ports { tcp . 8080 }",
        "nodeagent_br_0 ports { udp . 53 }",
        "nodeagent_br_0 themselves { 10.0.0.2 . 10.0.0.2 }",
    ]
    tools.clear()
    await bridge.detach(addresses, [port(0)])
    assert tools == []


async def test_host_port_that_is_not_supported_is_rejected(tools: list[str]) -> None:
    bridge = PreparedNetwork("br0", "10.0.0.0/24")
    for wrong, text in [
        (port(80, cri.SCTP), "host port 80: only TCP and UDP are supported"),
        (port(80, host_ip="10.1.1.1"), "host IP 10.1.1.1 is not supported"),
    ]:
        with pytest.raises(FailedPrecondition, match=text):
            await bridge.attach("s", 9, [wrong])
        assert await bridge.attach("t", 9, []) == ["10.0.0.2"], "the address was released"
        await bridge.detach(["10.0.0.2"], [])


async def test_hairpin_mode_is_changed_once_and_restored_after_a_failure(
    tools: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge = PreparedNetwork("br0", "10.0.0.0/24", "hairpin-veth")
    await bridge.set_hairpin_mode("hairpin-veth")
    assert tools == []
    with pytest.raises(InvalidArgument, match="must be one of"):
        await bridge.set_hairpin_mode("other")

    async def fail(*_: object, **__: object) -> str:
        raise CallError("failed")

    with monkeypatch.context() as failing:
        failing.setattr("nodeagent_plugins.embedded_runtime.network.commands.run", fail)
        with pytest.raises(CallError):
            await bridge.set_hairpin_mode("none")
    await bridge.set_hairpin_mode("none")
    assert any("na0123456789a" in text for text in tools)


async def test_only_a_bridge_of_the_runtime_is_removed(tools: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    bridge, shown = PreparedNetwork("br0", "10.0.0.0/24"), ["2: br0: <UP>"]

    async def run(command: Sequence[str], attempt: str, *, given: str = "", timeout_seconds: float = 60.0) -> str:
        tools.append(f"{' '.join(command)}\n{given}")
        return shown[0]

    monkeypatch.setattr("nodeagent_plugins.embedded_runtime.network.commands.run", run)
    await bridge.remove()
    assert tools == ["ip link show br0\n"]
    shown[0] += " alias pods of nodeagent's embedded runtime"
    await bridge.remove()
    assert tools[2] == "ip link delete br0\n"
    assert "delete table ip nodeagent_br0\n" in tools[3]


async def test_bridge_is_created_unless_it_exists(tools: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    module = "nodeagent_plugins.embedded_runtime.network"
    for exists, commands in ((True, 0), (False, 1)):
        tools.clear()
        monkeypatch.setattr(f"{module}._is_device", lambda name, exists=exists: exists)
        monkeypatch.setattr(f"{module}.Path.write_text", lambda *_: 0)
        await BridgeNetwork("br0", "10.0.0.0/24").prepare()

        assert sum("link add br0 type bridge" in text for text in tools) == commands
        assert any("raw iifname br0 ip saddr 127.0.0.0/8 drop" in text for text in tools)


@pytest.mark.parametrize(("mode", "warned"), [("promiscuous-bridge", True), ("hairpin-veth", False)])
async def test_node_without_nft_has_no_masquerading(
    tools: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mode: str, warned: bool
) -> None:
    module = "nodeagent_plugins.embedded_runtime.network"
    monkeypatch.setattr(f"{module}.find_executable", lambda name: "" if name == "nft" else name)
    monkeypatch.setattr(f"{module}.Path.write_text", lambda *_: 0)

    await BridgeNetwork("br0", "10.0.0.0/24", mode).prepare()

    messages = ["Packets between pods may arrive twice"] if warned else []
    assert caplog.messages == [*messages, "Failed to set up masquerading, no external traffic from pods"]
    assert {vars(record)["err"] for record in caplog.records} == {vars(caplog.records[-1])["err"]}
    assert not any(text.startswith("nft") for text in tools)


@pytest.mark.parametrize("removed", [True, False])
async def test_hairpin_mode_is_set_again_if_a_pod_was_removed(
    tools: list[str], monkeypatch: pytest.MonkeyPatch, removed: bool
) -> None:
    ports = ["na0000000000a", "na0000000000b"]
    attempts: list[str] = []

    async def run(command: Sequence[str], attempt: str, *, given: str = "", timeout_seconds: float = 60.0) -> str:
        if "master" in command:
            return "".join(f"3: {port}@if2: <UP>\n" for port in ports)
        if "bridge_slave" in given:
            attempts.append(given)
            if len(attempts) == 1 or not removed:
                del ports[1 if removed else 2 :]
                raise CallError("Cannot find device")
        return "2: br0: <UP> link/ether 0a:58:00:00:00:01 brd ff:ff\n"

    monkeypatch.setattr("nodeagent_plugins.embedded_runtime.network.commands.run", run)
    bridge = PreparedNetwork("br0", "10.0.0.0/24")

    if removed:
        await bridge.set_hairpin_mode("hairpin-veth")
        assert [text.count("bridge_slave") for text in attempts] == [2, 1]
    else:
        with pytest.raises(CallError, match="Cannot find device"):
            await bridge.set_hairpin_mode("hairpin-veth")
        assert len(attempts) == 1
