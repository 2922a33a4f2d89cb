"""The loop that keeps one certificate current."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timedelta
from math import inf

from nodeagent.base.aio import Backoff, Clock
from nodeagent.contracts.api import Api
from nodeagent.errors import NodeAgentError
from nodeagent_plugins.certificates.issuance import Refused, issued, post
from nodeagent_plugins.certificates.pairs import CertificateError, Held, Wanted, describe, make_request
from nodeagent_plugins.certificates.store import PairStore

_log = logging.getLogger(__name__)

EARLIEST, LATEST = 0.7, 0.9
"""The part of a certificate's life after which it is renewed, drawn at random: nodes do not come together."""
ISSUE_SECONDS = 15 * 60.0
"""How long one request is waited for."""
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 2.0, 32.0


class CertificateManager:
    """Has a certificate issued, and the next one before that ends.

    :param wanted: what is needed now; ``None`` while that cannot be told yet.
    :param connect: opens the API to ask, given whether the certificate held may be shown.
    :param seed: a pair to begin with when the store has none that is good.
    :param renews: ``False`` gets another one only when the one held has ended.
    :param resumes: a request that was not answered is found again after a restart, by name and key.
    :param look_seconds: how often it is asked what is wanted.
    :param failed: told each attempt that failed.
    :param replaced: told the age in seconds of a certificate that was replaced.
    """

    def __init__(
        self,
        what: str,
        store: PairStore,
        wanted: Callable[[], Wanted | None],
        connect: Callable[[bool], AbstractAsyncContextManager[Api]],
        clock: Clock,
        *,
        seed: bytes = b"",
        renews: bool = True,
        resumes: bool = False,
        look_seconds: float = 10.0,
        failed: Callable[[], None] = lambda: None,
        replaced: Callable[[float], None] = lambda _seconds: None,
        random_source: Callable[[], float] = random.random,
    ) -> None:
        self._what, self._store, self._wanted, self._connect, self._clock = what, store, wanted, connect, clock
        self._seed, self._renews, self._resumes, self._look_seconds = seed, renews, resumes, look_seconds
        self._failed, self._replaced, self._random = failed, replaced, random_source
        self._held: Held | None = None
        self._renew_at: datetime | None = None

    def remaining_seconds(self) -> float:
        """Return how long the certificate held is good; infinite without one."""
        return inf if self._held is None else (self._held.not_after - self._clock.wall()).total_seconds()

    async def run(self) -> None:
        """Keep the certificate current until cancelled."""
        self._hold(await self._load())
        while True:
            while not self._due():
                await self._clock.sleep(self._pause())
            await self._obtain()

    async def _load(self) -> Held | None:
        pair = await asyncio.to_thread(self._store.read)
        held = await asyncio.to_thread(describe, pair) if pair else None
        if self._seed and (held is None or not held.valid(self._clock.wall())):
            seed = await asyncio.to_thread(describe, self._seed)
            if seed is not None and seed.valid(self._clock.wall()):
                await asyncio.to_thread(self._store.put, self._seed, self._clock.wall())
                return seed
        return held

    def _hold(self, held: Held | None) -> None:
        self._held, self._renew_at = held, None
        if held is not None:
            part = EARLIEST + (LATEST - EARLIEST) * self._random()
            self._renew_at = held.not_before + part * (held.not_after - held.not_before)
            facts = {"notAfter": held.not_after.isoformat(), "renewal": self._renew_at.isoformat(timespec="seconds")}
            _log.info(f"{self._what.capitalize()} is held", extra=facts)

    def _due(self) -> bool:
        wanted = self._wanted()
        if wanted is None:
            return False
        if self._held is None or self._renew_at is None:
            return True
        now = self._clock.wall()
        if not self._renews:
            return now >= self._held.not_after
        return now >= self._renew_at or not self._held.satisfies(wanted)

    def _pause(self) -> float:
        """Return when to look again: as often as asked, and at the moment of a renewal."""
        if self._renew_at is None:
            return self._look_seconds
        left = (self._renew_at - self._clock.wall()).total_seconds()
        return min(self._look_seconds, left) if left > 0 else self._look_seconds

    async def _obtain(self) -> None:
        """Try until there is a new certificate, with growing pauses."""
        backoff, shown = Backoff(FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS, random_source=self._random), ""
        while (wanted := self._wanted()) is not None:
            try:
                await self._request(wanted)
            except _Outdated:
                continue
            except (NodeAgentError, OSError) as error:
                self._failed()
                if str(error) != shown:
                    shown = str(error)
                    _log.error(f"{self._what.capitalize()} is not issued, trying again", extra={"err": shown})
                await self._clock.sleep(backoff.next())
            else:
                return

    async def _request(self, wanted: Wanted) -> None:
        now = self._clock.wall()
        usable = self._held is not None and self._held.valid(now)
        resumes = self._resumes and not usable
        key = await asyncio.to_thread(self._store.read_pending_key) if resumes else ""
        request = await asyncio.to_thread(make_request, wanted, key)
        if resumes and not key:
            await asyncio.to_thread(self._store.keep_pending_key, request.key.reveal())
        try:
            async with self._connect(usable) as api:
                name, uid = await post(api, request, wanted, named=resumes)
                _log.info(
                    f"{self._what.capitalize()} is requested, somebody has to approve it", extra={"request": name}
                )
                certificate = await self._wait(api, name, uid, wanted)
        except Refused:
            await asyncio.to_thread(self._store.keep_pending_key, "")  # the next request is another one
            raise
        pair = f"{certificate.rstrip()}\n{request.key.reveal()}".encode()
        held = await asyncio.to_thread(describe, pair)
        if held is None or not held.satisfies(wanted):
            raise CertificateError(f"certificate request {name}: what was issued is not what was asked for")
        now = self._clock.wall()
        await asyncio.to_thread(self._store.put, pair, now)
        await asyncio.to_thread(self._store.keep_pending_key, "")
        if self._held is not None:
            self._replaced((now - self._held.not_before) / timedelta(seconds=1))
        self._hold(held)

    async def _wait(self, api: Api, name: str, uid: str, wanted: Wanted) -> str:
        """Return the certificate; gives up after a while, and at once when something else is wanted by then."""
        waiting = asyncio.ensure_future(issued(api, self._clock, name, uid))
        limit = self._clock.now() + ISSUE_SECONDS
        try:
            while not waiting.done():
                if self._clock.now() >= limit:
                    raise CertificateError(f"certificate request {name}: nobody approved and signed it in time")
                if self._wanted() != wanted:
                    raise _Outdated(f"certificate request {name} is for what is not wanted any more")
                pause = asyncio.ensure_future(self._clock.sleep(self._look_seconds))
                try:
                    await asyncio.wait({waiting, pause}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    pause.cancel()
            return waiting.result()
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)


class _Outdated(CertificateError):
    """Something else is wanted meanwhile."""


@asynccontextmanager
async def borrowed(api: Api) -> AsyncIterator[Api]:
    """Give an API that somebody else closes."""
    yield api
