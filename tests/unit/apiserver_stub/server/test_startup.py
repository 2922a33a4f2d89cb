"""Tests for the startup of the server: components and endpoints by options."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from apiserver_stub.options import parse
from apiserver_stub.server.running_server import RunningServer
from apiserver_stub.server.startup import start

QUEUES = "/debug/api_priority_and_fairness/dump_queues"
AUDIT_POLICY = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}"
TRACING = "{apiVersion: apiserver.config.k8s.io/v1beta1, kind: TracingConfiguration}"


@asynccontextmanager
async def started(directory: Path, *arguments: str) -> AsyncIterator[RunningServer]:
    data = f"--data-dir={directory / 'data'}"
    running = await start(parse([data, "--free-port=true", "--bind-address=127.0.0.1", *arguments]))
    try:
        yield running
    finally:
        await running.stop()


def tasks() -> set[str]:
    """Return the names of the components of the running server."""
    return {task.get_name().removeprefix("apiserver/") for task in asyncio.all_tasks()}


async def get(running: RunningServer, path: str) -> tuple[int, str]:
    """Return the code and the body of the response to an administrator."""
    context = ssl.create_default_context(cafile=running.ca_file)
    headers = {"Authorization": f"Bearer {running.token}"}
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
        session.get(running.url + path, headers=headers) as response,
    ):
        return response.status, await response.text()


async def test_default_components_run_and_their_endpoints_respond(tmp_path: Path) -> None:
    async with started(tmp_path) as running:
        names = tasks()
        metrics = (await get(running, "/metrics"))[1]
        codes = {path: (await get(running, path))[0] for path in ("/readyz", "/debug/pprof/", QUEUES, "/")}

    assert names >= {"custom-kinds", "server-identity", "flow-control", "flow-control-config", "controllers"}
    assert names.isdisjoint({"contention-profile", "storage-versions", "key-services"})
    assert set(codes.values()) == {200}
    assert "apiserver_flowcontrol_" in metrics and "apiserver_audit_" not in metrics
    assert (tmp_path / "data/ready.json").exists()


async def test_disabled_components_do_not_run(tmp_path: Path) -> None:
    kinds = ("apiextensions.k8s.io/v1", "flowcontrol.apiserver.k8s.io/v1", "flowcontrol.apiserver.k8s.io/v1beta3")
    async with started(
        tmp_path,
        "--enable-priority-and-fairness=false",
        "--profiling=false",
        "--contention-profiling=true",
        f"--runtime-config={','.join(f'{kind}=false' for kind in kinds)}",
        "--feature-gates=APIServerIdentity=false,APIServerTracing=false",
        f"--tracing-config-file={tmp_path / 'tracing.yaml'}",
    ) as running:
        names = tasks()
        metrics = (await get(running, "/metrics"))[1]
        codes = {path: (await get(running, path))[0] for path in ("/debug/pprof/", QUEUES)}

    assert names.isdisjoint({"custom-kinds", "server-identity", "flow-control", "flow-control-config"})
    assert "contention-profile" not in names
    assert set(codes.values()) == {404}
    assert "apiserver_flowcontrol_" not in metrics


async def test_optional_components_run_if_configured(tmp_path: Path) -> None:
    (tmp_path / "audit.yaml").write_text(AUDIT_POLICY)
    (tmp_path / "tracing.yaml").write_text(TRACING)
    async with started(
        tmp_path,
        "--contention-profiling=true",
        "--feature-gates=APIServerIdentity=true,StorageVersionAPI=true,APIServerTracing=true",
        "--runtime-config=internal.apiserver.k8s.io/v1alpha1=true",
        f"--audit-policy-file={tmp_path / 'audit.yaml'}",
        f"--audit-log-path={tmp_path / 'audit.log'}",
        "--audit-log-format=legacy",
        f"--tracing-config-file={tmp_path / 'tracing.yaml'}",
        f"--debug-socket-path={tmp_path / 'debug.sock'}",
    ) as running:
        names = tasks()
        metrics = (await get(running, "/metrics"))[1]
        checks = (await get(running, "/readyz?verbose"))[1]
        connector = aiohttp.UnixConnector(str(tmp_path / "debug.sock"))
        async with aiohttp.ClientSession(connector=connector) as session:
            codes = [(await session.get(f"http://debug{path}")).status for path in ("/debug/pprof/", "/other")]

    assert {"contention-profile", "storage-versions"} <= names
    assert "apiserver_audit_event_total" in metrics
    assert "poststarthook/built-in-resources-storage-version-updater" in checks
    assert codes == [200, 404]
    assert " AUDIT: " in (tmp_path / "audit.log").read_text()


async def test_socket_without_profiles_of_the_server_has_contention(tmp_path: Path) -> None:
    async with started(
        tmp_path, "--contention-profiling=true", "--profiling=false", f"--debug-socket-path={tmp_path / 'debug.sock'}"
    ):
        assert "contention-profile" in tasks()


@pytest.mark.parametrize(("address", "host"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
async def test_url_has_the_advertised_address(tmp_path: Path, address: str, host: str) -> None:
    async with started(tmp_path, f"--bind-address={address}") as running:
        assert running.url.startswith(f"https://{host}:")


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ([], set()),
        (["--cors-allowed-origins=//example[.]com$"], {"Access-Control-Allow-Origin"}),
        (["--strict-transport-security-directives=max-age=9"], {"Strict-Transport-Security"}),
    ],
)
async def test_headers_of_responses_are_configured(tmp_path: Path, arguments: list[str], found: set[str]) -> None:
    async with started(tmp_path, *arguments) as running:
        context = ssl.create_default_context(cafile=running.ca_file)
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
            session.get(f"{running.url}/version", headers={"Origin": "https://example.com"}) as response,
        ):
            names = set(response.headers)

    assert names & {"Access-Control-Allow-Origin", "Strict-Transport-Security"} == found
