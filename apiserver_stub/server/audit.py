"""Construction of the audit policy and backends."""

from __future__ import annotations

import asyncio
from collections import Counter

from apiserver_stub.audit.backend import AuditSink, Backend
from apiserver_stub.audit.context import Audit
from apiserver_stub.audit.delivery import LEGACY
from apiserver_stub.audit.log_file import LogFile, Rotation
from apiserver_stub.audit.policy import load_policy
from apiserver_stub.audit.webhook import Webhook
from apiserver_stub.egress.selector import DIRECT, EgressSelector
from apiserver_stub.options import Options
from nodeagent.base.aio import SystemClock


async def build_audit(options: Options, egress: EgressSelector = DIRECT) -> Audit | None:
    """Return the configured audit, or ``None`` without a policy or without a backend.

    :raises AuditError: the policy or the configuration of a backend is invalid.
    """
    if options.audit_policy_file is None:
        return None
    policy = await asyncio.to_thread(load_policy, options.audit_policy_file, options.identity)
    sinks = await asyncio.to_thread(_sinks, options, egress)
    if not sinks:
        return None
    errors: Counter[str] = Counter()
    clock = SystemClock()
    wait_seconds = options.request_timeout_seconds
    backends = [
        Backend(sink, options.audit_delivery(sink.plugin, wait_seconds=wait_seconds), errors, clock) for sink in sinks
    ]
    return Audit(policy, backends, errors, options.identity)


def _sinks(options: Options, egress: EgressSelector) -> list[AuditSink]:
    result: list[AuditSink] = []
    if options.audit_log_path:
        rotation = Rotation(
            options.audit_log_maxsize,
            options.audit_log_maxage,
            options.audit_log_maxbackup,
            options.audit_log_compress,
        )
        legacy = options.audit_log_format == LEGACY
        result.append(LogFile(options.audit_log_path, legacy=legacy, rotation=rotation))
    if options.audit_webhook_config_file is not None:
        backoff = options.audit_webhook_initial_backoff
        path, dialer = options.audit_webhook_config_file, egress.controlplane
        result.append(Webhook(path, backoff, SystemClock(), options.identity, dialer))
    return result
