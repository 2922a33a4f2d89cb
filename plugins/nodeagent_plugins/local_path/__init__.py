"""Local volumes: directories below the root directory, which the API server creates and deletes for claims.

The API server requests them for volumes of the storage class ``local-path``. Clients need the permissions to create
and delete ``nodes/proxy``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nodeagent import hookimpl

if TYPE_CHECKING:
    from nodeagent.contracts.context import ServerContext
    from nodeagent.contracts.server import Route


@hookimpl
def nodeagent_provide_routes(context: ServerContext) -> Sequence[Route]:
    from nodeagent_plugins.local_path.routes import routes

    return routes(context)
