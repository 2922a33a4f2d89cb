"""Tests for the construction of the store, its health checks and its tasks."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.apimachinery import objects
from apiserver_stub.egress.selector import DIRECT
from apiserver_stub.options import Options, parse
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.server.storage import Storage, build_storage, health_checks, start_storage_tasks
from apiserver_stub.storage import Put
from apiserver_stub.storage.composite import CompositeStore
from apiserver_stub.storage.encryption import EncryptionError, kms_v2_client
from apiserver_stub.storage.encryption.key_service import Encrypted, KmsError
from apiserver_stub.storage.etcd import client
from apiserver_stub.storage.etcd.store import EtcdStore
from apiserver_stub.storage.monitor import StoreMonitor
from apiserver_stub.storage.sqlite import SqliteStore
from nodeagent.base.aio import TaskOwner
from nodeagent.base.simulation.loop import SimulatedLoop
from tests.unit.apiserver_stub.server.tasks import RecordedTasks

ETCD = "--etcd-servers=http://127.0.0.1:1"
KEY = base64.b64encode(b"k" * 32).decode()
CONFIG = f"""
kind: EncryptionConfiguration
apiVersion: apiserver.config.k8s.io/v1
resources:
- resources: [secrets]
  providers: [{{secretbox: {{keys: [{{name: a, secret: {KEY}}}]}}}}]
