"""Tests for the verification of pull credentials."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent.base.release import Release
from nodeagent.config.features import build_gates
from nodeagent.contracts.runtime import CredentialOwner, Credentials, OwnerKind
from nodeagent.errors import ImageError, RuntimeUnavailable
from nodeagent.model.pod import ContainerKind, Pod
from nodeagent.testing import (
    FakeClock,
    FakeImages,
    FakeObjects,
    FakeRecorder,
    load_plugin,
    make_container,
    make_context,
    make_pod,
)
from nodeagent_plugins import image_pull
from nodeagent_plugins.image_pull import access
from nodeagent_plugins.image_pull.access import CHECKS
from nodeagent_plugins.image_pull.prune_loop import PERIOD_SECONDS, PruneLoop
from nodeagent_plugins.image_pull.puller import Puller
from nodeagent_plugins.image_pull.record_store import INTENTS, PULLED, RecordStore

MakePuller = Callable[..., Puller]
APP, OTHER = "reg.test/app:1", "reg.test/other:1"
DEFAULT, LISTED, ALWAYS = "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify"


def put_secret(objects: FakeObjects, name: str, password: str, uid: str = "") -> None:
    content = json.dumps({"auths": {"reg.test": {"username": "alice", "password": password}}}).encode()
    objects.secrets["default", name] = {
        "metadata": {"name": name, "namespace": "default", "uid": uid or f"uid-{name}"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(content).decode()},
    }


@pytest.fixture
def registry(images: FakeImages, objects: FakeObjects) -> FakeImages:
    """A registry with a private image, and pull secrets, two of which are equal and valid."""
    images.serve(APP, ("alice", "right"))
    put_secret(objects, "good", "right")
    put_secret(objects, "copy", "right")
    put_secret(objects, "bad", "wrong")
    return images


def pod_with(secret: str = "", policy: str = "IfNotPresent", name: str = "", image: str = APP) -> Pod:
    secrets: Any = [{"name": secret}] if secret else None
    container = make_container("c", image, image_pull_policy=policy)
    return make_pod(name or f"pod-{secret}-{policy}".lower(), containers=[container], image_pull_secrets=secrets)


async def gets(puller: Puller, pod: Pod) -> str:
    """Return ``yes`` or the reason of the rejection."""
    try:
        await puller.ensure(pod, ContainerKind.REGULAR, pod.spec.containers[0])
    except ImageError as error:
        return error.reason
    return "yes"


def records(root: Path) -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in sorted((root / "image_manager" / "pulled").iterdir())]


def intents(root: Path) -> list[str]:
    return [json.loads(file.read_text())["image"] for file in (root / "image_manager" / "pulling").iterdir()]


async def test_present_image_is_available_to_all_pods_without_verification(
    make_puller: MakePuller, registry: FakeImages, tmp_path: Path
) -> None:
    puller = make_puller()

    assert [await gets(puller, pod_with(secret)) for secret in ("good", "", "bad")] == ["yes", "yes", "yes"]
    assert len(registry.pulls) == 1
    assert not (tmp_path / "image_manager").exists()


@pytest.mark.parametrize("policy", [DEFAULT, LISTED, ALWAYS])
async def test_pod_without_valid_credentials_is_rejected(
    make_puller: MakePuller, registry: FakeImages, policy: str
) -> None:
    puller = make_puller(policy=policy)

    results = [await gets(puller, pod_with(secret)) for secret in ("good", "", "bad")]

    assert results == ["yes", "ErrImagePull", "ErrImagePull"]


async def test_policy_never_verify_records_pulls_without_a_check(
    make_puller: MakePuller, registry: FakeImages, tmp_path: Path
) -> None:
    puller = make_puller(policy="NeverVerify")

    assert [await gets(puller, pod_with(secret)) for secret in ("good", "")] == ["yes", "yes"]
    assert len(records(tmp_path)) == 1


@pytest.mark.parametrize("secret", ["good", "copy"])
async def test_same_secret_or_same_credentials_need_no_pull(
    make_puller: MakePuller, registry: FakeImages, recorder: FakeRecorder, secret: str
) -> None:
    puller = make_puller(policy=DEFAULT)

    results = [await gets(puller, pod_with(name, name=name)) for name in ("good", secret)]

    assert results == ["yes", "yes"]
    assert len(registry.pulls) == 1
    assert recorder.events[-1].note == (
        f'Container image "{APP}" already present on machine and can be accessed by the pod'
    )


async def test_renewed_secret_is_accepted_and_recorded(
    make_puller: MakePuller, registry: FakeImages, objects: FakeObjects, tmp_path: Path
) -> None:
    puller = make_puller(policy=DEFAULT)
    await gets(puller, pod_with("good"))
    (before,) = records(tmp_path)
    put_secret(objects, "good", "renewed")

    assert await gets(puller, pod_with("good", name="later")) == "yes"
    (after,) = records(tmp_path)
    assert len(registry.pulls) == 1
    assert _secrets(before)[0]["credentialHash"] != _secrets(after)[0]["credentialHash"]


async def test_recreated_secret_with_other_credentials_needs_a_pull(
    make_puller: MakePuller, registry: FakeImages, objects: FakeObjects
) -> None:
    puller = make_puller(policy=DEFAULT)
    await gets(puller, pod_with("good"))
    put_secret(objects, "good", "other", uid="new")

    assert await gets(puller, pod_with("good", name="later")) == "ErrImagePull"


async def test_other_credentials_are_recorded_after_a_successful_pull(
    make_puller: MakePuller, registry: FakeImages
) -> None:
    puller = make_puller(policy=DEFAULT)
    await gets(puller, pod_with("good"))
    registry.serve(APP, ("alice", "wrong"))  # The password was changed.

    assert [await gets(puller, pod_with("bad", name=name)) for name in ("one", "other")] == ["yes", "yes"]
    assert len(registry.pulls) == 2


async def test_policy_never_hides_an_image_of_other_credentials(
    make_puller: MakePuller, registry: FakeImages, recorder: FakeRecorder
) -> None:
    puller = make_puller(policy=DEFAULT)
    await gets(puller, pod_with("good"))

    results = [await gets(puller, pod_with(secret, "Never")) for secret in ("good", "")]

    assert results == ["yes", "ErrImageNeverPull"]
    notes = [event.note for event in recorder.events]
    assert f'Container image "{APP}" is not present with pull policy of Never' in notes


async def test_publicly_pulled_image_is_available_to_all_pods(
    make_puller: MakePuller, images: FakeImages, tmp_path: Path
) -> None:
    puller = make_puller(policy=ALWAYS)
    images.serve(APP)

    assert [await gets(puller, pod_with(name=name)) for name in ("one", "other")] == ["yes", "yes"]
    assert len(images.pulls) == 1
    assert records(tmp_path)[0]["credentialMapping"] == {"reg.test/app": {"nodePodsAccessible": True}}


@pytest.mark.parametrize(
    ("policy", "patterns", "result"),
    [
        (DEFAULT, (), "yes"),
        (LISTED, ("reg.test/app",), "yes"),
        (LISTED, ("reg.test/*",), "yes"),
        (LISTED, ("reg.test/apps", "reg.test/app/*"), "ErrImagePull"),
        (ALWAYS, (), "ErrImagePull"),
    ],
)
async def test_policy_decides_about_preloaded_images(
    make_puller: MakePuller, registry: FakeImages, policy: str, patterns: tuple[str, ...], result: str
) -> None:
    registry.add(APP)
    puller = make_puller(policy=policy, preloaded_images_verification_allowlist=patterns)

    assert await gets(puller, pod_with()) == result


async def test_image_of_another_service_account_needs_a_pull(
    make_puller: MakePuller, registry: FakeImages, tmp_path: Path
) -> None:
    class AccountCredentials:
        async def credentials(self, image: str, pod: Pod | None = None) -> list[Credentials]:
            assert pod is not None
            account = pod.spec.service_account_name
            owner = CredentialOwner(OwnerKind.SERVICE_ACCOUNT, pod.namespace, account, f"uid-{account}")
            return [Credentials("alice", "right" if account == "robot" else "wrong", "tokens", owner)]

    puller = make_puller(AccountCredentials(), policy=DEFAULT)

    def pod_of(name: str, account: str) -> Pod:
        return make_pod(name, containers=[make_container("c", APP)], service_account_name=account)

    results = [await gets(puller, pod_of(f"p{n}", name)) for n, name in enumerate(("robot", "robot", "guest"))]

    assert results == ["yes", "yes", "ErrImagePull"]
    assert len(registry.pulls) == 2
    (mapping,) = records(tmp_path)[0]["credentialMapping"].values()
    assert list(mapping) == ["kubernetesServiceAccounts"]


async def test_credentials_of_the_node_make_the_image_available_to_all_pods(
    make_puller: MakePuller, registry: FakeImages
) -> None:
    class NodeCredentials:
        async def credentials(self, image: str, pod: Pod | None = None) -> list[Credentials]:
            return [Credentials("alice", "right", "node")] if pod is not None and pod.name == "first" else []

    puller = make_puller(NodeCredentials(), policy=DEFAULT)

    assert [await gets(puller, pod_with(name=name)) for name in ("first", "second")] == ["yes", "yes"]


async def test_records_persist_across_restarts_without_passwords(
    make_puller: MakePuller, registry: FakeImages, tmp_path: Path
) -> None:
    await gets(make_puller(policy=DEFAULT), pod_with("good"))
    again = make_puller(policy=DEFAULT)

    results = [await gets(again, pod_with(secret)) for secret in ("good", "bad")]

    (file,) = (tmp_path / "image_manager" / "pulled").iterdir()
    assert results == ["yes", "ErrImagePull"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert not {"alice", "right"} & set(file.read_text().replace('"', " ").split())


async def test_intent_exists_only_during_the_pull(
    make_puller: MakePuller, registry: FakeImages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    puller, seen = make_puller(policy=DEFAULT), []
    pull = registry.pull_image

    async def observed(*args: Any, **kwargs: Any) -> str:
        seen.extend(intents(tmp_path))
        return await pull(*args, **kwargs)

    monkeypatch.setattr(registry, "pull_image", observed)

    assert [await gets(puller, pod_with(secret)) for secret in ("bad", "good")] == ["ErrImagePull", "yes"]
    assert seen == [APP, APP]
    assert intents(tmp_path) == []


async def test_cancelled_pull_leaves_its_intent(
    make_puller: MakePuller, registry: FakeImages, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = asyncio.Event()

    async def endless(*_: Any, **__: Any) -> str:
        started.set()
        await asyncio.Event().wait()
        return ""

    monkeypatch.setattr(registry, "pull_image", endless)
    task = asyncio.ensure_future(gets(make_puller(policy=DEFAULT), pod_with("good")))
    await started.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    registry.add(APP)  # The runtime completes the pull nevertheless.

    assert intents(tmp_path) == [APP]
    assert await gets(make_puller(policy=DEFAULT), pod_with(policy="Never")) == "ErrImageNeverPull"


@pytest.mark.parametrize(("intent", "name"), [(APP, APP), ("busybox", "docker.io/library/busybox:latest")])
async def test_intent_of_an_earlier_run_becomes_a_record_without_credentials(
    make_puller: MakePuller, registry: FakeImages, tmp_path: Path, intent: str, name: str
) -> None:
    store = RecordStore(tmp_path)
    store.create()
    store.add_intent(intent)
    registry.add(name)
    registry.add(OTHER)
    puller = make_puller(policy=DEFAULT)

    assert await gets(puller, pod_with(policy="Never", image=OTHER)) == "yes"
    assert intents(tmp_path) == []
    assert [record.get("credentialMapping") for record in records(tmp_path)] == [None]
    if intent == APP:
        assert await gets(puller, pod_with(policy="Never")) == "ErrImageNeverPull"


async def test_intents_remain_while_images_cannot_be_listed(
    make_puller: MakePuller, registry: FakeImages, tmp_path: Path
) -> None:
    store = RecordStore(tmp_path)
    store.create()
    store.add_intent(APP)
    registry.add(APP)
    registry.fail("list_images", RuntimeUnavailable("gone"))

    assert await gets(make_puller(policy=DEFAULT), pod_with(policy="Never")) == "ErrImageNeverPull"


async def test_damaged_record_forces_a_verification(
    make_puller: MakePuller, registry: FakeImages, tmp_path: Path
) -> None:
    await gets(make_puller(policy=DEFAULT), pod_with("good"))
    (file,) = (tmp_path / "image_manager" / "pulled").iterdir()
    file.write_text("{")

    puller = make_puller(policy=DEFAULT)

    assert [await gets(puller, pod_with(secret)) for secret in ("", "good")] == ["ErrImagePull", "yes"]
    assert len(records(tmp_path)) == 1


async def test_unwritable_records_fail_the_pull(make_puller: MakePuller, registry: FakeImages, tmp_path: Path) -> None:
    (tmp_path / "image_manager").write_text("")

    assert await gets(make_puller(policy=DEFAULT), pod_with("good")) == "ErrImagePull"
    assert registry.pulls == []


async def test_records_of_removed_images_are_pruned(
    make_puller: MakePuller, registry: FakeImages, tmp_path: Path, clock: FakeClock
) -> None:
    registry.serve(OTHER)
    puller = make_puller(policy=DEFAULT)
    await gets(puller, pod_with("good"))
    await gets(puller, pod_with(name="other", image=OTHER))
    await registry.remove_image(APP)
    assert puller.access is not None
    loop = asyncio.ensure_future(PruneLoop(puller.access, clock).run())
    registry.fail("list_images", RuntimeUnavailable("gone"))
    await clock.advance(PERIOD_SECONDS)
    assert len(records(tmp_path)) == 2
    await clock.advance(PERIOD_SECONDS)
    for _ in range(3000):
        if len(records(tmp_path)) == 1:
            break
        await asyncio.sleep(0.01)
    loop.cancel()

    assert [list(record["credentialMapping"]) for record in records(tmp_path)] == [["reg.test/other"]]
    assert (INTENTS.value(), PULLED.value()) == (0, 1)


async def test_checks_are_counted_by_result(make_puller: MakePuller, registry: FakeImages) -> None:
    registry.add(OTHER)
    names = ("credentialPolicyAllowed", "credentialRecordFound", "mustAuthenticate")
    before = [CHECKS.value(name) for name in names]
    puller = make_puller(policy=DEFAULT)

    for pod in (pod_with("good"), pod_with("good"), pod_with(), pod_with(name="other", image=OTHER)):
        await gets(puller, pod)

    assert [CHECKS.value(name) - count for name, count in zip(names, before, strict=True)] == [1, 1, 1]


@pytest.mark.parametrize(("release", "result"), [(Release(1, 34), "yes"), (Release(1, 35), "ErrImagePull")])
async def test_release_enables_the_verification(
    tmp_path: Path, registry: FakeImages, objects: FakeObjects, release: Release, result: str
) -> None:
    context = make_context(tmp_path, images=registry, objects=objects, gates=build_gates({}, release))
    plugins = load_plugin(image_pull)
    puller = plugins.provide("nodeagent_provide_image_puller", context=context, credential_providers=())
    await gets(puller, pod_with("good"))

    assert await gets(puller, pod_with()) == result
    loops = image_pull.nodeagent_provide_background_loops(replace(context, puller=puller))
    assert [loop.name for loop in loops] == (["image_pull_records"] if result != "yes" else [])
    await context.tasks.close()


def _secrets(record: dict[str, Any]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = record["credentialMapping"]["reg.test/app"]["kubernetesSecrets"]
    return found


async def test_other_files_next_to_the_records_are_ignored(
    make_puller: MakePuller, registry: FakeImages, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await gets(make_puller(policy=DEFAULT), pod_with("good"))
    directory = tmp_path / "image_manager" / "pulled"
    for name in ("README", "sha256-half.tmp"):
        (directory / name).write_text("other")
    (directory / "sha256-directory").mkdir()

    found = RecordStore(tmp_path).records()

    assert (len(found), caplog.messages) == (1, [])


async def test_number_of_secrets_recorded_by_checks_is_limited(
    make_puller: MakePuller, registry: FakeImages, objects: FakeObjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "MOST_SECRETS_OF_CHECKS", 2)
    puller = make_puller(policy=DEFAULT)
    for name in ("good", "copy", "third"):
        put_secret(objects, name, "right")

        assert await gets(puller, pod_with(name)) == "yes"

    ((_, mapping),) = records(tmp_path)[0]["credentialMapping"].items()
    assert [each["name"] for each in mapping["kubernetesSecrets"]] == ["copy", "good"]
