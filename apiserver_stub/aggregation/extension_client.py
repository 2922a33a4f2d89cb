"""Client for extension API servers: health checks and discovery documents."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from apiserver_stub.aggregation.identity_headers import headers_of
from apiserver_stub.aggregation.proxy_client_cert import ClientPair
from apiserver_stub.aggregation.remotes import Remote
from apiserver_stub.aggregation.service_resolver import Unresolved, resolve
from apiserver_stub.apimachinery.request import User
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.nodes.agents import NodeAgents
from apiserver_stub.nodes.endpoint import Endpoint
from apiserver_stub.storage import Store

SECONDS = 5.0
_MAX_BYTES = 8 << 20
_SELF = User("system:kube-aggregator", groups=("system:masters",))


class ExtensionRequestError(Exception):
    """The request failed or the response is invalid; the message contains the reason."""


class ExtensionClient:
    """Client for the Services of API services.

    :param by_endpoint: connect to endpoints instead of cluster IPs (spec: opt.enable-aggregator-routing).
    """

    def __init__(self, store: Store, agents: NodeAgents, pair: ClientPair, *, by_endpoint: bool) -> None:
        self._store, self._agents, self._pair = store, agents, pair
        self._by_endpoint = by_endpoint

    async def endpoint_of(self, remote: Remote, *, verify: bool = True) -> Endpoint:
        """Resolve the Service of *remote* to an endpoint.

        :raises Unresolved: the Service cannot be resolved.
        :raises OSError: the TLS context cannot be created.
        :raises ValueError: the CA bundle is invalid.
        """
        host, port = resolve(self._store, remote.namespace, remote.service, remote.port, by_endpoint=self._by_endpoint)
        context = await self._pair.context(remote.ca_bundle, verify=verify and not remote.insecure)
        return Endpoint(host, port, context, remote.server_name)

    async def check(self, remote: Remote) -> None:
        """Check that *remote* serves its group version; its certificate is not verified here, but for each request.

        :raises ExtensionRequestError: there is no successful response within five seconds.
        """
        await self._get(remote, remote.path, verify=False)

    async def read(self, remote: Remote, path: str) -> Any:
        """Return the JSON document of *remote* at *path*.

        :raises ExtensionRequestError: the request failed or the response is not valid JSON.
        """
        data = await self._get(remote, path)
        try:
            return msgspec.json.decode(data)
        except (ValueError, RecursionError) as error:
            raise ExtensionRequestError(f"{path}: invalid JSON response: {error}") from error

    async def _get(self, remote: Remote, path: str, *, verify: bool = True) -> bytes:
        import aiohttp  # Deferred: many modules, for servers with extension servers.

        url = path
        fields: Mapping[str, str] = {"Accept": "application/json"}
        try:
            async with asyncio.timeout(SECONDS):
                endpoint = await self.endpoint_of(remote, verify=verify)
                url = endpoint.origin + path
                headers = [*fields.items(), *headers_of(_SELF)]
                async with (
                    self._agents.session(endpoint) as session,
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
            raise ExtensionRequestError(f"{url}: response exceeds {_MAX_BYTES} bytes")
        return data
