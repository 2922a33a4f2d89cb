"""Certificates that the API server issues: for the agent as a client, and for its own server; renewed while it runs.

spec: config.rotateCertificates, config.serverTLSBootstrap, flag.bootstrap-kubeconfig
"""

from __future__ import annotations

from pathlib import Path

from nodeagent import hookimpl
from nodeagent.contracts.certificates import serving_is_requested
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.context import AgentContext
from nodeagent_plugins.certificates import metrics


@hookimpl
def nodeagent_configure(config: NodeAgentConfiguration, context: AgentContext) -> None:
    settings = context.settings
    serving = serving_is_requested(config, settings)
    client = bool(settings.bootstrap_kubeconfig or (config.rotate_certificates and settings.kubeconfig))
    if not serving and not client:
        return
    from nodeagent_plugins.certificates.managers import client_manager, server_manager

    directory = Path(settings.cert_dir).absolute()
    if client and (manager := client_manager(context, directory)) is not None:
        metrics.CLIENT_TTL.seconds = manager.remaining_seconds
        context.tasks.start(manager.run(), "client certificate")
    if serving:
        manager = server_manager(context, directory)
        metrics.SERVER_TTL.seconds = manager.remaining_seconds
        context.tasks.start(manager.run(), "serving certificate")
