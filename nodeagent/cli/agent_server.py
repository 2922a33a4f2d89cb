"""Client of an agent's HTTPS server, with the user's credentials."""

from __future__ import annotations

import argparse
import asyncio
import os
import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodeagent.base import identity, kubeconfig
from nodeagent.base.aio import SystemClock
from nodeagent.contracts.api import NODES
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.settings import NodeSettings
from nodeagent.errors import ApiError, NodeAgentError

if TYPE_CHECKING:
    import aiohttp

CONNECT_SECONDS = 10.0


class ServerUnreachable(NodeAgentError):
    """The agent's server cannot be reached, or its endpoint or the credentials cannot be determined."""

    reason = "ServerUnreachable"


@dataclass(frozen=True, slots=True)
class ServerEndpoint:
    """Base URL of a server, with the TLS context and the ``Authorization`` header for its requests."""

    url: str
    tls: ssl.SSLContext
    authorization: str = field(default="", repr=False)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags for the server's endpoint and the user's credentials."""
    group = parser.add_argument_group("server and credentials")
    group.add_argument("--address", default="", metavar="HOST[:PORT]", help="the agent's server (127.0.0.1:10250)")
    group.add_argument("--node", default="", help="look up the address of this node in the kubeconfig's API server")
    group.add_argument(
        "--kubeconfig", default="", help="file with the credentials (default: $KUBECONFIG, then ~/.kube/config)"
    )
    group.add_argument("--token-file", default="", help="bearer token instead of the kubeconfig's credentials")
    group.add_argument("--certificate-authority", default="", metavar="FILE", help="CA bundle to verify the server")
    group.add_argument(
        "--insecure-skip-tls-verify",
        action="store_true",
        help="skip TLS certificate verification; the server receives the token",
    )


def resolve(arguments: argparse.Namespace) -> ServerEndpoint:
    """Return the endpoint that *arguments* specify. Reads files, and runs the exec plugin of the kubeconfig.

    ``--node`` is looked up in the API server.

    :raises ServerUnreachable: the endpoint cannot be determined, or a file is unusable.
    """
    try:
        config = _kubeconfig(arguments)
        if config is not None and config.exec_plugin is not None and not arguments.token_file:
            config = config.with_credential(config.run_plugin())
        token = f"Bearer {_token(Path(arguments.token_file))}" if arguments.token_file else ""
        authorization = token or (config.authorization() if config is not None else "")
        local = not arguments.address and not arguments.node
        tls = _tls(arguments, None if token else config, config, local=local)
    except (OSError, ValueError, kubeconfig.KubeconfigError) as error:
        raise ServerUnreachable(f"failed to load credentials: {error}") from error
    address = arguments.address or "127.0.0.1"
    if arguments.node:
        if config is None:
            raise ServerUnreachable("--node requires a kubeconfig, to look up the node in its API server")
        address = asyncio.run(_address_of(arguments.node, config.source))
    return ServerEndpoint(f"https://{with_port(address)}", tls, authorization)


def _token(path: Path) -> str:
    if token := path.read_text().strip():
        return token
    raise ValueError(f"{path}: file contains no token")


def session(endpoint: ServerEndpoint) -> aiohttp.ClientSession:
    """Return a client session for *endpoint*."""
    import aiohttp

    headers = {"Authorization": endpoint.authorization} if endpoint.authorization else {}
    return aiohttp.ClientSession(
        endpoint.url,
        connector=aiohttp.TCPConnector(ssl=endpoint.tls, limit=0),
        headers=headers,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
    )


def with_port(address: str) -> str:
    """Return ``host:port``, with the agent's default port if *address* has none, and IPv6 in brackets."""
    port = NodeAgentConfiguration().port
    if address.count(":") > 1 and not address.startswith("["):
        return f"[{address}]:{port}"
    return address if ":" in address.rpartition("]")[2] else f"{address}:{port}"


def _kubeconfig(arguments: argparse.Namespace) -> kubeconfig.Kubeconfig | None:
    specified = arguments.kubeconfig or os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    path = Path(specified) if specified else Path.home() / ".kube" / "config"
    return kubeconfig.load(path) if specified or path.exists() else None


def _tls(
    arguments: argparse.Namespace,
    client: kubeconfig.Kubeconfig | None,
    trusted: kubeconfig.Kubeconfig | None,
    *,
    local: bool,
) -> ssl.SSLContext:
    """Return the TLS context, with the client certificate of *client*.

    The CA bundle is that of ``--certificate-authority``, otherwise that of *trusted*. For the agent on this host
    (*local*), its self-signed certificate is trusted, too.
    """
    context = client.ssl_context() if client is not None and client.encrypted else None
    context = context or ssl.create_default_context()
    if arguments.insecure_skip_tls_verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context
    context.check_hostname, context.verify_mode = True, ssl.CERT_REQUIRED
    if arguments.certificate_authority:
        context.load_verify_locations(cafile=arguments.certificate_authority)
    elif trusted is not None and trusted.certificate_authority:
        context.load_verify_locations(cadata=trusted.certificate_authority.read().decode("ascii"))
    if local:
        with suppress(OSError):
            self_signed = Path(NodeSettings().cert_dir) / f"{identity.current().component}.crt"
            context.load_verify_locations(cafile=str(self_signed))
    return context


async def _address_of(node: str, source: str) -> str:
    from nodeagent.apiclient import connect

    client = connect(Path(source), NodeAgentConfiguration(), SystemClock())
    try:
        node_object: dict[str, Any] = await client.get(NODES, node, into=dict)
    except ApiError as error:
        raise ServerUnreachable(f'failed to get node "{node}": {error}') from error
    finally:
        await client.close()
    status = node_object.get("status") or {}
    by_type = {each["type"]: each["address"] for each in reversed(status.get("addresses") or ())}
    endpoints = status.get("daemonEndpoints") or {}
    port = next((value["Port"] for value in endpoints.values() if value.get("Port")), NodeAgentConfiguration().port)
    for kind in ("InternalIP", "ExternalIP", "Hostname"):
        if address := by_type.get(kind):
            return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    raise ServerUnreachable(f'node "{node}" has no address in its status')
