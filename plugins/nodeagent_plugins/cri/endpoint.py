"""Where a runtime listens."""

from __future__ import annotations

import logging

from nodeagent.errors import ConfigError, Problem

_log = logging.getLogger(__name__)


def parse_endpoint(endpoint: str, field: str) -> str:
    """Return *endpoint*, the value of the configuration field *field*, as ``unix:///path``.

    A bare absolute path is taken with a warning, because old configurations have it.

    :raises ConfigError: it is no Unix socket.
    spec: config.containerRuntimeEndpoint, config.imageServiceEndpoint
    """
    if endpoint.startswith("/"):
        _log.warning(
            "An endpoint without scheme is deprecated; write it with unix://",
            extra={"field": field, "endpoint": endpoint},
        )
        endpoint = f"unix://{endpoint}"
    if not endpoint.startswith("unix:///") or endpoint == "unix:///":
        rule = (
            "must be a Unix socket, unix:///path" if endpoint else "is required: unix:///path of the runtime's socket"
        )
        raise ConfigError([Problem("configuration", field, endpoint or None, rule)])
    return endpoint
