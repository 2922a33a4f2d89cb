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
    from nodeagent.contracts.context import AgentContext
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
                "description": "Whether a pod may use an image that is on the node already only if it was pulled "
                "without credentials, or with credentials that the pod has as well; else its registry is asked with "
                "the pod's own. Images that were never pulled here, such as imported ones, are for anyone.",
            },
        },
    }


@hookimpl(tryfirst=True)
def nodeagent_provide_credential_providers(context: AgentContext) -> Sequence[CredentialProvider]:
    """Offer the node's own files before what other providers have to be asked for."""
    return [RegistryFiles.of_node(context.root_dir)]


@hookimpl
def nodeagent_provide_image_puller(
    context: AgentContext, credential_providers: Sequence[CredentialProvider]
) -> ImagePuller:
    settings = context.plugin_settings.get(NAME, {})
    return Puller(context, credential_providers, verify_cached=bool(settings.get("verifyCached", False)))
