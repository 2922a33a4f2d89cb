"""Objects that the server creates in the cluster before it is ready, and maintains."""

from __future__ import annotations

from collections.abc import Mapping

from apiserver_stub.authz.bootstrap import ensure_bootstrap_policy
from apiserver_stub.controllers.api_services import Registration
from apiserver_stub.controllers.authentication_config_map import AuthenticationConfigMap, RequestHeaderNames
from apiserver_stub.controllers.cluster_role_aggregation import aggregate_roles
from apiserver_stub.controllers.legacy_token_tracking import track_legacy_tokens
from apiserver_stub.controllers.namespaces import create_system_objects, run_system_objects_controller
from apiserver_stub.controllers.volumes.local_path_class import ensure_local_path_class
from apiserver_stub.kinds import Registry
from apiserver_stub.options import Options
from apiserver_stub.options.authentication import UID_GATE
from apiserver_stub.server.authentication import Authentication
from apiserver_stub.server.service_ranges import Runnable, prepare_service_ranges
from apiserver_stub.storage import Store
from nodeagent.base.aio import SystemClock, TaskOwner
from nodeagent.base.structs import Struct


class ClusterObjects(Struct, frozen=True):
    """Controllers of the objects that the server created."""

    options: Options
    store: Store
    ca_certificate: str
    registration: Registration
    authentication_config_map: AuthenticationConfigMap
    service_ranges: Mapping[str, Runnable]

    def start(self, tasks: TaskOwner) -> None:
        """Maintain the objects in *tasks*."""
        store, identity = self.store, self.options.identity
        tasks.start(self.authentication_config_map.run(), "authentication-config-map")
        tasks.start(run_system_objects_controller(store, identity, self.ca_certificate), "system-objects")
        tasks.start(track_legacy_tokens(store, identity), "legacy-token-tracking")
        tasks.start(self.registration.keep(), "api-services")
        for name, controller in self.service_ranges.items():
            tasks.start(controller.run(), name)


async def create_cluster_objects(
    options: Options, store: Store, registry: Registry, authentication: Authentication, ca_certificate: str
) -> ClusterObjects:
    """Create namespaces, API services, roles, bindings and service ranges, unless they exist."""
    identity = options.identity
    await create_system_objects(store, identity, ca_certificate)
    registration = Registration(store, registry, identity, shares_store=bool(options.store_servers))
    await registration.register()
    await ensure_bootstrap_policy(store, identity, options.gates, options.compatibility_version)
    if options.manage_volumes and options.local_path_storage_class:
        await ensure_local_path_class(store, identity)
    await aggregate_roles(store, identity)
    config_map = AuthenticationConfigMap(
        store,
        identity,
        authentication.client_authorities,
        authentication.proxy_authorities,
        RequestHeaderNames(
            options.requestheader_allowed_names,
            options.requestheader_username_headers,
            options.requestheader_group_headers,
            options.requestheader_extra_headers_prefix,
            options.requestheader_uid_headers if options.gates.enabled(UID_GATE) else None,
        ),
    )
    await config_map.publish()
    ranges = await prepare_service_ranges(store, registry, identity, options.event_lifetime_seconds, SystemClock())
    return ClusterObjects(options, store, ca_certificate, registration, config_map, ranges)
