"""Creation of clients from a kubeconfig."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent.apiclient.client import Client
from nodeagent.apiclient.http import HttpTransport
from nodeagent.apiclient.transport import Transport
from nodeagent.base import kubeconfig
from nodeagent.base.aio import Clock
from nodeagent.errors import ConfigError, Problem

if TYPE_CHECKING:
    from nodeagent.contracts.configuration import NodeAgentConfiguration


def connect(
    path: Path, config: NodeAgentConfiguration, clock: Clock, *, pair: Path | None = None, pending: bool = False
) -> Client:
    """Return a client of the server in the kubeconfig *path*; sends no request. Reads the disk.

    :param pair: file with certificate and key that replaces the credentials of the kubeconfig once it exists.
    :param pending: files named by the kubeconfig may be created later; until then requests fail.
    :raises ConfigError: the kubeconfig, or a file named by it, is invalid.
    """
    try:
        config_file = kubeconfig.load(path)
        if not pending:
            config_file.ssl_context()
            config_file.authorization()
    except kubeconfig.KubeconfigError as error:
        raise ConfigError([Problem(f.source, f.path, f.value, f.rule) for f in error.faults]) from error
    return for_config(HttpTransport(config_file, clock, pair=pair), config, clock)


def for_config(transport: Transport, config: NodeAgentConfiguration, clock: Clock) -> Client:
    """Return a client on *transport* with the settings of *config*.

    spec: config.contentType, config.platformAPIQPS, config.platformAPIBurst
    """
    return Client(
        transport,
        clock,
        content_type=config.content_type,
        qps=config.platform_api_qps,
        burst=config.platform_api_burst,
    )
