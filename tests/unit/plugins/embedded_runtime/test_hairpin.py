"""Tests for the hairpin mode: links, rules, and the loop that configures runtimes."""

from __future__ import annotations

import asyncio
import logging

import grpc
import pytest

from nodeagent.testing.contracts import BackgroundLoopContract
from nodeagent_plugins.embedded_runtime import hairpin, hairpin_loop
from nodeagent_plugins.embedded_runtime.errors import CallError, InvalidArgument
from nodeagent_plugins.embedded_runtime.network import BridgeNetwork, HostNetwork

PORTS = "7: na0123456789a@if2: <UP> mtu 1500\n8: vother@if2: <UP>\n9: nabbbbbbbbbbb@if2: <UP>\n"
BRIDGE = "6: br0: <UP> mtu 1500\\    link/ether 02:00:00:00:00:0a brd ff:ff:ff:ff:ff:ff\n"


@pytest.mark.parametrize(
    ("mode", "promiscuous", "back"),
    [("promiscuous-bridge", "on", "off"), ("hairpin-veth", "off", "on"), ("none", "off", "off")],
)
def test_each_mode_sets_the_bridge_and_its_ports(mode, promiscuous, back):
    assert hairpin.bridge_line(mode, "br0") == f"link set br0 promisc {promiscuous}\n"
    assert hairpin.port_line(mode, "na1") == f"link set na1 type bridge_slave hairpin {back}\n"


@pytest.mark.parametrize("mode", hairpin.MODES)
def test_only_promiscuous_bridge_needs_duplicate_filter_rules(mode):
    rules = hairpin.rules_against_copies(mode, "t", "10.0.0.0/24", "10.0.0.1", "02:00:00:00:00:0a").splitlines()

    assert rules[:2] == ["add table bridge t", "delete table bridge t"]
    assert ("drop" in "".join(rules[2:])) is (mode == "promiscuous-bridge")


class FakeHost:
    """Records the commands of a network instead of executing them."""

    def __init__(self, monkeypatch):
        self.given, self.ports, self.failing = [], PORTS, []
        monkeypatch.setattr("nodeagent_plugins.embedded_runtime.commands.run", self.run)
        monkeypatch.setattr("nodeagent_plugins.embedded_runtime.network._is_device", lambda _name: True)
        monkeypatch.setattr("nodeagent_plugins.embedded_runtime.network.find_executable", lambda name: name)

    async def run(self, command, attempt, *, given=""):
        if given:
            self.given += given.splitlines()
            if self.failing:
                self.failing.pop(0)()
            return ""
        return self.ports if "master" in command else BRIDGE

    @property
    def links(self):
        lines, self.given = [line for line in self.given if line.startswith("link")], []
        return lines


@pytest.fixture
def host(monkeypatch):
    return FakeHost(monkeypatch)


async def test_changed_mode_applies_to_bridge_and_pod_ports(host):
    network = BridgeNetwork("br0", "10.0.0.0/24", "none")

    await network.set_hairpin_mode("hairpin-veth")

    assert host.links == [
        "link set br0 address 02:00:00:00:00:0a",
        "link set br0 promisc off",
        "link set na0123456789a type bridge_slave hairpin on",
        "link set nabbbbbbbbbbb type bridge_slave hairpin on",
    ]
    await network.set_hairpin_mode("hairpin-veth")
    assert host.links == [], "nothing changed"


async def test_removed_port_does_not_affect_the_others(host):
    def fail_after_removal():
        host.ports = PORTS.splitlines()[2]
        raise CallError("no such device")

    host.failing = [lambda: None, lambda: None, fail_after_removal]
    await BridgeNetwork("br0", "10.0.0.0/24", "none").set_hairpin_mode("hairpin-veth")

    assert host.links[-1:] == ["link set nabbbbbbbbbbb type bridge_slave hairpin on"]


