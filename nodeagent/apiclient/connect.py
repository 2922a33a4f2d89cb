"""Makes a client from a kubeconfig."""

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
    from nodeagent.config.types import NodeAgentConfiguration


def connect(
    path: Path, config: NodeAgentConfiguration, clock: Clock, *, pair: Path | None = None, pending: bool = False
) -> Client:
    """Return a client of the server in the kubeconfig *path*; nothing is sent yet. Reads the disk.

    :param pair: certificate and key that are shown instead of those in the kubeconfig, as soon as the file is there.
    :param pending: files that the kubeconfig names may come later; until then requests fail.
    :raises ConfigError: the kubeconfig, or a file it names, cannot be used.
    """
    try:
        found = kubeconfig.load(path)
        if not pending:
            found.ssl_context()
            found.authorization()
    except kubeconfig.KubeconfigError as error:
        raise ConfigError([Problem(f.source, f.path, f.value, f.rule) for f in error.faults]) from error
    return for_config(HttpTransport(found, clock, pair=pair), config, clock)


def for_config(transport: Transport, config: NodeAgentConfiguration, clock: Clock) -> Client:
    """Return the client that *config* asks for on *transport*.

    spec: config.contentType, config.platformAPIQPS, config.platformAPIBurst
    """
    return Client(
        transport,
        clock,
        content_type=config.content_type,
        qps=config.platform_api_qps,
        burst=config.platform_api_burst,
    )
