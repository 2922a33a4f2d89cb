"""The config map by which other servers learn whose certificates and headers to believe."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.authn.build import Authentication
from apiserver_stub.controllers.ensure import ensure
from apiserver_stub.storage import Keep, Outcome, Put, Record, StoreUnavailable
from apiserver_stub.transport.reloading_files import POLL_SECONDS
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.server.state import ApiServer

_log = logging.getLogger(__name__)

NAME = "extension-apiserver-authentication"
_CONFIG_MAPS = "core/configmaps"


async def publish(server: ApiServer, authentication: Authentication) -> None:
    """Write the bundles and the names of headers into the config map, where something is configured."""
    wanted = _content(server, authentication)
    if not wanted:
        return
    namespace = identity.current().system_namespace
    config: Object = {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": NAME, "namespace": namespace},
        "data": wanted,
    }
    await ensure(server, _CONFIG_MAPS, config)

    def decide(current: Record | None) -> Outcome:
        found: Object | None = None if current is None else objects.decode(current.data)
        if found is None or found.get("data") == wanted:
            return Keep()
        return Put(objects.encode_for_store({**found, "data": {**(found.get("data") or {}), **wanted}}))

    await server.store.update(_CONFIG_MAPS, objects.key_of(namespace, NAME), decide)


async def run_publisher(server: ApiServer, authentication: Authentication) -> None:
    """Publish again whenever a bundle changes; runs until cancelled."""
    bundles = [bundle for bundle in (authentication.client_authorities, authentication.proxy_authorities) if bundle]
    published = [bundle.generation for bundle in bundles]
    while True:
        await asyncio.sleep(POLL_SECONDS)
        current = [bundle.generation for bundle in bundles]
        if current == published:
            continue
        try:
            await publish(server, authentication)
        except StoreUnavailable as error:
            _log.warning("Changed CA bundles are not published", extra={"err": error})
        else:
            published = current


def _content(server: ApiServer, authentication: Authentication) -> dict[str, str]:
    options, found = server.options, {}
    if authentication.client_authorities is not None:
        found["client-ca-file"] = authentication.client_authorities.pem
    if authentication.proxy_authorities is not None:
        found["requestheader-client-ca-file"] = authentication.proxy_authorities.pem
        for key, names in (
            ("allowed-names", options.requestheader_allowed_names),
            ("username-headers", options.requestheader_username_headers),
            ("group-headers", options.requestheader_group_headers),
            ("extra-headers-prefix", options.requestheader_extra_headers_prefix),
        ):
            found[f"requestheader-{key}"] = json.dumps(list(names))
    return found
