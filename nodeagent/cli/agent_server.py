"""Reaches an agent's HTTPS server with the caller's own credentials."""

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


class NoServer(NodeAgentError):
    """The agent's server cannot be reached, or nobody knows where it is."""

    reason = "NoServer"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server is, and what is shown to it."""

    url: str
    tls: ssl.SSLContext
    authorization: str = field(default="", repr=False)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add what tells where the server is and who asks."""
    where = parser.add_argument_group("where, and who asks")
    where.add_argument("--address", default="", metavar="HOST[:PORT]", help="the agent's server (127.0.0.1:10250)")
    where.add_argument("--node", default="", help="find the server of this node through the kubeconfig's API server")
    where.add_argument("--kubeconfig", default="", help="credentials; else $KUBECONFIG, else ~/.kube/config")
    where.add_argument("--token-file", default="", help="bearer token instead of the kubeconfig's credentials")
    where.add_argument("--certificate-authority", default="", metavar="FILE", help="whom to trust for the server")
    where.add_argument("--insecure-skip-tls-verify", action="store_true", help="trust any server; it sees the token")


def find(arguments: argparse.Namespace) -> Place:
    """Return the server that *arguments* name. Reads files, and asks the API server for ``--node``.

    :raises NoServer: it cannot be found, or a file cannot be used.
    """
    try:
        found = _kubeconfig(arguments)
        token = f"Bearer {_token(Path(arguments.token_file))}" if arguments.token_file else ""
        authorization = token or (found.authorization() if found is not None else "")
        local = not arguments.address and not arguments.node
        tls = _tls(arguments, None if token else found, found, local=local)
    except (OSError, ValueError, kubeconfig.KubeconfigError) as error:
        raise NoServer(f"credentials cannot be used: {error}") from error
    address = arguments.address or "127.0.0.1"
    if arguments.node:
        if found is None:
            raise NoServer("--node needs a kubeconfig, whose API server knows the node's address")
        address = asyncio.run(_address_of(arguments.node, found.source))
    return Place(f"https://{with_port(address)}", tls, authorization)


def _token(path: Path) -> str:
    if token := path.read_text().strip():
        return token
    raise ValueError(f"{path}: holds no token")


def session(place: Place) -> aiohttp.ClientSession:
    """Return a session whose requests go to *place*."""
    import aiohttp

    headers = {"Authorization": place.authorization} if place.authorization else {}
    return aiohttp.ClientSession(
        place.url,
        connector=aiohttp.TCPConnector(ssl=place.tls, limit=0),
        headers=headers,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
    )


def with_port(address: str) -> str:
    """Return ``host:port``, with the default port where none is given and IPv6 in brackets."""
    port = NodeAgentConfiguration().port
    if address.count(":") > 1 and not address.startswith("["):
        return f"[{address}]:{port}"
    return address if ":" in address.rpartition("]")[2] else f"{address}:{port}"


def _kubeconfig(arguments: argparse.Namespace) -> kubeconfig.Kubeconfig | None:
    given = arguments.kubeconfig or os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    path = Path(given) if given else Path.home() / ".kube" / "config"
    return kubeconfig.load(path) if given or path.exists() else None


def _tls(
    arguments: argparse.Namespace,
    shown: kubeconfig.Kubeconfig | None,
    trusted: kubeconfig.Kubeconfig | None,
    *,
    local: bool,
) -> ssl.SSLContext:
    """Return how to trust the server, with the client certificate of *shown*.

    Trusted is the authority that is given, else that of the kubeconfig; of the agent on this machine its self-signed
    certificate as well.
    """
    context = shown.ssl_context() if shown is not None and shown.encrypted else None
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
            own = Path(NodeSettings().cert_dir) / f"{identity.current().component}.crt"
            context.load_verify_locations(cafile=str(own))
    return context


async def _address_of(node: str, source: str) -> str:
    from nodeagent.apiclient import connect

    client = connect(Path(source), NodeAgentConfiguration(), SystemClock())
    try:
        found: dict[str, Any] = await client.get(NODES, node, into=dict)
    except ApiError as error:
        raise NoServer(f'node "{node}" cannot be looked up: {error}') from error
    finally:
        await client.close()
    status = found.get("status") or {}
    by_type = {each["type"]: each["address"] for each in reversed(status.get("addresses") or ())}
    endpoints = status.get("daemonEndpoints") or {}
    port = next((value["Port"] for value in endpoints.values() if value.get("Port")), NodeAgentConfiguration().port)
    for kind in ("InternalIP", "ExternalIP", "Hostname"):
        if address := by_type.get(kind):
            return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    raise NoServer(f'node "{node}" has told no address')
