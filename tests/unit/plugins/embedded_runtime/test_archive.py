"""Tests for the import of image archives."""

import hashlib
import io
import json
import tarfile
from types import SimpleNamespace

import pytest

from nodeagent_plugins.embedded_runtime.errors import CallError
from nodeagent_plugins.embedded_runtime.images import loading, tar_stream
from nodeagent_plugins.embedded_runtime.images.archive import import_archive
from nodeagent_plugins.embedded_runtime.images.loading import Loader, digest_of
from nodeagent_plugins.embedded_runtime.images.store import ImageStore


@pytest.fixture
def loader(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "unpack_layer", lambda blob, aside, diff_id, **_: aside.mkdir())
    return Loader(ImageStore(tmp_path / "store"), user_attributes=True)


def archive(tmp_path, files, links=()):
    path = tmp_path / "image.tar"
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        for name, target in links:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member)
    return path


def config(*layers, **more):
    diff_ids = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    return json.dumps({"rootfs": {"diff_ids": diff_ids}, **more}).encode()


def layout(*images, index_of=None):
    """Files of an OCI layout with images: name annotations, configuration, layers."""
    files, manifests = {}, []

    def add(content):
        files[f"blobs/sha256/{digest_of(content).removeprefix('sha256:')}"] = content
        return {"digest": digest_of(content), "size": len(content)}

    for annotations, image, layers in images:
        manifest = {"config": add(image), "layers": [add(layer) for layer in layers]}
        entry = add(json.dumps(manifest).encode())
        if index_of is not None:
            entry = add(json.dumps({"manifests": [{**entry, "platform": index_of}]}).encode())
        manifests.append({**entry, "annotations": annotations})
    return {**files, "index.json": {"manifests": manifests}}


async def test_images_of_an_oci_layout_are_imported_by_name(tmp_path, loader):
    full, short = "io.containerd.image.name", "org.opencontainers.image.ref.name"
    images = [
        ({full: "registry.example/a:1", short: "1"}, config(b"l", n=1), [b"l"]),
        ({short: "b:2"}, config(b"l", n=2), [b"l"]),
        ({short: "latest"}, config(b"l", n=3), [b"l"]),
        ({full: "registry.example/c"}, config(b"l", n=4), [b"l"]),
        (None, config(b"l", n=5), [b"l"]),
    ]

    names = await import_archive(archive(tmp_path, layout(*images)), loader)

    ids = [digest_of(image) for _, image, _ in images]
    expected = ["registry.example/a:1", "docker.io/library/b:2", ids[2], "registry.example/c:latest", ids[4]]
    assert names == expected
    assert [loader.store.get(name).id for name in names] == ids
    assert loader.store.get(ids[0]).digests != []
    assert loader.store.get(ids[2]).digests == loader.store.get(ids[4]).digests == []
    assert loader.store.get(ids[0]).size_bytes == 1


async def test_manifest_of_the_architecture_is_selected(tmp_path, loader):
    image = ({}, config(b"l"), [b"l"])
    names = await import_archive(archive(tmp_path, layout(image, index_of={"os": "linux"})), loader)
    assert names == [digest_of(image[1])]
    with pytest.raises(CallError, match="no image for architecture"):
        await import_archive(archive(tmp_path, layout(image, index_of={"architecture": "other"})), loader)


async def test_images_of_docker_save_are_imported_by_name(tmp_path, loader):
    first, second = config(b"l"), config(b"m", b"l")
    entries = [
        {"Config": "first.json", "RepoTags": ["a:1", "b:1"], "Layers": ["l/layer.tar"]},
        {"Config": "second.json", "RepoTags": None, "Layers": ["m/layer.tar", "link/layer.tar"]},
    ]
    files = {"first.json": first, "second.json": second, "l/layer.tar": b"l", "m/layer.tar": b"m"}

    path = archive(tmp_path, {**files, "manifest.json": entries}, [("link/layer.tar", "../l/layer.tar")])
    names = await import_archive(path, loader)

    assert names == ["docker.io/library/a:1", "docker.io/library/b:1", digest_of(second)]
    assert loader.store.get("a:1").id == loader.store.get("b:1").id == digest_of(first)
    assert loader.store.get(names[2]).size_bytes == 2


async def test_invalid_archive_is_rejected_with_the_reason(tmp_path, loader):
    image = config(b"l")
    torn = layout(({}, image, [b"l"]))
    del torn[f"blobs/sha256/{digest_of(image).removeprefix('sha256:')}"]
    changed = layout(({}, image, [b"l"]))
    changed[f"blobs/sha256/{digest_of(image).removeprefix('sha256:')}"] = config(b"other")

    def saved(entry):
        return {"manifest.json": [entry], "c.json": image, "l": b"l"}

    for files, text in [
        ({"other": b""}, "contains neither index.json nor manifest.json"),
        (torn, "the archive lacks"),
        (changed, "digest mismatch of blob"),
        ({"index.json": {"manifests": [{"digest": "md5:0"}]}}, "invalid blob digest 'md5:0'"),
        ({"index.json": b"no JSON"}, "index.json: "),
        ({"manifest.json": b"{}"}, "manifest.json: "),
        (saved({"Config": "c.json", "Layers": "l"}), "Layers is not a list"),
        (saved({"Config": "none.json", "Layers": ["l"]}), "the archive lacks none.json"),
        (saved({"Config": "c.json", "Layers": ["none"]}), "the archive lacks none"),
        (saved({"Config": "c.json", "Layers": []}), "lists more layers than the archive"),
    ]:
        with pytest.raises(CallError) as caught:
            await import_archive(archive(tmp_path, files), loader)
        assert text in str(caught.value), text
    assert list(loader.store.incoming.iterdir()) == []
    with pytest.raises(CallError, match=r"read .*: "):
        await import_archive(tmp_path / "missing", loader)


async def test_disk_space_is_reserved(tmp_path, loader, monkeypatch):
    path = archive(tmp_path, layout(({}, config(b"l"), [b"l"])))
    plenty = {"f_bavail": 1 << 20, "f_frsize": 4096, "f_files": 10_000, "f_favail": 10_000}
    needed = tar_stream.RESERVED_BYTES // 4096
    for figures, fits in [
        ({}, True),
        ({"f_bavail": needed}, True),
        ({"f_bavail": needed - 1}, False),
        ({"f_favail": 1000}, True),
        ({"f_favail": 999}, False),
        ({"f_files": 0, "f_favail": 0}, True),
    ]:
        about = SimpleNamespace(**{**plenty, **figures})
        monkeypatch.setattr(tar_stream.os, "statvfs", lambda target, about=about: about)
        if fits:
            await import_archive(path, loader)
        else:
            with pytest.raises(CallError, match="not enough disk space"):
                await import_archive(path, loader)
