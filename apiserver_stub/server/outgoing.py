"""Connections of the server to others: webhooks, node agents and extension servers."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from apiserver_stub.admission.listers import Lister
from apiserver_stub.admission.webhooks.client import WebhookClient
from apiserver_stub.aggregation.availability import Availability
from apiserver_stub.aggregation.extension_client import ExtensionClient
from apiserver_stub.aggregation.proxy_client_cert import ClientPair
from apiserver_stub.aggregation.remotes import Remotes
from apiserver_stub.egress.selector import EgressSelector
from apiserver_stub.kinds import Registry
from apiserver_stub.nodes.agents import NodeAgents, NodeAgentSettings
from apiserver_stub.options import Options
from apiserver_stub.storage import Store
from nodeagent.base.aio import TaskOwner
from nodeagent.base.structs import Struct


class Outgoing(Struct, frozen=True):
    """Clients, with the client certificate that webhooks and extension servers verify."""

    pair: ClientPair
    webhooks: WebhookClient
    agents: NodeAgents
    extensions: ExtensionClient
    remotes: Remotes

    def start(self, store: Store, registry: Registry, tasks: TaskOwner) -> None:
        """Reload the client certificate, and check whether extension servers are available."""
        tasks.start(self.pair.keep_current(), "proxy-client-certificate")
        availability = Availability(store, registry, self.remotes, self.extensions)
        tasks.start(availability.run(), "api-service-availability")


async def build_outgoing(options: Options, store: Store, egress: EgressSelector, stack: AsyncExitStack) -> Outgoing:
    """Return the clients; *stack* closes them.

    :raises TlsError: a certificate file is invalid.
    """
    pair = await asyncio.to_thread(ClientPair, options.proxy_client_cert_file, options.proxy_client_key_file)
    webhooks = WebhookClient(Lister(store), pair, egress=egress)
    stack.push_async_callback(webhooks.close)
    agents = await asyncio.to_thread(NodeAgents, node_agent_settings(options), store, egress.cluster)
    extensions = ExtensionClient(store, agents, pair, by_endpoint=options.enable_aggregator_routing)
    return Outgoing(pair, webhooks, agents, extensions, Remotes(options.identity))


def node_agent_settings(options: Options) -> NodeAgentSettings:
    """Return the settings for connections to node agents."""
    return NodeAgentSettings(
        address_types=options.nodeagent_preferred_address_types,
        timeout_seconds=options.nodeagent_timeout_seconds,
        own_authorities=options.authorities,
        certificate_authority=options.nodeagent_certificate_authority,
        client_certificate=options.nodeagent_client_certificate,
        client_key=options.nodeagent_client_key,
    )
