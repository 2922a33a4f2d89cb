"""Construction of the configured store with its codec and encryption."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from apiserver_stub.apimachinery import media
from apiserver_stub.egress.selector import EgressSelector
from apiserver_stub.server.stored_objects import StoredObjects
from apiserver_stub.storage import encryption
from apiserver_stub.storage.base import Store, StoreUnavailable
from apiserver_stub.storage.codec import StorageCodec
from apiserver_stub.storage.composite import CompositeStore
from apiserver_stub.storage.encryption import Encryption, EncryptionError, Rules
from apiserver_stub.storage.layout import Layout
from apiserver_stub.storage.monitor import READINESS, Check, StoreMonitor, repeat
from apiserver_stub.storage.request_metrics import StoreRequestMetrics
from apiserver_stub.storage.sqlite import SqliteStore
from nodeagent.base.aio import TaskOwner
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.egress.local_sockets import LocalSockets
    from apiserver_stub.kinds import Registry, Resource
    from apiserver_stub.options import Options
    from apiserver_stub.storage.encryption.data_keys import DataKeys

_log = logging.getLogger(__name__)

_SERVICES, _RANGES = "core/services", "core/ranges"
STATUS_SECONDS, RETRY_SECONDS = 60.0, 10.0
"""Interval between requests for the status of key management services, and after a failure."""
RELOAD_SECONDS = 60.0
"""Interval between checks of the encryption configuration file."""

_Codecs = Callable[[str], StorageCodec]
"""Return the codec of a backend for its default media type."""


class Storage(Struct, frozen=True):
    """A store that is not open yet, with its layout, encryption and metrics."""

    store: Store
    layout: Layout
    encryption: Encryption
    calls: StoreRequestMetrics
    config_hash: bytes = b""
    """Hash of the loaded encryption configuration file."""


async def build_storage(
    options: Options, resources: Iterable[Resource], egress: EgressSelector, stack: AsyncExitStack
) -> Storage:
    """Return the configured storage; the caller opens the store.

    :param stack: closes the sockets that lead to servers through *egress*.

    :raises EncryptionError: the encryption configuration is invalid.
    :raises StoreUnavailable: a TLS file of the backend cannot be read.
    """
    layout = Layout.of(options.store_prefix, resources)
    at_rest, config_hash = Encryption(), b""
    if (path := options.encryption_provider_config) is not None:
        # Before the file is parsed, so that it is reloaded if it has changed since then.
        config_hash = _hash_of(await asyncio.to_thread(_content, path))
        load = partial(encryption.load_config, identity=options.identity, allows_kms_v1=options.gates.enabled("KMSv1"))
        at_rest.rules = await asyncio.to_thread(load, path)
    await _refresh_key_services(at_rest)
    complete = StoredObjects(options, resources).complete

    def codec(default: str) -> StorageCodec:
        return StorageCodec(layout, at_rest, options.identity, options.storage_media_type or default, complete)

    calls = StoreRequestMetrics()
    sockets: dict[str, Path] = {}
    if egress.etcd is not None:
        from apiserver_stub.egress.local_sockets import LocalSockets  # Deferred: rarely needed.

        local = LocalSockets(egress.etcd)
        stack.push_async_callback(local.close)
        sockets = await _sockets(options, local)
    try:
        return Storage(_build(options, layout, codec, calls, sockets), layout, at_rest, calls, config_hash)
    except OSError as error:
        raise StoreUnavailable(str(error)) from error


async def _sockets(options: Options, local: LocalSockets) -> dict[str, Path]:
    """Return local sockets that lead to the servers, by URL."""
    found: dict[str, Path] = {}
    for url in {*options.store_servers, *(url for urls in options.store_servers_overrides.values() for url in urls)}:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https"):
            found[url] = await local.open(parts.hostname or "", parts.port or 0)
    return found


def _build(
    options: Options, layout: Layout, codec: _Codecs, calls: StoreRequestMetrics, sockets: Mapping[str, Path]
) -> Store:
    overrides: dict[str, tuple[str, ...]] = {
        name: urls for name, urls in options.store_servers_overrides.items() if name in layout.collections
    }
    if _SERVICES in overrides:
        overrides[_RANGES] = overrides[_SERVICES]  # Allocations are stored with the Services.
    main: Store
    if options.store_servers:
        main = _etcd(options, layout.without(overrides), codec, options.store_servers, calls, sockets)
    else:
        interval = options.store_compaction_interval_seconds
        main = SqliteStore(options.data_dir / "store.db", codec=codec(media.JSON), compaction_seconds=interval)
    if not overrides:
        return main
    stores = {
        name: _etcd(options, layout.only([name]), codec, urls, calls, sockets, root=layout.directory(name))
        for name, urls in overrides.items()
    }
    return CompositeStore(main, stores)


def _etcd(
    options: Options,
    stored: Layout,
    codec: _Codecs,
    urls: tuple[str, ...],
    calls: StoreRequestMetrics,
    sockets: Mapping[str, Path],
    *,
    root: str = "",
) -> Store:
    from apiserver_stub.storage.etcd.client import EtcdClient, TlsFiles
    from apiserver_stub.storage.etcd.store import EtcdStore

    files = TlsFiles(options.store_cafile, options.store_certfile, options.store_keyfile)
    return EtcdStore(
        EtcdClient(urls, files, observe=calls.count, sockets=sockets),
        stored,
        codec(options.identity.protobuf_media_type),
        root=root,
        reuse_seconds=options.lease_reuse_duration_seconds,
        compaction_seconds=options.store_compaction_interval_seconds,
    )


async def _refresh_key_services(at_rest: Encryption) -> bool:
    """Request the status of all key management services; log failures, and return whether all succeeded."""
    services = at_rest.key_services()
    problems = await asyncio.gather(*(asyncio.to_thread(service.refresh) for service in services))
    for problem in filter(None, problems):
        _log.error("Failed to get status of key management service", extra={"err": problem})
    return not any(problems)


async def _run_key_services(storage: Storage) -> None:
    """Request the status of all key management services periodically, and read values again after a failure."""
    healthy = not any(service.problem for service in storage.encryption.key_services())
    while True:
        await asyncio.sleep(STATUS_SECONDS if healthy else RETRY_SECONDS)
        before, healthy = healthy, await _refresh_key_services(storage.encryption)
        if healthy and not before:
            await storage.store.reread()


async def _run_key_reloader(path: Path, options: Options, storage: Storage) -> None:
    """Reload the encryption configuration whenever it changes; an invalid one is logged and not applied."""
    loaded = storage.config_hash
    while True:
        await asyncio.sleep(RELOAD_SECONDS)
        loaded = await _reload_keys(path, options, storage, loaded)


async def _reload_keys(path: Path, options: Options, storage: Storage, before: bytes) -> bytes:
    """Reload the encryption configuration unless its hash is still *before*.

    :returns: the hash; *before* if the configuration has to be loaded again, since one of its key management services
        failed.
    """
    content = await asyncio.to_thread(_content, path)
    if (current := _hash_of(content)) == before:
        return before
    try:
        v1 = options.gates.enabled("KMSv1")
        rules: Rules = encryption.parse_config(content, options.identity, allows_kms_v1=v1)
    except EncryptionError as error:
        _log_failed_reload(path, str(error))
        return current
    loaded = Encryption(rules)
    if not await _refresh_key_services(loaded):
        loaded.close()
        _log_failed_reload(path, "a key management service failed")
        return before
    previous = storage.encryption.key_services()
    storage.encryption.rules = rules
    await storage.store.reread()
    for service in previous:
        service.close()
    _log.info("Reloaded encryption configuration", extra={"path": str(path)})
    return current


def _log_failed_reload(path: Path, problem: str) -> None:
    fields = {"path": str(path), "err": problem}
    _log.error("Failed to reload encryption configuration, keeping the previous one", extra=fields)


def _hash_of(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        return f"# {error}".encode()  # Not a configuration, so that the parser reports it.


def health_checks(options: Options, storage: Storage) -> dict[str, Check]:
    """Return the health checks of store and encryption keys, by name."""
    checks = {name: Check(probe, _seconds_for(options, name)) for name, probe in storage.store.probes().items()}
    if options.encryption_provider_config_automatic_reload:

        async def check_keys(seconds: float) -> str:
            return await asyncio.to_thread(storage.encryption.check)

        checks["kms-providers"] = Check(check_keys, options.store_healthcheck_timeout_seconds)
        return checks
    for index, service in enumerate(storage.encryption.key_services()):

        async def check_service(seconds: float, service: DataKeys = service) -> str:
            return service.problem

        checks[f"kms-provider-{index}"] = Check(check_service, options.store_healthcheck_timeout_seconds)
    return checks


def _seconds_for(options: Options, name: str) -> float:
    if name == READINESS:
        return options.store_readycheck_timeout_seconds
    return options.store_healthcheck_timeout_seconds


def start_storage_tasks(
    options: Options, storage: Storage, registry: Registry, monitor: StoreMonitor, tasks: TaskOwner
) -> None:
    """Start the collection of object counts and database sizes, and the refresh of encryption keys."""
    if options.store_count_metric_poll_period_seconds > 0:
        tasks.start(
            repeat(
                lambda: monitor.count({item.storage for item in registry if "list" in item.verbs}),
                options.store_count_metric_poll_period_seconds,
            ),
            "store-counts",
        )
    if options.store_db_metric_poll_interval_seconds > 0:
        tasks.start(repeat(monitor.measure, options.store_db_metric_poll_interval_seconds), "store-sizes")
    reloads = options.encryption_provider_config_automatic_reload
    if options.encryption_provider_config is not None and reloads:
        tasks.start(_run_key_reloader(options.encryption_provider_config, options, storage), "keys")
    if storage.encryption.key_services() or reloads:
        tasks.start(_run_key_services(storage), "key-services")
