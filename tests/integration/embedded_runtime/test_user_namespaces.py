"""Tests for pods with a user namespace on the embedded runtime."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from nodeagent.contracts.runtime import (
    ContainerSecurity,
    IdMapping,
    ImageMount,
    Mount,
    Namespaces,
    SandboxSecurity,
    UserNamespace,
)
from nodeagent_plugins.cri.client import CriRuntime
from tests.integration.cri.conftest import Pods, until
from tests.integration.embedded_runtime.test_pods import output
from tests.integration.images import BUSYBOX_IMAGE

pytestmark = [pytest.mark.integration, pytest.mark.row("card.embedded-runtime")]

MAPPING = IdMapping(65536 * 7, 0, 65536)
NAMESPACES = Namespaces(user=UserNamespace([MAPPING], [MAPPING]))
Run = Callable[..., Awaitable[list[str]]]


@pytest.fixture
async def sandbox_id(cri: CriRuntime, pods: Pods) -> str:
    assert (await cri.status()).handler("").user_namespaces
    return await pods.sandbox(security=SandboxSecurity(namespaces=NAMESPACES))


@pytest.fixture
def run(cri: CriRuntime, pods: Pods, sandbox_id: str) -> Run:
    """Function that runs a script in the pod to its end and returns its output."""

    async def run(script: str, *, mounts: tuple[Mount, ...] = (), **security: object) -> list[str]:
        settings = ContainerSecurity(namespaces=NAMESPACES, **security)  # type: ignore[arg-type]
        return await output(cri, pods, sandbox_id, script, mounts=mounts, security=settings)

    return run


async def test_process_has_the_mappings_of_the_pod(run: Run) -> None:
    lines = await run("cat /proc/self/uid_map /proc/self/gid_map; id -u")

    assert [line.split() for line in lines] == [["0", str(65536 * 7), "65536"]] * 2 + [["0"]]


async def test_process_is_unprivileged_on_the_host(cri: CriRuntime, pods: Pods, sandbox_id: str) -> None:
    security = ContainerSecurity(namespaces=NAMESPACES, run_as_user=1000)
    container_id = await pods.container(sandbox_id, "exec sleep 777777", security=security)

    async def sleepers() -> set[int]:
        found = [path for path in Path("/proc").glob("[0-9]*") if _command(path).startswith(b"sleep\x00777777")]
        return {path.stat().st_uid for path in found}

    await until(sleepers)
    result = await cri.exec_sync(container_id, ["id", "-u"], 10)

    assert await sleepers() == {65536 * 7 + 1000}
    assert result.stdout == b"1000\n"


def _command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


async def test_files_of_the_image_belong_to_root_of_the_pod(run: Run) -> None:
    lines = await run(
        "stat -c %u:%g / /bin/busybox /etc/hosts; touch /new && stat -c %u /new; rm /bin/busybox && echo ok"
    )

    assert lines == ["0:0", "0:0", "0:0", "0", "ok"]


async def test_owners_of_a_mapped_mount_are_those_on_the_host(run: Run, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "given").write_text("x")
    os.chown(volume / "given", 1000, 2000)
    mount = Mount("/volume", str(volume), uids=[MAPPING], gids=[MAPPING])

    lines = await run("stat -c %u:%g /volume/given; touch /volume/made && chown 5:6 /volume/made", mounts=(mount,))

    made = (volume / "made").stat()
    assert (lines, made.st_uid, made.st_gid) == (["1000:2000"], 5, 6)


async def test_image_volume_belongs_to_root_of_the_pod(run: Run) -> None:
    image = ImageMount(BUSYBOX_IMAGE, BUSYBOX_IMAGE)
    mount = Mount("/image", "", readonly=True, image=image, uids=[MAPPING], gids=[MAPPING])

    assert await run("stat -c %u /image/bin/busybox", mounts=(mount,)) == ["0"]


async def test_pod_with_user_namespace_has_an_address(run: Run) -> None:
    assert (await run("ip address show eth0 | grep -c 'inet '"))[0] == "1"


async def test_pod_without_user_namespace_has_that_of_the_node(cri: CriRuntime, pods: Pods) -> None:
    lines = await output(cri, pods, await pods.sandbox(), "cat /proc/self/uid_map")

    assert lines[0].split() == ["0", "0", "4294967295"]
