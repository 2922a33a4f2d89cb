"""Node lease: the node's heartbeat."""

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
_ATTEMPTS = 5

_log = logging.getLogger(__name__)


class NodeLease:
    """Renews the lease at a quarter of its duration.

    spec: config.nodeLeaseDurationSeconds

    :param api: a client without a rate limit, because heartbeats must not wait for other requests.
    :param node_uid: returns the UID of the owning node, empty until it is registered.
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
        self._lease: dict[str, Any] | None = None
        self._failing = False

    async def run(self) -> None:
        """Renew the lease until cancelled."""
        period = self._duration * RENEW_FRACTION
        backoff = Backoff(0.1, 7.0, jitter=0)
        while True:
            try:
                async with asyncio.timeout(self._duration):
                    await self._renew()
            except (ApiError, TimeoutError) as error:
                self._log_result(error)
                # The lease may not exist yet, so retry sooner.
                await self._clock.sleep(period if self._lease is not None else min(backoff.next(), period))
            else:
                self._log_result(None)
                backoff.reset()
                await self._clock.sleep(period * (1 + _JITTER * random.random()))  # noqa: S311  spreads load

    async def _renew(self) -> None:
        """Write the lease; retry immediately if the server is unavailable, and after reading it again on a conflict.

        :raises ApiError: the last attempt failed.
        """
        for attempts_left in range(_ATTEMPTS - 1, -1, -1):
            try:
                if self._lease is None:
                    self._lease = await self._read()
                if self._lease is None:
                    self._lease = await self._api.create(LEASES, self._renewed({}), self._namespace)
                else:
                    renewed = self._renewed(self._lease)
                    self._lease = await self._api.update(LEASES, self._name, renewed, self._namespace)
                return
            except ApiUnavailable:
                if not attempts_left:
                    raise
            except (ApiConflict, ApiNotFound):
                self._lease = None
                if not attempts_left:
                    raise

    async def _read(self) -> dict[str, Any] | None:
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

    def _log_result(self, error: Exception | None) -> None:
        """Log the first of consecutive failures, and the recovery."""
        if error is not None and not self._failing:
            fields = {"node": self._name, "err": str(error) or "timeout"}
            if self._lease is None:
                interval = self._duration * RENEW_FRACTION
                _log.error("Failed to ensure lease exists, will retry", extra={**fields, "interval": interval})
            else:
                _log.error("Failed to update lease", extra=fields)
        elif error is None and self._failing:
            _log.info("Lease updates recovered", extra={"node": self._name})
        self._failing = error is not None
