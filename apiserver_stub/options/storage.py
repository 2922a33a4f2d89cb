"""Command-line options for the storage backend, encryption at rest and event TTL."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from apiserver_stub.options import values
from apiserver_stub.options.declare import Extend, Group, Merge
from apiserver_stub.options.names import NameOptions
from nodeagent.base.identity import Identity

TITLE = "Storage"
_BACKENDS = ("store3", "etcd3")
_SCHEMES = ("http", "https", "unix", "unixs")
_OVERRIDE_FORM = (
    "--store-servers-overrides invalid, must be of format: group/resource#servers, where servers are URLs, semicolon "
    "separated"
)


@dataclass(frozen=True, init=False, repr=False, eq=False)  # only a base of Options
class StorageOptions(NameOptions):
    """Values of the command-line options for the storage backend, encryption at rest and event TTL."""

    storage_backend: str = ""
    store_servers: tuple[str, ...] = ()
    """URLs; if empty, the store is a file in the data directory."""
    store_servers_overrides: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Collection → URLs of its servers."""
    store_prefix: str = "/registry"
    store_cafile: Path | None = None
    store_certfile: Path | None = None
    store_keyfile: Path | None = None
    store_compaction_interval_seconds: float = 300.0
    store_count_metric_poll_period_seconds: float = 60.0
    store_db_metric_poll_interval_seconds: float = 30.0
    store_healthcheck_timeout_seconds: float = 2.0
    store_readycheck_timeout_seconds: float = 2.0
    storage_media_type: str = ""
    """Empty: protobuf on servers, JSON in the file."""
    encryption_provider_config: Path | None = None
    encryption_provider_config_automatic_reload: bool = False
    lease_reuse_duration_seconds: int = 60
    event_ttl_seconds: int = 3600
    enable_garbage_collector: bool = True
    delete_collection_workers: int = 1
    watch_cache: bool = True
    watch_cache_sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def event_lifetime_seconds(self) -> int | None:
        """Lifetime of events; ``None`` if they do not expire."""
        return self.event_ttl_seconds or None

    def caches(self, resource: str, group: str) -> bool:
        """Return whether *resource* has a watch cache, so that lists with ``resourceVersion=0`` ignore the limit."""
        name = f"{resource}.{group}" if group else resource
        return self.watch_cache and bool(self.watch_cache_sizes.get(name, int(resource != "events")))


def declare(group: Group) -> None:
    group.add("storage-backend", str, "Protocol of --store-servers: store3, also named etcd3. Default store3.")
    group.add(
        "store-servers",
        values.strings,
        "URLs of an etcd 3 cluster, comma separated. Default: a file in --data-dir.",
        action=Extend,
    )
    group.add(
        "store-servers-overrides",
        _overrides,
        "GROUP/RESOURCE#URL[;URL...]: servers of single resources, comma separated; the core group is empty.",
        action=Merge,
    )
    group.add("store-prefix", str, "Prefix of all keys. Default /registry.")
    group.add("store-cafile", Path, "CA bundle for the certificates of the servers.")
    group.add("store-certfile", Path, "Client certificate presented to the servers.")
    group.add("store-keyfile", Path, "Private key of --store-certfile.")
    for name, default, text in (
        ("store-compaction-interval", "5m0s", "Interval of compaction; 0 disables it"),
        ("store-count-metric-poll-period", "1m0s", "Interval of object counts for metrics; 0 disables them"),
        ("store-db-metric-poll-interval", "30s", "Interval of database size metrics; 0 disables them"),
        ("store-healthcheck-timeout", "2s", "Timeout of health checks of the store"),
        ("store-readycheck-timeout", "2s", "Timeout of readiness checks of the store"),
    ):
        group.add(name, values.duration, f"{text}. Default {default}.", f"{name.replace('-', '_')}_seconds")
    types = ", ".join(_media_types(NameOptions().identity))
    group.add(
        "storage-media-type",
        str,
        f"Media type of stored objects: {types}. Default: protobuf on servers, JSON in the file.",
    )
    group.add("encryption-provider-config", Path, "EncryptionConfiguration file: encrypted resources and their keys.")
    group.add(
        "encryption-provider-config-automatic-reload",
        values.boolean,
        "Reload --encryption-provider-config when it changes, and add a health check of its keys. Default false.",
    )
    group.add(
        "lease-reuse-duration-seconds",
        values.integer,
        "Seconds for which new events share one lease of the servers. Default 60; 0 disables sharing.",
    )
    group.add(
        "event-ttl",
        values.whole_seconds,
        "TTL of events. Default 1h0m0s; 0 means no expiration.",
        "event_ttl_seconds",
    )
    group.add(
        "enable-garbage-collector",
        values.boolean,
        "Delete dependents with their owners, and support propagation policies. Default true.",
    )
    group.add(
        "delete-collection-workers", values.integer, "Concurrent deletions per deletecollection request. Default 1."
    )
    group.add(
        "watch-cache",
        values.boolean,
        "Return complete lists for resourceVersion=0, regardless of the limit, like a watch cache. Default true.",
    )
    group.add(
        "watch-cache-sizes",
        _sizes,
        "RESOURCE[.GROUP]#N, comma separated: 0 disables the watch cache of a resource, other values enable it.",
        action=Merge,
    )


