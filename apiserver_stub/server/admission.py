"""Which plugins the options ask for, put together once at start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from apiserver_stub.admission import AdmissionChain, AdmissionPlugin
from apiserver_stub.admission.always import AlwaysAdmit, AlwaysDeny
from apiserver_stub.admission.config import AdmissionError, load
from apiserver_stub.admission.event_rate import EventRateLimit
from apiserver_stub.admission.image_policy import ImagePolicyWebhook, read_config
from apiserver_stub.admission.limit_ranger import LimitRanger
from apiserver_stub.admission.namespaces import NamespaceAutoProvision, NamespaceExists, NamespaceLifecycle
from apiserver_stub.admission.network import DefaultIngressClass, DenyServiceExternalIPs
from apiserver_stub.admission.node_restriction import NodeRestriction
from apiserver_stub.admission.nodes import TaintNodesByCondition
from apiserver_stub.admission.pod_choices import (
    AlwaysPullImages,
    LimitPodHardAntiAffinityTopology,
    SecurityContextDeny,
)
from apiserver_stub.admission.pod_restrictions import PodNodeSelector, PodTolerationRestriction
from apiserver_stub.admission.pod_security import PodSecurity
from apiserver_stub.admission.policies import ValidatingAdmissionPolicy
from apiserver_stub.admission.policy_rights import PolicyParameterRight
from apiserver_stub.admission.priority import Priority
from apiserver_stub.admission.quota import ResourceQuota
from apiserver_stub.admission.quota.ledger import Ledger
from apiserver_stub.admission.reading import Reader
from apiserver_stub.admission.rights import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
    ClusterTrustBundleAttest,
    OwnerReferencesPermissionEnforcement,
    SigningRequestIdentity,
)
from apiserver_stub.admission.runtime_class import RuntimeClass
from apiserver_stub.admission.service_account import ServiceAccount
from apiserver_stub.admission.storage import (
    DefaultStorageClass,
    PersistentVolumeClaimResize,
    PersistentVolumeLabel,
    StorageObjectInUseProtection,
)
from apiserver_stub.admission.tolerations import DefaultTolerationSeconds, ExtendedResourceToleration
from apiserver_stub.admission.webhooks import MutatingAdmissionWebhook, ValidatingAdmissionWebhook
from apiserver_stub.admission.webhooks.client import WebhookClient
from apiserver_stub.aggregation.proxy_client_cert import ClientPair
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.cel.authorization import Decide
from apiserver_stub.controllers.namespaces import provide_namespace
from apiserver_stub.controllers.node_taints import keep_taints
from apiserver_stub.controllers.quotas import keep_quotas
from apiserver_stub.controllers.volume_protection import release_volumes
from apiserver_stub.webhook import Webhook
from nodeagent.base.aio import SystemClock, TaskOwner
from nodeagent.base.kubeconfig import KubeconfigError

if TYPE_CHECKING:
    from apiserver_stub.authz import Chain
    from apiserver_stub.kinds import Registry
    from apiserver_stub.options import Options
    from apiserver_stub.storage import Store

_GATED = {"SecurityContextDeny": "SecurityContextDeny"}
"""Plugins that cannot be switched on without a gate."""


async def build_admission(
    options: Options,
    store: Store,
    registry: Registry,
    authorizer: Chain,
    ca_certificate: str,
    stack: AsyncExitStack,
    tasks: TaskOwner,
    pair: ClientPair,
    more: Sequence[AdmissionPlugin] = (),
) -> AdmissionChain:
    """Return the plugins that are on, in order, *more* among those that judge first.

    Webhooks are shown the certificate of *pair*.

    What they need while they work is closed with *stack*; controllers that belong to them run in *tasks*.

    :raises AdmissionError: their configuration is no good; every problem is told.
    """
    configs = await asyncio.to_thread(load, options.admission_control_config_file)
    ledger = Ledger(store, registry)
    client = WebhookClient(Reader(store), pair)
    stack.push_async_callback(client.close)
    makers = _makers(options, store, registry, authorizer, ca_certificate, configs, ledger, client)
    rights = PolicyParameterRight(Reader(store), registry, _deciding(authorizer))
    plugins: list[AdmissionPlugin] = [SigningRequestIdentity(), rights, *more]
    problems: list[str] = []
    for name in options.admission_plugins:
        gate = _GATED.get(name)
        if gate and not options.gates.enabled(gate):
            problems.append(
                f"{name} admission controller is an alpha feature, planned to be removed, and requires the {gate} "
                "feature gate to be enabled"
            )
            continue
        try:
            if name == ImagePolicyWebhook.name:
                plugins.append(await _image_policy(options.admission_control_config_file, configs.get(name), stack))
            else:
                plugins.append(await asyncio.to_thread(makers[name]))
        except AdmissionError as error:
            problems += error.problems
    if problems:
        raise AdmissionError(*problems)
    on = {plugin.name for plugin in plugins}
    if ResourceQuota.name in on:
        tasks.start(keep_quotas(store, ledger), "quotas")
    if TaintNodesByCondition.name in on:
        tasks.start(keep_taints(store), "node-taints")
    if StorageObjectInUseProtection.name in on:
        tasks.start(release_volumes(store), "volume-protection")
    return AdmissionChain(plugins)


async def _image_policy(config_file: Path | None, config: Object | None, stack: AsyncExitStack) -> AdmissionPlugin:
    path, settings = read_config(config or {}, config_file.parent if config_file is not None else Path())
    pause = settings.get("retryBackoff") or 0
    try:
        webhook = await asyncio.to_thread(Webhook, path, first_pause_seconds=pause / 1000 if pause > 0 else 0.5)
    except KubeconfigError as error:
        raise AdmissionError(f"ImagePolicyWebhook: imagePolicy.kubeConfigFile: {error}") from error
    return ImagePolicyWebhook(await stack.enter_async_context(webhook), settings, SystemClock())


def _deciding(authorizer: Chain) -> Decide:
    async def decide(user: User, info: RequestInfo) -> tuple[bool, str]:
        verdict = await authorizer.authorize(user, info)
        return verdict.allowed, verdict.reason

    return decide


def _makers(
    options: Options,
    store: Store,
    registry: Registry,
    authorizer: Chain,
    ca_certificate: str,
    configs: dict[str, Object],
    ledger: Ledger,
    client: WebhookClient,
) -> dict[str, Callable[[], AdmissionPlugin]]:
    reader = Reader(store)

    ask = _deciding(authorizer)

    async def provide(namespace: str) -> None:
        await provide_namespace(store, ca_certificate, namespace)

    def config(name: str) -> Object:
        return configs.get(name) or {}

    def webhooks(plugin: type[MutatingAdmissionWebhook | ValidatingAdmissionWebhook]) -> AdmissionPlugin:
        if config(plugin.name).get("kubeConfigFile"):
            raise AdmissionError(
                f"{plugin.name}: kubeConfigFile is not supported: webhooks are called without credentials"
            )
        return plugin(reader, registry, client, ask)

    return {
        "AlwaysAdmit": AlwaysAdmit,
        "NamespaceAutoProvision": lambda: NamespaceAutoProvision(store, provide),
        "NamespaceLifecycle": lambda: NamespaceLifecycle(store),
        "NamespaceExists": lambda: NamespaceExists(store),
        "SecurityContextDeny": SecurityContextDeny,
        "LimitPodHardAntiAffinityTopology": LimitPodHardAntiAffinityTopology,
        "LimitRanger": lambda: LimitRanger(reader),
        "ServiceAccount": lambda: ServiceAccount(reader),
        "NodeRestriction": lambda: NodeRestriction(reader),
        "TaintNodesByCondition": TaintNodesByCondition,
        "AlwaysPullImages": AlwaysPullImages,
        "PodSecurity": lambda: PodSecurity(reader, config("PodSecurity")),
        "PodNodeSelector": lambda: PodNodeSelector(reader, config("PodNodeSelector")),
        "Priority": lambda: Priority(reader),
        "DefaultTolerationSeconds": lambda: DefaultTolerationSeconds(
            options.default_not_ready_toleration_seconds, options.default_unreachable_toleration_seconds
        ),
        "PodTolerationRestriction": lambda: PodTolerationRestriction(reader, config("PodTolerationRestriction")),
        "EventRateLimit": lambda: EventRateLimit(config("EventRateLimit"), SystemClock()),
        "ExtendedResourceToleration": ExtendedResourceToleration,
        "PersistentVolumeLabel": PersistentVolumeLabel,
        "DefaultStorageClass": lambda: DefaultStorageClass(reader),
        "StorageObjectInUseProtection": StorageObjectInUseProtection,
        "OwnerReferencesPermissionEnforcement": lambda: OwnerReferencesPermissionEnforcement(ask, registry),
        "PersistentVolumeClaimResize": lambda: PersistentVolumeClaimResize(reader),
        "RuntimeClass": lambda: RuntimeClass(reader),
        "CertificateApproval": lambda: CertificateApproval(ask),
        "CertificateSigning": lambda: CertificateSigning(ask),
        "ClusterTrustBundleAttest": lambda: ClusterTrustBundleAttest(ask),
        "CertificateSubjectRestriction": CertificateSubjectRestriction,
        "DefaultIngressClass": lambda: DefaultIngressClass(reader),
        "DenyServiceExternalIPs": DenyServiceExternalIPs,
        "MutatingAdmissionWebhook": lambda: webhooks(MutatingAdmissionWebhook),
        "ValidatingAdmissionPolicy": lambda: ValidatingAdmissionPolicy(reader, registry, ask),
        "ValidatingAdmissionWebhook": lambda: webhooks(ValidatingAdmissionWebhook),
        "ResourceQuota": lambda: ResourceQuota(ledger, config("ResourceQuota")),
        "AlwaysDeny": AlwaysDeny,
    }