"""


Build = Callable[..., Awaitable[tuple[Options, Storage]]]
RunSimulated = Callable[[Coroutine[Any, Any, None]], None]


class UnconnectedClient:
    """Client of etcd servers that do not run."""

    grant = None

    def __init__(self, urls: Sequence[str], files: object, **options: Any) -> None:
        self.urls = urls


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """Return a function that builds the storage for some options."""
    monkeypatch.setattr(client, "EtcdClient", UnconnectedClient)

    async def make(*arguments: str) -> tuple[Options, Storage]:
        options = parse([f"--data-dir={tmp_path}", *arguments])
        return options, await build_storage(options, build_registry(options), DIRECT, AsyncExitStack())

    return make


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ([], SqliteStore),
        ([ETCD], EtcdStore),
        (["--etcd-servers-overrides=/events#http://127.0.0.1:2"], CompositeStore),
        ([ETCD, "--etcd-servers-overrides=/events#http://127.0.0.1:2"], CompositeStore),
        ([ETCD, "--etcd-servers-overrides=/unknown#http://127.0.0.1:2"], EtcdStore),
    ],
)
async def test_store_depends_on_the_servers(build: Build, arguments: list[str], kind: type) -> None:
    _, storage = await build(*arguments)

    assert type(storage.store) is kind


@pytest.mark.parametrize(
    ("overrides", "checks"),
    [
        ("/events#http://127.0.0.1:2", {"etcd-override-0"}),
        (
            "/services#http://127.0.0.1:2,/events#http://127.0.0.1:3",
            {"etcd-override-0", "etcd-override-1", "etcd-override-2"},
        ),
    ],
)
async def test_each_override_has_a_check(build: Build, overrides: str, checks: set[str]) -> None:
    options, storage = await build(ETCD, f"--etcd-servers-overrides={overrides}")

    assert {name for name in health_checks(options, storage) if "override" in name} == checks


async def test_checks_of_readiness_have_their_own_timeout(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    async def probe(seconds: float) -> str:
        return f"no answer in {seconds:g} s"

    options, storage = await build("--etcd-healthcheck-timeout=7s", "--etcd-readycheck-timeout=3s")
    monkeypatch.setattr(storage.store, "probes", lambda: {"etcd": probe, "etcd-readiness": probe})

    checks = health_checks(options, storage)

    assert {name: await check.problem() for name, check in checks.items()} == {
        "etcd": "no answer in 7 s",
        "etcd-readiness": "no answer in 3 s",
    }


async def test_reloaded_keys_have_a_check(tmp_path: Path, build: Build) -> None:
    config = tmp_path / "keys.yaml"
    config.write_text(CONFIG)
    fixed = (f"--encryption-provider-config={config}",)

    assert "kms-providers" not in health_checks(*await build(*fixed))
    checks = health_checks(*await build(*fixed, "--encryption-provider-config-automatic-reload=true"))
    assert await checks["kms-providers"].problem() == ""


async def test_invalid_encryption_configuration_is_rejected(tmp_path: Path, build: Build) -> None:
    config = tmp_path / "keys.yaml"
    config.write_text("kind: Other")

    with pytest.raises(EncryptionError):
        await build(f"--encryption-provider-config={config}")


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ([], ["store-counts", "store-sizes"]),
        (["--etcd-count-metric-poll-period=0s"], ["store-sizes"]),
        (["--etcd-db-metric-poll-interval=0s"], ["store-counts"]),
        (["--encryption-provider-config=KEYS"], ["store-counts", "store-sizes"]),
        (
            ["--encryption-provider-config=KEYS", "--encryption-provider-config-automatic-reload=true"],
            ["store-counts", "store-sizes", "keys", "key-services"],
        ),
    ],
)
async def test_tasks_depend_on_intervals_and_encryption(
    tmp_path: Path, build: Build, arguments: Sequence[str], names: list[str]
) -> None:
    (tmp_path / "keys.yaml").write_text(CONFIG)
    arguments = [argument.replace("KEYS", str(tmp_path / "keys.yaml")) for argument in arguments]
    options, storage = await build(*arguments)
    tasks: Any = RecordedTasks()

    start_storage_tasks(options, storage, build_registry(options), StoreMonitor(storage.store), tasks)

    assert tasks.names == names


@pytest.mark.parametrize(
    ("urls", "opened"),
    [
        ("http://h:2379,https://h:2380", {("h", 2379), ("h", 2380)}),
        ("unix:///run/etcd.sock", set()),
    ],
)
async def test_servers_are_reached_through_the_configured_egress(
    build: Build, monkeypatch: pytest.MonkeyPatch, urls: str, opened: set[tuple[str, int]]
) -> None:
    found: set[tuple[str, int]] = set()

    class Sockets:
        def __init__(self, dialer: object) -> None:
            pass

        async def open(self, host: str, port: int) -> Path:
            found.add((host, port))
            return Path("/socket")

        async def close(self) -> None:
            found.clear()

    monkeypatch.setattr("apiserver_stub.egress.local_sockets.LocalSockets", Sockets)
    options = parse([f"--etcd-servers={urls}"])
    egress: Any = SimpleNamespace(etcd=object())
    async with AsyncExitStack() as stack:
        await build_storage(options, build_registry(options), egress, stack)

        assert found == opened
    assert not found


RELOADED, NOT_RELOADED = "Reloaded encryption configuration", "Failed to reload encryption configuration"
RELOAD = "--encryption-provider-config-automatic-reload=true"


def kms(name: str) -> str:
    """Return a configuration with the key management service *name*."""
    endpoint = f"unix:///{name}.sock"
    return CONFIG.partition("  providers")[0] + (
        f"  providers: [{{kms: {{apiVersion: v2, name: {name}, endpoint: '{endpoint}'}}}}]\n"
    )


class KeyServices:
    """Key management services, by the path of their socket; records the calls of all clients."""

    def __init__(self) -> None:
        self.failing: set[str] = set()
        self.statuses: list[tuple[float, str]] = []
        self.closed: list[str] = []

    def client(self, socket: str, seconds: float) -> KeyServiceClient:
        return KeyServiceClient(self, socket)


class KeyServiceClient:
    def __init__(self, services: KeyServices, socket: str) -> None:
        self._services, self._socket = services, socket

    def key_id(self) -> str:
        self._services.statuses.append((time.monotonic(), self._socket))
        if self._socket in self._services.failing:
            raise KmsError("unavailable")
        return "k"

    def encrypt(self, data: bytes) -> Encrypted:
        return Encrypted(data, "k")

    def close(self) -> None:
        self._services.closed.append(self._socket)


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> KeyServices:
    found = KeyServices()
    monkeypatch.setattr(kms_v2_client, "KmsV2Client", found.client)
    return found


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> RunSimulated:
    """Return a function that runs a coroutine in simulated time, which starts at 0; threads need no time."""

    def run(work: Coroutine[Any, Any, None]) -> None:
        loop = SimulatedLoop(0)
        loop.thread_factor = 0
        monkeypatch.setattr(time, "monotonic", loop.time)
        try:
            loop.run_until_complete(work)
        finally:
            loop.close()

    return run


class RunningTasks:
    """The tasks of a storage with the encryption configuration *path*; records when values are read again."""

    def __init__(self, build: Build, path: Path, *arguments: str) -> None:
        self._build = build
        self._arguments = (f"--encryption-provider-config={path}", *arguments)
        self.rereads: list[float] = []

    async def __aenter__(self) -> Storage:
        options, storage = await self._build(*self._arguments)

        async def reread() -> None:
            self.rereads.append(time.monotonic())

        object.__setattr__(storage.store, "reread", reread)
        self._tasks = TaskOwner("test")
        start_storage_tasks(options, storage, build_registry(options), StoreMonitor(storage.store), self._tasks)
        return storage

    async def __aexit__(self, *_: object) -> None:
        await self._tasks.close()


def test_failed_key_services_are_retried_and_values_read_again(
    tmp_path: Path, build: Build, services: KeyServices, simulated: RunSimulated
) -> None:
    path, running = tmp_path / "keys.yaml", RunningTasks(build, tmp_path / "keys.yaml")
    path.write_text(kms("a"))

    async def work() -> None:
        async with running:
            await asyncio.sleep(130)
            services.failing.add("/a.sock")
            await asyncio.sleep(65)
            services.failing.clear()
            await asyncio.sleep(75)

    simulated(work())
    assert [seconds for seconds, _ in services.statuses] == [0, 60, 120, 180, 190, 200, 260]
    assert running.rereads == [200]


def test_key_service_that_fails_at_the_start_is_requested_soon(
    tmp_path: Path, build: Build, services: KeyServices, simulated: RunSimulated
) -> None:
    path, running = tmp_path / "keys.yaml", RunningTasks(build, tmp_path / "keys.yaml")
    path.write_text(kms("a"))
    services.failing.add("/a.sock")

    async def work() -> None:
        async with running:
            await asyncio.sleep(5)
            services.failing.clear()
            await asyncio.sleep(10)

    simulated(work())
    assert [seconds for seconds, _ in services.statuses] == [0, 10]
    assert running.rereads == [10]


def test_changed_keys_are_reloaded(
    tmp_path: Path,
    build: Build,
    services: KeyServices,
    simulated: RunSimulated,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    path, running = tmp_path / "keys.yaml", RunningTasks(build, tmp_path / "keys.yaml", RELOAD)
    path.write_text(kms("a"))

    async def work() -> None:
        async with running as storage:

            def label() -> bytes:
                return storage.encryption.writer("core/secrets").label

            await asyncio.sleep(65)
            assert running.rereads == []
            path.write_text("nonsense")
            await asyncio.sleep(120)
            assert label() == b"k8s:enc:kms:v2:a:"
            path.unlink()
            await asyncio.sleep(60)
            assert label() == b"k8s:enc:kms:v2:a:"
            path.write_text(CONFIG)
            await asyncio.sleep(60)
            assert label() == b"k8s:enc:secretbox:v1:a:"

    simulated(work())
    messages = [text.partition(",")[0] for text in caplog.messages if "reload" in text.lower()]
    assert messages == [NOT_RELOADED, NOT_RELOADED, RELOADED]
    assert (running.rereads, services.closed) == ([300], ["/a.sock"])


def test_keys_that_changed_during_the_start_are_reloaded(tmp_path: Path, build: Build, simulated: RunSimulated) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text(CONFIG)

    async def work() -> None:
        async with RunningTasks(build, path, RELOAD) as storage:
            path.write_text(CONFIG.replace("name: a", "name: b"))
            await asyncio.sleep(65)
            assert storage.encryption.writer("core/secrets").label == b"k8s:enc:secretbox:v1:b:"

    simulated(work())


def test_keys_of_a_failing_service_are_reloaded_once_it_responds(
    tmp_path: Path,
    build: Build,
    services: KeyServices,
    simulated: RunSimulated,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    path = tmp_path / "keys.yaml"
    path.write_text(CONFIG)
    services.failing.add("/b.sock")

    async def work() -> None:
        async with RunningTasks(build, path, RELOAD) as storage:
            path.write_text(kms("b"))
            await asyncio.sleep(130)
            assert storage.encryption.writer("core/secrets").label == b"k8s:enc:secretbox:v1:a:"
            assert services.closed == ["/b.sock"] * 2
            services.failing.clear()
            await asyncio.sleep(60)
            assert storage.encryption.writer("core/secrets").label == b"k8s:enc:kms:v2:b:"

    simulated(work())
    messages = [text.partition(",")[0] for text in caplog.messages if "reload" in text.lower()]
    assert messages == [NOT_RELOADED, NOT_RELOADED, RELOADED]


@pytest.mark.parametrize(
    ("arguments", "start"),
    [([], b'{"kind":'), (["--storage-media-type=application/vnd.kubernetes.protobuf"], b"k8s\x00")],
)
async def test_objects_have_the_configured_encoding(
    tmp_path: Path, build: Build, arguments: list[str], start: bytes
) -> None:
    _, storage = await build(*arguments)
    await storage.store.open()
    obj = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "namespace": "n"}}
    await storage.store.update("core/configmaps", "n/a", lambda current: Put(objects.encode_for_store(obj)))
    await storage.store.close()

    stored = b"".join(path.read_bytes() for path in tmp_path.glob("store.db*"))
    assert start in stored


def test_objects_of_kinds_with_lists_are_counted(build: Build, simulated: RunSimulated) -> None:
    counted: list[set[str]] = []

    async def work() -> None:
        options, storage = await build("--etcd-count-metric-poll-period=30s", "--etcd-db-metric-poll-interval=0s")
        tasks = TaskOwner("test")

        async def count(names: set[str]) -> None:
            counted.append(names)

        monitor: Any = SimpleNamespace(count=count)
        start_storage_tasks(options, storage, build_registry(options), monitor, tasks)
        await asyncio.sleep(45)
        await tasks.close()

    simulated(work())
    assert len(counted) == 2
    assert "core/pods" in counted[0] and "authentication.k8s.io/tokenreviews" not in counted[0]
