"""Image pull: bring a container's image onto the node, by its pull policy.

spec: config.serializeImagePulls, config.maxParallelImagePulls, config.registryPullQPS, config.registryBurst,
config.imagePullCredentialsVerificationPolicy, config.preloadedImagesVerificationAllowlist
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent_plugins.image_pull.access import GATE, ImageAccess
from nodeagent_plugins.image_pull.files import RegistryFiles
from nodeagent_plugins.image_pull.prune_loop import PruneLoop
from nodeagent_plugins.image_pull.puller import Puller

if TYPE_CHECKING:
    from nodeagent.contracts.background import BackgroundLoop
    from nodeagent.contracts.context import AgentContext, ConfigContext, VolumesContext
    from nodeagent.contracts.images import CredentialProvider, ImagePuller


@hookimpl(tryfirst=True)
def nodeagent_provide_credential_providers(context: ConfigContext) -> Sequence[CredentialProvider]:
    """Provide the node's credential files, which take precedence over other providers."""
    return [RegistryFiles.of_node(context.root_dir)]


@hookimpl
def nodeagent_provide_image_puller(
    context: VolumesContext, credential_providers: Sequence[CredentialProvider]
) -> ImagePuller:
    return Puller(context, credential_providers, ImageAccess(context) if context.gates.enabled(GATE) else None)


@hookimpl
def nodeagent_provide_background_loops(context: AgentContext) -> Sequence[BackgroundLoop]:
    puller = context.puller
    if not isinstance(puller, Puller) or puller.access is None:
        return ()
    return [PruneLoop(puller.access, context.clock)]
