"""The node's lease: the cheap proof that the node is alive."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Any

from nodeagent.base import identity
from nodeagent.base.aio import Backoff, Clock
from nodeagent.contracts.api import LEASES, Api
from nodeagent.errors import ApiConflict, ApiError, ApiNotFound, ApiUnavailable
from nodeagent.model.meta import wire_micro_time

RENEW_FRACTION = 0.25
_JITTER = 0.04
_TRIES = 5

_log = logging.getLogger(__name__)


class NodeLease:
    """Renews the lease four times in its duration.

    spec: config.nodeLeaseDurationSeconds

    :param api: a client without rate limit; a heartbeat must not wait behind other requests.
    :param node_uid: returns the node's UID, empty until it is registered; then the node owns the lease.
    """

    def __init__(
        self, api: Api, node_name: str, duration_seconds: int, clock: Clock, node_uid: Callable[[], str]
    ) -> None:
        self._api, self._name, self._duration, self._clock, self._uid = (
            api,
            node_name,
            duration_seconds,
            clock,
            node_uid,
        )
        self._namespace = identity.current().node_lease_namespace
        self._known: dict[str, Any] | None = None
        self._failing = False

    async def run(self) -> None:
        """Renew until cancelled."""
        period = self._duration * RENEW_FRACTION
        backoff = Backoff(0.1, 7.0, jitter=0)
        while True:
            try:
                async with asyncio.timeout(self._duration):
                    await self._renew()
            except (ApiError, TimeoutError) as error:
                self._note(error)
                # Nobody can renew what was never there: the first time is worth a hurry.
                await self._clock.sleep(period if self._known is not None else min(backoff.next(), period))
            else:
                self._note(None)
                backoff.reset()
                await self._clock.sleep(period * (1 + _JITTER * random.random()))  # noqa: S311  spreads load

    async def _renew(self) -> None:
        """Write the lease; try again at once without an answer, and after a new look where somebody else wrote it.

        :raises ApiError: the last try failed.
        """
        for tries_left in range(_TRIES - 1, -1, -1):
            try:
                if self._known is None:
                    self._known = await self._find()
                if self._known is None:
                    self._known = await self._api.create(LEASES, self._renewed({}), self._namespace)
                else:
                    renewed = self._renewed(self._known)
                    self._known = await self._api.update(LEASES, self._name, renewed, self._namespace)
                return
            except ApiUnavailable:
                if not tries_left:
                    raise
            except (ApiConflict, ApiNotFound):
                self._known = None
                if not tries_left:
                    raise

    async def _find(self) -> dict[str, Any] | None:
        try:
            return await self._api.get(LEASES, self._name, self._namespace, into=dict)
        except ApiNotFound:
            return None

    def _renewed(self, lease: dict[str, Any]) -> dict[str, Any]:
        metadata = {"name": self._name, "namespace": self._namespace, **lease.get("metadata", {})}
        if (uid := self._uid()) and not metadata.get("ownerReferences"):
            owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": uid}
            metadata["ownerReferences"] = [owner]
        spec = {
            **lease.get("spec", {}),
            "holderIdentity": self._name,
            "leaseDurationSeconds": self._duration,
            "renewTime": wire_micro_time(self._clock.wall()),
        }
        return {**lease, "metadata": metadata, "spec": spec}

    def _note(self, error: Exception | None) -> None:
        """Log the first failure of a row and the recovery."""
        if error is not None and not self._failing:
            text = str(error) or "no answer in time"
            _log.error("Cannot renew the node's lease", extra={"node": self._name, "err": text})
        elif error is None and self._failing:
            _log.info("Renewing the node's lease again", extra={"node": self._name})
        self._failing = error is not None
