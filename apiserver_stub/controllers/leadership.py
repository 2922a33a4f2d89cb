"""Leadership of the bundled controllers among the servers of a store.

They step down while an external kube-controller-manager holds its lease. Servers that share a store elect one of them
with a lease, so that two servers never create pods for the same owner.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.controllers.leases import CONTROLLER_MANAGER, is_held
from apiserver_stub.storage import Keep, Outcome, Put, Record
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.storage import Store
    from nodeagent.base.aio import Clock
    from nodeagent.base.identity import Identity

_log = logging.getLogger(__name__)

LEASE = "nodeagent-controllers"
_RELEASE_SECONDS = 2.0


class LeaseTiming(Struct, frozen=True):
    """Times of the lease, with the defaults of kube-controller-manager."""

    lease_seconds: float = 15.0
    """Time after the last observed renewal until another server acquires the lease."""
    renew_deadline_seconds: float = 10.0
    """Time after a renewal until the holder stops; shorter than the lease, since the clock rates of servers differ."""
    retry_seconds: float = 2.0
    """Interval between attempts to acquire or renew the lease."""


class Leadership:
    """Right of the controllers of this server to change objects.

    :param holder: name of this server in the lease; empty for the only server of the store.
    """

    def __init__(
        self, store: Store, identity: Identity, clock: Clock, holder: str = "", timing: LeaseTiming | None = None
    ) -> None:
        self._store, self._identity, self._clock, self._holder = store, identity, clock, holder
        self._timing = timing or LeaseTiming()
        self._leases = f"{identity.group('coordination')}/leases"
        self._leads_until = 0.0
        self._acquired = asyncio.Event()
        self._seen: tuple[str, float] = "", clock.now()
        """Holder and renewal of the lease of another server, and the monotonic time at which they were first seen."""

    @property
    def leads(self) -> bool:
        """``True`` for the only server of the store, and for the holder of the lease."""
        return not self._holder or self._clock.now() < self._leads_until

    @property
    def active(self) -> bool:
        """``True`` unless another component has to change the objects."""
        return self.leads and not is_held(self._store, CONTROLLER_MANAGER, self._clock.wall(), self._identity)

    async def acquired(self) -> None:
        """Wait until the controllers of this server are active."""
        while not self.active:
            if self.leads:
                await self._clock.sleep(self._timing.retry_seconds)
            else:
                await self.until_leading()

    async def until_leading(self) -> None:
        """Wait until this server is the leader; return immediately in the only server of the store."""
        while not self.leads:
            self._acquired.clear()
            await self._acquired.wait()

    async def run_while_leading(self, run: Callable[[], Awaitable[None]]) -> None:
        """Call *run* whenever this server becomes the leader, and cancel it when another one may; until cancelled."""
        if not self._holder:
            await run()
            return
        ended = False
        while not ended:
            await self.until_leading()
            ended = await self._run_until_lost(run)

    async def _run_until_lost(self, run: Callable[[], Awaitable[None]]) -> bool:
        """Call *run*, cancel it when this server is no longer the leader, and return whether it has ended before.

        This is a function, so that what *run* refers to is not retained until the next term.
        """
        running, lost = asyncio.ensure_future(run()), asyncio.ensure_future(self._until_lost())
        try:
            await asyncio.wait({running, lost}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
            return running.done()
        finally:
            running.cancel()
            lost.cancel()
            await asyncio.gather(running, lost, return_exceptions=True)

    async def run(self) -> None:
        """Acquire and renew the lease until cancelled, then release it; return if there is no other server."""
        if not self._holder:
            return
        try:
            while True:
                start = self._clock.now()
                try:
                    await self._renew(start)
                except Exception as error:  # The lease is not renewed, so another server may continue.
                    _log.warning("Failed to update lease", extra={"lease": LEASE, "err": error})
                await self._clock.sleep(self._timing.retry_seconds)
        finally:
            await self._release()

    async def _until_lost(self) -> None:
        while (left := self._leads_until - self._clock.now()) > 0:
            await self._clock.sleep(left)

    async def _renew(self, start: float) -> None:
        acquired = False

        def decide(current: Record | None) -> Outcome:
            nonlocal acquired
            lease: Object = {} if current is None else objects.decode(current.data)
            acquired = self._may_acquire(lease)
            return Put(objects.encode_for_store(self._lease(lease))) if acquired else Keep()

        await self._store.update(self._leases, self._key, decide)
        if acquired:
            self._leads_until = start + self._timing.renew_deadline_seconds
            self._acquired.set()

    async def _release(self) -> None:
        """Release the lease, if this server holds it, so that another one continues immediately."""
        if not self.leads:
            return
        self._leads_until = 0.0

        def decide(current: Record | None) -> Outcome:
            lease: Object = {} if current is None else objects.decode(current.data)
            if dig(lease, ("spec", "holderIdentity")) != self._holder:
                return Keep()
            spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._now()}
            return Put(objects.encode_for_store({**lease, "spec": spec}))

        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self._store.update(self._leases, self._key, decide)
        except Exception as error:  # The lease expires.
            _log.warning("Failed to release lease", extra={"lease": LEASE, "err": error})

    def _may_acquire(self, lease: Object) -> bool:
        holder = dig(lease, ("spec", "holderIdentity")) or ""
        if holder in ("", self._holder):
            return True
        state = f"{holder}/{dig(lease, ('spec', 'renewTime'))}"
        if state != self._seen[0]:
            self._seen = state, self._clock.now()
        return self._clock.now() - self._seen[1] > self._timing.lease_seconds

    @property
    def _key(self) -> str:
        return objects.key_of(self._identity.system_namespace, LEASE)

    def _now(self) -> str:
        return self._clock.wall().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def _lease(self, before: Object) -> Object:
        time = self._now()
        spec = before.get("spec") or {}
        spec = {**spec, "leaseDurationSeconds": int(self._timing.lease_seconds), "renewTime": time}
        if spec.get("holderIdentity") != self._holder:
            transitions = (spec.get("leaseTransitions") or 0) + ("holderIdentity" in spec)
            spec |= {"holderIdentity": self._holder, "acquireTime": time, "leaseTransitions": transitions}
        metadata = before.get("metadata") or {
            "name": LEASE,
            "namespace": self._identity.system_namespace,
            "uid": objects.new_uid(),
            "creationTimestamp": objects.now(),
        }
        version = self._identity.group("coordination") + "/v1"
        return {"kind": "Lease", "apiVersion": version, "metadata": metadata, "spec": spec}
