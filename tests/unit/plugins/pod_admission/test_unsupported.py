"""Tests for admission by supported pod fields."""

from __future__ import annotations

import logging

import pytest

from nodeagent.testing import admit, load_plugin, make_container, make_context, make_pod
from nodeagent.testing.runtime import FakeRuntime
from nodeagent_plugins import pod_admission

NODE = {"metadata": {"labels": {}}, "status": {"allocatable": {"cpu": "2"}}}


async def decision(tmp_path, pod, **context):
    manager = load_plugin(pod_admission, context=make_context(tmp_path, node=NODE, **context))
    rejection = await admit(manager, pod)
    return rejection and (rejection.reason, rejection.message)


async def test_pod_without_unsupported_fields_is_admitted(tmp_path):
    assert await decision(tmp_path, make_pod()) is None


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"resources": {"limits": {"cpu": "1"}}}, "PodLevelResourcesNotSupported"),
        ({"resource_claims": [{"name": "gpu", "resourceClaimName": "gpu"}]}, "PodFieldNotSupported"),
        ({"containers": [make_container(lifecycle={"stopSignal": "SIGUSR1"})]}, "PodFieldNotSupported"),
        ({"containers": [make_container(resources={"claims": [{"name": "gpu"}]})]}, "PodFieldNotSupported"),
    ],
)
async def test_pod_with_unsupported_field_is_rejected(tmp_path, spec, reason):
    assert (await decision(tmp_path, make_pod(**spec)))[0] == reason


async def test_message_names_all_unsupported_fields(tmp_path):
    claims = [{"name": "gpu", "resourceClaimName": "x"}]
    pod = make_pod(resources={"limits": {"cpu": "1"}}, resource_claims=claims)

    assert await decision(tmp_path, pod) == (
        "PodLevelResourcesNotSupported",
        "Pod uses fields that this node does not support: spec.resourceClaims: "
        '[{"name":"gpu","resourceClaimName":"x"}] (feature gate DynamicResourceAllocation is disabled); '
        'spec.resources: {"limits":{"cpu":"1"}} (feature gate PodLevelResources is disabled)',
    )


async def test_running_pod_with_unsupported_field_keeps_running(tmp_path, caplog):
    claims = [{"name": "gpu", "resourceClaimName": "x"}]
    runtime, pod = FakeRuntime(), make_pod(resource_claims=claims)
    runtime.start("main", pod)

    with caplog.at_level(logging.WARNING):
        assert await decision(tmp_path, pod, runtime=runtime) is None

    assert "Running pod uses unsupported fields, ignoring them" in caplog.text
