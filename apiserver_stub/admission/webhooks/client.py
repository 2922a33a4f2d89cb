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

_MAX_ANSWER_BYTES = 8 << 20


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

        :raises WebhookCallError: the webhook does not respond in time, or not with a JSON object.
        """
        url, server_name = self._address(config)
        context = await self._context(config.get("caBundle") or "")
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(), trust_env=False)
        shown = f'Post "{config.get("url") or url}?timeout={timeout_seconds:g}s"'
        try:
            answer = await exchange(
                self._session,
                url,
                msgspec.json.encode(body),
                seconds=timeout_seconds,
                context=context,
                server_name=server_name,
                max_bytes=_MAX_ANSWER_BYTES,
            )
            if answer.status != 200:
                raise WebhookCallError(f"the server answered {answer.status}")
            found = answer.document()
        except TimeoutError:
            raise WebhookCallError(f"{shown}: context deadline exceeded") from None
        except (WebhookError, WebhookCallError, aiohttp.ClientError, OSError, ValueError) as error:
            raise WebhookCallError(f"{shown}: {error}") from error
        if not isinstance(found, dict):
            raise WebhookCallError(f"{shown}: the answer is no object")
        return found

    def _address(self, config: Object) -> tuple[str, str | None]:
        """Return the URL to call, and the name that the certificate must have when it is another than the URL's."""
        if url := config.get("url"):
            return url, None
        service = config.get("service") or {}
        name, namespace = service.get("name") or "", service.get("namespace") or ""
        port = service.get("port") or 443
        found = self._lister.find("core/services", name, namespace)
        if found is None:
            raise WebhookCallError(f'service "{name}" not found')
        host = self._host_of(found, name, namespace)
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
