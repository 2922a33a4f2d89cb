"""Tests for images from archives and registries."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import platform
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from nodeagent.contracts.runtime import Credentials
from nodeagent.errors import RuntimeFailure
from tests.integration import images
from tests.integration.docker_registry import PASSWORD, USER, DockerRegistry
from tests.integration.embedded_runtime.daemon import PLUGINS
from tests.integration.embedded_runtime.test_pods import exited, texts

pytestmark = [pytest.mark.integration, pytest.mark.row("card.embedded-runtime")]

NAME = "localhost/shop/tool:1"
LOGIN = Credentials(USER, PASSWORD)


def write_oci(path: Path, name: str = NAME, extra: dict[str, bytes] | None = None) -> str:
    """Write an OCI archive with one image of two layers; the upper one removes a file and the files of a directory."""
    archive = images.OciArchive()
    files = {"etc/lower": b"lower", "etc/gone": b"gone", "data/old": b"old", **(extra or {})}
    layers = [archive.add_layer(images.busybox_layer(files)), archive.add_layer(upper_layer())]
    digest = archive.add_image(name, layers, {"Cmd": ["sh", "-c", "echo from the image"], "User": "web"})
    archive.write(path)
    return digest


def upper_layer() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in (("etc/.wh.gone", b""), ("data/.wh..wh..opq", b""), ("data/new", b"new")):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def load(daemon, archive: Path) -> list[str]:
    command = [sys.executable, "-m", "nodeagent_plugins.embedded_runtime", "--listen", daemon.endpoint]
    done = subprocess.run(
        [*command, "--import", str(archive)], cwd=PLUGINS, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


async def test_image_of_an_oci_archive_runs(cri, cri_images, pods, daemon, tmp_path):
    digest = await asyncio.to_thread(write_oci, tmp_path / "image.tar")

    names = await asyncio.to_thread(load, daemon, tmp_path / "image.tar")

    found = await cri_images.image_status(NAME)
    assert NAME in names
    assert found.repo_digests == (f"localhost/shop/tool@{digest}",)
    assert (found.username, found.pinned, found.size_bytes > 1000) == ("web", False, True)
    sandbox_id = await pods.sandbox()
    script = "id -u; cat /etc/lower; ls /etc/gone 2>&- || echo -removed; ls /data"
    container_id = await pods.container(sandbox_id, script, image=NAME)
    await exited(cri, container_id)
    assert texts(pods.log(sandbox_id)) == ["1000", "lower-removed", "new"]
    await exited(cri, await pods.container(sandbox_id, "", image=NAME, command=(), attempt=1, log_path="own.log"))
    assert texts(pods.log(sandbox_id, "own.log")) == ["from the image"]


async def test_docker_archive_is_imported(cri_images, daemon, tmp_path):
    layer = images.busybox_layer()
    config = {
        "os": "linux",
        "config": {"Cmd": ["sh"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": ["shop/docker:3"], "Layers": ["one/layer.tar"]}]
    with tarfile.open(tmp_path / "docker.tar", "w") as tar:
        contents = {"config.json": json.dumps(config).encode(), "one/layer.tar": layer}
        for name, content in {**contents, "manifest.json": json.dumps(manifest).encode()}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))

    assert await asyncio.to_thread(load, daemon, tmp_path / "docker.tar") == ["docker.io/shop/docker:3"]

    assert await cri_images.image_status("shop/docker:3") is not None


async def test_layers_of_a_removed_image_are_deleted_when_unused(cri, cri_images, pods, daemon, tmp_path):
    name = "localhost/shop/brief:1"
    await asyncio.to_thread(write_oci, tmp_path / "image.tar", name, {"etc/brief": b"only here"})
    before = set((daemon.root / "layers").iterdir())
    await asyncio.to_thread(load, daemon, tmp_path / "image.tar")
    sandbox_id = await pods.sandbox()
    container_id = await pods.container(sandbox_id, "sleep 1000", image=name)

    await cri_images.remove_image(name)

    assert await cri_images.image_status(name) is None
    assert (await cri.exec_sync(container_id, ["cat", "/etc/brief"], 10)).stdout == b"only here"
    await cri.remove_container(container_id)
    assert set((daemon.root / "layers").iterdir()) <= before


async def test_built_in_images_are_pinned_and_need_no_registry(cri, cri_images, pods):
    names = {tag: image for image in await cri_images.list_images() for tag in image.repo_tags}

    assert names["docker.io/library/busybox:1.36"].pinned
    assert await cri_images.pull_image("nodeagent.local/host") == names["nodeagent.local/host:latest"].id
    with pytest.raises(RuntimeFailure, match="is pinned"):
        await cri_images.remove_image("nodeagent.local/host")
    sandbox_id = await pods.sandbox()
    script = "cat /etc/passwd | head -1; touch /usr/bin/x 2>/dev/null || echo refused; touch /tmp/x && echo written"
    await exited(cri, await pods.container(sandbox_id, script, image="nodeagent.local/host"))
    assert texts(pods.log(sandbox_id))[1:] == ["refused", "written"]


# --- registries -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerRegistry]:
    directory = tmp_path_factory.mktemp("registry")
    running = DockerRegistry(directory)
    try:
        running.start()
        write_oci(directory / "image.tar", extra={"etc/big": bytes(3_000_000)})
        running.push(directory / "image.tar")
        yield running
    finally:
        running.close()


async def test_image_is_pulled_by_tag_and_digest_with_a_password(cri, cri_images, pods, registry):
    reference = await cri_images.pull_image(registry.image, LOGIN)

    found = await cri_images.image_status(registry.image)
    assert found.repo_digests == (reference,)
    assert reference.startswith(f"{registry.host}/shop/tool@sha256:")
    assert await cri_images.pull_image(reference, LOGIN) == reference
    sandbox_id = await pods.sandbox()
    await exited(cri, await pods.container(sandbox_id, "wc -c < /etc/big", image=reference))
    assert texts(pods.log(sandbox_id)) == ["3000000"]
    await cri_images.remove_image(found.id)
    assert await cri_images.image_status(registry.image) is None


async def test_pull_with_a_wrong_password_fails(cri_images, registry):
    with pytest.raises(RuntimeFailure, match=r'pull image ".*shop/tool:1".*401') as caught:
        await cri_images.pull_image(registry.image)
    with pytest.raises(RuntimeFailure, match="401") as wrong:
        await cri_images.pull_image(registry.image, Credentials("user", "hunter2"))
    assert "hunter2" not in str(wrong.value) + str(caught.value)


async def test_pull_of_a_missing_image_fails(cri_images, registry):
    with pytest.raises(RuntimeFailure, match=r"shop/none:1.*404.*manifest unknown"):
        await cri_images.pull_image(f"{registry.host}/shop/none:1", LOGIN)


class TokenRegistry:
    """Fake registry that requires tokens, redirects blobs, and may send a corrupt layer."""

    def __init__(self) -> None:
        self.lie = False
        self.seen: list[tuple[str, str]] = []
        layer = images.busybox_layer({"etc/token": b"token"})
        config = {"os": "linux", "config": {}, "rootfs": {"diff_ids": [self.digest(layer)]}}
        self.blobs = {self.digest(content): content for content in (layer, json.dumps(config).encode())}
        (layer_digest, config_digest) = self.blobs
        manifest = {
            "schemaVersion": 2,
            "config": {"digest": config_digest, "size": len(self.blobs[config_digest])},
            "layers": [{"digest": layer_digest, "size": len(layer)}],
        }
        machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        own = json.dumps(manifest).encode()
        entries = [("s390x", "sha256:" + "0" * 64), (machine, self.digest(own))]
        index = {"manifests": [{"digest": d, "platform": {"os": "linux", "architecture": a}} for a, d in entries]}
        self.manifests = {"1": json.dumps(index).encode(), self.digest(own): own}

    @staticmethod
    def digest(content: bytes) -> str:
        return f"sha256:{hashlib.sha256(content).hexdigest()}"

    async def respond(self, request: web.Request) -> web.Response:
        authorization = request.headers.get("Authorization", "")
        self.seen.append((request.path.split("/")[1], authorization))
        if request.path == "/token":
            if request.query["scope"] != "repository:shop/token:pull" or not authorization.startswith("Basic "):
                return web.json_response({"errors": [{"message": "who are you"}]}, status=401)
            return web.json_response({"token": "good"})
        if request.path.startswith("/elsewhere/"):
            content = self.blobs[request.path.rpartition("/")[2]]
            return web.Response(body=bytes(len(content)) if self.lie else content)
        if authorization != "Bearer good":
            challenge = f'Bearer realm="http://{request.host}/token",service="s",scope="repository:shop/token:pull"'
            return web.Response(status=401, headers={"WWW-Authenticate": challenge})
        kind, name = request.path.split("/")[-2:]
        if kind == "manifests":
            return web.Response(body=self.manifests[name])
        if len(self.blobs[name]) > 1000:
            other = request.host.replace("127.0.0.1", "localhost")
            raise web.HTTPTemporaryRedirect(f"http://{other}/elsewhere/{name}")
        return web.Response(body=self.blobs[name])


async def test_tokens_redirects_and_indexes_work_and_corruption_fails(cri_images):
    fake = TokenRegistry()
    app = web.Application()
    app.router.add_get("/{path:.*}", fake.respond)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host = f"127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    try:
        fake.lie = True
        with pytest.raises(RuntimeFailure, match=r"digest mismatch|another digest"):
            await cri_images.pull_image(f"{host}/shop/token:1", LOGIN)
        fake.lie = False
        reference = await cri_images.pull_image(f"{host}/shop/token:1", LOGIN)
    finally:
        await runner.cleanup()

    assert reference == f"{host}/shop/token@{fake.digest(fake.manifests['1'])}"
    assert {authorization for where, authorization in fake.seen if where == "elsewhere"} == {""}


async def test_pull_from_an_unreachable_registry_fails(cri_images):
    with pytest.raises(RuntimeFailure, match=r'pull image "127\.0\.0\.1:1/none:1".*connect'):
        await cri_images.pull_image("127.0.0.1:1/none:1")
