"""Makes what the options ask for."""

from __future__ import annotations

import asyncio
from collections import Counter

from apiserver_stub.audit.backend import AuditSink, Backend
from apiserver_stub.audit.context import Audit
from apiserver_stub.audit.delivery import LEGACY
from apiserver_stub.audit.log_file import LogFile, Rotation
from apiserver_stub.audit.policy import load_policy
from apiserver_stub.audit.webhook import Webhook
from apiserver_stub.options import Options
from nodeagent.base.aio import SystemClock


async def build_audit(options: Options) -> Audit | None:
    """Return the audit that *options* describe, ``None`` without a policy or without a destination.

    :raises AuditError: a file is no good.
    """
    if options.audit_policy_file is None:
        return None
    policy = await asyncio.to_thread(load_policy, options.audit_policy_file)
    destinations = await asyncio.to_thread(_destinations, options)
    if not destinations:
        return None
    errors: Counter[str] = Counter()
    clock = SystemClock()
    wait = options.request_timeout_seconds
    backends = [
        Backend(destination, options.audit_delivery(destination.plugin, wait_seconds=wait), errors, clock)
        for destination in destinations
    ]
    return Audit(policy, backends, errors)


def _destinations(options: Options) -> list[AuditSink]:
    found: list[AuditSink] = []
    if options.audit_log_path:
        rotation = Rotation(
            options.audit_log_maxsize,
            options.audit_log_maxage,
            options.audit_log_maxbackup,
            options.audit_log_compress,
        )
        legacy = options.audit_log_format == LEGACY
        found.append(LogFile(options.audit_log_path, legacy=legacy, rotation=rotation))
    if options.audit_webhook_config_file is not None:
        backoff = options.audit_webhook_initial_backoff
        found.append(Webhook(options.audit_webhook_config_file, backoff, SystemClock()))
    return found
