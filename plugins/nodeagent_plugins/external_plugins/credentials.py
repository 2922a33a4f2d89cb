"""Capability ``credentials``."""

from __future__ import annotations

from collections.abc import Sequence

from nodeagent import hookimpl
from nodeagent.base.plugin_rpc import methods_of
from nodeagent.base.pluginproto import plugin_v1_pb2 as api
from nodeagent.contracts.image_service import Credentials
from nodeagent.contracts.images import CredentialProvider
from nodeagent.model.pod import Pod
from nodeagent_plugins.external_plugins.messages import encode_pod
from nodeagent_plugins.external_plugins.session import Session

SECONDS = 30.0
"""Time limit of a call."""
_METHODS = methods_of(api.DESCRIPTOR.services_by_name["Credentials"])


class CredentialHooks:
    """Provides the plugin's credential provider."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @hookimpl
    def nodeagent_provide_credential_providers(self) -> Sequence[CredentialProvider]:
        return (ExternalCredentials(self._session),)


class ExternalCredentials:
    """Implements the contract ``CredentialProvider``."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def credentials(self, image: str, pod: Pod | None = None) -> Sequence[Credentials]:
        return await fetch_credentials(self._session, image, pod)


async def fetch_credentials(session: Session, image: str, pod: Pod | None) -> Sequence[Credentials]:
    """Return the plugin's credentials for *image*.

    :raises PluginError: the call failed.
    """
    request = api.GetCredentialsRequest(image=image, pod=encode_pod(pod) if pod is not None else b"")
    response = await session.call("GetCredentials", _METHODS["GetCredentials"], request, SECONDS)
    name = session.plugin.name
    return [Credentials(each.username, each.password, source=name) for each in response.credentials]
