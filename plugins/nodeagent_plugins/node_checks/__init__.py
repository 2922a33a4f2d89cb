"""Checks of ``nodeagent doctor``: runtime, kernel, disks, storage, files, certificates and the API server."""

from __future__ import annotations

from collections.abc import Sequence

from nodeagent import hookimpl
from nodeagent.contracts.checks import NodeCheck
from nodeagent.contracts.context import ImageContext


@hookimpl
def nodeagent_provide_node_checks(context: ImageContext) -> Sequence[NodeCheck]:
    from nodeagent_plugins.node_checks import api_server, cdi, disks, files, kernel, mounts, runtime

    checks = [*runtime.checks(context), *kernel.checks(context), *disks.checks(context), *files.checks(context)]
    checks += cdi.checks(context)
    return [*checks, *mounts.checks(context), *api_server.checks(context)]
