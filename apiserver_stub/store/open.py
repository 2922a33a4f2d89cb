"""The store that the options ask for, with its encoding and encryption."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from apiserver_stub import encryption, media
from apiserver_stub.encryption import Encryption, EncryptionError, Rules
from apiserver_stub.store.base import Store, StoreUnavailable
from apiserver_stub.store.calls import Calls
from apiserver_stub.store.coding import Coding
from apiserver_stub.store.layout import Layout
from apiserver_stub.store.polls import READINESS, Check, Polls, repeat
from apiserver_stub.store.several import SeveralStores
from apiserver_stub.store.sqlite import SqliteStore
from nodeagent.base.aio import TaskOwner

if TYPE_CHECKING:
    from apiserver_stub.options import Options
    from apiserver_stub.resources import Resource

_log = logging.getLogger(__name__)

_SERVICES, _RANGES = "core/services", "core/ranges"
RELOAD_SECONDS = 60.0
"""Time between two looks at the file of the keys."""


@dataclass(frozen=True, slots=True)
class Storage:
    """The store, still closed, and what goes with it."""

    store: Store
    encryption: Encryption
    calls: Calls


async def build_storage(options: Options, resources: Iterable[Resource]) -> Storage:
    """Return what *options* ask for, to be opened.

    :raises EncryptionError: the file of the keys is no good.
    :raises StoreUnavailable: a TLS file for the store cannot be read.
    """
    layout = Layout.of(options.store_prefix, resources)
    path = options.encryption_provider_config
    sealing = Encryption(await asyncio.to_thread(encryption.load_config, path) if path is not None else None)
    calls = Calls()
    try:
        return Storage(_build(options, layout, sealing, calls), sealing, calls)
    except OSError as error:
        raise StoreUnavailable(str(error)) from error


def _build(options: Options, layout: Layout, sealing: Encryption, calls: Calls) -> Store:
    apart: dict[str, tuple[str, ...]] = {
        name: urls for name, urls in options.store_servers_overrides.items() if name in layout.collections
    }
    if _SERVICES in apart:
        apart[_RANGES] = apart[_SERVICES]  # with those who have their numbers
    main: Store
    if options.store_servers:
        main = _etcd(options, layout.without(apart), layout, options.store_servers, sealing, calls)
    else:
        coding = Coding(layout, sealing, options.storage_media_type or media.JSON)
        interval = options.store_compaction_interval_seconds
        main = SqliteStore(options.data_dir / "store.db", coding=coding, compaction_seconds=interval)
    if not apart:
        return main
    stores = {
        name: _etcd(options, layout.only([name]), layout, urls, sealing, calls, root=layout.folder(name))
        for name, urls in apart.items()
    }
    return SeveralStores(main, stores)


def _etcd(
    options: Options,
    kept: Layout,
    layout: Layout,
    urls: tuple[str, ...],
    sealing: Encryption,
    calls: Calls,
    *,
    root: str = "",
) -> Store:
    from apiserver_stub.store.etcd.client import EtcdClient, TlsFiles
    from apiserver_stub.store.etcd.store import EtcdStore

    files = TlsFiles(options.store_cafile, options.store_certfile, options.store_keyfile)
    return EtcdStore(
        EtcdClient(urls, files, observe=calls.count),
        kept,
        Coding(layout, sealing, options.storage_media_type or media.PROTOBUF),
        root=root,
        reuse_seconds=options.lease_reuse_duration_seconds,
        compaction_seconds=options.store_compaction_interval_seconds,
    )


async def keep_keys_current(path: Path, storage: Storage) -> None:
    """Take over the file of the keys whenever it changes; one that is no good leaves the keys as they are."""
    content = await asyncio.to_thread(_content, path)
    while True:
        await asyncio.sleep(RELOAD_SECONDS)
        content = await reload_keys(path, storage, content)


async def reload_keys(path: Path, storage: Storage, before: bytes) -> bytes:
    """Take over the file of the keys unless it still says *before*, and return what it says."""
    content = await asyncio.to_thread(_content, path)
    if content != before:
        try:
            rules: Rules = encryption.parse_config(content)
        except EncryptionError as error:
            _log.error("Keys are not taken over", extra={"file": str(path), "err": error})
        else:
            storage.encryption.rules = rules
            storage.store.reread()
            _log.info("Keys are taken over", extra={"file": str(path)})
    return content


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        return f"# {error}".encode()  # what is no configuration, and is told as such


def health_checks(options: Options, storage: Storage) -> dict[str, Check]:
    """Return the checks of the store and its keys, by name."""
    found = {name: Check(probe, _seconds_for(options, name)) for name, probe in storage.store.probes().items()}
    if options.encryption_provider_config_automatic_reload:

        async def keys_work(seconds: float) -> str:
            return await asyncio.to_thread(storage.encryption.check)

        found["kms-providers"] = Check(keys_work, options.store_healthcheck_timeout_seconds)
    return found


def _seconds_for(options: Options, name: str) -> float:
    if name == READINESS:
        return options.store_readycheck_timeout_seconds
    return options.store_healthcheck_timeout_seconds


def start_polls(options: Options, polls: Polls, collections: Iterable[str], tasks: TaskOwner) -> None:
    """Keep the numbers of the store current, as often as *options* say."""
    names = list(collections)
    if options.store_count_metric_poll_period_seconds > 0:
        tasks.start(repeat(lambda: polls.count(names), options.store_count_metric_poll_period_seconds), "store-counts")
    if options.store_db_metric_poll_interval_seconds > 0:
        tasks.start(repeat(polls.measure, options.store_db_metric_poll_interval_seconds), "store-sizes")
