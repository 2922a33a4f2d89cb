"""ConfigMap with which extension API servers authenticate the proxied requests of this server."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.ensure import ensure
from apiserver_stub.storage import Keep, Outcome, Put, Record, StoreUnavailable
from apiserver_stub.transport.reloading_files import POLL_SECONDS
from nodeagent.base.identity import Identity
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.authn.certificates import CaBundle
    from apiserver_stub.storage import Store

_log = logging.getLogger(__name__)

NAME = "extension-apiserver-authentication"
_CONFIG_MAPS = "core/configmaps"


class RequestHeaderNames(Struct, frozen=True):
    """Accepted common names of the front proxy, and the names of the headers that carry the user."""

    allowed_names: Sequence[str] = ()
    username_headers: Sequence[str] = ()
    group_headers: Sequence[str] = ()
    extra_headers_prefix: Sequence[str] = ()
    uid_headers: Sequence[str] | None = None
    """``None`` for releases whose extension API servers read no UID."""


class AuthenticationConfigMap:
    """Publisher of the CA bundles and header names; without a CA bundle it publishes nothing."""

    def __init__(
        self,
        store: Store,
        identity: Identity,
        clients: CaBundle | None,
        proxies: CaBundle | None,
        headers: RequestHeaderNames,
    ) -> None:
        self._namespace = identity.system_namespace
        self._store, self._clients, self._proxies, self._headers = store, clients, proxies, headers

    async def publish(self) -> None:
        """Create or update the ConfigMap.

        :raises StoreUnavailable: the write could not be made durable.
        """
        desired = self._data()
        if not desired:
            return
        config: Object = {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {"name": NAME, "namespace": self._namespace},
            "data": desired,
        }
        await ensure(self._store, _CONFIG_MAPS, config)

        def decide(current: Record | None) -> Outcome:
            found: Object | None = None if current is None else objects.decode(current.data)
            if found is None or found.get("data") == desired:
                return Keep()
            return Put(objects.encode_for_store({**found, "data": {**(found.get("data") or {}), **desired}}))

        await self._store.update(_CONFIG_MAPS, objects.key_of(self._namespace, NAME), decide)

    async def run(self) -> None:
        """Publish again whenever a CA bundle changes; runs until cancelled."""
        bundles = [bundle for bundle in (self._clients, self._proxies) if bundle]
        published = [bundle.generation for bundle in bundles]
        while True:
            await asyncio.sleep(POLL_SECONDS)
            current = [bundle.generation for bundle in bundles]
            if current == published:
                continue
            try:
                await self.publish()
            except StoreUnavailable as error:
                _log.warning("Failed to publish CA bundles", extra={"err": error})
            else:
                published = current

    def _data(self) -> dict[str, str]:
        found = {}
        if self._clients is not None:
            found["client-ca-file"] = self._clients.pem
        if self._proxies is not None:
            found["requestheader-client-ca-file"] = self._proxies.pem
            for key, names in (
                ("allowed-names", self._headers.allowed_names),
                ("username-headers", self._headers.username_headers),
                ("group-headers", self._headers.group_headers),
                ("extra-headers-prefix", self._headers.extra_headers_prefix),
                ("uid-headers", self._headers.uid_headers),
            ):
                if names is not None:
                    found[f"requestheader-{key}"] = json.dumps(list(names))
        return found
