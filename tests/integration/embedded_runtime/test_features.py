"""Tests for features that the embedded runtime reports: groups policy, recursive read-only mounts, image volumes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent.contracts.runtime import (
    ContainerSecurity,
    ContainerUser,
    ImageMount,
    Mount,
    ProfileType,
    RuntimeFeatures,
    SecurityProfile,
    SupplementalGroupsPolicy,
)
from nodeagent.errors import RuntimeFailure
from nodeagent_plugins.cri.client import CriRuntime
from nodeagent_plugins.cri.image_service import CriImageService
from nodeagent_plugins.embedded_runtime.server import request_import
from tests.integration.cri.conftest import Pods, exited
from tests.integration.embedded_runtime.daemon import EmbeddedRuntime
from tests.integration.embedded_runtime.test_pods import output
from tests.integration.images import BUSYBOX_IMAGE, OciArchive, busybox_layer

pytestmark = [pytest.mark.integration, pytest.mark.row("card.embedded-runtime")]

IMAGE = ImageMount(BUSYBOX_IMAGE, BUSYBOX_IMAGE)
GROUPS_IMAGE = "registry.test/groups:1"


@pytest.fixture
def groups_image(daemon: EmbeddedRuntime, tmp_path: Path) -> str:
    """Return an image of two layers in which user web is a member of group 10."""
    archive = OciArchive()
    changed = busybox_layer({"etc/group": b"root:x:0:\nwheel:x:10:web\n", "srv/upper": b"upper"})
    layers = [archive.add_layer(layer) for layer in (busybox_layer({"srv/lower": b"lower"}), changed)]
    archive.add_image(GROUPS_IMAGE, layers, {"Cmd": ["sh"], "Env": ["PATH=/bin"]})
    archive.write(tmp_path / "image.tar")
    request_import(daemon.endpoint, tmp_path / "image.tar")
    return GROUPS_IMAGE


@pytest.fixture
def nested(tmp_path: Path) -> Iterator[Path]:
    """Return a directory with a file system mounted below it."""
    inner = tmp_path / "volume" / "inner"
    inner.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(inner)], check=True)
    yield tmp_path / "volume"
    subprocess.run(["umount", str(inner)], check=True)


async def test_features_are_reported(cri: CriRuntime) -> None:
    status = await cri.status()

    assert status.features == RuntimeFeatures(supplemental_groups_policy=True)
    assert status.handler("").recursive_read_only_mounts
    assert status.image_volumes


@pytest.mark.parametrize(("policy", "groups"), [("MERGE", [10, 500, 2000]), ("STRICT", [500, 2000])])
async def test_groups_of_the_image_depend_on_the_policy(
    cri: CriRuntime, pods: Pods, groups_image: str, policy: str, groups: list[int]
) -> None:
    security = ContainerSecurity(
        run_as_user=1000,
        run_as_group=500,
        supplemental_groups=(2000,),
        supplemental_groups_policy=SupplementalGroupsPolicy[policy],
    )
    sandbox_id = await pods.sandbox()

    container_id = await pods.container(sandbox_id, "id -G; id -u", security=security, image=groups_image)
    status = await exited(cri, container_id)

    shown = [line.split(" ", 3)[3] for line in pods.log(sandbox_id).splitlines()]
    assert shown[1] == "1000"
    assert status.user is not None and (status.user.uid, status.user.gid) == (1000, 500)
    assert sorted(map(int, shown[0].split())) == sorted({*status.user.supplemental_groups}) == groups


@pytest.mark.parametrize(("recursive", "expected"), [(True, "ro"), (False, "rw")])
async def test_mount_below_a_read_only_mount_follows_the_mode(
    cri: CriRuntime, pods: Pods, nested: Path, recursive: bool, expected: str
) -> None:
    sandbox_id = await pods.sandbox()
    mount = Mount("/volume", str(nested), readonly=True, recursive_readonly=recursive)
    script = (
        "touch /volume/x 2>/dev/null && echo rw || echo ro; touch /volume/inner/x 2>/dev/null && echo rw || echo ro"
    )

    assert await output(cri, pods, sandbox_id, script, mounts=(mount,)) == ["ro", expected]


async def test_image_is_mounted_read_only(cri: CriRuntime, pods: Pods) -> None:
    sandbox_id = await pods.sandbox()
    script = (
        "ls /image/bin | grep -x busybox; touch /image/x 2>/dev/null || echo ro; /image/bin/busybox true || echo noexec"
    )

    lines = await output(cri, pods, sandbox_id, script, mounts=(Mount("/image", "", image=IMAGE, readonly=True),))

    assert [line for line in lines if " " not in line] == ["busybox", "ro", "noexec"]


async def test_subpath_of_an_image_is_mounted(cri: CriRuntime, pods: Pods) -> None:
    sandbox_id = await pods.sandbox()
    image = ImageMount(BUSYBOX_IMAGE, BUSYBOX_IMAGE, "bin")

    mounts = (Mount("/tools", "", readonly=True, image=image),)
    assert await output(cri, pods, sandbox_id, "ls /tools | grep -x busybox", mounts=mounts) == ["busybox"]


async def test_missing_subpath_of_an_image_fails_the_creation(cri: CriRuntime, pods: Pods) -> None:
    sandbox_id = await pods.sandbox()
    mount = Mount("/tools", "", readonly=True, image=ImageMount(BUSYBOX_IMAGE, "", "none"))

    with pytest.raises(RuntimeFailure, match=r"ImageVolumeMountFailed.*the image has no none"):
        await pods.container(sandbox_id, "true", mounts=(mount,))


async def test_removed_container_leaves_no_mounts(
    cri: CriRuntime, pods: Pods, nested: Path, daemon: EmbeddedRuntime
) -> None:
    (nested / "data").write_text("kept")
    sandbox_id = await pods.sandbox()
    mounts = (Mount("/image", "", image=IMAGE), Mount("/v", str(nested), readonly=True, recursive_readonly=True))
    container_id = await pods.container(sandbox_id, "true", mounts=mounts)
    await exited(cri, container_id)

    await cri.remove_container(container_id)

    assert container_id not in Path("/proc/self/mounts").read_text()
    assert not (daemon.root / "containers" / container_id).exists()
    assert (nested / "data").read_text() == "kept"


async def test_image_in_a_volume_keeps_its_layers(cri: CriRuntime, cri_images: CriImageService, pods: Pods) -> None:
    status = await cri_images.image_status(BUSYBOX_IMAGE)

    assert status is not None
    sandbox_id = await pods.sandbox()
    container_id = await pods.container(sandbox_id, "id", mounts=(Mount("/image", "", image=IMAGE),))
    assert (await exited(cri, container_id)).image_id == status.id
    assert (await cri.container_status(container_id)).user == ContainerUser(0, 0, (0,))


async def test_all_layers_of_an_image_are_mounted(cri: CriRuntime, pods: Pods, groups_image: str) -> None:
    sandbox_id = await pods.sandbox()
    mounts = (Mount("/image", "", readonly=True, image=ImageMount(groups_image, groups_image, "srv")),)

    assert await output(cri, pods, sandbox_id, "ls /image", mounts=mounts) == ["lower", "upper"]


async def test_apparmor_profile_that_cannot_be_applied_is_rejected(cri: CriRuntime, pods: Pods) -> None:
    security = ContainerSecurity(apparmor=SecurityProfile(ProfileType.LOCALHOST, "nodeagent-test-absent"))
    sandbox_id = await pods.sandbox()

    with pytest.raises(RuntimeFailure, match=r"AppArmor profile nodeagent-test-absent\b"):
        await pods.container(sandbox_id, "true", security=security)
