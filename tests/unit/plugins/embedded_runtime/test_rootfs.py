"""Tests for root file systems without overlayfs: layers are merged by copying."""

from __future__ import annotations

import os
import stat

import pytest

from nodeagent_plugins.embedded_runtime.rootfs import merge


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
