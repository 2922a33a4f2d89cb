"""Tests for built-in images."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from nodeagent_plugins.embedded_runtime.images import builtin
from nodeagent_plugins.embedded_runtime.images.builtin import BUSYBOX_NAME, HOST_NAME, add_builtin, find_static_busybox
from nodeagent_plugins.embedded_runtime.images.store import Image, ImageStore


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    store = ImageStore(tmp_path / "images")
    store.load()
    return store


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory in which the host has executables and no busybox."""
    root = tmp_path / "host"
    (root / "usr").mkdir(parents=True)
    (root / "bin").symlink_to("usr/bin")
    (root / "cache").touch()
    monkeypatch.setattr(builtin, "EXECUTABLES", (str(root / "usr"), str(root / "bin"), str(root / "lib32")))
    monkeypatch.setattr(builtin, "FILES", (str(root / "cache"), str(root / "missing")))
    monkeypatch.setattr(builtin, "BUSYBOX_PATHS", (str(root / "missing"), str(root / "busybox")))
    listed = SimpleNamespace(stdout="busybox\nsh\nls\n")
    monkeypatch.setattr(builtin.subprocess, "run", lambda words, **_: listed)
    return root


def test_static_busybox_is_the_first_one_without_a_loader(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_static_busybox() is None
    (host / "busybox").write_bytes(b"\x7fELF" + bytes(100) + b"/lib/ld-musl.so")
    assert find_static_busybox() is None
    (host / "busybox").write_bytes(b"\x7fELF" + bytes(9000) + b"/lib/ld-musl.so")
    assert find_static_busybox() == host / "busybox"
    (host / "missing").mkdir()
    assert find_static_busybox() == host / "busybox"


def test_host_image_mounts_the_executables_of_the_host(store: ImageStore, host: Path) -> None:
    add_builtin(store)

    image = store.get(HOST_NAME)
    assert store.get(BUSYBOX_NAME).id == image.id and image.pinned
    assert image.lent == [str(host / "usr"), str(host / "cache")]
    (name,) = image.layers
    layer = store.layer(name)
    inside = layer / str(host).lstrip("/")
    assert (inside / "usr").is_dir() and (inside / "cache").is_file()
    assert (inside / "bin").is_symlink() and str((inside / "bin").readlink()) == "usr/bin"
    assert not (inside / "lib32").exists() and not (inside / "missing").exists()
    assert "root:x:0:0" in (layer / "etc/passwd").read_text()
    assert (layer / "tmp").stat().st_mode & 0o7777 == 0o1777


def test_busybox_is_a_layer_with_its_commands(store: ImageStore, host: Path) -> None:
    (host / "busybox").write_bytes(b"static")
    add_builtin(store)

    image = store.get(BUSYBOX_NAME)
    layer = store.layer(image.layers[0])
    assert image.id != store.get(HOST_NAME).id and image.lent == [] and image.size_bytes == 6
    assert (layer / "bin/busybox").read_bytes() == b"static"
    assert str((layer / "bin/sh").readlink()) == "busybox" and not (layer / "bin/busybox").is_symlink()
    assert str((layer / "usr/bin/env").readlink()) == "/bin/busybox"


def test_layers_of_the_same_host_are_made_once(store: ImageStore, host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (host / "busybox").write_bytes(b"static")
    add_builtin(store)
    images = {name: store.get(name).layers for name in (HOST_NAME, BUSYBOX_NAME)}

    def fail(*arguments: object, **options: object) -> None:
        raise subprocess.SubprocessError

    monkeypatch.setattr(builtin.subprocess, "run", fail)
    monkeypatch.setattr(builtin, "_make_skeleton", fail)
    add_builtin(store)
    assert {name: store.get(name).layers for name in images} == images
    with pytest.raises(subprocess.SubprocessError):
        (host / "busybox").write_bytes(b"changed")
        add_builtin(store)


def test_pulled_busybox_takes_precedence(store: ImageStore, host: Path) -> None:
    (host / "busybox").write_bytes(b"static")
    store.add(Image(id="sha256:" + "0" * 64, layers=[]), tag=BUSYBOX_NAME)
    add_builtin(store)
    assert store.get(BUSYBOX_NAME).id == "sha256:" + "0" * 64 and store.find(HOST_NAME) is not None
