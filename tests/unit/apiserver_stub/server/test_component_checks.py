"""Tests for the checks of control plane components."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC

import pytest

from apiserver_stub.controllers.leases import CONTROLLER_MANAGER, SCHEDULER
from apiserver_stub.options import parse
from apiserver_stub.server.component_checks import component_checks
from apiserver_stub.storage import StoreUnavailable
from apiserver_stub.storage.monitor import Check
from apiserver_stub.subresources.component_statuses import Finding
from nodeagent.testing.clock import FakeClock
from tests.unit.apiserver_stub.authz.conftest import Memory

OK = Finding(healthy=True, message="ok")


class Servers(Memory):
    """Store with the sizes of the etcd servers that respond."""

    def __init__(self, *responding: str) -> None:
        super().__init__()
        self._responding = responding

    async def sizes(self) -> Mapping[str, int]:
        if not self._responding:
            raise StoreUnavailable("connection refused")
        return dict.fromkeys(self._responding, 1)


def storage_check(problem: str = "") -> Check:
    async def probe(seconds: float) -> str:
        return problem

    return Check(probe, 2.0)


async def findings(
    *arguments: str, store: Memory | None = None, problem: str = "", urls: Mapping[str, str] | None = None
) -> dict[str, Finding]:
    options, store = parse(list(arguments)), store or Memory()
    checks = component_checks(options, store, FakeClock(), storage_check(problem), urls or {})  # type: ignore[arg-type]
    return {name: await check() for name, check in checks().items()}


def hold(store: Memory, component: str) -> None:
    """Add the lease of a running *component*."""
    spec = {"holderIdentity": "host_1", "renewTime": FakeClock().wall().astimezone(UTC).isoformat()}
    store.put("coordination.k8s.io/leases", {"metadata": {"name": component, "namespace": "kube-system"}, "spec": spec})


@asynccontextmanager
async def component(response: bytes) -> AsyncIterator[str]:
    """Serve *response* to every request, at the returned URL."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(response)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/healthz"


async def test_bundled_components_are_healthy_with_the_server() -> None:
    assert await findings() == {"controller-manager": OK, "scheduler": OK, "etcd-0": OK}


async def test_problem_of_the_store_is_an_error() -> None:
    assert (await findings(problem="writes fail"))["etcd-0"] == Finding(healthy=False, error="writes fail")


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", OK),
        (b"HTTP/1.1 399 X\r\nContent-Length: 2\r\n\r\nok", OK),
        (
            b"HTTP/1.1 400 X\r\nContent-Length: 2\r\n\r\nno",
            Finding(healthy=False, message="HTTP probe failed with statuscode: 400"),
        ),
        (
            b"HTTP/1.1 500 X\r\nContent-Length: 2\r\n\r\nno",
            Finding(healthy=False, message="HTTP probe failed with statuscode: 500"),
        ),
    ],
)
async def test_external_component_is_requested_while_it_holds_its_lease(response: bytes, expected: Finding) -> None:
    store = Memory()
    hold(store, CONTROLLER_MANAGER)
    async with component(response) as url:
        found = await findings(store=store, urls={CONTROLLER_MANAGER: url})
    assert (found["controller-manager"], found["scheduler"]) == (expected, OK)


async def test_component_that_does_not_run_is_reported_with_its_address() -> None:
    async with component(b"") as url:
        pass
    found = await findings("--bind-pods-to-single-node=false", urls={SCHEDULER: url})
    assert found["scheduler"].healthy is False
    assert found["scheduler"].message.endswith("connect: connection refused")


async def test_each_etcd_server_is_a_component() -> None:
    one, other = "http://127.0.0.1:1", "http://127.0.0.1:2"
    found = await findings(f"--etcd-servers={one},{other}", store=Servers(other))
    assert found["etcd-0"].error == "context deadline exceeded"
    assert found["etcd-1"] == OK
    assert (await findings(f"--etcd-servers={one}", store=Servers()))["etcd-0"].error == "connection refused"
