"""Tests for the negotiation with a plugin, and for calls."""

from __future__ import annotations

import asyncio
import json

import pytest

from nodeagent.base.plugin_rpc import RpcError, methods_of
from nodeagent.base.pluginproto import plugin_v1_pb2 as api
from nodeagent.errors import PluginDisconnected, PluginError, PluginTimeout
from nodeagent.testing import FakeClock
from nodeagent_plugins.external_plugins.capabilities import NUMBERS
from nodeagent_plugins.external_plugins.session import NegotiationError, Session
from nodeagent_plugins.external_plugins.settings import ExternalPlugin
from tests.unit.plugins.external_plugins.conftest import FakePlugin

ADMIT = methods_of(api.DESCRIPTOR.services_by_name["Admission"])["AdmitPod"]


def test_every_capability_of_the_protocol_can_be_granted() -> None:
    assert sorted(NUMBERS.values()) == [number for number in sorted(api.Capability.values()) if number]


async def test_registration_passes_version_settings_and_granted_capabilities(
    plugin: FakePlugin, connected: Session
) -> None:
    request = plugin.last("Register")

    assert (request.version, request.node_name, json.loads(request.settings)) == ("v1", "node-1", {"color": "red"})
    assert set(request.capabilities) == set(NUMBERS.values())
    assert connected.version == "1.2"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": "other"}, "has the name 'other' instead of 'shelf'"),
        ({"supported_versions": ["v2"]}, "no protocol version in common with the agent: the agent supports v1, "),
        ({"supported_versions": []}, "the agent supports v1, the plugin none"),
        ({"supported_versions": ["v2", "v3"]}, "the agent supports v1, the plugin v2, v3"),
        ({"capabilities": [api.ADMISSION]}, "does not provide the capabilities container_mutation, credentials, "),
    ],
)
async def test_unsuitable_plugin_is_rejected(plugin: FakePlugin, session: Session, change: dict, reason: str) -> None:
    for field, value in change.items():
        plugin.info.ClearField(field)
        plugin.info.MergeFrom(api.GetPluginInfoResponse(**{field: value}))

    with pytest.raises(NegotiationError, match=reason):
        async with session.opened("/run/plugin.sock"):
            pass

    assert not session.connected


async def test_message_of_rejected_settings_is_passed_on(plugin: FakePlugin, session: Session) -> None:
    plugin.responses["Register"] = RpcError("InvalidArgument", "settings.color: must be blue")

    with pytest.raises(NegotiationError, match=r"InvalidArgument: settings\.color: must be blue"):
        async with session.opened("/run/plugin.sock"):
            pass


async def test_unknown_capabilities_and_versions_are_ignored(plugin: FakePlugin, session: Session) -> None:
    plugin.info.capabilities.append(4711)
    plugin.info.supported_versions.append("v9")

    async with session.opened("/run/plugin.sock"):
        assert session.connected


@pytest.mark.parametrize(
    ("code", "error", "transient"),
    [
        ("Unavailable", PluginDisconnected, True),
        ("DeadlineExceeded", PluginTimeout, True),
        ("ResourceExhausted", PluginError, True),
        ("Internal", PluginError, False),
        ("Unimplemented", PluginError, False),
    ],
)
async def test_failed_call_names_plugin_and_hook(
    plugin: FakePlugin, connected: Session, code: str, error: type[PluginError], transient: bool
) -> None:
    plugin.responses["AdmitPod"] = RpcError(code, "broken")

    with pytest.raises(error, match="plugin shelf: nodeagent_admit_pod") as raised:
        await connected.call("nodeagent_admit_pod", ADMIT, api.AdmitPodRequest(), 5)

    assert raised.value.transient is transient


async def test_call_waits_for_a_plugin_that_is_starting(plugin: FakePlugin, session: Session, clock: FakeClock) -> None:
    plugin.responses["AdmitPod"] = api.AdmitPodResponse(decision=api.ADMIT)
    call = asyncio.create_task(session.call("nodeagent_admit_pod", ADMIT, api.AdmitPodRequest(), 5))
    await clock.advance(2)
    assert not call.done()

    async with session.opened("/run/plugin.sock"):
        assert (await call).decision == api.ADMIT

    assert plugin.timeouts[-1] == pytest.approx(3)


async def test_call_fails_immediately_while_the_plugin_is_down(session: Session, failures: list[str]) -> None:
    session.failed("exited with code 3")

    with pytest.raises(PluginDisconnected, match="nodeagent_admit_pod failed: exited with code 3"):
        await session.call("nodeagent_admit_pod", ADMIT, api.AdmitPodRequest(), 5)

    assert failures == ["exited with code 3"]


async def test_plugin_starts_until_it_is_connected_or_has_failed(session: Session) -> None:
    assert session.is_starting
    async with session.opened("/run/plugin.sock"):
        assert not session.is_starting
    assert session.is_starting

    session.failed("exited with code 3")
    assert not session.is_starting


@pytest.mark.parametrize(("failed", "seconds"), [(False, 0), (True, 1)])
async def test_connection_is_awaited(session: Session, clock: FakeClock, failed: bool, seconds: int) -> None:
    waiting = asyncio.create_task(session.wait_connected())
    await clock.settle()
    if failed:
        session.failed("exited with code 3")
        await clock.settle()
        session.starting()
    async with session.opened("/run/plugin.sock"):
        await clock.settle()
        assert waiting.done() == (not failed)
        await clock.advance(seconds)
        assert waiting.done()


@pytest.mark.parametrize("problem", ["", "exited with code 3"])
async def test_stream_requires_a_connection(session: Session, problem: str) -> None:
    if problem:
        session.failed(problem)

    with pytest.raises(PluginDisconnected, match=problem or "is not connected"):
        async for _ in session.stream(ADMIT, api.AdmitPodRequest()):
            pass


async def test_call_fails_at_its_deadline_while_the_plugin_starts(session: Session, clock: FakeClock) -> None:
    call = asyncio.create_task(session.call("nodeagent_admit_pod", ADMIT, api.AdmitPodRequest(), 5))
    await clock.advance(6)

    with pytest.raises(PluginDisconnected, match="is not connected after 5 s"):
        await call


async def test_lost_connection_ends_the_watch(plugin: FakePlugin, session: Session) -> None:
    async with session.opened("/run/plugin.sock") as connection:
        plugin.broken.set()
        assert await session.watch(connection) == "the connection was lost"


async def test_failed_health_checks_end_the_watch(
    plugin: FakePlugin, session: Session, settings: ExternalPlugin, clock: FakeClock
) -> None:
    async with session.opened("/run/plugin.sock") as connection:
        watch = asyncio.create_task(session.watch(connection))
        plugin.responses["GetPluginInfo"] = RpcError("DeadlineExceeded", "context deadline exceeded")
        for _ in range(3):
            await clock.advance(settings.health_seconds)

        assert (await watch).startswith("failed 3 health checks: DeadlineExceeded")
