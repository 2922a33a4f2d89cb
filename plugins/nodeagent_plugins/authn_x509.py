"""X.509 authentication: CommonName is the user, Organization entries are the groups.

TLS verifies the chain against the current CA bundle when the client connects; the handshake fails for a certificate
of another CA.
spec: config.authentication, type.NodeAgentX509Authentication.clientCAFile
"""

from __future__ import annotations

from collections.abc import Sequence

from nodeagent import hookimpl
from nodeagent.contracts.context import ServerContext
from nodeagent.contracts.server import Authenticator, RequestCredentials, Unauthenticated, User


@hookimpl(tryfirst=True)
def nodeagent_provide_authenticators(context: ServerContext) -> Sequence[Authenticator]:
    return (X509Authenticator(),) if context.config.authentication.x509.client_ca_file else ()


class X509Authenticator:
    """Returns the user of a verified certificate."""

    async def authenticate(self, credentials: RequestCredentials) -> User | None:
        certificate = credentials.certificate
        if certificate is None:
            return None
        attributes = [pair for names in certificate.get("subject", ()) for pair in names]
        names = [value for key, value in attributes if key == "commonName"]
        if not names or not names[-1]:
            raise Unauthenticated("client certificate without CommonName")
        return User(names[-1], tuple(value for key, value in attributes if key == "organizationName"))
