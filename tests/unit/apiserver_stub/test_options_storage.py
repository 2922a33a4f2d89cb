"""Tests for the options of the store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from apiserver_stub.options import OptionsError, parse, warnings


def problem(*arguments: str) -> str:
    with pytest.raises(OptionsError) as error:
        parse(arguments)
    return "\n".join(error.value.problems)


def test_default_store_is_a_file() -> None:
    options = parse([])

    assert (options.store_servers, options.store_prefix, options.storage_media_type) == ((), "/registry", "")
    assert (options.store_compaction_interval_seconds, options.lease_reuse_duration_seconds) == (300, 60)
    assert (options.store_count_metric_poll_period_seconds, options.store_db_metric_poll_interval_seconds) == (60, 30)
    assert (options.store_healthcheck_timeout_seconds, options.store_readycheck_timeout_seconds) == (2, 2)


@pytest.mark.parametrize(("ttl", "seconds"), [("0s", None), ("90s", 90)])
def test_events_do_not_expire_without_a_lifetime(ttl: str, seconds: int | None) -> None:
    assert parse([f"--event-ttl={ttl}"]).event_lifetime_seconds == seconds


def test_servers_and_overrides_are_lists() -> None:
    options = parse(
        [
            "--store-servers=http://a:2379,https://[::1]:2379",
            "--store-servers=unix:///run/etcd.sock",
            "--store-servers-overrides=/events#http://e:1;http://f:2,coordination.k8s.io/leases#http://l:3",
            "--storage-backend=etcd3",
            "--store-cafile=/ca",
            "--store-certfile=/crt",
            "--store-keyfile=/key",
        ]
    )

    assert options.store_servers == ("http://a:2379", "https://[::1]:2379", "unix:///run/etcd.sock")
    assert options.store_servers_overrides == {
        "core/events": ("http://e:1", "http://f:2"),
        "coordination.k8s.io/leases": ("http://l:3",),
    }
    assert (options.store_cafile, options.store_certfile, options.store_keyfile) == (
        Path("/ca"),
        Path("/crt"),
        Path("/key"),
    )


@pytest.mark.row(
    "opt.storage-backend",
    "opt.store-servers",
    "opt.store-servers-overrides",
    "opt.store-prefix",
    "opt.storage-media-type",
    "opt.encryption-provider-config-automatic-reload",
)
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--storage-backend=mysql"], "--storage-backend invalid, allowed values: store3. If not specified"),
        (["--storage-backend=store3"], "--store-servers must be specified"),
        (["--store-servers=localhost:2379"], "is not a valid server URL"),
        (["--store-servers=http://localhost"], "is not a valid server URL"),
        (["--store-servers-overrides=events#http://a:1"], "must be of format: group/resource#servers"),
        (["--store-servers-overrides=/events#"], "must be of format: group/resource#servers"),
        (["--store-prefix=/"], "--store-prefix must not be empty"),
        (
            ["--store-certfile=/c", "--store-servers=https://a:1"],
            "--store-certfile and --store-keyfile must be specified together",
        ),
        (["--store-cafile=/c"], "--store-cafile has no effect without a server with an https URL"),
        (["--store-cafile=/c", "--store-servers=http://a:1"], "--store-cafile has no effect without a server"),
        (["--store-certfile=/c", "--store-keyfile=/k"], "--store-certfile has no effect without a server"),
        (["--watch-cache-sizes=pods"], "invalid value of watch cache size: pods"),
        (["--watch-cache-sizes=#5"], "invalid value of watch cache size: #5"),
        (["--watch-cache-sizes=pods#x"], "invalid size of watch cache size: pods#x"),
        (["--watch-cache-sizes=pods#-1"], "watch cache size cannot be negative: pods#-1"),
        (["--store-servers=ftp://a:1"], "is not a valid server URL"),
        (["--store-servers=unix:"], "is not a valid server URL"),
        (["--store-servers=http://a:x"], "is not a valid server URL"),
        (["--store-servers-overrides=/events"], "must be of format: group/resource#servers"),
        (["--store-servers-overrides=apps/#http://a:1"], "must be of format: group/resource#servers"),
        (["--store-servers-overrides=/events#a:1"], "must be of format: group/resource#servers"),
        (["--storage-media-type=text/plain"], '--storage-media-type "text/plain" invalid, allowed values: application'),
        (["--encryption-provider-config-automatic-reload"], "must be set with --encryption-provider-config"),
        (["--lease-reuse-duration-seconds=-1"], "must not be negative"),
        (["--lease-reuse-duration-seconds=x"], "invalid syntax"),
        (["--store-compaction-interval=-1s"], "--store-compaction-interval must not be negative"),
        (["--store-healthcheck-timeout=soon"], 'time: invalid duration "soon"'),
    ],
)
def test_invalid_options_are_rejected(arguments: list[str], text: str) -> None:
    assert text in problem(*arguments)


def test_etcd_options_without_servers_are_reported() -> None:
    arguments = ["--authorization-mode=RBAC", "--store-prefix=/x", "--lease-reuse-duration-seconds=5"]

    reported = warnings(parse(arguments))

    assert [warning.split()[0] for warning in reported] == ["--store-prefix", "--lease-reuse-duration-seconds"]
    assert not warnings(parse([*arguments, "--store-servers=http://a:1"]))


@pytest.mark.parametrize(("options", "loaded"), [("", False), ("--store-servers=http://127.0.0.1:9", True)])
def test_grpc_is_imported_only_for_etcd(options: str, loaded: bool, tmp_path: Path) -> None:
    script = f"""
import asyncio, sys
from contextlib import AsyncExitStack
from apiserver_stub.egress.selector import DIRECT
from apiserver_stub.server import startup
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.server.storage import build_storage

async def main():
    options = parse(["--data-dir={tmp_path}", *{options.split()!r}])
    storage = await build_storage(options, build_registry(options), DIRECT, AsyncExitStack())
    await storage.store.close()

asyncio.run(main())
print("grpc" in sys.modules, "nacl" in sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True)

    assert result.stdout.split() == [str(loaded), "False"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--encryption-provider-config=/x", "--encryption-provider-config-automatic-reload"],
        ["--store-cafile=/c", "--store-servers=https://a:1"],
        ["--store-cafile=/c", "--store-servers=unixs:///run/etcd.sock"],
        ["--store-cafile=/c", "--store-servers-overrides=/events#https://a:1"],
        ["--storage-media-type=application/yaml", "--store-healthcheck-timeout=0s", "--lease-reuse-duration-seconds=0"],
    ],
)
def test_valid_options_are_accepted(arguments: list[str]) -> None:
    parse(arguments)


def test_watch_caches_are_enabled_by_resource() -> None:
    options = parse(["--watch-cache-sizes=pods#0,events#5,leases.coordination.k8s.io#0"])

    assert [options.caches(name, "") for name in ("pods", "events", "nodes", "leases")] == [False, True, True, True]
    assert not options.caches("leases", "coordination.k8s.io")
    assert not parse([]).caches("events", "")
    assert not parse(["--watch-cache=false"]).caches("nodes", "")
