"""Authentication chain: request headers, client certificate, bearer token, WebSocket token, anonymous."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.request import ANONYMOUS, User
from apiserver_stub.apimachinery.status import unauthorized
from apiserver_stub.authn.anonymous import AnonymousAccess
from apiserver_stub.authn.authenticators import AuthenticatedUser, Rejected
from apiserver_stub.authn.tokens import Tokens, authenticated
from apiserver_stub.transport.sub_protocols import BEARER_PROTOCOL
from nodeagent.base.gobase64 import decode_url
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from apiserver_stub.authn.certificates import ClientCertificates, PeerCertificates
    from apiserver_stub.authn.request_header import RequestHeaders

_log = logging.getLogger(__name__)


class Authenticator:
    """Authenticator of requests.

    :param anonymous: requests without credentials that have the anonymous user.
    """

    def __init__(
        self,
        tokens: Tokens,
        identity: Identity,
        *,
        anonymous: AnonymousAccess,
        certificates: ClientCertificates | None = None,
        headers: RequestHeaders | None = None,
    ) -> None:
        self.tokens = tokens
        self.certificates = certificates
        self._anonymous, self._headers = anonymous, headers
        self._bearer_protocol = f"{BEARER_PROTOCOL}{identity.api_domain}."
        self.rejected = {"failure": 0, "error": 0}
        """Number of rejected requests: without credentials (``failure``), and with invalid ones (``error``)."""

    async def authenticate(
        self,
        headers: Mapping[str, str],
        presented: PeerCertificates | None,
        annotations: dict[str, str] | None = None,
        *,
        path: str = "",
    ) -> User:
        """Return the user of a request for *path*.

        :param presented: the unverified certificates of the connection.
        :param annotations: receives the audit annotations of the credentials.
        :raises ApiError: 401, the credentials are invalid, or there are none and anonymous requests are not allowed.
        """
        problems: list[str] = []
        if presented is not None:
            for method in (self._headers, self.certificates):
                if method is None:
                    continue
                try:
                    user = method.user_of(headers, presented)
                except Rejected as error:
                    problems.append(str(error))
                    continue
                if user is not None:
                    return authenticated(user)
        token = _bearer_token(headers, self._bearer_protocol)
        if token:
            try:
                result = await self.tokens.authenticate(token)
                if result.annotations and annotations is not None:
                    annotations.update(result.annotations)
                return result.user
            except Rejected as error:
                problems.append(str(error))
        if problems:
            _log.info("Unable to authenticate the request", extra={"err": "; ".join(problems)})
            self.rejected["error"] += 1
        elif self._anonymous.permits(path):
            return ANONYMOUS
        else:
            self.rejected["failure"] += 1
        raise unauthorized()

    async def review(self, token: str, audiences: Sequence[str]) -> AuthenticatedUser | None:
        """Return the user of a request whose only credentials are *token* in a header, ``None`` without a user.

        :param audiences: accepted audiences of the token; without any, those of the API.
        :raises Rejected: the token is invalid.
        """
        if word := _bearer_word(f"Bearer {token}"):
            return await self.tokens.authenticate(word, audiences)
        if not self._anonymous.permits(""):
            return None
        return AuthenticatedUser(ANONYMOUS, tuple(audiences) or self.tokens.api_audiences)


def _bearer_token(headers: Mapping[str, str], prefix: str) -> str:
    if word := _bearer_word(headers.get("Authorization", "")):
        return word
    protocols = headers.get("Sec-WebSocket-Protocol")
    return _websocket_token(protocols, prefix) if protocols else ""


def _bearer_word(header: str) -> str:
    """Return the token after the scheme; as upstream, it is empty after more than one space."""
    scheme, _, rest = header.strip().partition(" ")
    return rest.partition(" ")[0] if scheme.lower() == "bearer" else ""


def _websocket_token(protocols: str, prefix: str) -> str:
    """Return the token that browsers send as a WebSocket sub-protocol; there must be another sub-protocol too."""
    names = [name.strip() for name in protocols.split(",")]
    tokens = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
    if len(tokens) != 1 or len(names) < 2:
        return ""
    try:
        return decode_url(tokens[0]).decode()
    except ValueError:
        return ""
