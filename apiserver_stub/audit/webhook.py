"""Audit sink that posts event lists to the server of a kubeconfig file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from apiserver_stub import webhook
from apiserver_stub.audit import event as events
from apiserver_stub.audit.event import Event
from apiserver_stub.audit.policy import AuditError, audit_version
from apiserver_stub.egress.dialing import Dialer
from nodeagent.base.aio import Clock
from nodeagent.base.identity import Identity
from nodeagent.base.kubeconfig import KubeconfigError


class Webhook:
    """Client for the current context of a kubeconfig file; every failure is retried, with five attempts in total.

    :raises AuditError: the file is invalid.
    """

    plugin = "webhook"
    parallel = True

    def __init__(
        self,
        config_file: Path,
        initial_backoff_seconds: float,
        clock: Clock,
        identity: Identity,
        dialer: Dialer | None = None,
    ) -> None:
        version = audit_version(identity)
        self._head = f'{{"kind":"EventList","apiVersion":"{version}","metadata":{{}},"items":['.encode()
        self._type_length = len(f'{{"kind":"Event","apiVersion":"{version}",')
        try:
            self._service = webhook.Webhook(
                config_file,
                clock=clock,
                first_pause_seconds=initial_backoff_seconds,
                retry_all=True,
                dialer=dialer,
            )
        except KubeconfigError as error:
            raise AuditError(f"initializing audit webhook: {error}") from None

    def encode(self, event: Event) -> bytes:
        """Return *event* as an item of an ``EventList``, without kind and API version."""
        return b"{" + events.encode(event)[self._type_length : -1]

    async def write(self, records: Sequence[bytes]) -> None:
        """Post *records*.

        :raises AuditError: all attempts failed.
        """
        try:
            await self._service.send(self._head + b",".join(records) + b"]}\n")
        except webhook.WebhookError as error:
            raise AuditError(f"webhook: {error}") from error

    async def close(self) -> None:
        await self._service.close()
