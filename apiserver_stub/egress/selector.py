"""Egress selector configuration (spec: opt.egress-selector-config-file).

``cluster`` selects the connections to nodes, pods and services, ``controlplane`` those to webhooks with a URL and to
the webhooks of audit, authentication and authorization, ``etcd`` those to the store. Each is direct, through an HTTP
CONNECT proxy at an address or a Unix socket, or through a konnectivity proxy server at a Unix socket (``GRPC``).
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from apiserver_stub.egress.dialing import Dialer, HttpConnectDialer, client_context
from nodeagent.base import yamlsafe
from nodeagent.base.identity import Identity
from nodeagent.base.structs import Struct

_NAMES = ("cluster", "controlplane", "etcd")
_PROTOCOLS = ("Direct", "HTTPConnect", "GRPC")
_VERSIONS = ("v1beta1", "v1alpha1")


class EgressError(ValueError):
    """The egress selector configuration is invalid."""


class EgressSelector(Struct, frozen=True):
    """Dialers by destination; ``None`` for direct connections."""

    cluster: Dialer | None = None
    controlplane: Dialer | None = None
    etcd: Dialer | None = None

    async def close(self) -> None:
        """Close the connections to konnectivity proxy servers."""
        for dialer in (self.cluster, self.controlplane, self.etcd):
            if dialer is not None:
                await dialer.close()


DIRECT = EgressSelector()


def load(path: Path, identity: Identity) -> EgressSelector:
    """Return the dialers that the file configures.

    :raises EgressError: the file cannot be read or is invalid.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise EgressError(
            f'failed to read egress selector config: unable to read egress selector configuration from "{path}" '
            f"[open {path}: {why}]"
        ) from error
    try:
        document = yamlsafe.load(text)
    except yamlsafe.YamlError as error:
        raise EgressError(f"failed to read egress selector config: {path}: {error}") from error
    return read(document, identity)


def read(document: Any, identity: Identity) -> EgressSelector:
    """Return the dialers of a decoded configuration.

    :raises EgressError: the configuration is invalid.
    """
    group = identity.group("apiserver")
    if not isinstance(document, dict) or document.get("kind") != "EgressSelectorConfiguration":
        raise EgressError("failed to read egress selector config: kind must be EgressSelectorConfiguration")
    if document.get("apiVersion") not in [f"{group}/{version}" for version in _VERSIONS]:
        raise EgressError(f"failed to read egress selector config: apiVersion must be {group}/{_VERSIONS[0]}")
    selections = document.get("egressSelections") or []
    if not isinstance(selections, list) or not all(isinstance(item, dict) for item in selections):
        raise EgressError("failed to read egress selector config: egressSelections must be a list of objects")
    problems = [problem for item in selections for problem in _problems(item)]
    names = [item.get("name") for item in selections]
    problems += [f'egressSelections.name: Duplicate value: "{name}"' for name in _NAMES if names.count(name) > 1]
    if problems:
        text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise EgressError(f"failed to validate egress selector configuration: {text}")
    return EgressSelector(**{item["name"]: _dialer(item["name"], item["connection"]) for item in selections})


def _problems(item: dict[str, Any]) -> list[str]:
    found = []
    if item.get("name") not in _NAMES:
        known = ", ".join(f'"{name}"' for name in _NAMES)
        found.append(f'service.connection: Unsupported value: "{item.get("name", "")}": supported values: {known}')
    connection = item.get("connection")
    protocol = connection.get("proxyProtocol") if isinstance(connection, dict) else None
    if not isinstance(connection, dict) or protocol not in _PROTOCOLS:
        known = ", ".join(f'"{name}"' for name in _PROTOCOLS)
        text = f'service.connection.proxyProtocol: Unsupported value: "{protocol or ""}": supported values: {known}'
        return [*found, text]
    transport = connection.get("transport")
    where = "service.connection.transport"
    if protocol == "Direct":
        if transport is not None:
            found.append(f"{where}: Invalid value: Transport config should be absent for direct connect")
        return found
    if not isinstance(transport, dict):
        return [*found, f"{where}: Required value: transport must be set for {protocol}"]
    tcp, uds = transport.get("tcp"), transport.get("uds")
    if protocol == "GRPC" and not uds:
        found.append("service.connection.uds: Required value: UDS must be set with GRPC")
    chosen = tcp or uds
    if bool(tcp) == bool(uds) or not isinstance(chosen, dict):
        return [*found, f"{where}: Invalid value: exactly one of tcp and uds must be set"]
    if uds:
        name = str(uds.get("udsName") or "")
        if not Path(name).is_absolute():
            found.append(f'{where}.uds.udsName: Invalid value: "{name}": must be an absolute path')
        return found
    return found + _tcp_problems(chosen, f"{where}.tcp")


def _tcp_problems(tcp: dict[str, Any], where: str) -> list[str]:
    url = str(tcp.get("url") or "")
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port is not None
    except ValueError:
        good = False
    if not good:
        return [f'{where}.url: Invalid value: "{url}": must be http://HOST:PORT or https://HOST:PORT']
    tls = tcp.get("tlsConfig")
    if parts.scheme == "http":
        return [f"{where}.tlsConfig: Invalid value: must be absent with http"] if tls is not None else []
    if not isinstance(tls, dict):
        return [f"{where}.tlsConfig: Required value: TLSConfig must be present when using HTTPS"]
    found = []
    for name in ("caBundle", "clientKey", "clientCert"):
        value = tls.get(name)
        if value and not Path(str(value)).is_file():
            found.append(f'{where}.tlsConfig.{name}: Invalid value: "{value}": no such file')
    if bool(tls.get("clientKey")) != bool(tls.get("clientCert")):
        found.append(f"{where}.tlsConfig: Required value: clientKey and clientCert must be set together")
    return found


def _dialer(name: str, connection: dict[str, Any]) -> Dialer | None:
    protocol = connection["proxyProtocol"]
    if protocol == "Direct":
        return None
    transport = connection["transport"]
    if protocol == "GRPC":
        from apiserver_stub.egress.konnectivity import KonnectivityDialer  # Deferred: grpc is large.

        return KonnectivityDialer(str(transport["uds"]["udsName"]))
    if uds := transport.get("uds"):
        return HttpConnectDialer(socket_path=str(uds["udsName"]))
    tcp = transport["tcp"]
    parts = urlsplit(str(tcp["url"]))
    context: ssl.SSLContext | None = None
    if parts.scheme == "https":
        files = {name: Path(str(value)) for name, value in tcp["tlsConfig"].items() if value}
        try:
            context = client_context(files.get("caBundle"), files.get("clientCert"), files.get("clientKey"))
        except OSError as error:
            raise EgressError(f'egress selection "{name}": invalid tlsConfig: {error}') from error
    return HttpConnectDialer(parts.hostname or "", parts.port or 0, tls=context)
