"""One certificate of a pod: requested, awaited, and renewed before it expires."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from nodeagent.base.aio import Backoff
from nodeagent.base.aio.waker import wait_for
from nodeagent.contracts.events import EventType
from nodeagent.errors import ApiError, VolumeError
from nodeagent.model.pod import Pod, PodCertificate
from nodeagent_plugins.volumes.pod_certificates.requests import (
    ISSUED,
    CertificateRequests,
    Outcome,
    SentRequest,
)

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext

_log = logging.getLogger(__name__)

ABANDON_AFTER = timedelta(minutes=10)
"""Time after which a request that the watch does not report counts as deleted."""
OVERDUE_AFTER = timedelta(minutes=10)
JITTER_SECONDS = 300
CHECK_SECONDS = 60.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 300.0


@dataclass(frozen=True, slots=True)
class Credentials:
    """Private key and certificate chain (PEM), with the times of renewal and expiry."""

    key: bytes = field(repr=False)
    chain: bytes
    refresh_at: datetime
    expires_at: datetime

    def state(self, now: datetime) -> str:
        """Return the state of the certificate in metrics."""
        if now > self.expires_at:
            return "expired"
        return "overdue_for_refresh" if now > self.refresh_at + OVERDUE_AFTER else "fresh"


def spread() -> timedelta:
    """Return a random delay, so that the certificates of many pods are not renewed at the same time."""
    return timedelta(seconds=secrets.randbelow(JITTER_SECONDS))


class Projection:
    """Implements the life cycle of one certificate; nothing is stored, so a restarted agent requests a new one.

    :param jitter: delay that is added to deadlines.
    """

    def __init__(
        self,
        context: CgroupsContext,
        requests: CertificateRequests,
        pod: Pod,
        source: PodCertificate,
        jitter: Callable[[], timedelta] = spread,
    ) -> None:
        self._context, self._requests, self._jitter = context, requests, jitter
        self.pod, self.source = pod, source
        self._credentials: Credentials | None = None
        self._final: Outcome | None = None
        self._error = ""
        self._reported: set[str] = set()
        self.settled = asyncio.Event()
        """Set once a certificate was issued, or never will be."""

    def credentials(self) -> Credentials:
        """Return key and certificate.

        :raises VolumeError: there is no certificate; the text has the reason.
        """
        if self._final is not None:
            what = {"Denied": "denied", "Failed": "failed"}[self._final.condition]
            raise VolumeError(
                f'PodCertificateRequest was permanently {what}: reason="{self._final.reason}" '
                f'message="{self._final.message}"'
            )
        if self._credentials is None:
            raise VolumeError("credential bundle is not issued yet" + (f": {self._error}" if self._error else ""))
        return self._credentials

    def state(self) -> str:
        """Return the state in metrics."""
        if self._final is not None:
            return self._final.condition.lower()
        return self._credentials.state(self._context.clock.wall()) if self._credentials else "not_yet_issued"

    @property
    def abandoned(self) -> bool:
        """True if the pod was removed, possibly before its volume was set up."""
        return self._context.pods.get(self.pod.uid) is None

    async def run(self) -> None:
        """Request certificates until a signer rejects one or the pod is removed."""
        pauses = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        while not self.abandoned:
            try:
                request = await self._requests.create(self.pod, self.source)
                outcome = await self._wait(request)
            except ApiError as error:
                self._fail(f"while creating PodCertificateRequest: {error}")
                await self._context.clock.sleep(pauses.next())
                continue
            pauses.reset()
            if outcome is None and not self.abandoned:
                self._fail(f"PodCertificateRequest {request.namespace}/{request.name} appears to have been deleted")
            if outcome is None:
                continue
            self._error = ""
            if outcome.condition != ISSUED:
                self._reject(request, outcome)
                while not self.abandoned:
                    await self._context.clock.sleep(CHECK_SECONDS)
                return
            refresh_at = outcome.refresh_at + self._jitter()
            self._credentials = Credentials(request.key.private_pem, outcome.chain, refresh_at, outcome.expires_at)
            self._reported.clear()
            self._settle()
            while not self.abandoned and (left := (refresh_at - self._context.clock.wall()).total_seconds()) > 0:
                await self._context.clock.sleep(min(left, CHECK_SECONDS))

    async def _wait(self, request: SentRequest) -> Outcome | None:
        """Return the result of *request*, or ``None`` if it or the pod was deleted."""
        abandon_at = request.created_at + ABANDON_AFTER + self._jitter()
        while not self.abandoned:
            changed = self._requests.changed
            if (outcome := self._requests.outcome(request)) is not None:
                return outcome
            if not self._requests.exists(request) and self._context.clock.wall() > abandon_at:
                return None
            self._report_age()
            await wait_for(changed, self._context.clock, CHECK_SECONDS)
        return None

    def _settle(self) -> None:
        """Sync the pod, so that its volume is written without a delay."""
        self.settled.set()
        self._context.pods.trigger_sync(self.pod.uid)

    def _report_age(self) -> None:
        """Record an event if the renewal is late, and one if the certificate has expired."""
        if self._credentials is None:
            return
        now = self._context.clock.wall()
        if now > self._credentials.refresh_at + OVERDUE_AFTER:
            self._record_once("CertificateOverdueForRefresh", "PodCertificate refresh overdue")
        if now > self._credentials.expires_at:
            self._record_once("CertificateExpired", "PodCertificate expired")

    def _record_once(self, reason: str, note: str) -> None:
        if reason not in self._reported:
            self._reported.add(reason)
            self._context.recorder.record(self.pod.reference(), EventType.WARNING, reason, note)

    def _reject(self, request: SentRequest, outcome: Outcome) -> None:
        self._final = outcome
        was = {"Denied": "was denied", "Failed": "failed"}[outcome.condition]
        note = (
            f"PodCertificateRequest {request.namespace}/{request.name} {was}, "
            f'reason="{outcome.reason}", message="{outcome.message}"'
        )
        self._context.recorder.record(self.pod.reference(), EventType.WARNING, outcome.condition, note)
        self._settle()

    def _fail(self, text: str) -> None:
        """Keep the reason for the pod, and log the first of consecutive failures."""
        if not self._error:
            fields = {"pod": self.pod.full_name, "signerName": self.source.signer_name, "err": text}
            _log.error("Failed to obtain pod certificate", extra=fields)
        self._error = text
        self._report_age()
