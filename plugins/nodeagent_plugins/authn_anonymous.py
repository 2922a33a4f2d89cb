"""Anonymous authentication: requests that no authenticator recognizes belong to the user ``system:anonymous``.

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
    User,
)


@hookimpl(trylast=True)
def nodeagent_provide_authenticators(context: ServerContext) -> Sequence[Authenticator]:
    return (AnonymousAuthenticator(),) if context.config.authentication.anonymous.enabled else ()


class AnonymousAuthenticator:
    """Authenticates all requests, after other authenticators have rejected those with invalid credentials."""

    async def authenticate(self, credentials: RequestCredentials) -> User | None:
        return User(ANONYMOUS, (GROUP_UNAUTHENTICATED,))
