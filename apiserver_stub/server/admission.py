"""Creation of the enabled admission plugins, once at startup."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from apiserver_stub.admission import AdmissionChain, AdmissionContext, AdmissionPlugin
from apiserver_stub.admission.claim_status_permission import ClaimStatusPermission
from apiserver_stub.admission.config import AdmissionError, load
from apiserver_stub.admission.context import DefaultTolerations
from apiserver_stub.admission.create_permission import CreatePermission
from apiserver_stub.admission.device_admin_access import DeviceAdminAccess
from apiserver_stub.admission.listers import Lister
from apiserver_stub.admission.plugins.resource_quota import ResourceQuota
from apiserver_stub.admission.plugins.storage_object_in_use_protection import StorageObjectInUseProtection
from apiserver_stub.admission.plugins.taint_nodes_by_condition import TaintNodesByCondition
from apiserver_stub.admission.pod_certificate_signing import PodCertificateSigning
from apiserver_stub.admission.policy_parameter_permission import PolicyParameterPermission
from apiserver_stub.admission.quota.shared_charges import SharedCharges
from apiserver_stub.admission.signing_request_identity import SigningRequestIdentity
from apiserver_stub.admission.webhooks.client import WebhookClient
from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.cel.authorization import Decide
from apiserver_stub.controllers.leadership import Leadership
from apiserver_stub.controllers.namespaces import provide_namespace
from apiserver_stub.controllers.node_taints import run_node_taint_controller
from apiserver_stub.controllers.quotas import run_quota_controller
from apiserver_stub.controllers.volume_attributes_protection import release_attributes_classes
from apiserver_stub.controllers.volume_protection import release_volumes
from apiserver_stub.plugin_discovery import discover_plugins
from nodeagent.base.aio import SystemClock, TaskOwner
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from apiserver_stub.authz import Chain
    from apiserver_stub.kinds import Registry
    from apiserver_stub.options import Options
    from apiserver_stub.storage import Store
    from nodeagent.base.gates import FeatureGates

_log = logging.getLogger(__name__)

_CHARGE_MARGIN_SECONDS = 30
"""Time for which a write can outlast the timeout of its request."""


async def build_admission(
    options: Options,
    store: Store,
    registry: Registry,
    authorizer: Chain,
    ca_certificate: str,
    stack: AsyncExitStack,
    tasks: TaskOwner,
    webhooks: WebhookClient,
    leadership: Leadership,
    more: Sequence[AdmissionPlugin] = (),
) -> AdmissionChain:
    """Return the admission chain: the plugins that are always enabled, *more*, then the enabled plugins.

    Resources of plugins are closed with *stack*; their controllers run in *tasks*.

    :raises AdmissionError: the configuration is invalid, or a plugin cannot be created; with all problems.
    """
    config_file = options.admission_control_config_file
    configs = await asyncio.to_thread(load, config_file, options.identity)
    lister, authorize = Lister(store), _authorize(authorizer)
    context = AdmissionContext(
        config={},
        config_dir=config_file.parent if config_file is not None else Path(),
        store=store,
        lister=lister,
        registry=registry,
        identity=options.identity,
        gates=options.gates,
        release=options.compatibility_version,
        authorize=authorize,
        clock=SystemClock(),
        webhooks=webhooks,
        default_tolerations=DefaultTolerations(
            options.default_not_ready_toleration_seconds, options.default_unreachable_toleration_seconds
        ),
        start_task=tasks.start,
        resources=stack,
        provide_namespace=partial(provide_namespace, store, options.identity, ca_certificate),
    )
    available = discover_plugins().plugins
    classes = [available[name] for name in options.admission_plugins]
    plugins = [
        CreatePermission(authorize),
        SigningRequestIdentity(options.identity),
        PodCertificateSigning(authorize, options.identity),
        DeviceAdminAccess(lister, options.identity),
        *claim_status_permission(authorize, options.identity, options.gates),
        PolicyParameterPermission(lister, registry, authorize, options.identity),
        *more,
        *await create_plugins(classes, context, configs, options.gates),
    ]
    for plugin in plugins:
        _start_controller(plugin, options, store, registry, leadership, tasks)
    return AdmissionChain(plugins, context.manifest_reloads, context.metrics)


async def create_plugins(
    classes: Sequence[type[AdmissionPlugin]],
    context: AdmissionContext,
    configs: Mapping[str, Object],
    gates: FeatureGates,
) -> list[AdmissionPlugin]:
    """Create a plugin of each class with its configuration in *configs*.

    :raises AdmissionError: a feature gate is disabled, or a plugin cannot be created; with all problems.
    """
    plugins: list[AdmissionPlugin] = []
    problems: list[str] = []
    for plugin in classes:
        if plugin.feature_gate and not gates.enabled(plugin.feature_gate):
            if plugin.enabled_by_default:
                continue
            stage = "an alpha feature, planned to be removed," if plugin.deprecated else "an alpha feature"
            problems.append(
                f"{plugin.name} admission controller is {stage} and requires the {plugin.feature_gate} "
                "feature gate to be enabled"
            )
            continue
        try:
            plugins.append(await plugin.create(dataclasses.replace(context, config=configs.get(plugin.name) or {})))
        except AdmissionError as error:
            problems += error.problems
        except Exception as error:
            _log.exception("Failed to create admission plugin", extra={"plugin": plugin.name})
            problems.append(f"{plugin.name}: {type(error).__name__}: {error}")
    if problems:
        raise AdmissionError(*problems)
    return plugins


def _start_controller(
    plugin: AdmissionPlugin,
    options: Options,
    store: Store,
    registry: Registry,
    leadership: Leadership,
    tasks: TaskOwner,
) -> None:
    """Start the controller that complements *plugin* after admission, if there is one."""
    identity = options.identity
    match plugin:
        case ResourceQuota():
            if options.store_servers:
                ttl_seconds = int(options.request_timeout_seconds) + _CHARGE_MARGIN_SECONDS
                charges = SharedCharges(store, objects.new_uid(), ttl_seconds)
                plugin.usage_tracker.share(charges)
                tasks.start(charges.run(), "quota-charges")
            tasks.start(run_quota_controller(store, plugin.usage_tracker, leadership), "quotas")
        case TaintNodesByCondition():
            tasks.start(run_node_taint_controller(store, identity), "node-taints")
        case StorageObjectInUseProtection():
            tasks.start(release_volumes(store, identity), "volume-protection")
            if any(item.plural == "volumeattributesclasses" for item in registry):
                tasks.start(release_attributes_classes(store, identity), "volume-attributes-protection")


def _authorize(authorizer: Chain) -> Decide:
    async def authorize(user: User, info: RequestInfo) -> tuple[bool, str]:
        result = await authorizer.authorize(user, info)
        return result.allowed, result.reason

    return authorize


def claim_status_permission(authorize: Decide, identity: Identity, gates: FeatureGates) -> list[AdmissionPlugin]:
    """Return the plugin for the status of resource claims if its feature gate is enabled."""
    if not gates.enabled("DRAResourceClaimGranularStatusAuthorization"):
        return []
    checks_devices = gates.enabled("DRAResourceClaimDeviceStatus")
    return [ClaimStatusPermission(authorize, identity, checks_devices=checks_devices)]
