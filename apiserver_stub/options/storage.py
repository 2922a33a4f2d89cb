"""What is kept, and how long."""

from __future__ import annotations

from dataclasses import dataclass

from apiserver_stub.options import values
from apiserver_stub.options.declare import Group

TITLE = "Storage"


@dataclass(frozen=True)
class StorageOptions:
    event_ttl_seconds: int = 3600
    enable_garbage_collector: bool = True


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
