"""Where the certificates lie that the API server issues to the agent: one file each, certificate first, then key.

A renewed certificate is a new file, and the path below leads to it from then on; who uses it reads it again.
spec: flag.cert-dir, config.rotateCertificates, config.serverTLSBootstrap
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent.base import identity

if TYPE_CHECKING:
    from nodeagent.config.settings import NodeSettings
    from nodeagent.config.types import NodeAgentConfiguration


def client_store_name() -> str:
    """Return how the files begin by which the agent is known to the API server."""
    return f"{identity.current().component}-client"


def server_store_name() -> str:
    """Return how the files begin by which the agent's own server is known."""
    return f"{identity.current().component}-server"


def current_pair(cert_dir: Path, store_name: str) -> Path:
    """Return the path that leads to the pair in force."""
    return cert_dir / f"{store_name}-current.pem"


def serving_is_requested(config: NodeAgentConfiguration, settings: NodeSettings) -> bool:
    """Return whether the serving certificate comes from the certificates API; given files and standalone mode win."""
    given = bool(config.tls_cert_file and config.tls_private_key_file)
    return config.server_tls_bootstrap and not given and not settings.standalone
