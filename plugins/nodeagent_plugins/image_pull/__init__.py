"""Image pull: bring a container's image onto the node, by its pull policy.

spec: config.serializeImagePulls, config.maxParallelImagePulls, config.registryPullQPS, config.registryBurst
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nodeagent import hookimpl
from nodeagent_plugins.image_pull.files import RegistryFiles
from nodeagent_plugins.image_pull.puller import Puller

if TYPE_CHECKING:
    from nodeagent.contracts.context import ConfigContext, VolumesContext
    from nodeagent.contracts.images import CredentialProvider, ImagePuller


NAME = "image_pull"


@hookimpl
def nodeagent_settings_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "verifyCached": {
                "type": "boolean",
                "default": False,
                "description": "Verify credentials for cached images: a pod may use an image on the node only if it "
                "was pulled without credentials, or with credentials of the pod; otherwise it is pulled with the pod's "
                "credentials. Images that this agent did not pull, such as imported ones, are available to all pods.",
            },
        },
    }


@hookimpl(tryfirst=True)
def nodeagent_provide_credential_providers(context: ConfigContext) -> Sequence[CredentialProvider]:
    """Provide the node's credential files, which take precedence over other providers."""
    return [RegistryFiles.of_node(context.root_dir)]


@hookimpl
def nodeagent_provide_image_puller(
    context: VolumesContext, credential_providers: Sequence[CredentialProvider]
) -> ImagePuller:
    settings = context.plugin_settings.get(NAME, {})
    return Puller(context, credential_providers, verify_cached=bool(settings.get("verifyCached", False)))
