"""Tests for the API client of each certificate manager."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent.base.release import Release
from nodeagent.config.features import build_gates
from nodeagent.testing import FakeApi, FakeClock, make_config, make_context
from nodeagent_plugins.certificates.issuance import REQUESTS
from nodeagent_plugins.certificates.manager import CertificateManager
from nodeagent_plugins.certificates.managers import client_certificate, client_manager, server_manager
from nodeagent_plugins.certificates.store import PairStore
from tests.unit.plugins.certificates.signing import START
from tests.unit.plugins.certificates.test_manager import addresses, make_pair

DAY = 24 * 3600.0


class BootstrapApi(FakeApi):
    """A connection with the bootstrap credentials."""

    opened: Path | None = None
    closed = False

    async def close(self) -> None:
        self.closed = True


class Harness:
    """A context whose agent's client and bootstrap client are separate."""

    def __init__(self, directory: Path, clock: FakeClock) -> None:
        self.directory, self.clock = directory, clock
        self.api, self.bootstrap_api = FakeApi(clock), BootstrapApi(clock)

    def context(self, *, bootstrap: bool = False, **fields: Any) -> Any:
        paths = {"kubeconfig": str(self.directory / "kubeconfig")}
        if bootstrap:
            paths["bootstrap_kubeconfig"] = str(self.directory / "bootstrap")
        fields = {"clock": self.clock, "api": self.api, "config": make_config(rotate_certificates=True), **fields}
        context = make_context(self.directory, connect_api=self._connect, **fields)
        context.settings = replace(context.settings, **paths)
        return context

    def _connect(self, kubeconfig: Path) -> Any:
        self.bootstrap_api.opened = kubeconfig
        return self.bootstrap_api

    @asynccontextmanager
    async def running(self, manager: CertificateManager) -> AsyncIterator[None]:
        task = asyncio.create_task(manager.run())
        try:
            await self.clock.settle()
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def harness(tmp_path: Path, clock: FakeClock) -> Harness:
    return Harness(tmp_path, clock)


async def test_first_client_certificate_is_requested_with_bootstrap_credentials(harness: Harness) -> None:
    async with harness.running(client_manager(harness.context(bootstrap=True), harness.directory)):
        assert len(harness.bootstrap_api.all(REQUESTS)) == 1
        assert harness.bootstrap_api.opened == harness.directory / "bootstrap"
        assert harness.api.requests == []
    assert harness.bootstrap_api.closed


@pytest.mark.parametrize("bootstrap", [True, False])
async def test_client_certificate_is_renewed_with_the_current_one(harness: Harness, bootstrap: bool) -> None:
    PairStore(harness.directory, "kubelet-client").put(make_pair(client_certificate("node-1")), START)
    harness.clock.jump(0.4 * DAY)  # 9.6 of 10 hours.
    async with harness.running(client_manager(harness.context(bootstrap=bootstrap), harness.directory)):
        assert len(harness.api.all(REQUESTS)) == 1
        assert harness.bootstrap_api.requests == []


async def test_expired_certificate_without_bootstrap_uses_the_agents_client(harness: Harness) -> None:
    PairStore(harness.directory, "kubelet-client").put(make_pair(client_certificate("node-1")), START)
    harness.clock.jump(DAY)
    async with harness.running(client_manager(harness.context(), harness.directory)):
        assert len(harness.api.all(REQUESTS)) == 1


async def test_serving_certificate_is_requested_with_the_agents_client(harness: Harness) -> None:
    context = harness.context(bootstrap=True, node=addresses("10.0.0.5"))
    async with harness.running(server_manager(context, harness.directory)):
        assert len(harness.api.all(REQUESTS)) == 1
        assert harness.bootstrap_api.requests == []


@pytest.mark.parametrize(
    ("release", "settings", "requests"),
    [("1.30", {}, 1), ("1.31", {}, 0), ("1.31", {"AllowDNSOnlyNodeCSR": True}, 1)],
)
async def test_host_name_suffices_for_a_serving_certificate_as_in_the_release(
    harness: Harness, release: str, settings: dict[str, bool], requests: int
) -> None:
    gates = build_gates(settings, Release.parse(release))
    context = harness.context(gates=gates, node=addresses("node-1"))
    async with harness.running(server_manager(context, harness.directory)):
        assert len(harness.api.all(REQUESTS)) == requests


async def test_missing_api_server_is_reported(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    async with harness.running(client_manager(harness.context(api=None), harness.directory)):
        assert caplog.records[-1].__dict__["err"] == "no API server configured"
