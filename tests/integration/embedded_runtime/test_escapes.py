"""Tests for attempts of images, volumes and containers to leave their confinement.

They run with an installed OCI runtime and with the built-in one.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import stat
import sys
import tarfile
from pathlib import Path

import pytest

from nodeagent.contracts.runtime import ContainerSecurity, Mount, NamespaceMode, Namespaces, SandboxSecurity
from nodeagent.errors import RuntimeFailure
from tests.integration import images
from tests.integration.cri.conftest import exited
from tests.integration.embedded_runtime.test_images import load
from tests.integration.embedded_runtime.test_pods import output, texts

pytestmark = [pytest.mark.integration, pytest.mark.row("card.embedded-runtime")]


async def test_working_directory_cannot_be_a_descriptor_of_the_node(cri, pods, daemon):
    sandbox_id = await pods.sandbox()
    marker = f".{daemon.directory}/log"  # Relative to the root of the node.
    for number in range(3, 11):
        log = f"{number}.log"
        script = f"ls {marker} 2>&- && echo outside; ls /proc/self/cwd/{marker} 2>&- && echo outside; true"
        settings = {"working_dir": f"/proc/self/fd/{number}", "attempt": number, "log_path": log}
        try:
            container_id = await pods.container(sandbox_id, script, **settings)
        except RuntimeFailure:
            continue
        await exited(cri, container_id)
        assert texts(pods.log(sandbox_id, log)) == []


async def test_container_inherits_no_descriptors_and_no_capabilities(cri, pods):
    sandbox_id = await pods.sandbox()
    script = "ls /proc/$$/fd; grep -h -E 'CapInh|CapAmb' /proc/self/status"

    lines = await output(cri, pods, sandbox_id, script)
    container_id = await pods.container(sandbox_id, "sleep 1000", attempt=1, log_path="other.log")
    executed = (await cri.exec_sync(container_id, ["sh", "-c", script], 10)).stdout.decode().splitlines()

    for found in (lines, executed):
        assert [line for line in found if line.isdecimal()] == ["0", "1", "2"]
        assert {int(line.split()[1], 16) for line in found if "Cap" in line} == {0}


async def test_executable_of_the_runtime_is_out_of_reach(cri, pods):
    sandbox_id = await pods.sandbox()
    code = "import os; about = os.stat('/proc/self/exe'); print('file', about.st_dev, about.st_ino)"
    prefixes = {"/usr", "/lib", "/lib64", sys.base_prefix}
    mounts = tuple(Mount(path, path, readonly=True) for path in sorted(prefixes) if Path(path).exists())
    command = ("/proc/self/exe", "-I", "-S", "-c", code)
    environment = (("PYTHONHOME", sys.base_prefix), ("LD_LIBRARY_PATH", f"{sys.base_prefix}/lib"))
    try:
        container_id = await pods.container(sandbox_id, "", command=command, mounts=mounts, envs=environment)
    except RuntimeFailure:
        return
    await exited(cri, container_id)
    node = os.stat(Path(sys.executable).resolve())
    assert f"file {node.st_dev} {node.st_ino}" not in texts(pods.log(sandbox_id))


@pytest.mark.parametrize("link", ["null", "console", "pts", "mqueue"])
async def test_links_in_a_volume_at_dev_change_nothing_outside(cri, pods, tmp_path, link):
    victim, volume = tmp_path / "victim", tmp_path / "volume"
    volume.mkdir()
    (volume / link).symlink_to(victim)
    sandbox_id = await pods.sandbox()

    with contextlib.suppress(RuntimeFailure):
        await output(cri, pods, sandbox_id, "true", mounts=(Mount("/dev", str(volume)),))

    assert not os.path.lexists(victim)


async def test_mount_below_a_link_of_a_volume_stays_inside(cri, pods, tmp_path):
    victim, volume, other = tmp_path / "victim", tmp_path / "volume", tmp_path / "other"
    for directory in (victim, volume, other):
        directory.mkdir()
    (volume / "link").symlink_to(victim)
    (other / "file").touch()
    sandbox_id = await pods.sandbox()
    mounts = (Mount("/volume", str(volume)), Mount("/volume/link/a/b", str(other)))

    with contextlib.suppress(RuntimeFailure):
        await output(cri, pods, sandbox_id, "true", mounts=mounts)

    assert list(victim.iterdir()) == []


async def test_link_of_an_image_cannot_redirect_proc(cri, pods, daemon, tmp_path):
    archive = images.OciArchive()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo("proc")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/tmp/proc"
        tar.addfile(entry)
    layers = [archive.add_layer(images.busybox_layer()), archive.add_layer(buffer.getvalue())]
    archive.add_image("localhost/shop/proc:1", layers, {"Cmd": ["sh"]})
    archive.write(tmp_path / "image.tar")
    await asyncio.to_thread(load, daemon, tmp_path / "image.tar")
    sandbox_id = await pods.sandbox()

    with pytest.raises(RuntimeFailure):
        await output(cri, pods, sandbox_id, "true", image="localhost/shop/proc:1")


@pytest.mark.parametrize("name", ["dev", "etc", "sys", "run"])
async def test_link_of_an_image_cannot_redirect_mounts(cri, pods, daemon, tmp_path, name):
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o700)
    archive, buffer = images.OciArchive(), io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = tarfile.SYMTYPE, str(victim)
        tar.addfile(entry)
    layers = [archive.add_layer(images.busybox_layer()), archive.add_layer(buffer.getvalue())]
    archive.add_image(f"localhost/shop/{name}:1", layers, {"Cmd": ["sh"]})
    archive.write(tmp_path / "image.tar")
    await asyncio.to_thread(load, daemon, tmp_path / "image.tar")
    sandbox_id = await pods.sandbox()

    with contextlib.suppress(RuntimeFailure):
        await output(cri, pods, sandbox_id, "true", image=f"localhost/shop/{name}:1")

    assert list(victim.iterdir()) == []
    assert stat.S_IMODE(victim.stat().st_mode) == 0o700
    assert str(victim) not in Path("/proc/self/mounts").read_text()


async def test_working_directory_of_an_image_is_created_inside(cri, pods, daemon, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    archive, buffer = images.OciArchive(), io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo("door")
        entry.type, entry.linkname = tarfile.SYMTYPE, str(victim)
        tar.addfile(entry)
    layers = [archive.add_layer(images.busybox_layer()), archive.add_layer(buffer.getvalue())]
    archive.add_image("localhost/shop/door:1", layers, {"Cmd": ["sh"], "WorkingDir": "/door/new"})
    archive.write(tmp_path / "image.tar")
    await asyncio.to_thread(load, daemon, tmp_path / "image.tar")
    sandbox_id = await pods.sandbox()

    with contextlib.suppress(RuntimeFailure):
        await output(cri, pods, sandbox_id, "touch file", image="localhost/shop/door:1")

    assert list(victim.iterdir()) == []


async def test_volume_at_proc_is_rejected(cri, pods, tmp_path):
    (tmp_path / "volume" / "self").mkdir(parents=True)
    sandbox_id = await pods.sandbox()

    for number, path in enumerate(("/proc", "/proc/self/attr")):
        with pytest.raises(RuntimeFailure):
            await pods.container(sandbox_id, "true", mounts=(Mount(path, str(tmp_path / "volume")),), attempt=number)


async def test_sockets_of_the_runtime_are_files(cri, pods):
    host = Namespaces(network=NamespaceMode.NODE)
    sandbox_id = await pods.sandbox(security=SandboxSecurity(namespaces=host))
    script = "awk '{print $8}' /proc/net/unix"

    lines = await output(cri, pods, sandbox_id, script, security=ContainerSecurity(namespaces=host))

    assert not [line for line in lines if line.startswith("@") and ("shim" in line or "nodeagent" in line)]


async def test_files_of_the_runtime_are_closed_to_other_users(pods, daemon):
    container_id = await pods.container(await pods.sandbox(), "sleep 1000", envs=(("PASSWORD", "secret"),))

    for path in (daemon.root / "containers" / container_id).glob("*.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    for name in ("layers", "images", "incoming"):
        assert stat.S_IMODE((daemon.root / name).stat().st_mode) == 0o700
    for path in (daemon.root, daemon.root / "containers", daemon.root / "sandboxes"):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o066, path
