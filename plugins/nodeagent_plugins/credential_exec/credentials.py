"""All configured providers as one: called in parallel, with their responses combined in configuration order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from nodeagent.contracts.images import CredentialLookup, CredentialLookupResult
from nodeagent.contracts.runtime import Credentials
from nodeagent.model.pod import Pod
from nodeagent.model.registry import Keyring, location_key
from nodeagent_plugins.credential_exec.provider import ExecProvider


class ExecCredentials:
    """Implements :class:`~nodeagent.contracts.images.DiagnosableCredentialProvider`.

    spec: credential.providers
    """

    def __init__(self, providers: Sequence[ExecProvider]) -> None:
        self._providers = tuple(providers)

    async def credentials(self, image: str, pod: Pod | None = None) -> Sequence[Credentials]:
        """Return the credentials for *image*'s registry, most specific first."""
        return (await self.lookup(image, pod)).credentials

    async def lookup(self, image: str, pod: Pod | None = None) -> CredentialLookupResult:
        """Return the credentials and the result of each provider."""
        inquiries = tuple(await asyncio.gather(*(provider.lookup(image, pod) for provider in self._providers)))
        return CredentialLookupResult(combine(inquiries, image), inquiries)


def combine(inquiries: Sequence[CredentialLookup], image: str) -> tuple[Credentials, ...]:
    """Return the credentials for *image*; for equal keys those of the earlier provider are used."""
    keyring, taken = Keyring[Credentials](), set[str]()
    for inquiry in inquiries:
        for location, credentials in inquiry.auth.items():
            if location_key(location) not in taken:
                keyring.add(location, credentials)
        taken |= {location_key(location) for location in inquiry.auth}
    return tuple(keyring.lookup(image))
