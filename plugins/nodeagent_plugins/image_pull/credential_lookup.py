"""Lookup of the credentials for a pull: pull secrets of the pod, then credential providers in their order."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nodeagent.contracts.events import EventType
from nodeagent.contracts.images import CredentialLookupResult, CredentialProvider, DiagnosableCredentialProvider
from nodeagent.contracts.runtime import Credentials
from nodeagent.errors import ApiError, PluginError
from nodeagent.model.image_name import ImageName
from nodeagent.model.pod import Pod
from nodeagent_plugins.image_pull.keyring import read_pull_secrets

if TYPE_CHECKING:
    from nodeagent.contracts.context import VolumesContext

_log = logging.getLogger(__name__)


class CredentialSources:
    """Pull secrets and credential providers."""

    def __init__(self, context: VolumesContext, providers: Sequence[CredentialProvider]) -> None:
        self._context, self._providers = context, providers

    async def find(self, pod: Pod, name: ImageName) -> tuple[Credentials, ...]:
        """Return the credentials to try in turn; events have been recorded for sources that failed.

        :raises ValueError: a pull secret is invalid.
        """
        secrets, missing = [], []
        for reference in pod.spec.image_pull_secrets or ():
            try:
                secret = await self._context.objects.secret(pod.namespace, reference.name)
            except ApiError as error:
                _log.info(
                    "Unable to retrieve pull secret, the image pull may not succeed.",
                    extra={"pod": pod.full_name, "secret": reference.name, "err": str(error)},
                )
                secret = None
            if secret is None:
                missing.append(reference.name)
            else:
                secrets.append(secret)
        if missing:
            note = (
                f"Unable to retrieve some image pull secrets ({', '.join(missing)}); "
                "attempting to pull the image may not succeed."
            )
            self._context.recorder.record(pod.reference(), EventType.WARNING, "FailedToRetrieveImagePullSecret", note)
        found = read_pull_secrets(secrets).lookup(name.repository)
        for provider in self._providers:
            try:
                if isinstance(provider, DiagnosableCredentialProvider):
                    result = await provider.lookup(name.repository, pod)
                    found.extend(result.credentials)
                    self._report_failures(pod, result)
                else:
                    found.extend(await provider.credentials(name.repository, pod))
            except PluginError as error:  # The image may be public, or another provider may have credentials.
                self._report_failure(pod, str(error))
        return tuple(dict.fromkeys(found))

    def _report_failures(self, pod: Pod, result: CredentialLookupResult) -> None:
        for inquiry in result.lookups:
            if inquiry.failure:
                self._report_failure(pod, f'Credential provider "{inquiry.source}" {inquiry.failure}')

    def _report_failure(self, pod: Pod, failure: str) -> None:
        note = f"{failure}; attempting to pull the image may not succeed."
        self._context.recorder.record(pod.reference(), EventType.WARNING, "CredentialProviderFailed", note)
