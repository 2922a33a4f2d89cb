"""Tests for root file systems: overlays of image layers, and copies without overlayfs."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from nodeagent_plugins.embedded_runtime import rootfs
from nodeagent_plugins.embedded_runtime.rootfs import RootFileSystems, is_opaque, is_whiteout, merge


@pytest.fixture
def layers(tmp_path):
    lower, upper = tmp_path / "lower", tmp_path / "upper"
    for path in ("etc", "data/deep", "swap"):
        (lower / path).mkdir(parents=True)
    for path in ("etc/kept", "etc/gone", "etc/changed", "data/deep/old", "swap/file", "plain"):
        (lower / path).write_text("lower")
    (lower / "link").symlink_to("etc")
    for path in ("etc", "data", "link"):
        (upper / path).mkdir(parents=True)
    (upper / "etc/changed").write_text("upper")
    (upper / "etc/changed").chmod(0o750)
    (upper / "link/inside").write_text("upper")
    (upper / "swap").write_text("upper")
    for path in ("etc/gone", "data/deep"):
        os.mknod(upper / path, stat.S_IFCHR | 0o600, os.makedev(0, 0))
    return lower, upper


def test_upper_layer_adds_changes_and_deletes_files(tmp_path, layers):
    target = tmp_path / "target"
    target.mkdir()

    for layer in layers:
        merge(layer, target)

    files = {str(p.relative_to(target)): p.read_text() for p in target.rglob("*") if p.is_file()}
    assert files == {
        "etc/kept": "lower",
        "etc/changed": "upper",
        "link/inside": "upper",
        "swap": "upper",
        "plain": "lower",
    }
    assert stat.S_IMODE((target / "etc/changed").stat().st_mode) == 0o750
    assert not (target / "link").is_symlink()


@pytest.mark.parametrize(
    ("mode", "device", "expected"),
    [(stat.S_IFCHR, 0, True), (stat.S_IFCHR, 259, False), (stat.S_IFREG, 0, False)],
)
def test_whiteout_is_a_device_without_number(mode, device, expected):
    assert is_whiteout(SimpleNamespace(st_mode=mode | 0o600, st_rdev=device)) is expected


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, False),
        ({"trusted.overlay.opaque": b"y"}, True),
        ({"user.overlay.opaque": b"y"}, True),
        ({"user.overlay.opaque": b"x"}, False),
    ],
)
def test_opaque_directory_has_an_attribute(monkeypatch, tmp_path, attributes, expected):
    def getxattr(path, name):
        if name not in attributes:
            raise OSError(errno.ENODATA, "No data available")
        return attributes[name]

    monkeypatch.setattr(rootfs.os, "getxattr", getxattr)

    assert is_opaque(tmp_path) is expected


def test_other_failure_to_read_attributes_is_raised(monkeypatch, tmp_path):
    def getxattr(path, name):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(rootfs.os, "getxattr", getxattr)

    with pytest.raises(OSError, match="Input/output error"):
        is_opaque(tmp_path)


def test_opaque_directory_hides_lower_layers_but_not_the_root(monkeypatch, tmp_path, layers):
    _, upper = layers
    monkeypatch.setattr(rootfs, "is_opaque", lambda path: path in (upper, upper / "etc"))
    target = tmp_path / "target"
    target.mkdir()

    for layer in layers:
        merge(layer, target)

    assert sorted(path.name for path in (target / "etc").iterdir()) == ["changed"]
    assert (target / "plain").read_text() == "lower"


class Kernel:
    """Recorded system calls; ``overlay`` and ``clones`` select whether the kernel supports them."""

    def __init__(self):
        self.overlay = self.clones = True
        self.calls = []

    def mount(self, source, target, kind="", flags=0, options=""):
        if kind == "overlay" and not self.overlay:
            raise OSError(errno.ENODEV, "No such device")
        self.calls.append(("mount", kind or "bind", Path(target).name, options))

    def clone_mount(self, source, target, attributes, namespace=-1):
        if not self.clones:
            raise OSError(errno.ENOSYS, "Function not implemented")
        self.calls.append(("clone", Path(source).name, Path(target).name, namespace))

    def unmount(self, target):
        self.calls.append(("unmount", Path(target).name))


@pytest.fixture
def kernel(monkeypatch):
    kernel = Kernel()
    for name in ("mount", "clone_mount", "unmount"):
        monkeypatch.setattr(rootfs.syscalls, name, getattr(kernel, name))
    return kernel


@pytest.fixture
def container(tmp_path):
    directory = tmp_path / "container"
    directory.mkdir()
    return directory


OWN = (os.getuid(), os.getgid())


@pytest.fixture
def make(kernel, tmp_path):
    """Return a function that detects the features of the kernel and drops the calls for it."""

    def make(*, user_attributes=False):
        roots = RootFileSystems(tmp_path, user_attributes=user_attributes)
        kernel.calls.clear()
        return roots

    return make


def test_features_of_the_kernel_are_detected(kernel, tmp_path, make):
    roots = make()
    assert (roots.overlay, roots.clones_mounts) == (True, True)
    kernel.overlay = kernel.clones = False
    roots = make()
    assert (roots.overlay, roots.clones_mounts) == (False, False)
    assert not list(tmp_path.glob("*-trial"))


@pytest.mark.parametrize("namespace", [-1, 0])
def test_layers_are_combined_by_an_overlay(kernel, make, container, layers, namespace):
    make(user_attributes=True).make(container, layers, namespace, OWN)

    mapped = namespace >= 0
    lower = [str(container / "lower" / number) for number in "10"] if mapped else [str(layers[1]), str(layers[0])]
    options = f"lowerdir={':'.join(lower)},upperdir={container}/upper,workdir={container}/work,userxattr"
    clones = [("clone", "lower", "0", 0), ("clone", "upper", "1", 0)] if mapped else []
    removals = [("unmount", "0"), ("unmount", "1")] if mapped else []
    assert kernel.calls == [*clones, ("mount", "overlay", "rootfs", options), *removals]


@pytest.mark.parametrize("over", [0, 1])
def test_layers_are_copied_if_the_options_are_too_long(kernel, make, container, layers, monkeypatch, over):
    options = f"lowerdir={layers[1]}:{layers[0]},upperdir={container}/upper,workdir={container}/work"
    monkeypatch.setattr(rootfs, "MAX_OPTIONS_BYTES", len(options) - over)

    root = make().make(container, layers, owner=OWN)

    assert [call[1] for call in kernel.calls] == ["bind" if over else "overlay"]
    assert (root / "plain").exists() == bool(over)
    if over:
        with pytest.raises(OSError, match="too many layers for a user namespace"):
            make().make(container, layers, 0, OWN)


@pytest.mark.parametrize(
    ("namespace", "call"), [(-1, ("mount", "bind", "rootfs", "")), (0, ("clone", "rootfs", "rootfs", 0))]
)
def test_layers_are_copied_without_overlayfs(kernel, make, container, layers, namespace, call):
    kernel.overlay = False

    root = make().make(container, layers, namespace, OWN)

    assert kernel.calls == [call] and (root / "plain").exists()


@pytest.mark.parametrize(
    ("number", "overlay", "namespace", "over", "expected"),
    [
        (2, True, -1, 0, ["overlay"]),
        (2, True, -1, 1, ["target"]),
        (2, True, 0, 0, ["target"]),
        (2, False, -1, 0, ["target"]),
        (1, True, -1, 0, ["lower"]),
        (1, False, 0, 0, ["lower"]),
    ],
)
def test_layers_of_an_image_volume_are_mounted(
    kernel, make, tmp_path, layers, monkeypatch, number, overlay, namespace, over, expected
):
    kernel.overlay = overlay
    roots, target = make(), tmp_path / "target"
    target.mkdir()
    used = layers[:number]
    options = "lowerdir=" + ":".join(str(layer) for layer in reversed(used))
    monkeypatch.setattr(rootfs, "MAX_OPTIONS_BYTES", len(options) - over)

    roots.mount_layers(target, used, namespace)

    assert [call[1] for call in kernel.calls] == expected
    assert (target / "plain").exists() == (expected == ["target"])


@pytest.mark.parametrize(("overlay", "kind"), [(True, "overlay"), (False, "bind")])
def test_root_is_mounted_again_after_a_reboot(kernel, make, container, layers, monkeypatch, overlay, kind):
    kernel.overlay = overlay
    roots = make()
    roots.make(container, layers, owner=OWN)
    kernel.calls.clear()

    roots.restore(container, layers)
    monkeypatch.setattr(rootfs.os.path, "ismount", lambda path: True)
    roots.restore(container, layers)

    assert [call[1] for call in kernel.calls] == [kind]


def test_mounts_are_removed_in_reverse_order(kernel, make, container, monkeypatch):
    monkeypatch.setattr(rootfs, "mount_points", lambda directory: [f"{directory}/rootfs", f"{directory}/rootfs/data"])

    make().remove(container)

    assert kernel.calls == [("unmount", "data"), ("unmount", "rootfs")]
