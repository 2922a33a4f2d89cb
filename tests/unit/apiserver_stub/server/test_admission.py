"""Tests for the creation of the enabled admission plugins."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.admission import AdmissionContext, AdmissionPlugin
from apiserver_stub.admission.config import AdmissionError
from apiserver_stub.admission.context import DefaultTolerations
from apiserver_stub.admission.plugins.default_toleration_seconds import DefaultTolerationSeconds
from apiserver_stub.admission.plugins.event_rate_limit import EventRateLimit
from apiserver_stub.admission.plugins.image_policy_webhook import ImagePolicyWebhook
from apiserver_stub.admission.plugins.pod_node_selector import PodNodeSelector
from apiserver_stub.admission.plugins.security_context_deny import SecurityContextDeny
from apiserver_stub.authz import Chain
from apiserver_stub.feature_gates import build_gates
from apiserver_stub.options import parse
from apiserver_stub.server.admission import build_admission, claim_status_permission, create_plugins
from apiserver_stub.server.kinds import build_registry
from nodeagent.base.identity import Identity
from nodeagent.base.release import OLDEST, Release
from tests.unit.apiserver_stub.authz.conftest import Memory
from tests.unit.apiserver_stub.server.tasks import RecordedTasks


class Configured(AdmissionPlugin):
    name = "Configured"

    def __init__(self, config: Any) -> None:
        self.config = config

    @classmethod
    async def create(cls, context):
        return cls(context.config)


class Broken(AdmissionPlugin):
    name = "Broken"

    @classmethod
    async def create(cls, context):
        raise KeyError("label")


@pytest.fixture
async def context(tmp_path: Path, clock):
    absent: Any = None
    async with AsyncExitStack() as stack:
        yield AdmissionContext(
            config={},
            config_dir=tmp_path,
            store=absent,
            lister=absent,
            registry=absent,
            authorize=absent,
            identity=Identity(),
            gates=build_gates({}),
            release=OLDEST,
            clock=clock,
            webhooks=absent,
            default_tolerations=DefaultTolerations(7, -1),
            start_task=absent,
            resources=stack,
            provide_namespace=absent,
        )


async def test_each_plugin_is_created_from_its_own_configuration(context):
    configs = {"Configured": {"label": "team"}, "Other": {"label": "x"}}

    configured, tolerating = await create_plugins(
        [Configured, DefaultTolerationSeconds], context, configs, build_gates({})
    )

    assert configured.config == {"label": "team"}
    assert isinstance(tolerating, DefaultTolerationSeconds)


async def test_errors_of_all_plugins_are_reported_together(context, caplog):
    classes = [EventRateLimit, Broken, PodNodeSelector, ImagePolicyWebhook]
    configs = {"PodNodeSelector": {"podNodeSelectorPluginConfig": {"a": "b"}}}

    with pytest.raises(AdmissionError) as error:
        await create_plugins(classes, context, configs, build_gates({}))

    assert list(error.value.problems) == [
        "EventRateLimit: limits: Invalid value: []eventratelimit.Limit(nil): must not be empty",
        "Broken: KeyError: 'label'",
        "PodNodeSelector: podNodeSelectorPluginConfig.a: invalid selector: [b]",
        "ImagePolicyWebhook: no config specified",
    ]
    assert [record.plugin for record in caplog.records] == ["Broken"]


async def test_kubeconfig_of_image_policy_is_relative_to_the_configuration_file(context, tmp_path):
    configs = {"ImagePolicyWebhook": {"imagePolicy": {"kubeConfigFile": "images.kubeconfig"}}}

    with pytest.raises(AdmissionError) as error:
        await create_plugins([ImagePolicyWebhook], context, configs, build_gates({}))

    assert str(tmp_path / "images.kubeconfig") in str(error.value)


async def test_gated_plugin_requires_its_feature_gate(context):
    with pytest.raises(AdmissionError) as error:
        await create_plugins([SecurityContextDeny], context, {}, build_gates({}))

    assert error.value.problems == (
        "SecurityContextDeny admission controller is an alpha feature, planned to be removed, and requires the "
        "SecurityContextDeny feature gate to be enabled",
    )
    (plugin,) = await create_plugins([SecurityContextDeny], context, {}, build_gates({"SecurityContextDeny": True}))
    assert isinstance(plugin, SecurityContextDeny)


@pytest.mark.parametrize(
    ("arguments", "controllers"),
    [
        (["--compatibility-version=1.30"], {"quotas", "node-taints", "volume-protection"}),
        (
            ["--compatibility-version=1.36"],
            {"quotas", "node-taints", "volume-protection", "volume-attributes-protection"},
        ),
        (["--etcd-servers=http://127.0.0.1:1"], {"quotas", "quota-charges", "node-taints", "volume-protection"}),
        (["--disable-admission-plugins=ResourceQuota"], {"node-taints", "volume-protection"}),
    ],
)
async def test_controllers_of_plugins_are_started(arguments: list[str], controllers: set[str]) -> None:
    options, tasks, store = parse(arguments), RecordedTasks(), Memory()
    absent: Any = SimpleNamespace(with_users=lambda users: None)
    kept: Any = store
    async with AsyncExitStack() as stack:
        await build_admission(
            options,
            kept,
            build_registry(options),
            Chain([]),
            "",
            stack,
            tasks,
            absent,
            absent,  # type: ignore[arg-type]
        )

    assert set(tasks.names) & {"quotas", "quota-charges", *controllers} == controllers
    assert ("volume-attributes-protection" in tasks.names) is ("volume-attributes-protection" in controllers)


@pytest.mark.parametrize("enabled", [True, False])
def test_status_of_claims_is_authorized_with_its_gate(enabled: bool) -> None:
    gates = build_gates({"DRAResourceClaimGranularStatusAuthorization": enabled}, Release(1, 36))
    authorize: Any = None

    assert len(claim_status_permission(authorize, Identity(), gates)) == enabled
