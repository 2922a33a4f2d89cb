"""Tests for the change detection strategies."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from nodeagent.contracts.api import CONFIG_MAPS, SECRETS
from nodeagent.errors import ApiError, ApiUnavailable, ConfigError
from nodeagent.model.pod import Pod
from nodeagent.testing import FakeApi, FakeClock, FakePodDirectory, make_config, make_context, make_pod
from nodeagent_plugins import object_reader
from nodeagent_plugins.object_reader.first_read import LONGEST_SECONDS, RETRY_SECONDS
from nodeagent_plugins.object_reader.reader import Reader, StandaloneReader

from .conftest import MakeReader

ROW = "config.configMapAndSecretChangeDetectionStrategy"


def pod_with(name: str = "web", config_map: str = "cm") -> Pod:
    return make_pod(
        name,
        volumes=[
            {"name": "a", "configMap": {"name": config_map}},
            {"name": "b", "secret": {"secretName": "s"}},
        ],
    )


def put(api: FakeApi, value: str, **fields: Any) -> None:
    api.put(CONFIG_MAPS, {"metadata": {"name": "cm", "managedFields": [{}]}, "data": {"a": value}, **fields})


async def value(reader: Reader) -> str | None:
    found = await reader.config_map("default", "cm")
    return None if found is None else found["data"]["a"]


def reads(api: FakeApi) -> tuple[int, int, int]:
    """Return the numbers of get, list and watch requests for config maps."""
    return tuple(len(api.made(verb, CONFIG_MAPS)) for verb in ("get", "list", "watch"))  # type: ignore[return-value]


@pytest.mark.row(ROW)
async def test_get_reads_from_the_server_each_time(make_reader: MakeReader, api: FakeApi) -> None:
    reader = make_reader("Get")
    reader.register_pod(pod_with())
    put(api, "1")
    seen = [await value(reader)]

    put(api, "2")
    seen.append(await value(reader))

    assert seen == ["1", "2"]
    assert reads(api) == (2, 0, 0)


@pytest.mark.row(ROW)
async def test_cache_refreshes_after_a_minute(make_reader: MakeReader, api: FakeApi, clock: FakeClock) -> None:
    reader = make_reader("Cache")
    reader.register_pod(pod_with())
    put(api, "1")
    seen = [await value(reader)]

    put(api, "2")
    await clock.advance(59)
    seen.append(await value(reader))
    await clock.advance(1)
    seen.append(await value(reader))

    assert seen == ["1", "1", "2"]
    assert reads(api) == (2, 0, 0)


@pytest.mark.row(ROW)
async def test_watch_detects_changes(make_reader: MakeReader, api: FakeApi, clock: FakeClock) -> None:
    reader = make_reader("Watch")
    put(api, "1")
    reader.register_pod(pod_with())
    seen = [await value(reader)]

    put(api, "2")
    await clock.settle()
    seen.append(await value(reader))
    api.remove(CONFIG_MAPS, "cm")
    await clock.settle()
    seen.append(await value(reader))

    assert seen == ["1", "2", None]
    assert reads(api) == (0, 1, 1)


async def test_watched_change_triggers_a_sync_of_the_pods_that_use_the_object(
    make_reader: MakeReader, api: FakeApi, clock: FakeClock, pods: FakePodDirectory
) -> None:
    reader = make_reader("Watch")
    web, other = pod_with("web"), pod_with("other", config_map="another")
    put(api, "1")
    for pod in (web, other):
        reader.register_pod(pod)
    await clock.settle()
    assert pods.triggered == [], "the first read is not a change"

    put(api, "2")
    await clock.settle()
    assert pods.triggered == [web.uid]

    api.remove(CONFIG_MAPS, "cm")
    api.put(SECRETS, {"metadata": {"name": "s"}, "data": {}})
    await clock.settle()
    assert pods.triggered == [web.uid, web.uid, web.uid, other.uid]

    reader.unregister_pod(web.uid)
    put(api, "3")
    await clock.settle()
    assert pods.triggered[4:] == []


@pytest.mark.row(ROW)
async def test_invalid_strategy_is_rejected(make_reader: MakeReader) -> None:
    with pytest.raises(ConfigError, match="configMapAndSecretChangeDetectionStrategy: 'Guess' must be one of"):
        make_reader("Guess")


@pytest.mark.parametrize("strategy", ["Get", "Cache", "Watch"])
async def test_missing_object_returns_none(make_reader: MakeReader, strategy: str) -> None:
    reader = make_reader(strategy)
    reader.register_pod(pod_with())

    assert await reader.config_map("default", "cm") is None
    assert await reader.secret("default", "s") is None


@pytest.mark.parametrize("strategy", ["Get", "Cache", "Watch"])
async def test_unreachable_server_is_reported(
    make_reader: MakeReader, api: FakeApi, clock: FakeClock, strategy: str
) -> None:
    api.outage = True
    reader = make_reader(strategy)
    reader.register_pod(pod_with())

    read = asyncio.create_task(value(reader))
    await clock.advance(RETRY_SECONDS)

    with pytest.raises(ApiUnavailable, match="does not respond"):
        await read


async def test_first_read_waits_for_a_slow_server(make_reader: MakeReader, api: FakeApi, clock: FakeClock) -> None:
    put(api, "1")
    api.hang("list")
    reader = make_reader("Watch")
    reader.register_pod(pod_with())
    read = asyncio.create_task(value(reader))

    await clock.advance(30)
    waiting = not read.done()
    api.recover("list")
    await clock.settle()

    assert waiting
    assert await read == "1"


async def test_first_read_ends_without_a_response(make_reader: MakeReader, api: FakeApi, clock: FakeClock) -> None:
    api.hang("list")
    reader = make_reader("Watch")
    reader.register_pod(pod_with())

    read = asyncio.create_task(value(reader))
    await clock.advance(LONGEST_SECONDS)

    with pytest.raises(ApiUnavailable, match='"default/cm" has not been read from the API server yet: no response'):
        await read


async def test_first_read_waits_for_the_retry_of_a_failed_one(
    make_reader: MakeReader, api: FakeApi, clock: FakeClock, pods: FakePodDirectory
) -> None:
    put(api, "1")
    api.fail("list", ApiError("forbidden", code=403), times=3)  # Of the config map, the secret and the services.
    reader = make_reader("Watch")
    reader.register_pod(pod_with())

    read = asyncio.create_task(value(reader))
    await clock.advance(RETRY_SECONDS)

    assert await read == "1"
    assert pods.triggered == []


async def test_object_that_could_not_be_read_triggers_a_sync_once_it_is_read(
    make_reader: MakeReader, api: FakeApi, clock: FakeClock, pods: FakePodDirectory
) -> None:
    put(api, "1")
    api.outage = True
    reader, pod = make_reader("Watch"), pod_with()
    reader.register_pod(pod)
    read = asyncio.create_task(value(reader))
    await clock.advance(RETRY_SECONDS)
    with pytest.raises(ApiUnavailable):
        await read

    api.outage = False
    await clock.advance(30)

    assert pods.triggered == [pod.uid]
    assert await value(reader) == "1"


@pytest.mark.parametrize("strategy", ["Get", "Cache", "Watch"])
async def test_unreferenced_object_is_read_and_not_cached(make_reader: MakeReader, api: FakeApi, strategy: str) -> None:
    reader = make_reader(strategy)
    put(api, "1")
    seen = [await value(reader)]

    put(api, "2")
    seen.append(await value(reader))

    assert seen == ["1", "2"]
    assert reads(api) == (2, 0, 0)


@pytest.mark.parametrize("strategy", ["Cache", "Watch"])
async def test_cached_object_is_used_during_an_outage(
    make_reader: MakeReader, api: FakeApi, clock: FakeClock, strategy: str
) -> None:
    reader = make_reader(strategy)
    put(api, "1")
    reader.register_pod(pod_with())
    await value(reader)

    api.outage = True
    await clock.advance(1000)

    assert await value(reader) == "1"


async def test_server_side_metadata_is_removed(make_reader: MakeReader, api: FakeApi) -> None:
    put(api, "1")

    found = await make_reader("Get").config_map("default", "cm")

    assert found is not None
    assert "managedFields" not in found["metadata"]


async def test_cache_ttl_comes_from_the_node(
    make_reader: MakeReader, api: FakeApi, clock: FakeClock, node: dict[str, Any]
) -> None:
    node["metadata"] = {"annotations": {"node.alpha.kubernetes.io/ttl": "300"}}
    reader = make_reader("Cache")
    reader.register_pod(pod_with())
    put(api, "1")
    await value(reader)
    put(api, "2")

    await clock.advance(299)
    before = await value(reader)
    await clock.advance(1)

    assert (before, await value(reader)) == ("1", "2")


async def test_cache_refreshes_when_a_pod_is_registered(make_reader: MakeReader, api: FakeApi) -> None:
    reader = make_reader("Cache")
    reader.register_pod(pod_with("a"))
    put(api, "1")
    await value(reader)
    put(api, "2")

    reader.register_pod(pod_with("a"))
    unchanged = await value(reader)
    reader.register_pod(pod_with("b"))

    assert (unchanged, await value(reader)) == ("1", "2")


async def test_pods_share_a_watch_that_stops_with_the_last_one(
    make_reader: MakeReader, api: FakeApi, clock: FakeClock
) -> None:
    reader = make_reader("Watch")
    put(api, "1")
    for name in ("a", "b"):
        reader.register_pod(pod_with(name))
    await clock.settle()
    shared = api.watches

    reader.unregister_pod("uid-a")
    await clock.settle()
    one_left = api.watches
    reader.unregister_pod("uid-b")
    reader.unregister_pod("uid-b")
    await clock.settle()

    assert (shared, one_left, api.watches) == (3, 3, 1)  # config map, secret, services
    assert reads(api) == (0, 1, 1)


async def test_changed_pod_keeps_the_watches_it_still_needs(
    make_reader: MakeReader, api: FakeApi, clock: FakeClock
) -> None:
    reader = make_reader("Watch")
    reader.register_pod(pod_with(config_map="cm"))
    await clock.settle()

    reader.register_pod(pod_with(config_map="other"))
    await clock.settle()

    assert len(api.made("list", SECRETS)) == 1
    assert len(api.made("list", CONFIG_MAPS)) == 2
    assert api.watches == 3


async def test_idle_watch_is_stopped_and_restarted_by_the_next_read(
    make_reader: MakeReader, api: FakeApi, clock: FakeClock
) -> None:
    reader = make_reader("Watch")
    put(api, "1")
    reader.register_pod(pod_with())
    await value(reader)

    await clock.advance(400)
    idle = api.watches
    put(api, "2")

    assert idle == 1  # services
    assert await value(reader) == "2"


async def test_watch_with_reads_continues(make_reader: MakeReader, api: FakeApi, clock: FakeClock) -> None:
    reader = make_reader("Watch")
    put(api, "1")
    reader.register_pod(pod_with())

    for _ in range(10):
        await value(reader)
        await clock.advance(60)

    assert reads(api) == (0, 1, 1)


async def test_immutable_object_is_not_watched(make_reader: MakeReader, api: FakeApi, clock: FakeClock) -> None:
    reader = make_reader("Watch")
    put(api, "1", immutable=True)
    reader.register_pod(pod_with())
    await clock.settle()

    watches = api.watches
    await clock.advance(400)

    assert watches == 2  # secret, services
    assert await value(reader) == "1"
    assert reads(api)[1] == 1


async def test_expired_watch_lists_again(make_reader: MakeReader, api: FakeApi, clock: FakeClock) -> None:
    reader = make_reader("Watch")
    put(api, "1")
    reader.register_pod(pod_with())
    await clock.settle()
    put(api, "2")
    api.expire()

    await clock.advance(5)

    assert await value(reader) == "2"
    assert reads(api)[1] == 2


async def test_closed_watch_resumes_without_a_list(make_reader: MakeReader, api: FakeApi, clock: FakeClock) -> None:
    reader = make_reader("Watch")
    put(api, "1")
    reader.register_pod(pod_with())
    await clock.settle()
    await clock.advance(10)

    api.end_watches()
    await clock.settle()
    put(api, "2")
    await clock.settle()

    assert await value(reader) == "2"
    assert reads(api) == (0, 1, 2)


async def test_retries_during_an_outage_have_increasing_delays(
    make_reader: MakeReader, api: FakeApi, clock: FakeClock
) -> None:
    reader = make_reader("Watch")
    api.outage = True
    reader.register_pod(pod_with())

    await clock.advance(60)
    requested = reads(api)[1]
    put(api, "1")
    api.outage = False
    await clock.advance(40)

    assert 5 <= requested <= 9
    assert await value(reader) == "1"


async def test_standalone_node_reports_missing_server(tmp_path: Path) -> None:
    context = make_context(tmp_path, config=make_config())
    reader = object_reader.nodeagent_provide_object_reader(context)

    reader.register_pod(pod_with())
    reader.unregister_pod("uid-web")

    assert isinstance(reader, StandaloneReader)
    for call in (
        reader.config_map("a", "b"),
        reader.secret("a", "b"),
        reader.services("a"),
        reader.service_account_token(make_pod()),
    ):
        with pytest.raises(ApiUnavailable, match="standalone"):
            await call


async def test_node_with_a_server_reads_from_it(tmp_path: Path, api: FakeApi) -> None:
    assert isinstance(object_reader.nodeagent_provide_object_reader(make_context(tmp_path, api=api)), Reader)
