"""Settings for the delivery of audit events to a sink."""

from __future__ import annotations

from nodeagent.base.structs import Struct

BATCH, BLOCKING, STRICT = MODES = ("batch", "blocking", "blocking-strict")
LEGACY, JSON = FORMATS = ("legacy", "json")


class Delivery(Struct, frozen=True):
    """Delivery mode and limits; *max_…* and *throttle_…* apply only to batches."""

    mode: str = BLOCKING
    buffer_size: int = 10_000
    max_size: int = 1
    max_wait_seconds: float = 0.0
    throttle_enabled: bool = False
    throttle_qps: float = 0.0
    throttle_burst: int = 0
    truncate: bool = False
    truncate_max_batch_bytes: int = 10 << 20
    truncate_max_event_bytes: int = 100 << 10
    wait_seconds: float = 60.0
    """The maximum time that a request waits for a sink in the blocking modes."""
