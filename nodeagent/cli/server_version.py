"""Version of the API server, for commands that load the configuration."""

from __future__ import annotations

from nodeagent.contracts.settings import NodeSettings


def query_server_version(settings: NodeSettings) -> str:
    """Return the version of the API server; empty if it does not respond within a fraction of a second."""
    from nodeagent.apiclient import server_version

    return server_version.query_server_version(settings)
