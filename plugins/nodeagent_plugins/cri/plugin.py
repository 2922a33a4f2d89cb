"""CRI: run containers on any runtime that implements version 1 of the container runtime interface.

spec: config.containerRuntimeEndpoint, config.imageServiceEndpoint, config.runtimeRequestTimeout
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent.contracts.context import ApiContext, RuntimeContext
from nodeagent.contracts.runtime import ContainerRuntime, ImageService
from nodeagent_plugins.cri.endpoint import parse_endpoint

if TYPE_CHECKING:
    from nodeagent_plugins.cri.connection import Connection

# Both run last, so that a plugin with its own runtime takes precedence and no endpoint is required then. gRPC is
# imported only if it is used.


@hookimpl(trylast=True)
def nodeagent_provide_runtime(context: ApiContext) -> ContainerRuntime | None:
    from nodeagent_plugins.cri.client import CriRuntime

    endpoint = parse_endpoint(context.config.container_runtime_endpoint, "containerRuntimeEndpoint")
    own_ips = context.settings.node_ips
    return CriRuntime(_connect(context, endpoint), context.clock, ipv6_first=bool(own_ips) and ":" in own_ips[0])


@hookimpl(trylast=True)
def nodeagent_provide_image_service(context: RuntimeContext) -> ImageService | None:
    from nodeagent_plugins.cri.client import CriRuntime
    from nodeagent_plugins.cri.image_service import CriImageService

    given = context.config.image_service_endpoint
    endpoint = parse_endpoint(given or context.config.container_runtime_endpoint, "imageServiceEndpoint")
    runtime = context.runtime
    if isinstance(runtime, CriRuntime) and runtime.connection.endpoint == endpoint:
        return CriImageService(runtime.connection)
    return CriImageService(_connect(context, endpoint))


def _connect(context: ApiContext, endpoint: str) -> Connection:
    from nodeagent_plugins.cri.connection import Connection

    connection = Connection(endpoint, context.config.runtime_request_timeout.seconds)
    context.cleanup.push_async_callback(connection.close)
    return connection
