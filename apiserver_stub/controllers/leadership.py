"""Leadership of the bundled controllers among the servers of a store.

They step down while an external kube-controller-manager holds its lease. Servers that share a store elect one of them
with a lease, so that two servers never create pods for the same owner.
"""

from __future__ import annotations

import logging
from datetime import UTC
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.controllers.leases import CONTROLLER_MANAGER, is_held
from apiserver_stub.storage import Keep, Outcome, Put, Record

if TYPE_CHECKING:
    from apiserver_stub.storage import Store
    from nodeagent.base.aio import Clock
    from nodeagent.base.identity import Identity

_log = logging.getLogger(__name__)

LEASE = "nodeagent-controllers"
LEASE_SECONDS = 15
RENEW_SECONDS = 5.0
_MARGIN_SECONDS = 3.0
"""Time before the end of the lease at which its holder stops, as the clocks of servers have different rates."""


class Leadership:
    """Right of the controllers of this server to change objects.

    :param holder: name of this server in the lease; empty for the only server of the store.
    """

    def __init__(self, store: Store, identity: Identity, clock: Clock, holder: str = "") -> None:
        self._store, self._identity, self._clock, self._holder = store, identity, clock, holder
        self._leases = f"{identity.group('coordination')}/leases"
        self._leads_until = 0.0
        self._seen: tuple[str, float] = "", clock.now()
        """Holder and renewal of the lease of another server, and the monotonic time at which they were first seen."""

    @property
    def active(self) -> bool:
        """``True`` unless another component has to change the objects."""
        if self._holder and self._clock.now() >= self._leads_until:
            return False
        return not is_held(self._store, CONTROLLER_MANAGER, self._clock.wall(), self._identity)

    async def acquired(self) -> None:
        """Wait until the controllers of this server are active."""
        while not self.active:
            await self._clock.sleep(RENEW_SECONDS)

    async def run(self) -> None:
        """Acquire and renew the lease until cancelled; return if there is no other server."""
        while self._holder:
            start = self._clock.now()
            try:
                await self._renew(start)
            except Exception as error:  # The lease is not renewed, so another server may continue.
                _log.warning("Failed to update lease", extra={"lease": LEASE, "err": error})
            await self._clock.sleep(RENEW_SECONDS)

    async def _renew(self, start: float) -> None:
        acquired = False

        def decide(current: Record | None) -> Outcome:
            nonlocal acquired
            lease: Object = {} if current is None else objects.decode(current.data)
            acquired = self._may_acquire(lease)
            return Put(objects.encode_for_store(self._lease(lease))) if acquired else Keep()

        await self._store.update(self._leases, objects.key_of(self._identity.system_namespace, LEASE), decide)
        if acquired:
            self._leads_until = start + LEASE_SECONDS - _MARGIN_SECONDS

    def _may_acquire(self, lease: Object) -> bool:
        holder = dig(lease, ("spec", "holderIdentity")) or ""
        if holder in ("", self._holder):
            return True
        state = f"{holder}/{dig(lease, ('spec', 'renewTime'))}"
        if state != self._seen[0]:
            self._seen = state, self._clock.now()
        return self._clock.now() - self._seen[1] > LEASE_SECONDS

    def _lease(self, before: Object) -> Object:
        time = self._clock.wall().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {**(before.get("spec") or {}), "leaseDurationSeconds": LEASE_SECONDS, "renewTime": time}
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
