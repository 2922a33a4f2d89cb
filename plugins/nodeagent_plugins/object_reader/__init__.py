"""Object reader: ConfigMaps, Secrets and Services that pods reference, cached according to the configuration.

spec: config.configMapAndSecretChangeDetectionStrategy
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent_plugins.object_reader.reader import Reader, StandaloneReader

if TYPE_CHECKING:
    from nodeagent.contracts.context import NodeContext
    from nodeagent.contracts.objects import ObjectReader


@hookimpl
def nodeagent_provide_object_reader(context: NodeContext) -> ObjectReader:
    return StandaloneReader() if context.api is None else Reader(context, context.api)
