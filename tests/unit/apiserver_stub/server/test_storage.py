"""Tests for the construction of the store, its health checks and its tasks."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.options import Options, parse
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.server.storage import Storage, build_storage, health_checks, start_storage_tasks
from apiserver_stub.storage.composite import CompositeStore
from apiserver_stub.storage.encryption import EncryptionError
from apiserver_stub.storage.etcd import client
from apiserver_stub.storage.etcd.store import EtcdStore
from apiserver_stub.storage.monitor import StoreMonitor
from apiserver_stub.storage.sqlite import SqliteStore
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
        return options, await build_storage(options, build_registry(options))

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
