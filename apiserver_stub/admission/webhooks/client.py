"""HTTPS client of admission webhooks."""

from __future__ import annotations

import ssl
from typing import Any

import aiohttp
import msgspec

from apiserver_stub.admission.listers import Lister
from apiserver_stub.admission.webhooks.review import WebhookCallError
from apiserver_stub.aggregation.proxy_client_cert import ClientPair
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.webhook import WebhookError, exchange

_MAX_RESPONSE_BYTES = 8 << 20


class WebhookClient:
    """Client of webhooks that are referenced by URL or by Service."""

    def __init__(self, lister: Lister, pair: ClientPair) -> None:
        self._lister, self._pair = lister, pair
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(self, config: Object, body: Any, timeout_seconds: float) -> Object:
        """Send *body* to the webhook of *config* (a ``clientConfig``) and return the response.

        :raises WebhookCallError: the webhook does not respond within *timeout_seconds*, or its response is invalid.
        """
        url, server_name = self._address(config)
        context = await self._context(config.get("caBundle") or "")
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(), trust_env=False)
        attempt = f'Post "{config.get("url") or url}?timeout={timeout_seconds:g}s"'
        try:
            response = await exchange(
                self._session,
                url,
                msgspec.json.encode(body),
                seconds=timeout_seconds,
                context=context,
                server_name=server_name,
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

    async def _context(self, bundle: str) -> ssl.SSLContext:
        try:
            return await self._pair.context(bundle)
        except (ValueError, OSError) as error:
            raise WebhookCallError(f"unable to load root certificates: {error}") from error
