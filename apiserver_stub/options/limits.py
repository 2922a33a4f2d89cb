"""Command-line options for concurrency limits, timeouts and graceful shutdown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from apiserver_stub.options import values
from apiserver_stub.options.declare import Group

TITLE = "Limits and shutdown"


@dataclass(frozen=True, init=False, repr=False, eq=False)  # only a base of Options
class LimitOptions:
    """Values of the command-line options for concurrency limits, timeouts and graceful shutdown."""

    max_requests_inflight: int = 400
    max_mutating_requests_inflight: int = 200
    enable_priority_and_fairness: bool = True
    max_connection_bytes_per_sec: int = 0
    request_timeout_seconds: float = 60.0
    min_request_timeout_seconds: int = 1800
    livez_grace_seconds: float = 0.0
    shutdown_delay_seconds: float = 0.0
    shutdown_send_retry_after: bool = False
    shutdown_watch_grace_seconds: float = 0.0


def declare(group: Group) -> None:
    group.add(
        "max-requests-inflight",
        values.integer,
        "Concurrent non-mutating requests; 0 is unlimited without priority and fairness. Default 400.",
    )
    group.add(
        "max-mutating-requests-inflight",
        values.integer,
        "Concurrent mutating requests; 0 is unlimited without priority and fairness. Default 200.",
    )
    group.add(
        "enable-priority-and-fairness",
        values.boolean,
        "Divide the sum of both limits among priority levels, with fair queuing of requests. Default true.",
    )
    group.add(
        "max-connection-bytes-per-sec",
        values.integer,
        "Bytes per second that a watch or stream may send; 0 is unlimited. Default 0.",
    )
    group.add(
        "request-timeout",
        values.duration,
        "Timeout of requests other than watches. Default 1m0s.",
        "request_timeout_seconds",
    )
    group.add(
        "min-request-timeout",
        values.integer,
        "Minimum duration in seconds of watches without a timeout. Default 1800.",
        "min_request_timeout_seconds",
    )
    group.add(
        "livez-grace-period",
        values.duration,
        "Time for which /livez ignores an incomplete startup. Default 0s.",
        "livez_grace_seconds",
    )
    group.add(
        "shutdown-delay-duration",
        values.duration,
        "Time for which requests are still served after /readyz starts to fail at shutdown. Default 0s.",
        "shutdown_delay_seconds",
    )
    group.add(
        "shutdown-send-retry-after",
        values.boolean,
        "Reject new requests with 429 while requests in flight complete, instead of closing the port. Default false.",
    )
    group.add(
        "shutdown-watch-termination-grace-period",
        values.duration,
        "Time that watches have to end at shutdown. Default 0s: they are closed immediately.",
        "shutdown_watch_grace_seconds",
    )


def check(options: LimitOptions) -> Iterator[str]:
    if options.max_requests_inflight < 0 or options.max_mutating_requests_inflight < 0:
        yield "--max-requests-inflight and --max-mutating-requests-inflight can not be negative value"
    reads, writes = options.max_requests_inflight, options.max_mutating_requests_inflight
    if options.enable_priority_and_fairness and reads + writes <= 0:
        yield (
            f"invalid configuration: MaxRequestsInFlight={reads} and MaxMutatingRequestsInFlight={writes}; "
            "they must add up to something positive"
        )
    if options.max_connection_bytes_per_sec < 0:
        yield "--max-connection-bytes-per-sec can not be negative value"
    for name, value in (
        ("request-timeout", options.request_timeout_seconds),
        ("min-request-timeout", options.min_request_timeout_seconds),
        ("livez-grace-period", options.livez_grace_seconds),
        ("shutdown-delay-duration", options.shutdown_delay_seconds),
        ("shutdown-watch-termination-grace-period", options.shutdown_watch_grace_seconds),
    ):
        if value < 0:
            yield f"--{name} can not be negative value"
