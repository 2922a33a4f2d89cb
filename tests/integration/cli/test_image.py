"""Tests for ``nodeagent image`` on a real runtime: list, pull, pin and garbage collection."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from nodeagent.cli.main import main
from tests.integration.containerd import Containerd
from tests.integration.credential_exec.registry import Registry
from tests.integration.images import BUSYBOX_IMAGE, OciArchive, busybox_layer

EXTRA = "reg.test/extra:1"


class Node:
    def __init__(self, containerd, directory, capsys):
        self.root, self._capsys = directory / "root", capsys
        self.root.mkdir()
        self.flags = [f"--container-runtime-endpoint={containerd.endpoint}", f"--root-dir={self.root}"]

    def image(self, *arguments, code=0):
        """Run the command and return its output, decoded if it is JSON."""
        assert main(["image", *arguments, *self.flags]) == code
        out, self.errors = self._capsys.readouterr()
        return json.loads(out) if "json" in arguments else out

    def listed(self, name):
        return next((one for one in self.image("list", "-o", "json") if one["name"] == name), None)

    def reason(self, *arguments):
        (one,) = [one for one in self.image("gc", *arguments, "-o", "json")["images"] if one["name"] == EXTRA]
        return one["goes"] or one["keeps"]


@pytest.fixture
def node(containerd: Containerd, tmp_path: Path, capsys):
    return Node(containerd, tmp_path, capsys)


@pytest.fixture
def extra(containerd: Containerd, node: Node, tmp_path: Path):
    """An unused image that the agent detected a long time ago."""
    archive = OciArchive()
    archive.add_image(EXTRA, [archive.add_layer(busybox_layer({"extra": b"x"}))], {"Cmd": ["sh"]})
    archive.write(tmp_path / "extra.tar")
    containerd.import_images(tmp_path / "extra.tar")
    image = node.listed(EXTRA)
    (node.root / "image_gc_state.json").write_text(json.dumps({"images": {image["id"]: [0, 0]}}))
    return image


def test_images_of_the_runtime_are_listed(node, extra):
    busybox = node.listed(BUSYBOX_IMAGE)
    table = node.image("list").splitlines()

    assert busybox["sizeBytes"] > 100_000
    assert busybox["id"].startswith("sha256:")
    assert table[0].split() == ["IMAGE", "ID", "SIZE", "PINNED", "BY"]
    assert any(line.startswith(f"{EXTRA} ") for line in table)


def test_pinned_image_is_retained_until_unpinned(node, extra):
    node.image("pin", EXTRA)
    pinned = node.listed(EXTRA)["pinnedBy"], node.reason("--all")
    node.image("unpin", EXTRA)
    would = node.reason("--all", "--dry-run")
    there = node.listed(EXTRA)
    node.image("unpin", EXTRA, code=1)
    gone = node.reason("--all")

    assert pinned == ("operator", "pinned")
    assert would == gone == "all unused images are removed"
    assert there["pinnedBy"] == ""
    assert node.listed(EXTRA) is None
    assert node.listed(BUSYBOX_IMAGE) is not None


@pytest.mark.row("config.imageGCHighThresholdPercent", "config.imageGCLowThresholdPercent")
def test_disk_usage_is_compared_with_the_thresholds(node, extra, tmp_path):
    reasons = []
    for high, low in ((99, 98), (1, 0)):
        file = tmp_path / "config.yaml"
        file.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "nodeagent.config.k8s.io/v1beta1",
                    "kind": "NodeAgentConfiguration",
                    "imageGCHighThresholdPercent": high,
                    "imageGCLowThresholdPercent": low,
                }
            )
        )
        reasons.append(node.reason("--dry-run", f"--config={file}"))
    node.image("gc", "--dry-run", f"--config={tmp_path / 'config.yaml'}", code=0)

    assert reasons[0] == ""
    assert reasons[1].startswith("disk usage ")
    assert node.listed(EXTRA) is not None


def test_pull_uses_the_credentials_of_the_nodes_providers(node, tmp_path):
    providers = tmp_path / "providers"
    providers.mkdir()
    with Registry(tmp_path / "registry", {"alice": "right"}) as registry:
        name = registry.push("team/app", "hello")
        response = {
            "kind": "CredentialProviderResponse",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "cacheKeyType": "Image",
            "auth": {registry.host: {"username": "alice", "password": "right"}},
        }
        (providers / "static").write_text(f"#!/bin/sh\ncat >/dev/null\necho '{json.dumps(response)}'\n")
        (providers / "static").chmod(0o755)
        config = {
            "apiVersion": "kubelet.config.k8s.io/v1",
            "kind": "CredentialProviderConfig",
            "providers": [
                {
                    "name": "static",
                    "matchImages": [registry.host],
                    "defaultCacheDuration": "1m",
                    "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
                }
            ],
        }
        (tmp_path / "providers.yaml").write_text(yaml.safe_dump(config))

        node.image("pull", name, code=1)
        error = node.errors
        node.flags += [
            f"--image-credential-provider-config={tmp_path / 'providers.yaml'}",
            f"--image-credential-provider-bin-dir={providers}",
        ]
        pulled = node.image("pull", name, "-o", "json")

    assert "pull" in error
    assert pulled["image"] == name
    assert pulled["sizeBytes"] == node.listed(name)["sizeBytes"]


def test_unreachable_runtime_exits_with_3(node, tmp_path):
    node.flags = [f"--container-runtime-endpoint=unix://{tmp_path}/none.sock", f"--root-dir={node.root}"]

    node.image("list", code=3)
    node.image("pull", "a/B", code=2)

    assert "is not an image name" in node.errors or "lower case" in node.errors
