"""Audit sink that posts event lists to the server of a kubeconfig file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from apiserver_stub import webhook
from apiserver_stub.audit import event as events
from apiserver_stub.audit.event import KIND_HEAD, Event
from apiserver_stub.audit.policy import API_VERSION, AuditError
from nodeagent.base.aio import Clock
from nodeagent.base.kubeconfig import KubeconfigError

_HEAD = f'{{"kind":"EventList","apiVersion":"{API_VERSION}","metadata":{{}},"items":['.encode()


class Webhook:
    """Client for the current context of a kubeconfig file; every failure is retried, with five attempts in total.

    :raises AuditError: the file is invalid.
    """

    plugin = "webhook"
    parallel = True

    def __init__(self, config_file: Path, initial_backoff_seconds: float, clock: Clock) -> None:
        try:
            self._service = webhook.Webhook(
                config_file, clock=clock, first_pause_seconds=initial_backoff_seconds, retry_all=True
            )
        except KubeconfigError as error:
            raise AuditError(f"initializing audit webhook: {error}") from None

    def encode(self, event: Event) -> bytes:
        return b"{" + events.encode(event)[len(KIND_HEAD) : -1]

    async def write(self, records: Sequence[bytes]) -> None:
        """Post *records*.

        :raises AuditError: all attempts failed.
        """
        try:
            await self._service.send(_HEAD + b",".join(records) + b"]}\n")
        except webhook.WebhookError as error:
            raise AuditError(f"webhook: {error}") from error

    async def close(self) -> None:
        await self._service.close()
