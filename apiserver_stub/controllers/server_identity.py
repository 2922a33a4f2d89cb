"""Identity leases of API servers: which servers use the store (spec: gate.APIServerIdentity)."""

from __future__ import annotations

import base64
import hashlib
import logging
import random
import struct
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig, parse_time
from apiserver_stub.storage import Keep, Outcome, Put, Record, Remove, StoreRejected, StoreUnavailable
from nodeagent.base.aio import Clock, SystemClock
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from apiserver_stub.storage import Store

_log = logging.getLogger(__name__)

_COMPONENT = "kube-apiserver"
_LEASE_SECONDS, _RENEWAL_SECONDS, _JITTER = 3600, 10.0, 0.04
_COLLECTION_SECONDS = 3600.0


async def publish_server_identity(store: Store, identity: Identity, hostname: str, peer_address: str = "") -> None:
    """Renew the lease of this server, and remove those of servers that ended, until cancelled.

    :param peer_address: address to which other servers may forward requests for kinds that only this one serves.
    """
    await ServerIdentity(store, identity, hostname, peer_address=peer_address).run()


def server_name(hostname: str) -> str:
    """Return the name of the lease of a server on the host *hostname*, as kube-apiserver derives it."""
    parts = (hostname.encode(), _COMPONENT.encode())
    digest = hashlib.sha256(b"".join(struct.pack(">H", len(part)) + part for part in parts)).digest()
    return f"apiserver-{base64.b32encode(digest[:16]).decode().rstrip('=').lower()}"


class ServerIdentity:
    """Controller of the identity leases."""

    def __init__(
        self, store: Store, identity: Identity, hostname: str, clock: Clock | None = None, *, peer_address: str = ""
    ) -> None:
        self._store, self._clock, self._hostname = store, clock or SystemClock(), hostname
        self._collection = f"{identity.group('coordination')}/leases"
        self._api_version = f"{identity.group('coordination')}/v1"
        self._namespace = identity.system_namespace
        self._labels = {
            identity.label("identity", "apiserver"): _COMPONENT,
            identity.label("hostname"): hostname,
        }
        self._annotations = {identity.label("peer-advertise-address"): peer_address} if peer_address else {}
        self._component_label = identity.label("identity", "apiserver")
        self._name = server_name(hostname)
        self._holder = f"{self._name}_{objects.new_uid()}"

    async def run(self) -> None:
        collected_at: float | None = None
        while True:
            try:
                await self._renew()
                if collected_at is None or self._clock.now() - collected_at >= _COLLECTION_SECONDS:
                    await self._remove_expired()
                    collected_at = self._clock.now()
            except (StoreUnavailable, StoreRejected) as error:
                _log.warning("Failed to renew the identity lease", extra={"err": error})
            jitter = 1 + _JITTER * random.random()  # noqa: S311 - distributes load, not security-relevant
            await self._clock.sleep(_RENEWAL_SECONDS * jitter)

    async def _renew(self) -> None:
        def decide(current: Record | None) -> Outcome:
            lease = self._new() if current is None else objects.decode(current.data)
            spec = {"holderIdentity": self._holder, "leaseDurationSeconds": _LEASE_SECONDS}
            labels = {**(lease["metadata"].get("labels") or {}), **self._labels}
            metadata = {**lease["metadata"], "labels": labels}
            if self._annotations:
                metadata["annotations"] = {**(metadata.get("annotations") or {}), **self._annotations}
            renewed = {**(lease.get("spec") or {}), **spec, "renewTime": objects.now_micro()}
            return Put(objects.encode_for_store({**lease, "metadata": metadata, "spec": renewed}))

        await self._store.update(self._collection, objects.key_of(self._namespace, self._name), decide)

    def _new(self) -> Object:
        metadata = {"name": self._name, "namespace": self._namespace, "uid": objects.new_uid()}
        head = {"kind": "Lease", "apiVersion": self._api_version}
        return {**head, "metadata": metadata | {"creationTimestamp": objects.now()}}

    async def _remove_expired(self) -> None:
        now = self._clock.wall()

        def decide(current: Record | None) -> Outcome:
            if current is None:
                raise LookupError
            return Remove(current.data) if self._is_expired(objects.decode(current.data), now) else Keep()

        for record in self._store.collection(self._collection).select(f"{self._namespace}/apiserver-"):
            if self._is_expired(objects.decode(record.data), now):
                with suppress(LookupError):  # Another server removed it.
                    await self._store.update(self._collection, record.key, decide)

    def _is_expired(self, lease: Object, now: datetime) -> bool:
        if (lease["metadata"].get("labels") or {}).get(self._component_label) != _COMPONENT:
            return False
        renewed = parse_time(dig(lease, ("spec", "renewTime")))
        seconds = dig(lease, ("spec", "leaseDurationSeconds")) or 0
        return renewed is None or now - renewed.astimezone(UTC) > timedelta(seconds=seconds)
