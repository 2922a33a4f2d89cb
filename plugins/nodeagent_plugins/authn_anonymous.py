"""Anonymous authentication: requests without credentials belong to the user ``system:anonymous``.

spec: type.NodeAgentAnonymousAuthentication.enabled
"""

from __future__ import annotations

from collections.abc import Sequence

from nodeagent import hookimpl
from nodeagent.contracts.context import ServerContext
from nodeagent.contracts.server import (
    ANONYMOUS,
    GROUP_UNAUTHENTICATED,
    Authenticator,
    RequestCredentials,
    Unauthenticated,
    User,
)


@hookimpl(trylast=True)
def nodeagent_provide_authenticators(context: ServerContext) -> Sequence[Authenticator]:
    return (AnonymousAuthenticator(),) if context.config.authentication.anonymous.enabled else ()


class AnonymousAuthenticator:
    """Authenticates requests without credentials; invalid credentials are rejected."""

    async def authenticate(self, credentials: RequestCredentials) -> User | None:
        if credentials.certificate is not None or credentials.token is not None:
            raise Unauthenticated("the credentials were not recognized")
        return User(ANONYMOUS, (GROUP_UNAUTHENTICATED,))
