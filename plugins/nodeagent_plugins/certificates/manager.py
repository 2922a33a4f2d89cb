"""Certificate manager: rotation of one certificate."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from math import inf

from nodeagent.base.aio import Backoff, Clock
from nodeagent.contracts.api import Api
from nodeagent.errors import NodeAgentError
from nodeagent_plugins.certificates.issuance import RequestRejectedError, issued, post
from nodeagent_plugins.certificates.pairs import CertificateError, CertificateSpec, Held, describe, make_request
from nodeagent_plugins.certificates.store import PairStore

_log = logging.getLogger(__name__)

EARLIEST, LATEST = 0.7, 0.9
"""Fraction of a certificate's lifetime after which it is renewed; random, so that nodes are spread over time."""
ISSUE_SECONDS = 15 * 60.0
"""Timeout of one request."""
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 2.0, 32.0
_NEVER = datetime.max.replace(tzinfo=UTC)


class CertificateManager:
    """Requests a certificate, and the next one before it expires.

    :param desired: returns the required certificate; ``None`` while it is unknown.
    :param connect: opens the API client; the argument states whether the current certificate is usable.
    :param seed: initial pair if the store has no valid one.
    :param renews: ``False`` requests another certificate only after the current one has expired.
    :param resumes: reuse a pending request after a restart, by name and key.
    :param check_seconds: interval of checks of the required certificate.
    :param failed: called for each failed attempt.
    :param replaced: called with the age in seconds of a replaced certificate.
    """

    def __init__(
        self,
        what: str,
        store: PairStore,
        desired: Callable[[], CertificateSpec | None],
        connect: Callable[[bool], AbstractAsyncContextManager[Api]],
        clock: Clock,
        *,
        seed: bytes = b"",
        renews: bool = True,
        resumes: bool = False,
        check_seconds: float = 10.0,
        failed: Callable[[], None] = lambda: None,
        replaced: Callable[[float], None] = lambda _seconds: None,
        random_source: Callable[[], float] = random.random,
    ) -> None:
        self._what, self._store, self._desired, self._connect, self._clock = what, store, desired, connect, clock
        self._seed, self._renews, self._resumes, self._check_seconds = seed, renews, resumes, check_seconds
        self._failed, self._replaced, self._random = failed, replaced, random_source
        self._held: Held | None = None
        self._renew_at = _NEVER

    def remaining_seconds(self) -> float:
        """Return the remaining lifetime of the current certificate; infinite without one."""
        return inf if self._held is None else (self._held.not_after - self._clock.wall()).total_seconds()

    async def run(self) -> None:
        """Rotate the certificate until cancelled."""
        if (held := await self._load_with_retries()) is not None:
            self._hold(held)
        while True:
            if self._due():
                await self._obtain()
            await self._clock.sleep(self._pause())

    async def _load_with_retries(self) -> Held | None:
        """Return the current certificate; a failure, such as a full disk, must not disable the rotation."""
        backoff, shown = Backoff(FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS, random_source=self._random), ""
        while True:
            try:
                return await self._load()
            except (CertificateError, OSError) as error:
                if str(error) != shown:
                    shown = str(error)
                    _log.error("Failed to load certificate", extra={"certificate": self._what, "err": shown})
                await self._clock.sleep(backoff.next())

    async def _load(self) -> Held | None:
        pair = await asyncio.to_thread(self._store.read)
        held = await asyncio.to_thread(describe, pair) if pair else None
        if self._seed and (held is None or not held.valid(self._clock.wall())):
            seed = await asyncio.to_thread(describe, self._seed)
            if seed is not None and seed.valid(self._clock.wall()):
                await asyncio.to_thread(self._store.put, self._seed, self._clock.wall())
                return seed
        return held

    def _hold(self, held: Held) -> None:
        part = EARLIEST + (LATEST - EARLIEST) * self._random()
        self._held, self._renew_at = held, held.not_before + part * (held.not_after - held.not_before)
        facts = {"notAfter": held.not_after.isoformat(), "renewal": self._renew_at.isoformat(timespec="seconds")}
        _log.info("Certificate rotation scheduled", extra={"certificate": self._what, **facts})

    def _due(self) -> bool:
        desired = self._desired()
        if desired is None:
            return False
        if self._held is None:
            return True
        now = self._clock.wall()
        if not self._renews:
            return now >= self._held.not_after
        return now >= self._renew_at or not self._held.satisfies(desired)

    def _pause(self) -> float:
        """Return the time until the next check, which is due at the interval and at the renewal.

        The interval also limits the requests if certificates are due as soon as they are issued, as on a node whose
        clock is ahead.
        """
        left = (self._renew_at - self._clock.wall()).total_seconds()
        return min(self._check_seconds, left) if left > 0 else self._check_seconds

    async def _obtain(self) -> None:
        """Request a certificate until one is issued, with increasing delays."""
        backoff, shown = Backoff(FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS, random_source=self._random), ""
        while (desired := self._desired()) is not None:
            try:
                await self._request(desired)
            except _Outdated:
                continue
            except (NodeAgentError, OSError) as error:
                self._failed()
                if str(error) != shown:
                    shown = str(error)
                    _log.error(
                        "Failed while requesting a signed certificate from the control plane",
                        extra={"certificate": self._what, "err": shown},
                    )
                await self._clock.sleep(backoff.next())
            else:
                return

    async def _request(self, desired: CertificateSpec) -> None:
        now = self._clock.wall()
        usable = self._held is not None and self._held.valid(now)
        resumes = self._resumes and not usable
        key = await asyncio.to_thread(self._store.read_pending_key) if resumes else ""
        request = await asyncio.to_thread(make_request, desired, key)
        if resumes and request.key.reveal() != key:
            await asyncio.to_thread(self._store.keep_pending_key, request.key.reveal())
        try:
            async with self._connect(usable) as api:
                name, uid = await post(api, request, desired, named=resumes)
                _log.info(
                    "Created certificate signing request, waiting for approval",
                    extra={"certificate": self._what, "csr": name},
                )
                certificate = await self._wait(api, name, uid, desired)
            pair = f"{certificate.rstrip()}\n{request.key.reveal()}".encode()
            held = await asyncio.to_thread(describe, pair)
            if held is None or not held.satisfies(desired):
                raise RequestRejectedError(f"certificate signing request {name}: issued certificate does not match")
        except RequestRejectedError:
            await asyncio.to_thread(self._store.keep_pending_key, "")  # The next request uses another key.
            raise
        now = self._clock.wall()
        await asyncio.to_thread(self._store.put, pair, now)
        await asyncio.to_thread(self._store.keep_pending_key, "")
        if self._held is not None:
            self._replaced((now - self._held.not_before) / timedelta(seconds=1))
        self._hold(held)

    async def _wait(self, api: Api, name: str, uid: str, desired: CertificateSpec) -> str:
        """Return the certificate; fails after a timeout, and immediately if another certificate is required."""
        waiting = asyncio.ensure_future(issued(api, self._clock, name, uid))
        limit = self._clock.now() + ISSUE_SECONDS
        try:
            while not waiting.done():
                if self._clock.now() >= limit:
                    raise CertificateError(f"timed out waiting for certificate signing request {name} to be issued")
                if self._desired() != desired:
                    raise _Outdated(f"certificate signing request {name} is obsolete")
                pause = asyncio.ensure_future(self._clock.sleep(self._check_seconds))
                try:
                    await asyncio.wait({waiting, pause}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    pause.cancel()
            return waiting.result()
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)


class _Outdated(CertificateError):
    """Another certificate is required now."""


@asynccontextmanager
async def borrowed(api: Api) -> AsyncIterator[Api]:
    """Yield an API client that its owner closes."""
    yield api
