"""Tests for the access to cached images with ``verifyCached``."""

from __future__ import annotations

import base64
import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodeagent.contracts.runtime import Credentials
from nodeagent.errors import ImageError
from nodeagent.model.pod import ContainerKind, Pod
from nodeagent.testing import FakeImages, FakeObjects, load_plugin, make_container, make_context, make_pod
from nodeagent_plugins import image_pull
from nodeagent_plugins.image_pull.puller import Puller

APP = "reg.test/app:1"


@pytest.fixture
def registry(images: FakeImages, objects: FakeObjects) -> FakeImages:
    """A registry with a private image, and two pull secrets, one of which is valid."""
    images.serve(APP, ("alice", "right"))
    for name, password in (("good", "right"), ("bad", "wrong")):
        content = json.dumps({"auths": {"reg.test": {"username": "alice", "password": password}}}).encode()
        objects.secrets[("default", name)] = {
            "metadata": {"name": name},
            "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": base64.b64encode(content).decode()},
        }
    return images


def pod_with(secret: str = "", policy: str = "IfNotPresent", name: str = "") -> Pod:
    secrets: Any = [{"name": secret}] if secret else None
    container = make_container("c", APP, image_pull_policy=policy)
    return make_pod(name or f"pod-{secret}-{policy}".lower(), containers=[container], image_pull_secrets=secrets)


async def gets(puller: Puller, pod: Pod) -> str:
    """Return ``yes`` or the reason of the rejection."""
    try:
        await puller.ensure(pod, ContainerKind.REGULAR, pod.spec.containers[0])
    except ImageError as error:
        return error.reason
    return "yes"


async def test_cached_image_is_available_to_all_pods_by_default(
    make_puller: Callable[..., Puller], registry: FakeImages
) -> None:
    puller = make_puller()

    results = [await gets(puller, pod_with(secret)) for secret in ("good", "", "bad")]

    assert results == ["yes", "yes", "yes"]
    assert len(registry.pulls) == 1


async def test_pod_without_valid_credentials_is_rejected(
    make_puller: Callable[..., Puller], registry: FakeImages
) -> None:
    puller = make_puller(verify_cached=True)

    results = [await gets(puller, pod_with(secret)) for secret in ("good", "", "bad")]

    assert results == ["yes", "ErrImagePull", "ErrImagePull"]


async def test_pod_with_the_same_credentials_needs_no_pull(
    make_puller: Callable[..., Puller], registry: FakeImages
) -> None:
    puller = make_puller(verify_cached=True)

    results = [await gets(puller, pod_with("good", name=name)) for name in ("one", "other")]

    assert results == ["yes", "yes"]
    assert len(registry.pulls) == 1


async def test_other_credentials_are_recorded_after_a_successful_pull(
    make_puller: Callable[..., Puller], registry: FakeImages, objects: FakeObjects
) -> None:
    puller = make_puller(verify_cached=True)
    await gets(puller, pod_with("good"))
    registry.serve(APP, ("alice", "wrong"))  # the password was changed

    results = [await gets(puller, pod_with("bad", name=name)) for name in ("one", "other")]

    assert results == ["yes", "yes"]
    assert len(registry.pulls) == 2


async def test_policy_never_rejects_an_image_of_other_credentials(
    make_puller: Callable[..., Puller], registry: FakeImages
) -> None:
    puller = make_puller(verify_cached=True)
    await gets(puller, pod_with("good"))

    results = [await gets(puller, pod_with(secret, "Never")) for secret in ("good", "")]

    assert results == ["yes", "ErrImageNeverPull"]


async def test_public_and_imported_images_are_available_to_all_pods(
    make_puller: Callable[..., Puller], images: FakeImages
) -> None:
    puller = make_puller(verify_cached=True)
    images.serve(APP)
    public = [await gets(puller, pod_with(name=name)) for name in ("one", "other")]
    images.serve("reg.test/imported:1", ("alice", "right"))
    images.add("reg.test/imported:1")
    container = make_container("c", "reg.test/imported:1")

    imported = await gets(puller, make_pod("third", containers=[container]))

    assert (*public, imported) == ("yes", "yes", "yes")
    assert len(images.pulls) == 1


async def test_records_persist_across_restarts_without_passwords(
    make_puller: Callable[..., Puller], registry: FakeImages, tmp_path: Path
) -> None:
    await gets(make_puller(verify_cached=True), pod_with("good"))
    again = make_puller(verify_cached=True)

    results = [await gets(again, pod_with(secret)) for secret in ("good", "bad")]

    file = tmp_path / "image_access.json"
    assert results == ["yes", "ErrImagePull"]
    assert len(registry.pulls) == 2
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not {"alice", "right"} & set(file.read_text().replace('"', " ").split())


async def test_records_of_removed_images_are_dropped(
    make_puller: Callable[..., Puller], registry: FakeImages, tmp_path: Path
) -> None:
    puller = make_puller(verify_cached=True)
    await gets(puller, pod_with("good"))
    await registry.remove_image(APP)
    registry.serve("reg.test/other:1")
    other = make_pod("other", containers=[make_container("c", "reg.test/other:1")])
    await gets(puller, other)

    content = json.loads((tmp_path / "image_access.json").read_text())
    assert list(content["images"].values()) == [[""]]


async def test_damaged_file_is_replaced(
    make_puller: Callable[..., Puller], registry: FakeImages, tmp_path: Path
) -> None:
    (tmp_path / "image_access.json").write_text('{"key": "00", "images": {}}')

    assert await gets(make_puller(verify_cached=True), pod_with("good")) == "yes"
    assert len(json.loads((tmp_path / "image_access.json").read_text())["images"]) == 1


@pytest.mark.parametrize("looked_up", [True, False])
async def test_setting_enables_the_verification(
    tmp_path: Path, registry: FakeImages, objects: FakeObjects, looked_up: bool
) -> None:
    settings = {"image_pull": {"verifyCached": looked_up}}
    context = make_context(tmp_path, images=registry, objects=objects, plugin_settings=settings)
    puller = load_plugin(image_pull).provide("nodeagent_provide_image_puller", context=context, credential_providers=())
    await gets(puller, pod_with("good"))

    result = await gets(puller, pod_with())

    assert result == ("ErrImagePull" if looked_up else "yes")
    assert registry.pulls[0].credentials == Credentials("alice", "right", "good")
    await context.tasks.close()
