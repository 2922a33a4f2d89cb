"""Contract tests: one pytest class per contract, to be subclassed for each implementation.

Override the fixtures of a suite to run its tests on an implementation::

    class TestMyRuntime(RuntimeContract):
        @pytest.fixture
        async def runtime(self):
            yield MyRuntime()

:data:`SUITES` contains the suite of each provider hook. Requires pytest and pytest-asyncio (``asyncio_mode = auto``).
"""

# ruff: noqa: E402  pytest rewrites the assertions of a module only if it is registered before it is imported
from collections.abc import Mapping

import pytest

pytest.register_assert_rewrite(
    *(
        f"{__name__}.{suite}"
        for suite in (
            "assignments",
            "background",
            "cgroups",
            "checks",
            "plugin_checks",
            "claims",
            "collectors",
            "credentials",
            "devices",
            "events",
            "images",
            "objects",
            "probes",
            "pullers",
            "runtime",
            "server",
            "sources",
            "stats",
            "syncers",
            "volumes",
        )
    )
)

from nodeagent.testing.contracts.assignments import HintProviderContract, ResourceReporterContract
from nodeagent.testing.contracts.background import BackgroundLoopContract
from nodeagent.testing.contracts.cgroups import CgroupManagerContract
from nodeagent.testing.contracts.checks import NodeCheckContract
from nodeagent.testing.contracts.claims import ClaimDriverContract, ClaimManagerContract
from nodeagent.testing.contracts.collectors import ImageCollectorContract
from nodeagent.testing.contracts.credentials import CredentialProviderContract
from nodeagent.testing.contracts.devices import DeviceManagerContract, DeviceProviderContract
from nodeagent.testing.contracts.events import EventRecorderContract
from nodeagent.testing.contracts.images import ImageServiceContract
from nodeagent.testing.contracts.objects import ObjectReaderContract
from nodeagent.testing.contracts.persistent_volumes import ClaimResolverContract, PersistentVolumeKindContract
from nodeagent.testing.contracts.plugin_checks import PluginCheckContract
from nodeagent.testing.contracts.plugin_handlers import PluginHandlerContract
from nodeagent.testing.contracts.probes import ProberContract
from nodeagent.testing.contracts.pullers import ImagePullerContract
from nodeagent.testing.contracts.runtime import RuntimeContract
from nodeagent.testing.contracts.server import (
    AuthenticatorContract,
    AuthorizerContract,
    LocalQueryContract,
    RouteContract,
)
from nodeagent.testing.contracts.sources import FalliblePodSourceContract, PodSourceContract
from nodeagent.testing.contracts.stats import StatsProviderContract
from nodeagent.testing.contracts.syncers import PodSyncerContract
from nodeagent.testing.contracts.volumes import VolumeKindContract, VolumeManagerContract

SUITES: Mapping[str, type] = {
    "nodeagent_provide_event_recorder": EventRecorderContract,
    "nodeagent_provide_runtime": RuntimeContract,
    "nodeagent_provide_image_service": ImageServiceContract,
    "nodeagent_provide_object_reader": ObjectReaderContract,
    "nodeagent_provide_cgroups": CgroupManagerContract,
    "nodeagent_provide_volume_kinds": VolumeKindContract,
    "nodeagent_provide_persistent_volume_kinds": PersistentVolumeKindContract,
    "nodeagent_provide_claim_resolver": ClaimResolverContract,
    "nodeagent_provide_volume_manager": VolumeManagerContract,
    "nodeagent_provide_device_providers": DeviceProviderContract,
    "nodeagent_provide_device_manager": DeviceManagerContract,
    "nodeagent_provide_claim_drivers": ClaimDriverContract,
    "nodeagent_provide_claim_manager": ClaimManagerContract,
    "nodeagent_provide_credential_providers": CredentialProviderContract,
    "nodeagent_provide_image_puller": ImagePullerContract,
    "nodeagent_provide_image_collector": ImageCollectorContract,
    "nodeagent_provide_prober": ProberContract,
    "nodeagent_provide_stats": StatsProviderContract,
    "nodeagent_provide_pod_syncer": PodSyncerContract,
    "nodeagent_provide_pod_sources": PodSourceContract,
    "nodeagent_provide_background_loops": BackgroundLoopContract,
    "nodeagent_provide_plugin_handlers": PluginHandlerContract,
    "nodeagent_provide_hint_providers": HintProviderContract,
    "nodeagent_provide_resource_reporters": ResourceReporterContract,
    "nodeagent_provide_authenticators": AuthenticatorContract,
    "nodeagent_provide_authorizer": AuthorizerContract,
    "nodeagent_provide_routes": RouteContract,
    "nodeagent_provide_local_queries": LocalQueryContract,
    "nodeagent_provide_node_checks": NodeCheckContract,
    "nodeagent_provide_plugin_checks": PluginCheckContract,
}
"""Suite of each provider hook, for each provided object."""

__all__ = [
    "SUITES",
    "AuthenticatorContract",
    "AuthorizerContract",
    "BackgroundLoopContract",
    "CgroupManagerContract",
    "ClaimDriverContract",
    "ClaimManagerContract",
    "ClaimResolverContract",
    "CredentialProviderContract",
    "DeviceManagerContract",
    "DeviceProviderContract",
    "EventRecorderContract",
    "FalliblePodSourceContract",
    "HintProviderContract",
    "ImageCollectorContract",
    "ImagePullerContract",
    "ImageServiceContract",
    "LocalQueryContract",
    "NodeCheckContract",
    "ObjectReaderContract",
    "PersistentVolumeKindContract",
    "PluginCheckContract",
    "PluginHandlerContract",
    "PodSourceContract",
    "PodSyncerContract",
    "ProberContract",
    "ResourceReporterContract",
    "RouteContract",
    "RuntimeContract",
    "StatsProviderContract",
    "VolumeKindContract",
    "VolumeManagerContract",
]
