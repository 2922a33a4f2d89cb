"""Tests for the image store: names, persistence and deletion of unreferenced layers."""

from __future__ import annotations

import json

import pytest

from nodeagent_plugins.embedded_runtime.errors import FailedPrecondition, NotFound
from nodeagent_plugins.embedded_runtime.images.loading import Loader
from nodeagent_plugins.embedded_runtime.images.store import Image, ImageStore, tree_usage


def image(number, **fields):
    return Image(f"sha256:{number}" + "0" * 63, [f"layer-{number}"], **fields)


@pytest.fixture
def store(tmp_path):
    return ImageStore(tmp_path)


def test_image_is_found_by_id_tag_and_digest(store):
    digest = "localhost/a@sha256:" + "f" * 64
    kept = store.add(image(1), tag="localhost/a:1", digest=digest)

    for name in (kept.id, kept.id[7:30], "localhost/a:1", digest):
        assert store.get(name) is kept
    assert kept.reference == digest
    with pytest.raises(NotFound, match='"localhost/a:2" not found'):
        store.get("localhost/a:2")


def test_tag_moves_to_the_latest_image(store):
    old, new = store.add(image(1), tag="localhost/a:1"), store.add(image(2), tag="localhost/a:1")

    assert store.get("localhost/a:1") is new
    assert old.tags == []


def test_images_persist_across_restarts(store, tmp_path):
    store.add(image(1, config={"Env": ["A=1"]}), tag="localhost/a:1")

    again = ImageStore(tmp_path)
    again.load()

    assert again.all() == store.all()


@pytest.mark.parametrize(
    "record", [b'{"id":true,"layers":[]}', b'{"id":{},"layers":[]}', b'{"id":"a","layers":8}', b"{"]
)
def test_invalid_records_are_skipped(store, tmp_path, record, caplog):
    store.add(image(1), tag="localhost/a:1")
    (tmp_path / "images" / "invalid.json").write_bytes(record)

    again = ImageStore(tmp_path)
    again.load()

    assert again.all() == store.all()
    assert "Failed to read image record" in caplog.text


def test_image_is_removed_with_its_last_tag(store):
    store.add(image(1), tag="localhost/a:1")
    store.add(image(1), tag="localhost/b:1")

    store.remove("localhost/a:1")
    assert store.find("localhost/b:1") is not None
    store.remove("localhost/b:1")

    assert store.all() == []
    store.remove("localhost/b:1")


def test_removal_of_pinned_image_is_rejected(store):
    store.add(image(1, pinned=True), tag="localhost/a:1")

    with pytest.raises(FailedPrecondition, match="is pinned"):
        store.remove("localhost/a:1")


def test_unreferenced_layers_are_deleted(store):
    store.add(image(1), tag="localhost/a:1")
    for number in (1, 2, 3, 4):
        store.layer(f"layer-{number}").mkdir()

    with store.hold(["layer-3"]):
        store.collect(["layer-2"])

    assert sorted(path.name for path in store.layers_dir.iterdir()) == ["layer-1", "layer-2", "layer-3"]
    store.collect([])
    assert [path.name for path in store.layers_dir.iterdir()] == ["layer-1"]


def test_layer_of_two_loads_is_kept_until_both_end(store):
    store.layer("layer-1").mkdir()

    with store.hold(["layer-1"]):
        with store.hold(["layer-1"]):
            pass
        store.collect([])
        assert store.layer("layer-1").exists()

    store.collect([])
    assert not store.layer("layer-1").exists()


async def test_ended_loads_use_no_memory(store):
    name = "0" * 40
    store.layer(name).mkdir()
    loader = Loader(store, user_attributes=True)
    document = json.dumps({"rootfs": {"diff_ids": ["sha256:" + "0" * 64]}}).encode()

    await loader.load(document, None, 0, tag="localhost/x:1")

    assert len(loader._locks) == len(store._held) == 0


def test_usage_counts_hard_links_once(tmp_path):
    first, below = tmp_path / "first", tmp_path / "below"
    first.write_bytes(b"x" * 10_000)
    below.mkdir()
    (below / "link").hardlink_to(first)
    (below / "other").write_bytes(b"y" * 10_000)
    (below / "symlink").symlink_to(first)

    total, files = tree_usage(tmp_path)

    paths = (first, below, below / "other", below / "symlink")
    assert (total, files) == (sum(path.lstat().st_blocks for path in paths) * 512, 4)
