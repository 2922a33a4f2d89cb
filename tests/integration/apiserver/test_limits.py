"""Tests for concurrency limits, timeouts and throttling."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from apiserver_stub.options import OptionsError, parse
from apiserver_stub.options.metrics import parse_pairs
from apiserver_stub.pipeline.dispatch import Dispatcher
from apiserver_stub.server.running_server import RunningServer
from nodeagent import __version__

from .in_process import start

MAPS = "/api/v1/namespaces/default/configmaps"
TOO_MANY = b"Too many requests, please try again later.\n"


class Client:
    def __init__(self, running: RunningServer, session: aiohttp.ClientSession, token: str) -> None:
        self.running, self._session, self._token = running, session, token
        self._tls = ssl.create_default_context(cafile=str(running.ca_file))

    async def __call__(self, method: str, path: str, **more: Any) -> tuple[int, dict[str, str], bytes]:
        headers = {"Authorization": f"Bearer {self._token}", **more.pop("headers", {})}
        url = self.running.url + path
        async with self._session.request(method, url, ssl=self._tls, headers=headers, **more) as response:
            return response.status, {key.lower(): text for key, text in response.headers.items()}, await response.read()

    async def stream(self, path: str) -> AsyncIterator[bytes]:
        headers = {"Authorization": f"Bearer {self._token}"}
        async with self._session.get(self.running.url + path, ssl=self._tls, headers=headers) as response:
            async for piece in response.content.iter_any():
                yield piece

    async def metrics(self) -> str:
        return (await self("GET", "/metrics"))[2].decode()


@asynccontextmanager
async def serving(data: Path, *arguments: str) -> AsyncIterator[tuple[Client, Client]]:
    """Yield clients of an administrator and of another user."""
    data.mkdir(parents=True, exist_ok=True)
    tokens = data / "users.csv"
    tokens.write_text('alice-token,alice,alice,"dev"\n')
    running = await start(data, *arguments, f"--token-auth-file={tokens}")
    try:
        async with aiohttp.ClientSession() as session:
            yield Client(running, session, running.token), Client(running, session, "alice-token")
    finally:
        await running.stop()


class Slow:
    """Blocks writes until they are released."""

    def __init__(self, running: RunningServer) -> None:
        self.go, self.in_flight, self.most = asyncio.Event(), 0, 0
        store = running.store
        real = store.update

        async def update(*arguments: Any) -> Any:
            self.in_flight += 1
            self.most = max(self.most, self.in_flight)
            try:
                await self.go.wait()
                return await real(*arguments)
            finally:
                self.in_flight -= 1

        store.update = update  # type: ignore[method-assign]


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


def a_map(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


@pytest.mark.row("opt.max-mutating-requests-inflight", "opt.enable-priority-and-fairness")
@pytest.mark.parametrize(("limit", "code"), [(1, 429), (0, 201)])
async def test_excess_writes_are_rejected_without_fairness(tmp_path: Path, limit: int, code: int) -> None:
    arguments = ["--enable-priority-and-fairness=false", f"--max-mutating-requests-inflight={limit}"]
    async with serving(tmp_path / "data", "--authorization-mode=AlwaysAllow", *arguments) as (admin, alice):
        slow = Slow(admin.running)
        first = asyncio.create_task(alice("POST", MAPS, json=a_map("one")))
        await until(lambda: slow.in_flight == 1)
        second = asyncio.create_task(alice("POST", MAPS, json=a_map("two")))
        await until(lambda: second.done() or slow.in_flight == 2)
        assert (await alice("GET", MAPS))[0] == 200  # reads have a separate limit
        masters = asyncio.create_task(admin("POST", MAPS, json=a_map("three")))
        await until(lambda: slow.in_flight >= 2)
        slow.go.set()
        assert (await first)[0] == (await masters)[0] == 201
        responded, headers, body = await second
        assert responded == code
        if code == 429:
            assert (headers["retry-after"], body) == ("1", TOO_MANY)
            text = await admin.metrics()
            assert 'apiserver_request_terminations_total{verb="POST"' in text
        assert "x-kubernetes-pf-flowschema-uid" not in headers


@pytest.mark.row("opt.max-requests-inflight")
@pytest.mark.parametrize(("limit", "code"), [(1, 429), (0, 200)])
async def test_excess_reads_are_rejected_without_fairness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, code: int
) -> None:
    arguments = ["--enable-priority-and-fairness=false", f"--max-requests-inflight={limit}"]
    async with serving(tmp_path / "data", "--authorization-mode=AlwaysAllow", *arguments) as (_, alice):
        go, waiting = asyncio.Event(), 0
        real = Dispatcher.dispatch

        async def dispatch(*arguments: Any) -> Any:
            nonlocal waiting
            waiting += 1
            await go.wait()
            return await real(*arguments)

        monkeypatch.setattr(Dispatcher, "dispatch", dispatch)
        first = asyncio.create_task(alice("GET", MAPS))
        await until(lambda: waiting == 1)
        second = asyncio.create_task(alice("GET", MAPS))
        await until(lambda: second.done() or waiting == 2)
        go.set()
        assert ((await first)[0], (await second)[0]) == (200, code)


@pytest.mark.row("opt.enable-priority-and-fairness", "opt.max-requests-inflight", "opt.max-mutating-requests-inflight")
async def test_with_fairness_requests_wait_for_a_seat(tmp_path: Path) -> None:
    limits = ["--max-requests-inflight=6", "--max-mutating-requests-inflight=6"]  # one seat for other users
    arguments = [*limits, "--authorization-mode=AlwaysAllow", "--request-timeout=40s"]
    async with serving(tmp_path / "data", *arguments) as (admin, alice):
        assert 'nominal_limit_seats{priority_level="global-default"} 1\n' in await admin.metrics()
        slow = Slow(admin.running)
        tasks = [asyncio.create_task(alice("POST", MAPS, json=a_map(f"m-{number}"))) for number in range(5)]
        await until(lambda: slow.in_flight == 1)
        await until(lambda: admin.running.limits.flow_control.levels["global-default"].waiting == 4)  # type: ignore[union-attr]
        exempt = asyncio.create_task(admin("POST", MAPS, json=a_map("mine")))
        await until(lambda: slow.in_flight == 2)
        slow.go.set()
        responses = await asyncio.gather(*tasks, exempt)
        assert [code for code, _, _ in responses] == [201] * 6
        assert slow.most == 2
        assert all("x-kubernetes-pf-flowschema-uid" in headers for _, headers, _ in responses)
        text = await admin.metrics()
        dispatched = 'dispatched_requests_total{flow_schema="global-default",priority_level="global-default"} 5'
        assert dispatched in text


@pytest.mark.row("opt.enable-priority-and-fairness")
async def test_with_fairness_bodies_wait_with_their_clients(tmp_path: Path) -> None:
    limits = ["--max-requests-inflight=1", "--max-mutating-requests-inflight=0", "--request-timeout=40s"]
    async with serving(tmp_path / "data", "--authorization-mode=AlwaysAllow", *limits) as (admin, alice):
        slow, executing = Slow(admin.running), asyncio.Event()

        async def body() -> AsyncIterator[bytes]:
            executing.set()  # sent only after "100 Continue"
            yield json.dumps(a_map("two")).encode()

        first = asyncio.create_task(alice("POST", MAPS, json=a_map("one")))
        await until(lambda: slow.in_flight == 1)
        data = aiohttp.payload.AsyncIterablePayload(body(), content_type="application/json")
        second = asyncio.create_task(alice("POST", MAPS, data=data, expect100=True))
        await until(lambda: admin.running.limits.flow_control.levels["global-default"].waiting == 1)  # type: ignore[union-attr]
        assert not executing.is_set()
        slow.go.set()
        assert ((await first)[0], (await second)[0]) == (201, 201)
        assert executing.is_set()


@pytest.mark.row("opt.enable-priority-and-fairness")
async def test_with_fairness_queued_requests_time_out(tmp_path: Path) -> None:
    limits = ["--max-requests-inflight=1", "--max-mutating-requests-inflight=0", "--request-timeout=2s"]
    async with serving(tmp_path / "data", "--authorization-mode=AlwaysAllow", *limits) as (admin, alice):
        slow = Slow(admin.running)
        first = asyncio.create_task(alice("POST", MAPS, json=a_map("one")))
        await until(lambda: slow.in_flight == 1)
        code, headers, body = await alice("GET", MAPS)
        slow.go.set()
        assert (code, headers["retry-after"], body) == (429, "1", TOO_MANY)
        assert (await first)[0] == 201
        assert 'reason="time-out"} 1' in await admin.metrics()


@pytest.mark.row("opt.max-requests-inflight", "opt.max-mutating-requests-inflight")
def test_with_fairness_the_sum_of_limits_must_be_positive() -> None:
    none = ["--max-requests-inflight=0", "--max-mutating-requests-inflight=0"]
    with pytest.raises(OptionsError, match="they must add up to something positive"):
        parse(none)
    parse([*none, "--enable-priority-and-fairness=false"])


@pytest.mark.row("opt.request-timeout")
async def test_long_request_times_out(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", "--request-timeout=300ms") as (admin, _):
        slow = Slow(admin.running)
        code, headers, body = await admin("POST", MAPS, json=a_map("one"))
        assert (code, headers["content-type"]) == (504, "text/plain; charset=utf-8")
        assert json.loads(body) == {
            "metadata": {},
            "status": "Failure",
            "message": "Timeout: request did not complete within the allotted timeout",
            "reason": "Timeout",
            "details": {},
            "code": 504,
        }
        slow.go.set()
        watched = await admin("GET", f"{MAPS}?watch=1&timeoutSeconds=1")
        assert watched[0] == 200  # long-running requests have no such timeout


@pytest.mark.row("opt.request-timeout")
async def test_request_may_set_a_shorter_timeout(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as (admin, _):
        slow = Slow(admin.running)
        assert (await admin("POST", f"{MAPS}?timeout=100ms", json=a_map("one")))[0] == 504
        slow.go.set()
        code, _, body = await admin("GET", f"{MAPS}?timeout=abc")
        assert code == 400
        assert b'invalid timeout specified in the request URL - time: invalid duration \\"abc\\"' in body
    async with serving(tmp_path / "data", "--request-timeout=0s") as (admin, _):
        assert (await admin("GET", MAPS))[0] == 504


@pytest.mark.row("opt.min-request-timeout")
async def test_watch_without_timeout_ends_at_a_random_time(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", "--min-request-timeout=1") as (admin, _):
        async with asyncio.timeout(20):
            assert (await admin("GET", f"{MAPS}?watch=1"))[0] == 200


@pytest.mark.row("opt.max-connection-bytes-per-sec")
@pytest.mark.parametrize(("rate", "slow"), [(10_000, True), (0, False)])
async def test_long_response_is_throttled(tmp_path: Path, rate: int, slow: bool) -> None:
    async with serving(tmp_path / "data", f"--max-connection-bytes-per-sec={rate}") as (admin, _):
        big = {**a_map("big"), "data": {"a": "x" * 100_000}}
        assert (await admin("POST", MAPS, json=big))[0] == 201
        assert len((await admin("GET", MAPS))[2]) > 100_000  # short responses are not throttled
        received = bytearray()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(30) as limit:
                async for piece in admin.stream(f"{MAPS}?watch=1&resourceVersion=0"):
                    if slow and not received:
                        limit.reschedule(asyncio.get_running_loop().time() + 1)
                    received += piece
                    if len(received) > 100_000:
                        break
        assert len(received) > 0
        assert (len(received) < 100_000) is slow


@pytest.mark.row("opt.shutdown-watch-termination-grace-period")
@pytest.mark.parametrize(("grace", "clean"), [("10s", True), ("0s", False)])
async def test_watches_have_a_grace_period_at_shutdown(tmp_path: Path, grace: str, clean: bool) -> None:
    running = await start(tmp_path / "data", f"--shutdown-watch-termination-grace-period={grace}")
    left: list[int] = []
    running.resources.callback(lambda: left.append(running.metrics.watches))  # Runs when the watches have ended.
    async with aiohttp.ClientSession() as session:
        watch = asyncio.create_task(Client(running, session, running.token)("GET", f"{MAPS}?watch=1"))
        await until(lambda: running.metrics.watches == 1)
        await running.stop()
        result = (await asyncio.gather(watch, return_exceptions=True))[0]
    assert left == [0 if clean else 1]
    assert not clean or result[0] == 200  # type: ignore[index]


@pytest.mark.row("opt.event-ttl")
@pytest.mark.parametrize(("ttl", "stays"), [("1s", False), ("1h", True)])
async def test_event_ttl_is_configurable(tmp_path: Path, ttl: str, stays: bool) -> None:
    async with serving(tmp_path / "data", f"--event-ttl={ttl}") as (admin, _):
        event = {
            **a_map("one"),
            "involvedObject": {"namespace": "default", "kind": "Pod", "name": "a"},
            "reason": "a",
            "message": "a",
        }
        path = "/api/v1/namespaces/default/events"
        assert (await admin("POST", path, json=event))[0] == 201
        if stays:
            await asyncio.sleep(1.5)
            assert (await admin("GET", f"{path}/one"))[0] == 200
        else:
            async with asyncio.timeout(20):
                while (await admin("GET", f"{path}/one"))[0] != 404:
                    await asyncio.sleep(0.1)


@pytest.mark.row("opt.delete-collection-workers")
@pytest.mark.parametrize(("workers", "most"), [("3", 3), ("1", 1), ("0", 1)])
async def test_collection_is_deleted_concurrently(tmp_path: Path, workers: str, most: int) -> None:
    async with serving(tmp_path / "data", f"--delete-collection-workers={workers}") as (admin, _):
        for number in range(5):
            await admin("POST", MAPS, json=a_map(f"m-{number}"))
        slow = Slow(admin.running)
        deletion = asyncio.create_task(admin("DELETE", f"{MAPS}?fieldSelector=metadata.name!=kube-root-ca.crt"))
        await until(lambda: slow.in_flight == most)
        slow.go.set()
        assert (await deletion)[0] == 200
        assert slow.most == most
        assert len(json.loads((await admin("GET", MAPS))[2])["items"]) == 1


@pytest.mark.row("opt.watch-cache", "opt.watch-cache-sizes")
@pytest.mark.parametrize(
    ("arguments", "cached"),
    [
        ([], True),
        (["--watch-cache=false"], False),
        (["--watch-cache-sizes=configmaps#0"], False),
        (["--watch-cache-sizes=configmaps#100,pods#0"], True),
    ],
)
async def test_cached_list_at_version_zero_ignores_the_limit(
    tmp_path: Path, arguments: list[str], cached: bool
) -> None:
    async with serving(tmp_path / "data", *arguments) as (admin, _):
        for number in range(3):
            await admin("POST", MAPS, json=a_map(f"m-{number}"))
        for query, limited in (("limit=1", True), ("limit=1&resourceVersion=0", not cached)):
            page = json.loads((await admin("GET", f"{MAPS}?{query}"))[2])
            assert ("continue" in page["metadata"], len(page["items"]) == 1) == (limited, limited)


@pytest.mark.row("opt.watch-cache-sizes")
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("foo", "invalid value of watch cache size: foo"),
        ("pods#abc", "invalid size of watch cache size: pods#abc"),
        ("pods#-1", "watch cache size cannot be negative: pods#-1"),
    ],
)
def test_invalid_cache_size_is_rejected(value: str, message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        parse([f"--watch-cache-sizes={value}"])


@pytest.mark.row("opt.feature-gates")
async def test_feature_gates_enable_their_features(tmp_path: Path) -> None:
    for gate, found in (("true", True), ("false", False)):
        async with serving(tmp_path / gate, f"--feature-gates=StorageVersionHash={gate}") as (admin, _):
            assert (b"storageVersionHash" in (await admin("GET", "/api/v1"))[2]) is found
    with pytest.raises(OptionsError, match="missing bool value for StorageVersionHash"):
        parse(["--feature-gates=StorageVersionHash"])
    with pytest.raises(OptionsError, match="Nonsense"):
        parse(["--feature-gates=Nonsense=true"])


@pytest.mark.row("opt.runtime-config")
async def test_runtime_config_enables_and_disables_groups(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", "--runtime-config=coordination.k8s.io/v1=false") as (admin, _):
        assert (await admin("GET", "/apis/coordination.k8s.io/v1/leases"))[0] == 404
        assert (await admin("GET", "/apis/events.k8s.io/v1/events"))[0] == 200
    flow_control = "--runtime-config=flowcontrol.apiserver.k8s.io/v1=false"
    with pytest.raises(OptionsError, match="conflicts with --enable-priority-and-fairness=true"):
        parse([flow_control])
    parse([flow_control, "--enable-priority-and-fairness=false"])
    with pytest.raises(OptionsError, match="invalid key foo"):
        parse(["--runtime-config=foo=true"])


# Metrics.


def sample(text: str, name: str) -> str:
    return next((line for line in text.splitlines() if line.startswith(name)), "")


async def test_request_metrics_have_upstream_names(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as (admin, alice):
        await admin("POST", MAPS, json=a_map("one"))
        await admin("POST", f"{MAPS}?dryRun=All", json=a_map("two"))
        await alice("GET", MAPS)
        await admin("GET", "/api/v1/nonsense")
        watch = asyncio.create_task(admin("GET", f"{MAPS}?watch=1"))
        await until(lambda: admin.running.metrics.watches == 1)
        text = await admin.metrics()
        watch.cancel()
    what = 'verb="POST",group="",version="v1",resource="configmaps",subresource="",scope="resource"'
    assert f'apiserver_request_total{{dry_run="",{what},component="apiserver",code="201"}} 1' in text
    assert f'apiserver_request_total{{dry_run="All",{what},component="apiserver",code="201"}} 1' in text
    assert 'resource="configmaps",subresource="",scope="namespace",component="apiserver",code="403"} 1' in text
    assert 'resource="nonsense"' not in text  # arbitrary values of clients are not labels
    bucket = f'apiserver_request_duration_seconds_bucket{{dry_run="",{what},component="apiserver",le="+Inf"}} 1'
    assert bucket in text
    assert f'apiserver_request_sli_duration_seconds_count{{{what},component="apiserver"}} 2' in text
    assert 'apiserver_response_sizes_bucket{verb="POST"' in text
    assert sample(text, 'apiserver_longrunning_requests{verb="WATCH"').endswith(" 1")
    assert 'apiserver_storage_objects{resource="namespaces"} 4' in text
    assert 'apiserver_current_inflight_requests{request_kind="mutating"} 0' in text
    assert 'kubernetes_feature_enabled{name="WatchList",stage="ALPHA"} 0' in text
    assert f'git_version="v1.29.1+nodeagent-{__version__}"' in sample(text, "kubernetes_build_info")
    assert float(sample(text, "process_resident_memory_bytes").split()[1]) > 1e7
    for line in text.splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) \w+ .+|\w+(\{(\w+="[^"]*",?)+\})? -?[\d.e+-]+', line), line


@pytest.mark.row("opt.disabled-metrics", "opt.show-hidden-metrics-for-version")
async def test_metrics_can_be_disabled_and_hidden_ones_enabled(tmp_path: Path) -> None:
    hidden, shown = "apiserver_request_slo_duration_seconds", "apiserver_request_sli_duration_seconds"
    for arguments, there, missing in (
        ([], [shown], [hidden]),
        (["--show-hidden-metrics-for-version=1.28"], [shown, hidden], []),
        (["--show-hidden-metrics-for-version=1.28", f"--disabled-metrics={hidden}"], [shown], [hidden]),
        ([f"--disabled-metrics={shown},apiserver_storage_objects,nonsense"], [], [shown, "apiserver_storage_objects"]),
    ):
        async with serving(tmp_path / "data", *arguments) as (admin, _):
            await admin("GET", MAPS)
            text = await admin.metrics()
            assert all(f"# TYPE {name} " in text for name in there)
            assert not any(name in text for name in missing)
    with pytest.raises(OptionsError, match=r"must be omitted or have the value '1\.28'"):
        parse(["--show-hidden-metrics-for-version=1.27"])


@pytest.mark.row("opt.allow-metric-labels", "opt.allow-metric-labels-manifest")
async def test_label_values_are_restricted_to_the_allow_list(tmp_path: Path) -> None:
    manifest = tmp_path / "labels.yaml"
    manifest.write_text("apiserver_storage_objects,resource: namespaces\napiserver_request_total,code: '200'\n")
    arguments = [
        f"--allow-metric-labels-manifest={manifest}",
        "--allow-metric-labels=apiserver_storage_objects,resource=namespaces, priorityclasses.scheduling.k8s.io",
    ]
    async with serving(tmp_path / "data", *arguments) as (admin, _):
        await admin("GET", MAPS)
        await admin("POST", MAPS, json=a_map("one"))
        text = await admin.metrics()
    found = dict(re.findall(r'^apiserver_storage_objects\{resource="(.*?)"\} (\d+)', text, re.MULTILINE))
    assert set(found) == {"namespaces", "priorityclasses.scheduling.k8s.io", "unexpected"}
    assert int(found["unexpected"]) > 3
    assert set(re.findall(r'^apiserver_request_total\{.*code="(\w+)"', text, re.MULTILINE)) == {"200", "unexpected"}
    assert 'apiserver_request_duration_seconds_count{dry_run="",verb="POST"' in text  # others are unchanged


@pytest.mark.row("opt.allow-metric-labels")
def test_label_allow_lists_must_name_metric_and_label() -> None:
    assert parse_pairs("m,l=a,b") == {"m,l": "a,b"}
    assert parse_pairs('"m,l=a,b","n,l=c"') == {"m,l": "a,b", "n,l": "c"}
    with pytest.raises(OptionsError, match="foo must be formatted as key=value"):
        parse(["--allow-metric-labels=foo"])
    with pytest.raises(OptionsError, match="must have a list of kv pair with format"):
        parse(["--allow-metric-labels=metric=value"])
