"""Tests for the example policy: admitted pods, and rejections by image and label."""

from __future__ import annotations

import nodeagent_example_policy as plugin
import pytest

from nodeagent.testing import admit, load_plugin, make_container, make_context, make_pod

SETTINGS = {
    "allowedRegistries": ["registry.example.com/", "docker.io/library"],
    "requiredLabels": ["owner"],
    "exemptNamespaces": ["kube-system"],
}


@pytest.fixture
def plugins(tmp_path):
    return load_plugin(
        plugin, name="example_policy", context=make_context(tmp_path, plugin_settings={"example_policy": SETTINGS})
    )


def pod(image="registry.example.com/team/app:1", *, labels=("owner",), **fields):
    return make_pod(labels=dict.fromkeys(labels, "x"), containers=[make_container(image=image)], **fields)


@pytest.mark.parametrize("image", ["registry.example.com/team/app:1", "busybox", "busybox@sha256:" + "0" * 64])
async def test_image_of_allowed_registry_is_admitted(plugins, image):
    assert await admit(plugins, pod(image)) is None


@pytest.mark.parametrize(
    "image",
    [
        "registry.example.com.evil.test/app",
        "other/busybox:1",
        "localhost:5000/busybox",
        "registry.example.com:5000/app",
    ],
)
async def test_image_of_other_registry_is_rejected(plugins, image):
    rejection = await admit(plugins, pod(image))
    assert rejection.reason == "ImagePolicy"
    assert image in rejection.message


async def test_init_container_of_other_registry_is_rejected(plugins):
    rejection = await admit(plugins, pod(init_containers=[make_container("prepare", "evil.test/x")]))
    assert '"prepare"' in rejection.message


async def test_pod_without_required_label_is_rejected(plugins):
    rejection = await admit(plugins, pod(labels=()))
    assert (rejection.reason, rejection.message) == ("LabelPolicy", "pod lacks the required labels: owner")


async def test_pod_in_exempt_namespace_is_admitted(plugins):
    assert await admit(plugins, pod("evil.test/x", labels=(), namespace="kube-system")) is None


async def test_pod_is_admitted_without_settings(tmp_path):
    plugins = load_plugin(plugin, context=make_context(tmp_path))
    assert await admit(plugins, pod("evil.test/x", labels=())) is None
