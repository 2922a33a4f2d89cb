"""Image pull: bring a container's image onto the node, by its pull policy.

spec: config.serializeImagePulls, config.maxParallelImagePulls, config.registryPullQPS, config.registryBurst
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nodeagent_plugins.image_pull.puller import Puller

from nodeagent import hookimpl

if TYPE_CHECKING:
    from nodeagent.contracts.context import AgentContext
    from nodeagent.contracts.images import CredentialProvider, ImagePuller


@hookimpl
def nodeagent_provide_image_puller(
    context: AgentContext, credential_providers: Sequence[CredentialProvider]
) -> ImagePuller:
    return Puller(context, credential_providers)
