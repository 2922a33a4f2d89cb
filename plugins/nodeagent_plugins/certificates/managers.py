"""Managers of the node's client and serving certificates."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from nodeagent.base import identity, kubeconfig
from nodeagent.contracts.api import Api
from nodeagent.contracts.certificates import client_store_name, server_store_name
from nodeagent.contracts.context import AgentContext
from nodeagent_plugins.certificates import metrics
from nodeagent_plugins.certificates.bootstrap import client_pair
from nodeagent_plugins.certificates.manager import CertificateManager, borrowed
from nodeagent_plugins.certificates.pairs import CertificateError, CertificateSpec
from nodeagent_plugins.certificates.store import PairStore

NODES_GROUP = "system:nodes"
CHECK_SECONDS = 1.0
"""Interval of comparing the node's addresses with its certificate."""


def client_certificate(node_name: str) -> CertificateSpec:
    """Return the client certificate of the node."""
    return CertificateSpec(
        signer=identity.current().client_signer,
        common_name=f"system:node:{node_name}",
        organizations=(NODES_GROUP,),
        usages=("digital signature", "client auth"),
    )


def server_certificate(
    node_name: str, node: Mapping[str, Any] | None, *, dns_only: bool = False
) -> CertificateSpec | None:
    """Return the serving certificate for the addresses in *node*, ``None`` while it has no IP address.

    :param dns_only: a host name is sufficient.
    """
    names: set[str] = set()
    addresses: set[str] = set()
    for entry in ((node or {}).get("status") or {}).get("addresses") or ():
        text = str(entry["address"])
        try:
            addresses.add(str(ip_address(text)))
        except ValueError:
            names.add(text)
    if not addresses and not (dns_only and names):
        return None
    return CertificateSpec(
        signer=identity.current().serving_signer,
        common_name=f"system:node:{node_name}",
        organizations=(NODES_GROUP,),
        usages=("digital signature", "server auth"),
        dns_names=tuple(sorted(names)),
        addresses=tuple(sorted(addresses)),
    )


def client_manager(context: AgentContext, directory: Path) -> CertificateManager:
    """Return the manager of the client certificate."""
    config, settings = context.config, context.settings
    store = PairStore(directory, client_store_name())
    desired = client_certificate(context.node_name)
    return CertificateManager(
        "client certificate",
        store,
        lambda: desired,
        lambda usable: _client_api(context, usable=usable),
        context.clock,
        seed=_seed(Path(settings.kubeconfig)),
        renews=config.rotate_certificates,
        resumes=bool(settings.bootstrap_kubeconfig),
        failed=metrics.CLIENT_FAILURES.inc,
    )


def server_manager(context: AgentContext, directory: Path) -> CertificateManager:
    """Return the manager of the serving certificate."""
    dns_only = context.gates.enabled("AllowDNSOnlyNodeCSR")

    def api(_usable: bool) -> AbstractAsyncContextManager[Api]:
        return _client_api(context, usable=True)

    return CertificateManager(
        "serving certificate",
        PairStore(directory, server_store_name()),
        lambda: server_certificate(context.node_name, context.node(), dns_only=dns_only),
        api,
        context.clock,
        check_seconds=CHECK_SECONDS,
        failed=metrics.SERVER_FAILURES.inc,
        replaced=metrics.SERVER_ROTATIONS.observe,
    )


@asynccontextmanager
async def _client_api(context: AgentContext, *, usable: bool) -> AsyncIterator[Api]:
    """Yield the agent's client, or one with the bootstrap credentials while the agent's certificate is unusable."""
    bootstrap = context.settings.bootstrap_kubeconfig
    if usable or not bootstrap:
        if context.api is None:
            raise CertificateError("no API server configured")
        async with borrowed(context.api) as api:
            yield api
        return
    client = context.connect_api(Path(bootstrap))
    try:
        yield client
    finally:
        await client.close()


def _seed(path: Path) -> bytes:
    try:
        return client_pair(kubeconfig.load(path))
    except kubeconfig.KubeconfigError:
        return b""  # The connection reports it.
