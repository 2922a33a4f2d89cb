"""Version of the API server, queried before the agent starts.

Blocking and without the client, which needs the configuration that depends on the version.
"""

from __future__ import annotations

import base64
import http.client
import json
import threading
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from nodeagent.base import kubeconfig
from nodeagent.contracts.certificates import client_store_name, current_pair
from nodeagent.contracts.settings import NodeSettings

DEADLINE_SECONDS = 0.4
"""Maximum delay of a start while the API server does not respond."""
PATIENT_SECONDS = 2.0
"""Time limit of a query while the agent is running."""
_MAX_BYTES = 64 * 1024


def query_server_version(settings: NodeSettings, deadline_seconds: float = DEADLINE_SECONDS) -> str:
    """Return the version of the API server, such as ``v1.36.2``; empty if it does not respond in time."""
    found: list[str] = []

    def query() -> None:
        try:
            found.append(_query(settings, deadline_seconds))
        except (OSError, ValueError, http.client.HTTPException):
            found.append("")

    # A thread, because the resolution of a name has no time limit.
    thread = threading.Thread(target=query, name="server version", daemon=True)
    thread.start()
    thread.join(deadline_seconds)
    return found[0] if found else ""


def _query(settings: NodeSettings, timeout: float) -> str:
    config = _load(settings)
    if config is None:
        return ""
    status, body = _get(config, timeout)
    if status == HTTPStatus.UNAUTHORIZED and config.exec_plugin is not None:
        status, body = _get(config.with_credential(config.run_plugin()), timeout)
    document: Any = json.loads(body) if status == HTTPStatus.OK else {}
    version = document.get("gitVersion") if isinstance(document, dict) else None
    return version if isinstance(version, str) else ""


def _get(config: kubeconfig.Kubeconfig, timeout: float) -> tuple[int, bytes]:
    """Return status and body of the version."""
    address, proxy = urlsplit(config.server), urlsplit(config.proxy())
    host, path = address.hostname or "", f"{address.path}/version"
    context = config.ssl_context()
    headers = {"Accept": "application/json"}
    if authorization := config.authorization():
        headers["Authorization"] = authorization
    if proxy.scheme == "https":
        raise ValueError("TLS connections to a proxy are not supported by this client")
    target = (proxy.hostname, proxy.port or http.client.HTTP_PORT) if proxy.hostname else (host, address.port)
    connection: http.client.HTTPConnection
    if context is not None:
        connection = _TlsConnection(*target, config.tls_server_name or host, context, timeout)
        if proxy.hostname:
            connection.set_tunnel(host, address.port, _proxy_headers(proxy))
    else:
        connection = http.client.HTTPConnection(*target, timeout=timeout)
        if proxy.hostname:
            path, headers = f"{config.server}/version", headers | _proxy_headers(proxy)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read(_MAX_BYTES)
    finally:
        connection.close()


def _proxy_headers(proxy: SplitResult) -> dict[str, str]:
    """Return the header with the credentials in the URL of the proxy."""
    if not proxy.username:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair).decode()}"}


class _TlsConnection(http.client.HTTPConnection):
    """HTTPS connection that verifies the certificate for *name*."""

    default_port = http.client.HTTPS_PORT

    def __init__(self, host: str, port: int | None, name: str, context: Any, timeout: float) -> None:
        super().__init__(host, port, timeout=timeout)
        self._name, self._context = name, context

    def connect(self) -> None:
        super().connect()
        self.sock = self._context.wrap_socket(self.sock, server_hostname=self._name)


def _load(settings: NodeSettings) -> kubeconfig.Kubeconfig | None:
    """Return the first usable kubeconfig, or ``None``; the agent reports problems of the files when it connects."""
    pair = current_pair(Path(settings.cert_dir), client_store_name())
    for path in filter(None, (settings.kubeconfig, settings.bootstrap_kubeconfig)):
        try:
            config = kubeconfig.load(Path(path))
            if path == settings.kubeconfig and pair.exists():
                config = config.with_pair(pair)
            config.ssl_context()
        except kubeconfig.KubeconfigError:
            continue
        return config
    return None
