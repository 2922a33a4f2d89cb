"""Tests for image volumes and recursive read-only mounts of started containers."""

from __future__ import annotations

import pytest

from nodeagent.contracts.runtime import ImageMount, RuntimeHandler
from nodeagent.errors import RuntimeFailure
from nodeagent.testing import make_container, make_pod
from nodeagent_plugins.pod_sync.metrics import FAILED_IMAGE_VOLUMES, MOUNTED_IMAGE_VOLUMES, REQUESTED_IMAGE_VOLUMES

MOUNT = {"name": "tools", "mountPath": "/tools", "subPath": "bin"}


def pod_with_image(*containers, **source):
    return make_pod(
        "web",
        containers=list(containers) or [make_container("main", volume_mounts=[MOUNT])],
        volumes=[{"name": "tools", "image": {"reference": "registry.test/tools:1", **source}}],
    )


async def test_image_volume_is_pulled_and_mounted(bench):
    await bench.sync(pod_with_image())

    (config,) = bench.made()
    (mount,) = [mount for mount in config.mounts if mount.container_path == "/tools"]
    image = bench.context.puller.images.find("registry.test/tools:1")
    assert (mount.host_path, mount.readonly) == ("", True)
    assert mount.image == ImageMount(image.id, "registry.test/tools:1", "bin")


async def test_images_are_pulled_once_before_all_containers(bench):
    pod = pod_with_image(*(make_container(name, volume_mounts=[MOUNT]) for name in "ab"))

    await bench.sync(pod)

    names = [name for _, name in bench.context.puller.requests]
    assert names == ["registry.test/tools:1", "a", "b"]


async def test_failed_pull_concerns_only_containers_that_mount_the_image(bench):
    bench.context.puller.images.fail("pull_image", RuntimeFailure("no such host"))
    pod = pod_with_image(make_container("main", volume_mounts=[MOUNT]), make_container("other"))

    outcome = await bench.sync(pod)

    assert {name: waiting.reason for name, waiting in outcome.waiting.items()} == {"main": "ErrImagePull"}
    assert [config.name for config in bench.made()] == ["other"]


async def test_missing_image_with_pull_policy_never_is_reported(bench):
    outcome = await bench.sync(pod_with_image(pullPolicy="Never"))

    assert outcome.waiting["main"].reason == "ErrImageNeverPull"


@pytest.mark.parametrize("supported", [True, False])
async def test_recursive_read_only_depends_on_the_runtime_handler(bench, supported):
    bench.runtime.handlers = [RuntimeHandler("", recursive_read_only_mounts=supported)]
    mount = {"name": "v", "mountPath": "/v", "readOnly": True, "recursiveReadOnly": "Enabled"}
    container = make_container("main", volume_mounts=[mount])

    outcome = await bench.sync(make_pod(containers=[container], volumes=[{"name": "v", "emptyDir": {}}]))

    if supported:
        assert bench.made()[0].mounts[0].recursive_readonly
    else:
        assert outcome.waiting["main"].reason == "CreateContainerConfigError"


@pytest.mark.parametrize(("policy", "expected"), [(None, 0), ("Merge", 0), ("Strict", 1)])
async def test_groups_policy_is_passed_to_sandbox_and_container(bench, policy, expected):
    await bench.sync(make_pod(security_context={"supplementalGroupsPolicy": policy}))

    (sandbox,), (container,) = bench.sandboxes(), bench.made()
    assert sandbox.security.supplemental_groups_policy == expected
    assert container.security.supplemental_groups_policy == expected


@pytest.mark.parametrize(
    ("error", "counted"),
    [("", (1, 1, 0)), ("ImageVolumeMountFailed: no space", (1, 0, 1)), ("no such user", (1, 0, 0))],
)
async def test_image_volumes_of_created_containers_are_counted(bench, error, counted):
    counters = (REQUESTED_IMAGE_VOLUMES, MOUNTED_IMAGE_VOLUMES, FAILED_IMAGE_VOLUMES)
    before = [counter.value() for counter in counters]
    if error:
        bench.runtime.fail("create_container", RuntimeFailure(error))

    await bench.sync(pod_with_image())

    assert tuple(counter.value() - old for counter, old in zip(counters, before, strict=True)) == counted
