"""Runtime endpoints: parse and normalize the socket URL."""

from __future__ import annotations

import logging

from nodeagent.errors import ConfigError, Problem

_log = logging.getLogger(__name__)


def parse_endpoint(endpoint: str, field: str) -> str:
    """Return *endpoint*, the value of the configuration field *field*, as ``unix:///path``.

    A bare absolute path is accepted and logged as deprecated.

    :raises ConfigError: *endpoint* is not the URL of a Unix socket.
    spec: config.containerRuntimeEndpoint, config.imageServiceEndpoint
    """
    if endpoint.startswith("/"):
        _log.info(
            "Using this endpoint is deprecated, please consider using full URL format",
            extra={"field": field, "endpoint": endpoint, "URL": f"unix://{endpoint}"},
        )
        endpoint = f"unix://{endpoint}"
    if not endpoint.startswith("unix:///") or endpoint == "unix:///":
        rule = (
            "must be the URL of a Unix socket, unix:///path" if endpoint else "is required: unix:///path of the socket"
        )
        raise ConfigError([Problem("configuration", field, endpoint or None, rule)])
    return endpoint
