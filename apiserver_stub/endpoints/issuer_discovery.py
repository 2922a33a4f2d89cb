"""OpenID discovery of the service account issuer, by which others verify tokens.

spec: path.apiserver.{service-account-issuer}/.well-known/openid-configuration
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from apiserver_stub.apimachinery import objects
from apiserver_stub.verbs.responses import Reply

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.authn.service_account import ServiceAccountTokens

DOCUMENT_PATH = "/.well-known/openid-configuration"
KEYS_PATH = "/openid/v1/jwks"


class IssuerDiscovery:
    """Discovery document and keys of the service account issuer.

    :param address: returns the ``host:port`` of this server.
    :param jwks_uri: URL of the keys, if they are served elsewhere.
    """

    read_only = True

    def __init__(
        self, tokens: ServiceAccountTokens, address: Callable[[], str], *, jwks_uri: str, external_hostname: str
    ) -> None:
        self._tokens, self._address = tokens, address
        self._jwks_uri, self._external_hostname = jwks_uri, external_hostname

    def paths(self) -> list[str]:
        """Return the paths of the documents; none for issuers without an HTTPS URL."""
        return [DOCUMENT_PATH, KEYS_PATH] if _is_https(self._tokens.issuer) else []

    async def respond(self, request: Request) -> Reply | None:
        """Return the document of the issuer or its keys, ``None`` for other paths and issuers without an HTTPS URL."""
        path = request.info.path
        if path not in self.paths():
            return None
        keys = self._tokens.keys
        cached = {"Cache-Control": f"public, max-age={keys.max_age_seconds}"}
        if path == KEYS_PATH:
            published = await asyncio.to_thread(lambda: [key.jwk() for key in keys.published])  # May parse the keys.
            body = objects.encode({"keys": published})
            return Reply(200, body=body, content_type="application/jwk-set+json", headers=cached)
        algorithms = await asyncio.to_thread(lambda: sorted({key.algorithm for key in keys.published}))
        document = {
            "issuer": self._tokens.issuer,
            "jwks_uri": self._jwks_uri or self._own_keys(),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms,
        }
        return Reply(200, body=objects.encode(document), headers=cached)

    def _own_keys(self) -> str:
        name, address = self._external_hostname, self._address()
        port = address.rpartition(":")[2]
        return f"https://{f'{name}:{port}' if name else address}{KEYS_PATH}"


def _is_https(issuer: str) -> bool:
    """Return whether *issuer* is an HTTPS URL to which a path can be appended."""
    parts = urlsplit(issuer)
    return parts.scheme == "https" and bool(parts.netloc) and not (parts.query or parts.fragment)
