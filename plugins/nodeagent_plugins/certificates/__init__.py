"""Certificates issued by the API server, for the agent as a client and for its server; rotated while the agent runs.

spec: config.rotateCertificates, config.serverTLSBootstrap, flag.bootstrap-kubeconfig
"""

from __future__ import annotations

from pathlib import Path

from nodeagent import hookimpl
from nodeagent.contracts.certificates import client_store_name, serving_is_requested
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.context import AgentContext, ConfigContext
from nodeagent.contracts.hooks import PluginHost
from nodeagent_plugins.certificates import metrics


@hookimpl
def nodeagent_configure(config: NodeAgentConfiguration, context: ConfigContext, plugins: PluginHost) -> None:
    settings = context.settings
    serving = serving_is_requested(config, settings)
    client = bool(settings.bootstrap_kubeconfig or (config.rotate_certificates and settings.kubeconfig))
    if not serving and not client:
        return
    directory = Path(settings.cert_dir).absolute()
    if settings.bootstrap_kubeconfig:
        from nodeagent_plugins.certificates.bootstrap import prepare_kubeconfig
        from nodeagent_plugins.certificates.store import PairStore

        # The agent connects with this kubeconfig before any component exists.
        pair = PairStore(directory, client_store_name()).current
        written = prepare_kubeconfig(settings.kubeconfig, settings.bootstrap_kubeconfig, pair, context.clock.wall())
        client = written or config.rotate_certificates
    plugins.register(Certificates(directory, client=client, serving=serving), name="certificates.managers")


class Certificates:
    """Starts the certificate managers once the API client exists.

    :param directory: the directory of generated certificates.
    :param client: request the client certificate.
    :param serving: request the serving certificate.
    """

    def __init__(self, directory: Path, *, client: bool, serving: bool) -> None:
        self._directory, self._client, self._serving = directory, client, serving

    @hookimpl
    def nodeagent_components_created(self, context: AgentContext) -> None:
        from nodeagent_plugins.certificates.managers import client_manager, server_manager

        if self._client:
            manager = client_manager(context, self._directory)
            metrics.CLIENT_TTL.seconds = manager.remaining_seconds
            context.tasks.start(manager.run(), "client certificate")
        if self._serving:
            manager = server_manager(context, self._directory)
            metrics.SERVER_TTL.seconds = manager.remaining_seconds
            context.tasks.start(manager.run(), "serving certificate")