async def test_failed_change_is_retried_by_the_next_call(host):
    def fail():
        raise CallError("no")

    host.failing = [fail]
    network = BridgeNetwork("br0", "10.0.0.0/24", "none")
    with pytest.raises(CallError):
        await network.set_hairpin_mode("hairpin-veth")
    assert len(host.links) == 2

    await network.set_hairpin_mode("hairpin-veth")

    assert len(host.links) == 4


async def test_unknown_mode_is_rejected(host):
    with pytest.raises(InvalidArgument, match="promiscuous-bridge, hairpin-veth, none"):
        await BridgeNetwork("br0").set_hairpin_mode("both")
    assert host.links == []


async def test_mode_without_a_bridge_executes_no_command(host):
    await HostNetwork().set_hairpin_mode("hairpin-veth")
    await HostNetwork().adopt()

    assert host.given == []


class Server:
    """Process of a runtime that exits when the test requests it."""

    def __init__(self):
        self.end = asyncio.Event()

    async def ended(self):
        await self.end.wait()


def rejected(code):
    nothing = grpc.aio.Metadata()
    return grpc.aio.AioRpcError(code, nothing, nothing)


@pytest.fixture
def runtime(monkeypatch):
    """Return consecutive servers, their responses, and the received modes."""

    class Runtime:
        def __init__(self):
            self.servers, self.responses, self.result = [], [], asyncio.Queue()

        async def set_mode(self, endpoint, mode):
            response = self.responses.pop(0) if self.responses else None
            self.result.put_nowait((endpoint, mode))
            if response is not None:
                raise response

    runtime = Runtime()
    monkeypatch.setattr(hairpin_loop, "find_server", lambda _path: runtime.servers.pop(0) if runtime.servers else None)
    monkeypatch.setattr(hairpin_loop, "set_hairpin_mode", runtime.set_mode)
    return runtime


class TestLoop(BackgroundLoopContract):
    @pytest.fixture
    def loop(self, runtime, clock):
        runtime.servers = [Server(), Server()]
        return hairpin_loop.HairpinLoop("unix:///run/x.sock", "none", clock)


@pytest.fixture
async def start_loop(clock):
    """Return a function that starts the loop with a mode."""
    tasks = []

    def start(mode):
        loop = hairpin_loop.HairpinLoop("unix:///run/x.sock", mode, clock)
        tasks.append(asyncio.create_task(loop.run()))
        return tasks[-1]

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.row("config.hairpinMode")
async def test_each_started_runtime_receives_the_mode(runtime, start_loop):
    first, second = Server(), Server()
    runtime.servers = [first, second]
    start_loop("hairpin-veth")
    assert await runtime.result.get() == ("unix:///run/x.sock", "hairpin-veth")

    first.end.set()

    assert await runtime.result.get() == ("unix:///run/x.sock", "hairpin-veth")


async def test_unavailable_runtime_receives_the_mode_once_it_responds(runtime, start_loop, clock):
    runtime.responses = [rejected(grpc.StatusCode.UNAVAILABLE)]
    start_loop("none")
    await runtime.result.get()
    runtime.servers = [Server()]

    await clock.advance(1)

    assert await runtime.result.get() == ("unix:///run/x.sock", "none")


@pytest.mark.parametrize(("mode", "lines"), [("hairpin-veth", 1), ("none", 1), ("promiscuous-bridge", 0)])
async def test_external_runtime_is_unchanged_and_logged_once(runtime, start_loop, clock, caplog, mode, lines):
    runtime.servers = [Server()]
    runtime.responses = [rejected(grpc.StatusCode.UNIMPLEMENTED)]
    with caplog.at_level(logging.WARNING):
        start_loop(mode)
        await runtime.result.get()
        await clock.advance(120)

    assert runtime.result.empty()
    assert sum("Ignoring hairpinMode" in record.message for record in caplog.records) == lines


async def test_unexpected_error_of_the_runtime_fails_the_loop(runtime, start_loop):
    runtime.servers = [Server()]
    runtime.responses = [rejected(grpc.StatusCode.UNKNOWN)]

    with pytest.raises(grpc.aio.AioRpcError):
        await start_loop("none")
