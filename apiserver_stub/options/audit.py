"""Command-line options for the audit policy and the audit backends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apiserver_stub.audit.delivery import BATCH, FORMATS, MODES, Delivery
from apiserver_stub.options import values
from apiserver_stub.options.declare import Group
from apiserver_stub.options.names import NameOptions

TITLE = "Audit"
PLUGINS = ("log", "webhook")


@dataclass(frozen=True, init=False, repr=False, eq=False)  # only a base of Options
class AuditOptions(NameOptions):
    """Values of the command-line options for the audit policy and the audit backends."""

    audit_policy_file: Path | None = None
    audit_log_path: str = ""
    audit_log_format: str = "json"
    audit_log_maxage: int = 0
    audit_log_maxbackup: int = 0
    audit_log_maxsize: int = 0
    audit_log_compress: bool = False
    audit_log_version: str = ""
    audit_log_mode: str = "blocking"
    audit_log_batch_buffer_size: int = 10_000
    audit_log_batch_max_size: int = 1
    audit_log_batch_max_wait: float = 0.0
    audit_log_batch_throttle_enable: bool = False
    audit_log_batch_throttle_qps: float = 0.0
    audit_log_batch_throttle_burst: int = 0
    audit_log_truncate_enabled: bool = False
    audit_log_truncate_max_batch_size: int = 10_485_760
    audit_log_truncate_max_event_size: int = 102_400
    audit_webhook_config_file: Path | None = None
    audit_webhook_initial_backoff: float = 10.0
    audit_webhook_version: str = ""
    audit_webhook_mode: str = "batch"
    audit_webhook_batch_buffer_size: int = 10_000
    audit_webhook_batch_max_size: int = 400
    audit_webhook_batch_max_wait: float = 30.0
    audit_webhook_batch_throttle_enable: bool = True
    audit_webhook_batch_throttle_qps: float = 10.0
    audit_webhook_batch_throttle_burst: int = 15
    audit_webhook_truncate_enabled: bool = False
    audit_webhook_truncate_max_batch_size: int = 10_485_760
    audit_webhook_truncate_max_event_size: int = 102_400

    def audit_delivery(self, plugin: str, *, wait_seconds: float) -> Delivery:
        """Return the delivery settings of *plugin*, ``log`` or ``webhook``; requests block at most *wait_seconds*."""

        def value(name: str) -> Any:
            return getattr(self, f"audit_{plugin}_{name}")

        return Delivery(
            mode=value("mode"),
            buffer_size=value("batch_buffer_size"),
            max_size=value("batch_max_size"),
            max_wait_seconds=value("batch_max_wait"),
            throttle_enabled=value("batch_throttle_enable"),
            throttle_qps=value("batch_throttle_qps"),
            throttle_burst=value("batch_throttle_burst"),
            truncate=value("truncate_enabled"),
            truncate_max_batch_bytes=value("truncate_max_batch_size"),
            truncate_max_event_bytes=value("truncate_max_event_size"),
            wait_seconds=wait_seconds,
        )


def declare(group: Group) -> None:
    group.add("audit-policy-file", Path, "Audit policy file. Without it no events are recorded.")
    group.add("audit-log-path", str, "Log file for audit events; - is standard output.")
    group.add("audit-log-format", str, "json (default) or legacy, one line of text per event.")
    group.add("audit-log-maxage", values.integer, "Days to retain rotated log files. Default 0: no limit.")
    group.add("audit-log-maxbackup", values.integer, "Number of rotated log files to retain. Default 0: no limit.")
    group.add("audit-log-maxsize", values.integer, "Size in MiB at which a log file is rotated. Default 0: 100.")
    group.add("audit-log-compress", values.boolean, "Compress rotated log files.")
    group.add("audit-webhook-config-file", Path, "Kubeconfig file of the audit webhook.")
    group.add("audit-webhook-initial-backoff", values.duration, "Delay before the first retry. Default 10s.")
    for plugin, mode, size, wait, rate in (
        ("log", "blocking", 1, "0s", "false"),
        ("webhook", "batch", 400, "30s", "true, 10 per second, burst 15"),
    ):
        name = f"audit-{plugin}"
        group.add(
            f"{name}-version", str, f"API version of events. Default and only supported: {_version(NameOptions())}."
        )
        group.add(f"{name}-mode", str, f"Delivery mode: {', '.join(MODES)}. Default {mode}.")
        group.add(f"{name}-batch-buffer-size", values.integer, "Number of buffered events. Default 10000.")
        group.add(f"{name}-batch-max-size", values.integer, f"Maximum number of events per batch. Default {size}.")
        group.add(
            f"{name}-batch-max-wait",
            values.duration,
            f"Maximum time before an incomplete batch is sent. Default {wait}.",
        )
        group.add(f"{name}-batch-throttle-enable", values.boolean, f"Limit the rate of batches. Default {rate}.")
        group.add(f"{name}-batch-throttle-qps", values.number, "Maximum average number of batches per second.")
        group.add(f"{name}-batch-throttle-burst", values.integer, "Maximum burst of batches.")
        group.add(f"{name}-truncate-enabled", values.boolean, "Truncate events and split batches that are too large.")
        group.add(
            f"{name}-truncate-max-batch-size", values.integer, "Maximum size of a batch in bytes. Default 10485760."
        )
        group.add(
            f"{name}-truncate-max-event-size", values.integer, "Maximum size of an event in bytes. Default 102400."
        )


def check(options: AuditOptions) -> Iterator[str]:
    if options.audit_log_path:
        yield from _check_backend(options, "log")
        for name in ("maxage", "maxbackup", "maxsize"):
            if (value := getattr(options, f"audit_log_{name}")) < 0:
                yield f"--audit-log-{name} {value} can't be a negative number"
        if options.audit_log_format not in FORMATS:
            allowed = ",".join(FORMATS)
            yield f'invalid audit log format {options.audit_log_format}, allowed formats are "{allowed}"'
    if options.audit_webhook_config_file is not None:
        yield from _check_backend(options, "webhook")


def warnings(options: AuditOptions) -> Iterator[str]:
    backends = bool(options.audit_log_path) or options.audit_webhook_config_file is not None
    if backends and options.audit_policy_file is None:
        yield "No audit policy file provided, no events will be recorded for the audit backends"
    if options.audit_policy_file is not None and not backends:
        yield "No audit backend provided, the audit policy has no effect"


def _check_backend(options: AuditOptions, plugin: str) -> Iterator[str]:
    delivery = options.audit_delivery(plugin, wait_seconds=0)
    if delivery.mode not in MODES:
        yield f'invalid audit {plugin} mode {delivery.mode}, allowed modes are "{",".join(MODES)}"'
    if delivery.mode == BATCH:
        if delivery.buffer_size <= 0:
            yield f"invalid audit batch {plugin} buffer size {delivery.buffer_size}, must be a positive number"
        if delivery.max_size <= 0:
            yield f"invalid audit batch {plugin} max batch size {delivery.max_size}, must be a positive number"
        if delivery.throttle_enabled:
            if delivery.throttle_qps <= 0:
                qps = f"{delivery.throttle_qps:g}"
                yield f"invalid audit batch {plugin} throttle QPS {qps}, must be a positive number"
            if delivery.throttle_burst <= 0:
                burst = delivery.throttle_burst
                yield f"invalid audit batch {plugin} throttle burst {burst}, must be a positive number"
    if delivery.truncate:
        event, batch = delivery.truncate_max_event_bytes, delivery.truncate_max_batch_bytes
        if event <= 0:
            yield f"invalid audit truncate {plugin} max event size {event}, must be a positive number"
        if batch < event:
            text = f"must be greater than max event size ({event})"
            yield f"invalid audit truncate {plugin} max batch size {batch}, {text}"
    version = getattr(options, f"audit_{plugin}_version")
    if version not in ("", supported := _version(options)):
        yield f'invalid group version, allowed versions are ["{supported}"]'


def _version(options: NameOptions) -> str:
    return options.identity.group("audit") + "/v1"
