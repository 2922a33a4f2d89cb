"""What this server itself asks of extension API servers: whether they live, and what they serve."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec

from apiserver_stub.aggregation.identity_headers import headers_of
from apiserver_stub.aggregation.proxy_client_cert import ClientPair
from apiserver_stub.aggregation.remotes import Remote
from apiserver_stub.aggregation.service_resolver import Unresolved, resolve
from apiserver_stub.apimachinery.request import User
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.nodes.agents import Endpoint, NodeAgents
from apiserver_stub.storage import Store

SECONDS = 5.0
_MAX_BYTES = 8 << 20
_SELF = User("system:kube-aggregator", groups=("system:masters",))


class ExtensionRequestError(Exception):
    """There was no good answer; the text says why."""


class ExtensionClient:
    """Client of the services of API services.

    :param by_endpoint: connect to endpoints in place of cluster IPs (spec: opt.enable-aggregator-routing).
    """

    def __init__(self, store: Store, agents: NodeAgents, pair: ClientPair, *, by_endpoint: bool) -> None:
        self._store, self._agents, self._pair = store, agents, pair
        self._by_endpoint = by_endpoint

    async def place_of(self, remote: Remote, *, verify: bool = True) -> Endpoint:
        """Return where the service of *remote* is now.

        :raises Unresolved: it leads nowhere.
        :raises OSError: no TLS context can be made for it.
        :raises ValueError: its CA bundle is none.
        """
        host, port = resolve(self._store, remote.namespace, remote.service, remote.port, by_endpoint=self._by_endpoint)
        context = await self._pair.context(remote.ca_bundle, verify=verify and not remote.insecure)
        return Endpoint(host, port, context, remote.server_name)

    async def check(self, remote: Remote) -> None:
        """Return when *remote* answers for its group version; whoever it is: that is found out with each request.

        :raises ExtensionRequestError: it does not, within five seconds.
        """
        await self._get(remote, remote.path, verify=False)

    async def read(self, remote: Remote, path: str) -> Any:
        """Return the JSON document that *remote* has at *path*.

        :raises ExtensionRequestError: there is none.
        """
        data = await self._get(remote, path)
        try:
            return msgspec.json.decode(data)
        except (ValueError, RecursionError) as error:
            raise ExtensionRequestError(f"{path}: the answer is no JSON: {error}") from error

    async def _get(self, remote: Remote, path: str, *, verify: bool = True) -> bytes:
        url = path
        fields: Mapping[str, str] = {"Accept": "application/json"}
        try:
            async with asyncio.timeout(SECONDS):
                place = await self.place_of(remote, verify=verify)
                url = place.origin + path
                headers = [*fields.items(), *headers_of(_SELF)]
                async with (
                    self._agents.session(place) as session,
                    session.get(url, headers=headers, allow_redirects=False) as response,
                ):
                    if not 200 <= response.status < 300:
                        raise ExtensionRequestError(
                            f"failing or missing response from {url}: bad status from {url}: {response.status}"
                        )
                    data = await response.content.read(_MAX_BYTES + 1) if verify else b""
                    while verify and len(data) <= _MAX_BYTES and (more := await response.content.read(_MAX_BYTES)):
                        data += more
        except Unresolved as error:
            raise ExtensionRequestError(str(error)) from error
        except TimeoutError:
            raise ExtensionRequestError(
                f'failing or missing response from {url}: Get "{url}": context deadline exceeded'
            ) from None
        except (ApiError, aiohttp.ClientError, OSError, ValueError) as error:
            raise ExtensionRequestError(f'failing or missing response from {url}: Get "{url}": {error}') from error
        if len(data) > _MAX_BYTES:
            raise ExtensionRequestError(f"{url} answered more than {_MAX_BYTES} bytes")
        return data
