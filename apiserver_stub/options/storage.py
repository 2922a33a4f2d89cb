"""What is kept, and how long."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from apiserver_stub.options import values
from apiserver_stub.options.declare import Group, Merge

TITLE = "Storage"


@dataclass(frozen=True)
class StorageOptions:
    event_ttl_seconds: int = 3600
    enable_garbage_collector: bool = True
    delete_collection_workers: int = 1
    watch_cache: bool = True
    watch_cache_sizes: Mapping[str, int] = field(default_factory=dict)

    def caches(self, resource: str, group: str) -> bool:
        """Return whether lists of a kind are answered as from a watch cache: all at once from resourceVersion 0."""
        name = f"{resource}.{group}" if group else resource
        return self.watch_cache and bool(self.watch_cache_sizes.get(name, int(resource != "events")))


def declare(group: Group) -> None:
    group.add(
        "event-ttl",
        values.whole_seconds,
        "Life of events. Default 1h0m0s; 0 keeps them.",
        "event_ttl_seconds",
    )
    group.add(
        "enable-garbage-collector",
        values.boolean,
        "Delete objects with their owners, and honour the propagation policy. Default true.",
    )
    group.add("delete-collection-workers", values.integer, "Deletions side by side in a collection. Default 1.")
    group.add(
        "watch-cache",
        values.boolean,
        "Answer lists from resourceVersion 0 whole, whatever their limit, as a cache does. Default true.",
    )
    group.add(
        "watch-cache-sizes",
        _sizes,
        "RESOURCE[.GROUP]#N, comma separated: 0 is no cache for that kind, any other number a cache.",
        action=Merge,
    )


def warnings(options: StorageOptions) -> Iterator[str]:
    for name, size in options.watch_cache_sizes.items():
        if size:
            yield f"Dropping watch-cache-size for {name} - watchCache size is now dynamic"


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
