"""HTTPS client of admission webhooks."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from apiserver_stub.admission.listers import Lister
from apiserver_stub.admission.webhooks.review import WebhookCallError
from apiserver_stub.admission.webhooks.users import NO_USERS, WebhookUsers, present
from apiserver_stub.aggregation.proxy_client_cert import ClientPair
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.egress.selector import DIRECT, EgressSelector
from apiserver_stub.webhook import WebhookError, exchange

if TYPE_CHECKING:
    import aiohttp

_MAX_RESPONSE_BYTES = 8 << 20


class WebhookClient:
    """Client of webhooks that are referenced by URL or by Service."""

    def __init__(
        self, lister: Lister, pair: ClientPair, users: WebhookUsers = NO_USERS, egress: EgressSelector = DIRECT
    ) -> None:
        self._lister, self._pair, self._users, self._egress = lister, pair, users, egress
        self._sessions: dict[bool, aiohttp.ClientSession] = {}  # by whether the webhook is a Service
        self._derived: list[WebhookClient] = []

    def with_users(self, users: WebhookUsers) -> WebhookClient:
        """Return a client that authenticates as *users*; it is closed with this one."""
        client = WebhookClient(self._lister, self._pair, users, self._egress)
        self._derived.append(client)
        return client

    async def close(self) -> None:
        for client in self._derived:
            await client.close()
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    async def post(self, config: Object, body: Any, timeout_seconds: float) -> Object:
        """Send *body* to the webhook of *config* (a ``clientConfig``) and return the response.

        :raises WebhookCallError: the webhook does not respond within *timeout_seconds*, or its response is invalid.
        """
        import aiohttp  # Deferred: many modules, for servers that call webhooks.

        url, server_name = self._address(config)
        context, authorization = await self._context(config.get("caBundle") or "", url, server_name)
        attempt = f'Post "{url}?timeout={timeout_seconds:g}s"'
        try:
            response = await exchange(
                self._session(is_service=server_name is not None),
                url,
                msgspec.json.encode(body),
                seconds=timeout_seconds,
                context=context,
                server_name=server_name,
                authorization=authorization,
                max_bytes=_MAX_RESPONSE_BYTES,
            )
            if response.status != 200:
                raise WebhookCallError(f"unexpected HTTP status {response.status}")
            document = response.document()
        except TimeoutError:
            raise WebhookCallError(f"{attempt}: context deadline exceeded") from None
        except (WebhookError, WebhookCallError, aiohttp.ClientError, OSError, ValueError) as error:
            raise WebhookCallError(f"{attempt}: {error}") from error
        if not isinstance(document, dict):
            raise WebhookCallError(f"{attempt}: the response is not a JSON object")
        return document

    def _session(self, *, is_service: bool) -> aiohttp.ClientSession:
        if is_service not in self._sessions:
            from apiserver_stub.egress.connector import new_session

            self._sessions[is_service] = new_session(self._egress.cluster if is_service else self._egress.controlplane)
        return self._sessions[is_service]

    def _address(self, config: Object) -> tuple[str, str | None]:
        """Return the URL, and the server name to verify if it differs from the host of the URL."""
        if url := config.get("url"):
            return url, None
        service = config.get("service") or {}
        name, namespace = service.get("name") or "", service.get("namespace") or ""
        port = service.get("port") or 443
        stored = self._lister.find("core/services", name, namespace)
        if stored is None:
            raise WebhookCallError(f'service "{name}" not found')
        host = self._host_of(stored, name, namespace)
        target = f"[{host}]" if ":" in host else host
        path = service.get("path") or "/"
        return f"https://{target}:{port}{path}", f"{name}.{namespace}.svc"

    def _host_of(self, service: Object, name: str, namespace: str) -> str:
        spec = service.get("spec") or {}
        if spec.get("type") == "ExternalName":
            return str(spec.get("externalName") or "")
        address = spec.get("clusterIP")
        if address and address != "None":
            return str(address)
        endpoints = self._lister.find("core/endpoints", name, namespace) or {}
        for subset in endpoints.get("subsets") or ():
            for item in subset.get("addresses") or ():
                return str(item.get("ip") or "")
        raise WebhookCallError(f'no endpoints available for service "{name}"')

    async def _context(self, bundle: str, url: str, server_name: str | None) -> tuple[ssl.SSLContext, str]:
        """Return the TLS context and the ``Authorization`` header for a webhook."""
        parts = urlsplit(url)
        credentials = self._users.user_of(f"{server_name or parts.hostname}:{parts.port or 443}")
        try:
            if credentials is None:
                return await self._pair.context(bundle), ""
            context = await asyncio.to_thread(self._pair.new_context, bundle)
        except (ValueError, OSError) as error:
            raise WebhookCallError(f"unable to load root certificates: {error}") from error
        try:
            return context, await asyncio.to_thread(present, credentials, context)
        except (ValueError, OSError) as error:  # Includes errors of kubeconfigs and exec plugins.
            raise WebhookCallError(f"unable to load credentials: {error}") from error
