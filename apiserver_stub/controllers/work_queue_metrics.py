"""Metrics of the work queues of all controllers, under the names of client-go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.controllers.work_queue import work_queues

if TYPE_CHECKING:
    from apiserver_stub.telemetry.exposition import Page

_LABELS = ("name",)


def show_work_queues(page: Page) -> None:
    """Add the work queues in this process to *page*."""
    queues = [((queue.name,), queue) for queue in work_queues()]
    for name, text, samples in (
        ("adds_total", "Number of keys that became ready.", [(labels, queue.counts.adds) for labels, queue in queues]),
        (
            "retries_total",
            "Number of keys that were queued for later.",
            [(labels, queue.counts.retries) for labels, queue in queues],
        ),
    ):
        page.counter(f"workqueue_{name}", text, _LABELS, samples)
    for name, text, histograms in (
        (
            "queue_duration_seconds",
            "Seconds from the time when a key is ready until it is processed.",
            [(labels, queue.counts.waits) for labels, queue in queues],
        ),
        (
            "work_duration_seconds",
            "Seconds in which a key is processed.",
            [(labels, queue.counts.runs) for labels, queue in queues],
        ),
    ):
        page.histogram(f"workqueue_{name}", text, _LABELS, histograms)
    running = [(labels, queue.running_seconds()) for labels, queue in queues]
    for name, text, values in (
        ("depth", "Number of keys that are ready.", [(labels, float(queue.depth)) for labels, queue in queues]),
        (
            "unfinished_work_seconds",
            "Sum of the times for which the keys in progress have been processed.",
            [(labels, sum(seconds)) for labels, seconds in running],
        ),
        (
            "longest_running_processor_seconds",
            "Time for which the oldest key in progress has been processed.",
            [(labels, max(seconds, default=0.0)) for labels, seconds in running],
        ),
    ):
        page.gauge(f"workqueue_{name}", text, _LABELS, values)
