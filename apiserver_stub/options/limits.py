"""How much at a time, how long, and how the server ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from apiserver_stub.options import values
from apiserver_stub.options.declare import Group

TITLE = "Limits and life"


@dataclass(frozen=True)
class LimitOptions:
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
    group.add("max-requests-inflight", values.integer, "Reads at a time; without fairness 0 is no limit. Default 400.")
    group.add(
        "max-mutating-requests-inflight",
        values.integer,
        "Writes at a time; without fairness 0 is no limit. Default 200.",
    )
    group.add(
        "enable-priority-and-fairness",
        values.boolean,
        "Share both limits, summed, among levels and callers, and let requests wait for their turn. Default true.",
    )
    group.add(
        "max-connection-bytes-per-sec",
        values.integer,
        "Bytes a second that a watch or stream may send; 0 is no limit. Default 0.",
    )
    group.add(
        "request-timeout",
        values.duration,
        "Longest request that is no watch. Default 1m0s.",
        "request_timeout_seconds",
    )
    group.add(
        "min-request-timeout",
        values.integer,
        "Shortest time in seconds of a watch that names none. Default 1800.",
        "min_request_timeout_seconds",
    )
    group.add(
        "livez-grace-period",
        values.duration,
        "How long /livez takes an unfinished start for a good one. Default 0s.",
        "livez_grace_seconds",
    )
    group.add(
        "shutdown-delay-duration",
        values.duration,
        "How long requests are still served after /readyz has failed. Default 0s.",
        "shutdown_delay_seconds",
    )
    group.add(
        "shutdown-send-retry-after",
        values.boolean,
        "Answer 429 while requests under way end, instead of closing the port. Default false.",
    )
    group.add(
        "shutdown-watch-termination-grace-period",
        values.duration,
        "How long watches get to end at a stop. Default 0s: they are not waited for.",
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
