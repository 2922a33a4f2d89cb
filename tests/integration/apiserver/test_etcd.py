"""Tests for etcd storage: shared by servers, with kube-apiserver's keys and formats."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc.aio
import pytest
import pytest_asyncio

from apiserver_stub.storage import Compacted
from apiserver_stub.storage.base import StoreUnavailable
from apiserver_stub.storage.etcd.client import EtcdClient, HistoryCompacted, TlsFiles
from apiserver_stub.storage.etcd.compaction import KEY
from nodeagent.base.tls import generate_ca, issue
from tests.integration.programs import free_port

from .etcd import Etcd, running_etcd, serving
from .test_limits import Client, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

MAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/api/v1/namespaces/default/events"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def etcd(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Etcd]:
    """etcd cluster shared by tests; each test has its own prefix."""
    async with running_etcd(tmp_path_factory.mktemp("etcd")) as found:
        yield found


def on(etcd: Etcd, prefix: str, *more: str) -> list[str]:
    return [f"--store-servers={etcd.url}", f"--store-prefix={prefix}", *more]


def a_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def an_event(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "involvedObject": {"namespace": "default"}}


async def ok(client: Client, method: str, path: str, body: Any = None) -> Any:
    code, _, reply = await client(method, path, json=body)
    assert code < 300, reply
    return json.loads(reply)


async def code_of(client: Client, path: str) -> int:
    return (await client("GET", path))[0]


def sample(text: str, what: str) -> list[str]:
    return re.findall(rf"^{re.escape(what)} (\S+)$", text, re.MULTILINE)


@pytest.mark.row("opt.store-servers", "opt.storage-backend", "opt.store-prefix")
async def test_servers_share_a_cluster(etcd: Etcd, tmp_path: Path) -> None:
    options = on(etcd, "shared", "--storage-backend=store3")
    async with serving(tmp_path / "a", *options) as one, serving(tmp_path / "b", *options) as other:
        created = await ok(one, "POST", MAPS, a_map("m", k="1"))
        assert (await ok(other, "GET", f"{MAPS}/m"))["data"] == {
            "k": "1"
        }  # immediately: reads are never stale by default
        events = other.stream(f"{MAPS}?watch=1&resourceVersion={created['metadata']['resourceVersion']}")
        changed = await ok(one, "PUT", f"{MAPS}/m", a_map("m", k="2"))
        event = json.loads(await anext(events))
        await events.aclose()  # type: ignore[attr-defined]
        assert (event["type"], event["object"]) == ("MODIFIED", changed)

        stale = created | {"data": {"k": "3"}}
        assert (await other("PUT", f"{MAPS}/m", json=stale))[0] == 409
        assert (await other("POST", MAPS, json=a_map("m")))[0] == 409
        await ok(other, "DELETE", f"{MAPS}/m")
        await ok(one, "POST", MAPS, a_map("m"))  # as soon as it has been deleted
        names = {item["metadata"]["name"] for item in (await ok(other, "GET", MAPS))["items"]}
        assert "m" in names
        for name in ("nodes", "namespaces/default/services"):
            kind = {"nodes": "Node"}.get(name, "Service")
            body = {"kind": kind, "metadata": {"name": "x"}, "spec": {"ports": [{"port": 1}]} if kind != "Node" else {}}
            await ok(one, "POST", f"/api/v1/{name}", body)
    found = await etcd.stored("/shared/")
    for location in ("minions/x", "services/specs/default/x", "configmaps/default/m", "namespaces/default"):
        assert f"/shared/{location}" in found
    assert not await etcd.stored("/registry/")


async def test_registrations_of_other_servers_are_kept_and_listed(etcd: Etcd, tmp_path: Path) -> None:
    services = "/apis/apiregistration.k8s.io/v1/apiservices"
    stored = {
        "kind": "APIService",
        "apiVersion": "apiregistration.k8s.io/v1",
        "metadata": {"name": "v1beta1.metrics.k8s.io", "uid": "u", "creationTimestamp": "2024-01-02T15:04:05Z"},
        "spec": {
            "service": {"namespace": "kube-system", "name": "metrics", "port": 443},
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
        "status": {},
    }
    directory = "/registered/apiregistration.k8s.io/apiservices/"
    async with etcd.client() as client:
        await client.put(f"{directory}v1beta1.metrics.k8s.io".encode(), json.dumps(stored).encode(), expected=0)
    async with serving(tmp_path / "a", *on(etcd, "registered")) as server:
        path = f"{services}/v1beta1.metrics.k8s.io"
        async with asyncio.timeout(30):
            while not (found := await ok(server, "GET", path))["status"]:
                await asyncio.sleep(0.05)
        (condition,) = found["status"]["conditions"]
        assert (condition["status"], condition["reason"]) == ("False", "ServiceNotFound")
        assert found["spec"] == stored["spec"]
        await ok(server, "DELETE", f"{services}/v1beta1.metrics.k8s.io")
    kept = await etcd.stored(directory)
    assert f"{directory}v1.events.k8s.io" in kept
    assert f"{directory}v1beta1.metrics.k8s.io" not in kept


@pytest.mark.row("opt.store-servers")
async def test_concurrent_writers_of_two_servers_lose_no_write(etcd: Etcd, tmp_path: Path) -> None:
    async with serving(tmp_path / "a", *on(etcd, "/race")) as one, serving(tmp_path / "b", *on(etcd, "/race")) as other:
        await ok(one, "POST", MAPS, a_map("m"))

        async def write(number: int) -> None:
            patch = {"data": {f"k{number}": "x"}}
            headers = {"Content-Type": "application/merge-patch+json"}
            client = (one, other)[number % 2]
            url, tls = client.running.url + f"{MAPS}/m", client._tls
            async with (
                aiohttp.ClientSession(headers=headers | {"Authorization": f"Bearer {client.running.token}"}) as session,
                session.patch(url, data=json.dumps(patch), ssl=tls) as response,
            ):
                assert response.status == 200, await response.text()

        await asyncio.gather(*(write(number) for number in range(16)))
        for client in (one, other):
            assert len((await ok(client, "GET", f"{MAPS}/m"))["data"]) == 16


@pytest.mark.row("opt.store-servers-overrides")
async def test_resource_can_have_separate_servers(etcd: Etcd, tmp_path: Path) -> None:
    async with running_etcd(tmp_path / "etcd") as apart:
        override = f"--store-servers-overrides=/events#{apart.url}"
        async with serving(tmp_path / "a", *on(etcd, "/most", override)) as client:
            event = await ok(client, "POST", EVENTS, an_event("e"))
            listed = await ok(client, "GET", EVENTS)
            assert listed["metadata"]["resourceVersion"] == event["metadata"]["resourceVersion"]  # separate revisions
            await ok(client, "POST", MAPS, a_map("m"))
            assert list(await apart.stored("/most/")) == ["/most/events/default/e"]
            assert "/most/configmaps/default/m" in await etcd.stored("/most/")
            assert not await etcd.stored("/most/events/")
            assert await code_of(client, "/livez/etcd-override-0") == 200
        services = f"--store-servers-overrides=/services#{apart.url}"
        async with serving(tmp_path / "b", *on(etcd, "/parted", services)):
            assert not await etcd.stored("/parted/ranges/")
            assert set(await apart.stored("/parted/")) >= {
                "/parted/services/specs/default/kubernetes",  # and its address next to it
                "/parted/ranges/serviceips",
            }
        async with serving(tmp_path / "file", override, "--store-prefix=/most") as client:
            assert [item["metadata"]["name"] for item in (await ok(client, "GET", EVENTS))["items"]] == ["e"]


@pytest.mark.row("opt.store-cafile", "opt.store-certfile", "opt.store-keyfile")
async def test_cluster_may_require_a_client_certificate(tmp_path: Path) -> None:
    authority = generate_ca("store")
    pair = issue(authority, "localhost", names=["127.0.0.1"], server=True, client=True)
    files = TlsFiles(*(tmp_path / name for name in ("ca", "crt", "key")))
    for path, data in ((files.ca, authority.certificate), (files.certificate, pair.certificate), (files.key, pair.key)):
        assert path is not None
        path.write_bytes(data)
    arguments = [f"--cert-file={files.certificate}", f"--key-file={files.key}", f"--trusted-ca-file={files.ca}"]
    async with running_etcd(tmp_path / "etcd", *arguments, "--client-cert-auth", files=files) as etcd:
        options = [
            f"--store-cafile={files.ca}",
            f"--store-certfile={files.certificate}",
            f"--store-keyfile={files.key}",
        ]
        async with serving(tmp_path / "a", *on(etcd, "/tls", *options)) as client:
            await ok(client, "POST", MAPS, a_map("m"))
        assert "/tls/configmaps/default/m" in await etcd.stored("/tls/")
        for some in (options[:1], options[1:]):  # without a client certificate or a CA
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("apiserver_stub.storage.etcd.store.START_SECONDS", 0.5)
                with pytest.raises(Exception, match="etcd: "):
                    async with serving(tmp_path / "b", *on(etcd, "/tls", *some)):
                        pass


@pytest.mark.row("opt.store-compaction-interval")
async def test_one_server_compacts_the_history(tmp_path: Path) -> None:
    async with running_etcd(tmp_path / "etcd") as etcd:
        none = on(etcd, "/registry", "--store-compaction-interval=0")
        async with serving(tmp_path / "none", *none) as client:
            first = await ok(client, "POST", MAPS, a_map("m"))
            old = int(first["metadata"]["resourceVersion"])
            some = on(etcd, "/registry", "--store-compaction-interval=200ms")
            async with etcd.client() as etcd_client:
                await asyncio.sleep(0.5)
                assert not (await etcd_client.range(KEY)).kvs
                async with serving(tmp_path / "a", *some) as one, serving(tmp_path / "b", *some) as other:

                    async def is_compacted() -> bool:
                        await ok(one, "PUT", f"{MAPS}/m", a_map("m"))
                        try:
                            await etcd_client.range(b"/registry/x", revision=old)
                        except HistoryCompacted:
                            return True
                        return False

                    async with asyncio.timeout(15):
                        while not await is_compacted():
                            await asyncio.sleep(0.1)
                        for who in (one, other):  # the compacting server and the other one
                            while (await who("GET", f"{MAPS}?watch=1&resourceVersion={old}&timeoutSeconds=1"))[2].find(
                                b'"code":410'
                            ) < 0:
                                await asyncio.sleep(0.1)
                intervals = (await etcd_client.range(KEY)).kvs[0].version
                assert intervals >= 2


async def count(client: Client, path: str) -> str:
    return str(len((await ok(client, "GET", path))["items"]))


@pytest.mark.row("opt.store-count-metric-poll-period", "opt.store-db-metric-poll-interval")
async def test_object_counts_and_database_size_are_polled(etcd: Etcd, tmp_path: Path) -> None:
    often = ["--store-count-metric-poll-period=50ms", "--store-db-metric-poll-interval=50ms"]
    objects = 'apiserver_storage_objects{resource="configmaps"}'
    size = f'apiserver_storage_db_total_size_in_bytes{{endpoint="{etcd.url}"}}'
    prefix = f"/{tmp_path.name}"
    async with serving(tmp_path / "a", *on(etcd, prefix, *often)) as client, asyncio.timeout(60):
        await ok(client, "POST", MAPS, a_map("big", k="x" * 1_000_000))
        # The server creates additional ConfigMaps in the meantime.
        while sample(text := await client.metrics(), objects) != [await count(client, "/api/v1/configmaps")]:
            await asyncio.sleep(0.05)
        while int(sample(text := await client.metrics(), size)[0]) < 1_000_000:
            await asyncio.sleep(0.05)
        assert 'etcd_request_duration_seconds_count{operation="create",type="configmaps"}' in text
    never = ["--store-count-metric-poll-period=0", "--store-db-metric-poll-interval=0"]
    async with serving(tmp_path / "b", *on(etcd, prefix, *never)) as client:
        text = await client.metrics()
    assert "apiserver_storage_objects" not in text
    assert "apiserver_storage_size_bytes" not in text


@pytest.mark.row("opt.store-healthcheck-timeout", "opt.store-readycheck-timeout")
async def test_unresponsive_store_fails_health_checks(tmp_path: Path) -> None:
    async with running_etcd(tmp_path / "etcd") as etcd:
        for short, path, patient in (
            ("health", "/livez/etcd", "/readyz/etcd-readiness"),
            ("ready", "/readyz/etcd-readiness", "/livez/etcd"),
        ):
            long = {"health": "ready", "ready": "health"}[short]
            options = [f"--store-{short}check-timeout=100ms", f"--store-{long}check-timeout=1h"]
            async with serving(tmp_path / short, *on(etcd, f"/{short}", *options)) as client:
                assert await code_of(client, path) == 200
                etcd.signal(signal.SIGSTOP)
                try:
                    async with asyncio.timeout(10):
                        while (reply := await client("GET", path))[0] == 200:
                            await asyncio.sleep(0.05)
                    assert reply[0] == 500
                    text = reply[2].decode()
                    assert text == "internal server error: error getting data from etcd: context deadline exceeded"
                    with pytest.raises(TimeoutError):
                        async with asyncio.timeout(2.5):  # longer than the default timeout
                            await client("GET", patient)
                    assert await code_of(client, f"{MAPS}?resourceVersion=0") == 200
                    assert await code_of(client, MAPS) == 503  # the latest state is unknown
                finally:
                    etcd.signal(signal.SIGCONT)
                async with asyncio.timeout(10):
                    while await code_of(client, path) != 200:
                        await asyncio.sleep(0.05)


@pytest.mark.row("opt.storage-media-type")
async def test_objects_are_stored_in_each_format_and_read_in_all(etcd: Etcd, tmp_path: Path) -> None:
    starts = {
        "": b"k8s\0",
        "application/vnd.kubernetes.protobuf": b"k8s\0",
        "application/json": b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"',
        "application/yaml": b"kind: ConfigMap\napiVersion: v1\nmetadata:\n",
    }
    made: dict[str, Any] = {}
    for number, (media_type, start) in enumerate(starts.items()):
        more = [f"--storage-media-type={media_type}"] if media_type else []
        async with serving(tmp_path / f"{number}", *on(etcd, "/forms", *more)) as client:
            made[f"m{number}"] = await ok(client, "POST", MAPS, a_map(f"m{number}", text="a: b\n\u00e4"))
            for name, there in made.items():
                assert await ok(client, "GET", f"{MAPS}/{name}") == there
            await ok(client, "POST", EVENTS, an_event(f"e{number}"))
        value = (await etcd.stored(f"/forms/configmaps/default/m{number}"))[
            f"/forms/configmaps/default/m{number}"
        ].value
        assert value.startswith(start)
        assert b"resourceVersion" not in value


@pytest.mark.row("opt.event-ttl", "opt.lease-reuse-duration-seconds", "events.retention")
async def test_events_expire_with_shared_leases(etcd: Etcd, tmp_path: Path) -> None:
    async with serving(tmp_path / "a", *on(etcd, "/shared-leases")) as client:
        for name in ("a", "b"):
            await ok(client, "POST", EVENTS, an_event(name))
        await ok(client, "POST", MAPS, a_map("m"))
    one, other = (await etcd.stored("/shared-leases/events/")).values()
    assert one.lease == other.lease != 0
    assert [item.lease for item in (await etcd.stored("/shared-leases/configmaps/default/m")).values()] == [0]
    async with serving(tmp_path / "b", *on(etcd, "/own-leases", "--lease-reuse-duration-seconds=0")) as client:
        for name in ("a", "b"):
            await ok(client, "POST", EVENTS, an_event(name))
        one, other = (await etcd.stored("/own-leases/events/")).values()
        assert one.lease != other.lease
    async with serving(tmp_path / "c", *on(etcd, "/short", "--event-ttl=1s")) as client:
        made = [await ok(client, "POST", EVENTS, an_event(name)) for name in ("a", "b")]
        start = made[-1]["metadata"]["resourceVersion"]
        gone = []
        async with asyncio.timeout(20):
            async for piece in client.stream(f"{EVENTS}?watch=1&resourceVersion={start}"):
                gone += [json.loads(line) for line in piece.splitlines()]
                if len(gone) == 2:
                    break
        assert {(event["type"], event["object"]["metadata"]["name"]) for event in gone} == {
            ("DELETED", "a"),
            ("DELETED", "b"),
        }
        assert (await ok(client, "GET", EVENTS))["items"] == []


@pytest.mark.row("opt.store-servers")
async def test_server_survives_an_outage_of_the_cluster(tmp_path: Path) -> None:
    async with running_etcd(tmp_path / "etcd") as etcd, serving(tmp_path / "a", *on(etcd, "/registry")) as client:
        made = await ok(client, "POST", MAPS, a_map("before"))
        events = client.stream(f"{MAPS}?watch=1&resourceVersion={made['metadata']['resourceVersion']}")
        etcd.kill()
        code, headers, reply = await client("POST", MAPS, json=a_map("lost"))
        status = json.loads(reply)
        assert (code, status["kind"], status["reason"]) == (503, "Status", "ServiceUnavailable")
        assert headers["retry-after"] == "1"
        for path in (f"{MAPS}/before", MAPS):
            assert (await client("GET", path))[0] == 503, "the latest state is unknown"
        assert await ok(client, "GET", f"{MAPS}/before?resourceVersion=0") == made
        last_observed = await ok(client, "GET", f"{MAPS}?resourceVersion=0")
        assert "before" in {item["metadata"]["name"] for item in last_observed["items"]}
        first = asyncio.ensure_future(anext(events))
        await etcd.start()
        async with asyncio.timeout(15):
            while (await client("POST", MAPS, json=a_map("after")))[0] not in (201, 409):
                await asyncio.sleep(0.05)
            event = json.loads((await first).splitlines()[0])
        await events.aclose()  # type: ignore[attr-defined]
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "after")


@pytest.mark.row("opt.store-servers")
async def test_next_endpoint_is_used_if_one_does_not_respond(etcd: Etcd, tmp_path: Path) -> None:
    proxy = Proxy(etcd.port)
    both = f"--store-servers=http://127.0.0.1:{free_port()},http://127.0.0.1:{await proxy.start()},{etcd.url}"
    async with contextlib.aclosing(proxy), serving(tmp_path / "a", both, "--store-prefix=/next") as client:
        events = client.stream(f"{MAPS}?watch=1")
        await ok(client, "POST", MAPS, a_map("one"))
        await proxy.aclose()
        async with asyncio.timeout(10):
            while (await client("POST", MAPS, json=a_map("two")))[0] != 201:
                await asyncio.sleep(0.05)
            seen = b""
            async for piece in events:
                seen += piece
                if b'"name":"two"' in seen:
                    break
        await events.aclose()  # type: ignore[attr-defined]


async def test_compacted_revision_causes_a_new_list(etcd: Etcd, tmp_path: Path) -> None:
    proxy = Proxy(etcd.port)
    port = await proxy.start()
    path = [f"--store-servers=http://127.0.0.1:{port}", "--store-prefix=/away"]
    async with contextlib.aclosing(proxy), serving(tmp_path / "a", *path) as client:
        made = await ok(client, "POST", MAPS, a_map("kept", k="v"))
        await ok(client, "POST", MAPS, a_map("gone"))
        store = client.running.store
        before, position = store.revision, store.collection("core/configmaps").end
        await proxy.aclose()
        async with serving(tmp_path / "b", *on(etcd, "/away")) as other:
            await ok(other, "DELETE", f"{MAPS}/gone")
            late = await ok(other, "POST", MAPS, a_map("late"))
        async with etcd.client() as direct:
            await direct.compact(int(late["metadata"]["resourceVersion"]))
        await proxy.start(port)
        await until(lambda: store.revision > before)
        names = {item["metadata"]["name"] for item in (await ok(client, "GET", MAPS))["items"]}
        assert {"kept", "late"} <= names
        assert "gone" not in names
        assert (await ok(client, "GET", f"{MAPS}/kept")) == made
        with pytest.raises(Compacted):
            store.collection("core/configmaps").read(position, 1)  # watchers must list again


async def test_writes_to_other_keys_do_not_delay_reads(etcd: Etcd, tmp_path: Path) -> None:
    async with serving(tmp_path / "a", *on(etcd, "/quiet")) as client, etcd.client() as other_client:
        await other_client.bump(b"/elsewhere", b"x", version=0)
        newest = (await other_client.range(b"/elsewhere")).header.revision
        listed = await ok(client, "GET", MAPS)
        assert int(listed["metadata"]["resourceVersion"]) >= newest


class Proxy:
    """TCP proxy to a loopback port that can be disconnected."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, port: int = 0) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        return int(self._server.sockets[0].getsockname()[1])

    async def aclose(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            await asyncio.gather(_copy(reader, upstream), _copy(upstream_reader, writer))
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            for end in (upstream, writer):
                end.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def test_undecodable_responses_make_the_store_unavailable(tmp_path: Path) -> None:
    async def respond(_request: bytes, _context: Any) -> bytes:
        return b"\xff"

    async def watch(_requests: AsyncIterator[bytes], _context: Any) -> AsyncIterator[bytes]:
        yield b"\xff"

    server = grpc.aio.server()
    unary, stream = grpc.unary_unary_rpc_method_handler(respond), grpc.stream_stream_rpc_method_handler(watch)
    for service, methods in (
        ("KV", {"Range": unary}),
        ("Maintenance", {"Status": unary}),
        ("Watch", {"Watch": stream}),
    ):
        handler = grpc.method_handlers_generic_handler(f"etcdserverpb.{service}", methods)
        server.add_generic_rpc_handlers((handler,))
    server.add_insecure_port(f"unix:{tmp_path}/s")
    await server.start()
    client = EtcdClient([f"unix://{tmp_path}/s"], TlsFiles())
    try:
        for call in (client.range(b"a"), client.sizes()):
            with pytest.raises(StoreUnavailable, match="the server returned an invalid response"):
                await call
        async with client.watch(b"a", b"b", 1) as watching:
            with pytest.raises(StoreUnavailable, match="the server returned an invalid response"):
                await anext(watching.responses())
    finally:
        await client.close()
        await server.stop(None)
