"""Tests for the service cache."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent.contracts.api import SERVICES
from nodeagent.errors import ApiUnavailable
from nodeagent.testing import FakeApi, FakeClock, make_pod
from nodeagent_plugins.object_reader.first_read import RETRY_SECONDS

from .conftest import MakeReader


def put(api: FakeApi, name: str, ip: str, namespace: str = "default") -> None:
    spec = {"clusterIP": ip, "ports": [{"port": 80}], "selector": {"app": "x"}}
    api.put(SERVICES, {"metadata": {"name": name, "namespace": namespace, "labels": {"a": "b"}}, "spec": spec})


async def test_services_are_listed_and_watched(make_reader: MakeReader, api: FakeApi, clock: FakeClock) -> None:
    reader = make_reader()
    put(api, "web", "10.0.0.1")
    put(api, "away", "10.0.0.9", "other")
    first = await reader.services("default")

    put(api, "web", "10.0.0.2")
    put(api, "db", "10.0.0.3")
    await clock.settle()
    second = await reader.services("default")
    api.remove(SERVICES, "web")
    await clock.settle()

    assert first == [
        {
            "metadata": {"namespace": "default", "name": "web"},
            "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 80}]},
        }
    ]
    assert [service["spec"]["clusterIP"] for service in second] == ["10.0.0.2", "10.0.0.3"]
    assert [service["metadata"]["name"] for service in await reader.services("default")] == ["db"]
    assert await reader.services("empty") == []
    assert len(api.made("list", SERVICES)) == len(api.made("watch", SERVICES)) == 1


async def test_services_are_unavailable_before_the_first_list(
    make_reader: MakeReader, api: FakeApi, clock: FakeClock
) -> None:
    api.outage = True
    reader = make_reader()
    read = asyncio.create_task(reader.services("default"))
    await clock.advance(RETRY_SECONDS)
    with pytest.raises(ApiUnavailable, match=r"have not yet been read.*does not respond"):
        await read

    api.outage = False
    await clock.advance(5)

    assert await reader.services("default") == []


async def test_first_pod_starts_the_watch(make_reader: MakeReader, api: FakeApi, clock: FakeClock) -> None:
    reader = make_reader("Get")
    await clock.settle()
    before = api.watches

    reader.register_pod(make_pod())
    await clock.settle()

    assert (before, api.watches) == (0, 1)
