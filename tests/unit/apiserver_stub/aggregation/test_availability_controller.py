"""Tests for the availability controller: conditions, the table of remote group versions, and discovery."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.aggregation.availability import Availability, condition_of
from apiserver_stub.aggregation.extension_client import ExtensionRequestError
from apiserver_stub.aggregation.remotes import Remotes
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.authz.conftest import Memory

COLLECTION, KEY = "g/apiservices", ("metrics.example.com", "v1")
SERVICE = {"type": "ClusterIP", "clusterIP": "10.0.0.9", "ports": [{"name": "api", "port": 443}]}
SUBSETS = [{"addresses": [{"ip": "10.1.1.1"}], "ports": [{"name": "api", "port": 8443}]}]
METADATA = {"namespace": "n", "name": "s"}
RESOURCE = {"name": "loads", "kind": "Load", "namespaced": True, "verbs": ["get"]}


class FakeExtensions:
    """Client of an extension API server that works, or fails with a text."""

    def __init__(self) -> None:
        self.problem, self.checks, self.responds = "", 0, asyncio.Event()
        self.responds.set()

    async def check(self, remote: Any) -> None:
        self.checks += 1
        await self.responds.wait()
        if self.problem:
            raise ExtensionRequestError(self.problem)

    async def read(self, remote: Any, path: str) -> Any:
        if path == "/openapi/v3":
            raise ExtensionRequestError("not found")
        return {"kind": "APIResourceList", "resources": [RESOURCE]}


class Controlled:
    """Running controller with its store."""

    def __init__(self) -> None:
        self.store, self.extensions, self.remotes = Memory(), FakeExtensions(), Remotes(Identity())
        registry: Any = SimpleNamespace(find=lambda *_: SimpleNamespace(storage=COLLECTION))
        self.controller = Availability(self.store, registry, self.remotes, self.extensions)  # type: ignore[arg-type]

    def put_api_service(self, **status: Any) -> None:
        spec = {"group": KEY[0], "version": KEY[1], "service": {**METADATA, "port": 443}}
        self.store.put(COLLECTION, {"metadata": {"name": "v1.metrics.example.com"}, "spec": spec, "status": status})

    def put_service(self) -> None:
        self.store.put("core/services", {"metadata": METADATA, "spec": SERVICE})
        self.store.put("core/endpoints", {"metadata": METADATA, "subsets": SUBSETS})

    def condition(self, name: str = "v1.metrics.example.com") -> tuple[str, str]:
        found = condition_of(self.store.read(COLLECTION, name) or {})
        return found.get("status", ""), found.get("reason", "")

    @property
    def serves(self) -> bool:
        remote = self.remotes.table.get(KEY)
        return remote is not None and remote.available

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0.005)


@pytest.fixture
async def controlled() -> AsyncIterator[Controlled]:
    made = Controlled()
    task = asyncio.create_task(made.controller.run())
    yield made
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_available_extension_server_is_served_with_its_resources(controlled: Controlled) -> None:
    controlled.put_service()
    controlled.put_api_service()

    await controlled.until(lambda: KEY in controlled.remotes.discovered)

    found = controlled.remotes.discovered[KEY]
    assert (controlled.condition(), controlled.serves) == (("True", "Passed"), True)
    assert (found.fresh, [item["resource"] for item in found.resources]) == (True, ["loads"])


async def test_missing_service_is_noticed_when_it_is_created(controlled: Controlled) -> None:
    controlled.put_api_service()
    await controlled.until(lambda: KEY in controlled.remotes.discovered)
    assert (controlled.condition(), controlled.serves) == (("False", "ServiceNotFound"), False)
    assert not controlled.remotes.discovered[KEY].fresh
    assert not controlled.extensions.checks

    controlled.put_service()

    await controlled.until(lambda: controlled.serves and controlled.remotes.discovered[KEY].fresh)
    assert controlled.condition() == ("True", "Passed")


async def test_failing_server_keeps_its_resources_as_stale(controlled: Controlled) -> None:
    controlled.put_service()
    controlled.put_api_service()
    await controlled.until(lambda: KEY in controlled.remotes.discovered)

    controlled.extensions.problem = "connection refused"
    controlled.store.put("core/endpoints", {"metadata": METADATA, "subsets": [*SUBSETS, *SUBSETS]})
    await controlled.until(lambda: not controlled.remotes.discovered[KEY].fresh)

    found = controlled.remotes.discovered[KEY]
    assert (controlled.condition(), controlled.serves) == (("False", "FailedDiscoveryCheck"), False)
    assert [item["resource"] for item in found.resources] == ["loads"]

    controlled.extensions.problem = ""
    await controlled.until(lambda: controlled.serves)


async def test_change_of_another_service_does_not_repeat_the_check(controlled: Controlled) -> None:
    controlled.extensions.responds.clear()
    controlled.put_service()
    controlled.put_api_service()
    await controlled.until(lambda: controlled.extensions.checks)
    first = controlled.remotes.table

    controlled.store.put("core/services", {"metadata": {"namespace": "n", "name": "other"}, "spec": SERVICE})
    await controlled.until(lambda: controlled.remotes.table is not first)
    checks = controlled.extensions.checks
    controlled.extensions.responds.set()

    await controlled.until(lambda: KEY in controlled.remotes.discovered)
    assert controlled.extensions.checks == checks


async def test_removal_of_an_api_service_ends_its_check(controlled: Controlled) -> None:
    controlled.put_service()
    controlled.put_api_service()
    await controlled.until(lambda: KEY in controlled.remotes.discovered)

    controlled.store.remove(COLLECTION, "v1.metrics.example.com")
    await controlled.until(lambda: not controlled.remotes.table)

    assert not controlled.remotes.discovered


async def test_condition_that_another_client_writes_is_corrected(controlled: Controlled) -> None:
    controlled.put_service()
    controlled.put_api_service()
    await controlled.until(lambda: KEY in controlled.remotes.discovered)

    controlled.put_api_service(conditions=[{"type": "Available", "status": "False", "reason": "Mine"}])

    await controlled.until(lambda: controlled.condition() == ("True", "Passed"))


async def test_local_api_service_is_available(controlled: Controlled) -> None:
    controlled.store.put(COLLECTION, {"metadata": {"name": "v1.apps"}, "spec": {"group": "apps", "version": "v1"}})

    await controlled.until(lambda: controlled.condition("v1.apps") == ("True", "Local"))

    assert not controlled.remotes.table
