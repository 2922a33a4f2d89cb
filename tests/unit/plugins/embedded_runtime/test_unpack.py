"""Tests for the extraction of layers."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import tarfile
from types import SimpleNamespace

import pytest

from nodeagent_plugins.embedded_runtime.errors import CallError
from nodeagent_plugins.embedded_runtime.images import tar_stream
from nodeagent_plugins.embedded_runtime.images import unpack as module
from nodeagent_plugins.embedded_runtime.images.unpack import unpack_layer


def entry(name, content=b"", **fields):
    made = tarfile.TarInfo(name)
    made.size, made.uid, made.gid = len(content), os.getuid(), os.getgid()
    for field, value in fields.items():
        setattr(made, field, value)
    return made, content


def link(name, target, kind=tarfile.SYMTYPE):
    return entry(name, type=kind, linkname=target)


def pack(*entries):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for made, content in entries:
            tar.addfile(made, io.BytesIO(content))
    return buffer.getvalue()


def unpack(tmp_path, *entries, compress=False):
    content = pack(*entries)
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    (tmp_path / "blob").write_bytes(gzip.compress(content) if compress else content)
    unpack_layer(tmp_path / "blob", tmp_path / "layer", digest, user_attributes=True)
    return tmp_path / "layer"


@pytest.mark.parametrize("compress", [False, True])
def test_files_keep_content_mode_and_time(tmp_path, compress):
    layer = unpack(tmp_path, entry("bin/tool", b"#!", mode=0o4755, mtime=1000), compress=compress)

    about = (layer / "bin/tool").stat()
    assert (layer / "bin/tool").read_bytes() == b"#!"
    assert (stat.S_IMODE(about.st_mode), about.st_mtime) == (0o4755, 1000)


@pytest.mark.parametrize("name", ["../outside", "/../outside", "a/../../outside", "/outside"])
def test_names_with_parent_directories_stay_inside_the_layer(tmp_path, name):
    layer = unpack(tmp_path, entry(name, b"x"))

    assert (layer / "outside").exists()
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("target", ["..", "/", "../..", "{tmp}"])
def test_links_to_outside_are_not_followed(tmp_path, target):
    layer = unpack(tmp_path, link("door", target.format(tmp=tmp_path)), entry("door/file", b"x"))

    assert not (tmp_path / "file").exists()
    assert list(layer.rglob("file"))


def test_file_replaces_a_link_and_not_its_target(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("safe")

    layer = unpack(tmp_path, link("file", str(victim)), entry("file", b"new"))

    assert victim.read_text() == "safe"
    assert (layer / "file").read_text() == "new"


def test_hard_link_to_a_file_outside_of_the_archive_is_rejected(tmp_path):
    (tmp_path / "secret").write_text("secret")
    layer = unpack(tmp_path, entry("a", b"x"), link("b", "/a", tarfile.LNKTYPE))
    assert (layer / "a").samefile(layer / "b")

    for number, target in enumerate(("../secret", str(tmp_path / "secret"))):
        (tmp_path / str(number)).mkdir()
        with pytest.raises(CallError, match="not in the archive"):
            unpack(tmp_path / str(number), link("b", target, tarfile.LNKTYPE))


def test_hard_link_to_a_symbolic_link_is_not_followed(tmp_path):
    (tmp_path / "secret").write_text("secret")

    layer = unpack(tmp_path, link("a", str(tmp_path / "secret")), link("b", "a", tarfile.LNKTYPE))

    assert (layer / "b").is_symlink()


def test_whiteout_is_converted_to_an_overlayfs_device(tmp_path):
    about = (unpack(tmp_path, entry("etc/.wh.gone")) / "etc/gone").stat()

    assert stat.S_ISCHR(about.st_mode)
    assert about.st_rdev == 0


@pytest.mark.parametrize("name", [".wh...", "a/.wh.."])
def test_whiteout_with_an_invalid_name_is_rejected(tmp_path, name):
    with pytest.raises(CallError, match=r"invalid (name|removal)"):
        unpack(tmp_path, entry(name))


def test_device_nodes_are_skipped_without_permission(tmp_path):
    layer = unpack(tmp_path, entry("dev/mem", type=tarfile.CHRTYPE, devmajor=1, devminor=1), entry("file"))

    assert not (layer / "dev/mem").exists()
    assert (layer / "file").exists()


def test_layer_with_another_digest_is_rejected(tmp_path):
    (tmp_path / "blob").write_bytes(pack(entry("a")))

    with pytest.raises(CallError, match="has another digest"):
        unpack_layer(tmp_path / "blob", tmp_path / "layer", "sha256:" + "0" * 64, user_attributes=True)


def test_invalid_archive_is_rejected(tmp_path):
    (tmp_path / "blob").write_bytes(b"\x1f\x8b" + b"rubbish" * 100)

    with pytest.raises(CallError, match="sha256:00"):
        unpack_layer(tmp_path / "blob", tmp_path / "layer", "sha256:" + "0" * 64, user_attributes=True)


def unpack_bytes(tmp_path, content):
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    (tmp_path / "blob").write_bytes(gzip.compress(content))
    unpack_layer(tmp_path / "blob", tmp_path / "layer", digest, user_attributes=True)
    return tmp_path / "layer"


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, b"Q"])
def test_header_larger_than_the_limit_is_not_read(tmp_path, kind):
    made, content = entry("file", bytes(3 * tar_stream.MAX_HEADER_BYTES), type=kind)

    with pytest.raises(CallError, match=r"headers of a file exceed 1048576 bytes"):
        unpack(tmp_path, (made, content), entry("next"))


def test_map_of_a_sparse_file_is_limited(tmp_path):
    headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "x", "GNU.sparse.realsize": "9"}
    made = tarfile.TarInfo("x")
    lines = b"1000000000\n" + b"0\n" * tar_stream.MAX_HEADER_BYTES
    made.size, made.pax_headers = len(lines), headers
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(made, io.BytesIO(lines))

    with pytest.raises(CallError, match="headers of a file exceed"):
        unpack_bytes(tmp_path, buffer.getvalue())


def test_files_are_not_kept_in_memory(tmp_path):
    content = pack(*(entry(f"file-{number}", type=tarfile.SYMTYPE, linkname="x") for number in range(600)))
    stream = tar_stream.TarStream(io.BytesIO(content), tmp_path, "layer")

    with stream.opened() as archive:
        assert [len(archive.members) for _ in stream.members(archive)] == [0] * 600


def test_bomb_is_not_extracted_below_the_reserved_space(tmp_path, monkeypatch):
    bomb, free = tmp_path / "layer/bomb", tar_stream.RESERVED_BYTES + (8 << 20)

    def statvfs(_path):
        left = free - (bomb.stat().st_size if bomb.exists() else 0)
        return SimpleNamespace(f_bavail=left, f_frsize=1, f_files=0, f_favail=0)

    monkeypatch.setattr(os, "statvfs", statvfs)
    monkeypatch.setattr(tar_stream, "_CHECK_BYTES", 1 << 20)

    with pytest.raises(CallError, match="not enough disk space"):
        unpack(tmp_path, entry("bomb", bytes(32 << 20)))

    assert bomb.stat().st_size < 16 << 20


@pytest.mark.parametrize(
    "headers",
    [{"size": "-1"}, {"mtime": "nan"}, {"mtime": "1e400"}, {"uid": "-7"}, {"gid": "99999999999"}, {"path": "a\0b"}],
    ids=str,
)
def test_invalid_values_in_headers_fail_the_layer(tmp_path, headers):
    made, content = entry("file", b"x")
    made.pax_headers = headers
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(made, io.BytesIO(content))

    with pytest.raises(CallError):
        unpack_bytes(tmp_path, buffer.getvalue())


def test_mode_of_a_link_target_outside_is_unchanged(tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o700)

    unpack(tmp_path, link("door", str(victim)), entry("door", type=tarfile.DIRTYPE, mode=0o777), entry("door/x"))

    assert stat.S_IMODE(victim.stat().st_mode) == 0o700
    assert list(victim.iterdir()) == []


def test_layer_is_decompressed_according_to_its_first_bytes(tmp_path, monkeypatch):
    layer = tmp_path / "layer"

    def content(data):
        layer.write_bytes(data)
        with module.open_layer(layer) as opened:
            return opened.read()

    assert content(b"plain tar") == b"plain tar"
    assert content(gzip.compress(b"compressed")) == b"compressed"
    compressed = b"\x28\xb5\x2f\xfd" + b"data"
    monkeypatch.setattr(module, "find_executable", lambda _name: "")
    with pytest.raises(CallError, match="the command zstd is not installed"):
        content(compressed)
    command = tmp_path / "zstd"
    command.write_text("#!/bin/sh\necho $1; cat\n")
    command.chmod(0o755)
    monkeypatch.setattr(module, "find_executable", lambda _name: str(command))
    assert content(compressed) == b"-dc\n" + compressed
