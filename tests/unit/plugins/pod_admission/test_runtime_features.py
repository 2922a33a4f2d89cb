"""Tests for admission by features of the container runtime."""

from __future__ import annotations

import pytest

from nodeagent.contracts.runtime import RuntimeFeatures
from nodeagent.testing import admit, load_plugin, make_context, make_pod
from nodeagent.testing.runtime import FakeRuntime
from nodeagent_plugins import pod_admission

NODE = {"metadata": {"labels": {}}, "status": {"allocatable": {"cpu": "2"}}}
STRICT = {"security_context": {"supplementalGroupsPolicy": "Strict"}}
IMAGE = {"volumes": [{"name": "v", "image": {"reference": "a:1"}}]}


async def decision(tmp_path, pod, runtime):
    manager = load_plugin(pod_admission, context=make_context(tmp_path, node=NODE, runtime=runtime))
    rejection = await admit(manager, pod)
    return rejection and (rejection.reason, rejection.message)


@pytest.mark.parametrize("features", [None, RuntimeFeatures(), RuntimeFeatures(user_namespaces_host_network=True)])
async def test_strict_groups_without_support_are_rejected(tmp_path, features):
    runtime = FakeRuntime()
    runtime.features = features

    assert await decision(tmp_path, make_pod(**STRICT), runtime) == (
        "SupplementalGroupsPolicyNotSupported",
        "SupplementalGroupsPolicy=Strict is not supported in this node",
    )


async def test_strict_groups_with_support_are_admitted(tmp_path):
    runtime = FakeRuntime()
    runtime.features = RuntimeFeatures(supplemental_groups_policy=True)

    assert await decision(tmp_path, make_pod(**STRICT), runtime) is None


@pytest.mark.parametrize("supported", [True, False])
async def test_image_volume_is_admitted_if_supported(tmp_path, supported):
    runtime = FakeRuntime()
    runtime.image_volumes = supported

    result = await decision(tmp_path, make_pod(**IMAGE), runtime)

    message = "Image volumes are not supported by the container runtime of this node"
    assert result == (None if supported else ("PodFieldNotSupported", message))


async def test_pod_without_such_features_does_not_query_the_runtime(tmp_path):
    runtime = FakeRuntime()

    assert await decision(tmp_path, make_pod(security_context={"supplementalGroupsPolicy": "Merge"}), runtime) is None
    assert runtime.called("status") == []


async def test_running_pod_keeps_running_without_support(tmp_path):
    runtime, pod = FakeRuntime(), make_pod(**STRICT)
    runtime.start("main", pod)

    assert await decision(tmp_path, pod, runtime) is None