def check(options: StorageOptions) -> Iterator[str]:
    if options.storage_backend and options.storage_backend not in _BACKENDS:
        yield "--storage-backend invalid, allowed values: store3. If not specified, it will default to 'store3'"
    if options.storage_backend and not options.store_servers:
        yield "--store-servers must be specified with --storage-backend; without both, the store is a file"
    for url in options.store_servers:
        if not _is_server(url):
            yield f'--store-servers "{url}" is not a valid server URL: expected scheme://host:port'
    if (options.store_certfile is None) != (options.store_keyfile is None):
        yield "--store-certfile and --store-keyfile must be specified together"
    everything = [*options.store_servers, *(url for urls in options.store_servers_overrides.values() for url in urls)]
    for name in ("cafile", "certfile", "keyfile"):
        if getattr(options, f"store_{name}") is None:
            continue
        if not any(urlsplit(url).scheme in ("https", "unixs") for url in everything):
            yield f"--store-{name} has no effect without a server with an https URL"
    if not options.store_prefix.strip("/"):
        yield "--store-prefix must not be empty"
    for name in (
        "store_compaction_interval",
        "store_count_metric_poll_period",
        "store_db_metric_poll_interval",
        "store_healthcheck_timeout",
        "store_readycheck_timeout",
    ):
        if getattr(options, f"{name}_seconds") < 0:
            yield f"--{name.replace('_', '-')} must not be negative"
    if options.lease_reuse_duration_seconds < 0:
        yield "--lease-reuse-duration-seconds must not be negative"
    if options.storage_media_type and options.storage_media_type not in (types := _media_types(options.identity)):
        allowed = ", ".join(types)
        yield f'--storage-media-type "{options.storage_media_type}" invalid, allowed values: {allowed}'
    if options.encryption_provider_config_automatic_reload and options.encryption_provider_config is None:
        yield "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config"


def _media_types(identity: Identity) -> tuple[str, ...]:
    return ("application/json", identity.protobuf_media_type, "application/yaml")


def warnings(options: StorageOptions) -> Iterator[str]:
    if not options.store_servers and not options.store_servers_overrides:
        if options.store_prefix != StorageOptions.store_prefix:
            yield "--store-prefix only affects encryption at rest without --store-servers: a file has no key prefix"
        if options.lease_reuse_duration_seconds != StorageOptions.lease_reuse_duration_seconds:
            yield "--lease-reuse-duration-seconds has no effect without --store-servers: a file has no leases"
    for name, size in options.watch_cache_sizes.items():
        if size:
            yield f"Dropping watch-cache-size for {name} - watchCache size is now dynamic"


def _is_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    if parts.scheme not in _SCHEMES:
        return False
    return bool(parts.path) if parts.scheme.startswith("unix") else bool(parts.hostname and port)


def _overrides(text: str) -> dict[str, tuple[str, ...]]:
    found = {}
    for item in values.strings(text):
        name, mark, servers = item.partition("#")
        group, slash, plural = name.partition("/")
        urls = tuple(url.strip() for url in servers.split(";") if url.strip())
        if not mark or not slash or not plural or not urls or not all(map(_is_server, urls)):
            raise argparse.ArgumentTypeError(_OVERRIDE_FORM)
        found[f"{group or 'core'}/{plural}"] = urls
    return found


def _sizes(text: str) -> dict[str, int]:
    sizes = {}
    for item in values.strings(text):
        name, mark, number = item.partition("#")
        if not mark or not name:
            raise argparse.ArgumentTypeError(f"invalid value of watch cache size: {item}")
        try:
            size = int(number)
        except ValueError:
            raise argparse.ArgumentTypeError(f"invalid size of watch cache size: {item}") from None
        if size < 0:
            raise argparse.ArgumentTypeError(f"watch cache size cannot be negative: {item}")
        sizes[name] = size
    return sizes
