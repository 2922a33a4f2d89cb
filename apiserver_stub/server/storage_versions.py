"""Construction of the reporter of storage versions."""

from __future__ import annotations

import logging
import socket

from apiserver_stub.controllers.server_identity import server_name
from apiserver_stub.controllers.storage_versions import StorageVersions
from apiserver_stub.kinds import Registry, bundled_resources
from apiserver_stub.kinds.storage_versions import GROUP, PLURAL, VERSION
from apiserver_stub.options import Options
from apiserver_stub.server.kinds import kind_settings
from apiserver_stub.storage import Store

_log = logging.getLogger(__name__)


def build_storage_versions(options: Options, store: Store, registry: Registry) -> StorageVersions | None:
    """Return the reporter of the storage versions of declared kinds, ``None`` without the feature gates.

    :param registry: the served kinds, without custom ones, whose definitions have their versions.
    """
    if not (options.gates.enabled("StorageVersionAPI") and options.gates.enabled("APIServerIdentity")):
        return None
    group = options.identity.group(GROUP)
    if registry.find(group, VERSION, PLURAL) is None:
        fields = {"runtimeConfig": f"{group}/{VERSION}=true"}
        _log.warning("Skipped storage versions, since their API is disabled", extra=fields)
        return None
    known = [*bundled_resources(kind_settings(options)), *registry]
    return StorageVersions(store, options.identity, known, registry, server_name(socket.gethostname()))
