"""The order of authentication: request headers, client certificate, bearer token, WebSocket token, anonymous."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.request import ANONYMOUS, User
from apiserver_stub.apimachinery.status import unauthorized
from apiserver_stub.authn.authenticators import AuthenticatedUser, Rejected
from apiserver_stub.authn.tokens import Tokens, authenticated
from apiserver_stub.transport.sub_protocols import token_prefix
from nodeagent.base.gobase64 import decode_url

if TYPE_CHECKING:
    from apiserver_stub.authn.certificates import ClientCertificates, PeerCertificates
    from apiserver_stub.authn.request_header import RequestHeaders

_log = logging.getLogger(__name__)


class Authenticator:
    """Finds the caller of a request; *anonymous* lets those without credentials in under a name of their own."""

    def __init__(
        self,
        tokens: Tokens,
        *,
        anonymous: bool,
        certificates: ClientCertificates | None = None,
        headers: RequestHeaders | None = None,
    ) -> None:
        self.tokens = tokens
        self.certificates = certificates
        self._anonymous, self._headers = anonymous, headers
        self.refused = {"failure": 0, "error": 0}
        """How many callers had no credentials, and how many had some that are no good."""

    async def authenticate(
        self, headers: Mapping[str, str], presented: PeerCertificates | None, annotations: dict[str, str] | None = None
    ) -> User:
        """Return the caller.

        :param presented: the certificates that came with the connection, unverified.
        :param annotations: is given what audit events should say of the credentials.
        :raises ApiError: 401, the credentials are no good, or there are none and anonymous callers are not let in.
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
        token = _bearer_token(headers)
        if token:
            try:
                known = await self.tokens.authenticate(token)
                if known.annotations and annotations is not None:
                    annotations.update(known.annotations)
                return known.user
            except Rejected as error:
                problems.append(str(error))
        if problems:
            _log.info("Unable to authenticate the request", extra={"err": "; ".join(problems)})
            self.refused["error"] += 1
        elif self._anonymous:
            return ANONYMOUS
        else:
            self.refused["failure"] += 1
        raise unauthorized()

    async def review(self, token: str, audiences: Sequence[str]) -> AuthenticatedUser | None:
        """Return the user of a request whose only credentials are *token* in a header, ``None`` without a user.

        :param audiences: the token must be for one of them, or of those of the API without any.
        :raises Rejected: the token is invalid.
        """
        if word := _bearer_word(f"Bearer {token}"):
            return await self.tokens.authenticate(word, audiences)
        return AuthenticatedUser(ANONYMOUS, tuple(audiences) or self.tokens.api_audiences) if self._anonymous else None


def _bearer_token(headers: Mapping[str, str]) -> str:
    if word := _bearer_word(headers.get("Authorization", "")):
        return word
    protocols = headers.get("Sec-WebSocket-Protocol")
    return _websocket_token(protocols) if protocols else ""


def _bearer_word(header: str) -> str:
    """Return the word behind the scheme; like upstream, another space before it makes it empty."""
    scheme, _, rest = header.strip().partition(" ")
    return rest.partition(" ")[0] if scheme.lower() == "bearer" else ""


def _websocket_token(protocols: str) -> str:
    """Return the token that browsers hide among the sub-protocols; it needs a real one beside it."""
    names = [name.strip() for name in protocols.split(",")]
    prefix = token_prefix()
    hidden = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
    if len(hidden) != 1 or len(names) < 2:
        return ""
    try:
        return decode_url(hidden[0]).decode()
    except ValueError:
        return ""
