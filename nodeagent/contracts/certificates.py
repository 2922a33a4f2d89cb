"""Locations of the certificates that the API server issues to the agent, each with its key in one PEM file.

A renewed certificate is a new file; a symbolic link with a constant path points to the current one, and users of the
path have to read it again.
spec: flag.cert-dir, config.rotateCertificates, config.serverTLSBootstrap
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent.base import identity

if TYPE_CHECKING:
    from nodeagent.contracts.configuration import NodeAgentConfiguration
    from nodeagent.contracts.settings import NodeSettings


def client_store_name() -> str:
    """Return the file name prefix of the agent's client certificates."""
    return f"{identity.current().component}-client"


def server_store_name() -> str:
    """Return the file name prefix of the serving certificates of the agent's HTTPS server."""
    return f"{identity.current().component}-server"


def current_pair(cert_dir: Path, store_name: str) -> Path:
    """Return the path of the symbolic link to the current certificate and key."""
    return cert_dir / f"{store_name}-current.pem"


def serving_is_requested(config: NodeAgentConfiguration, settings: NodeSettings) -> bool:
    """Return whether the serving certificate is requested from the certificates API.

    Configured certificate files and standalone mode take precedence.
    """
    has_files = bool(config.tls_cert_file and config.tls_private_key_file)
    return config.server_tls_bootstrap and not has_files and not settings.standalone
