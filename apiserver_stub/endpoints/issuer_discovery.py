"""What others need to verify service account tokens: the issuer's document and its keys.

spec: path.apiserver.{service-account-issuer}/.well-known/openid-configuration
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from apiserver_stub.apimachinery import objects
from apiserver_stub.verbs.responses import Reply

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.server.state import ApiServer

DOCUMENT_PATH = "/.well-known/openid-configuration"
KEYS_PATH = "/openid/v1/jwks"
_CACHED = {"Cache-Control": "public, max-age=3600"}


def answer(server: ApiServer, request: Request) -> Reply | None:
    """Answer the two paths, ``None`` for any other; without an issuer that others can look up there are none."""
    path = request.info.path
    if path not in (DOCUMENT_PATH, KEYS_PATH) or not _can_be_looked_up(server.tokens.issuer):
        return None
    if path == KEYS_PATH:
        body = objects.encode({"keys": [key.jwk() for key in server.tokens.keys]})
        return Reply(200, body=body, content_type="application/jwk-set+json", headers=_CACHED)
    document = {
        "issuer": server.tokens.issuer,
        "jwks_uri": server.options.service_account_jwks_uri or _own_keys(server),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": sorted({key.algorithm for key in server.tokens.keys}),
    }
    return Reply(200, body=objects.encode(document), headers=_CACHED)


def _own_keys(server: ApiServer) -> str:
    name, port = server.options.external_hostname, server.address.rpartition(":")[2]
    return f"https://{f'{name}:{port}' if name else server.address}{KEYS_PATH}"


def _can_be_looked_up(issuer: str) -> bool:
    """Tell whether *issuer* is an HTTPS address to which a path can be appended."""
    parts = urlsplit(issuer)
    return parts.scheme == "https" and bool(parts.netloc) and not (parts.query or parts.fragment)
