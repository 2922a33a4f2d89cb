"""Tests for the image puller."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from nodeagent.config.features import build_gates
from nodeagent.contracts.api import RUNTIME_CLASSES
from nodeagent.contracts.images import CredentialLookup, CredentialLookupResult, PulledImage, PullInProgress
from nodeagent.contracts.runtime import Credentials, Transfer
from nodeagent.errors import ApiUnavailable, ImageError, PluginError, RuntimeFailure, RuntimeUnavailable
from nodeagent.model.pod import ContainerKind, ImageVolume, Pod
from nodeagent.testing import FakeApi, FakeClock, FakeImages, FakeObjects, FakeRecorder, make_container, make_pod
from nodeagent_plugins import image_pull
from nodeagent_plugins.image_pull.puller import DURATIONS, REQUESTS, Puller

MakePuller = Callable[..., Puller]
APP = "reg.test/app:1"


class Provider:
    def __init__(self, *results: Credentials) -> None:
        self.results, self.looked_up = results, ""

    async def credentials(self, image: str, pod: Pod | None = None) -> tuple[Credentials, ...]:
        self.looked_up = image
        return self.results


def pod_of(image: str = APP, policy: str = "IfNotPresent", name: str = "web", **spec: Any) -> Pod:
    return make_pod(name, containers=[make_container("c", image, image_pull_policy=policy)], **spec)


async def ensure(puller: Puller, pod: Pod) -> PulledImage:
    return await puller.ensure(pod, ContainerKind.REGULAR, pod.spec.containers[0])


async def rejection(puller: Puller, pod: Pod) -> tuple[str, str]:
    with pytest.raises(ImageError) as raised:
        await ensure(puller, pod)
    return raised.value.reason, str(raised.value)


def reported(recorder: FakeRecorder) -> list[tuple[str, str, str]]:
    events = [(str(e.type), e.reason, e.note) for e in recorder.events]
    recorder.events.clear()
    return events


def pull_secret(name: str, host: str, user: str, password: str) -> dict[str, Any]:
    content = json.dumps({"auths": {host: {"username": user, "password": password}}}).encode()
    return {
        "metadata": {"name": name},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(content).decode()},
    }


async def test_present_image_is_inspected_once_and_not_pulled(
    make_puller: MakePuller, images: FakeImages, recorder: FakeRecorder
) -> None:
    stored = images.add(APP)
    images.hang("pull_image")

    found = await ensure(make_puller(), pod_of())

    assert found == PulledImage(stored.id, stored)
    assert recorder.events[0].regarding.field_path == "spec.containers{c}"
    assert reported(recorder) == [("Normal", "Pulled", f'Container image "{APP}" already present on machine')]


async def test_missing_image_is_pulled(make_puller: MakePuller, images: FakeImages, recorder: FakeRecorder) -> None:
    images.serve(APP, uid=7)

    found = await ensure(make_puller(), pod_of())

    assert found.ref == found.image.id
    assert found.image.uid == 7
    assert reported(recorder) == [
        ("Normal", "Pulling", f'Pulling image "{APP}"'),
        (
            "Normal",
            "Pulled",
            f'Successfully pulled image "{APP}" in 0s (0s including waiting). Image size: 1000000 bytes.',
        ),
    ]


async def test_policy_always_pulls_a_present_image(make_puller: MakePuller, images: FakeImages) -> None:
    images.add(APP)
    images.serve(APP)

    await ensure(make_puller(), pod_of(policy="Always"))

    assert [pull.image for pull in images.pulls] == [APP]


async def test_default_policy_depends_on_the_tag(make_puller: MakePuller, images: FakeImages) -> None:
    for image in ("reg.test/a:1", "reg.test/a:latest"):
        images.add(image)
        images.serve(image)

    for image in ("reg.test/a:1", "reg.test/a"):
        await ensure(make_puller(), pod_of(image, policy=""))

    assert [pull.image for pull in images.pulls] == ["reg.test/a:latest"]


async def test_policy_never_rejects_a_missing_image(
    make_puller: MakePuller, images: FakeImages, recorder: FakeRecorder
) -> None:
    images.serve(APP)

    reason, text = await rejection(make_puller(), pod_of(policy="Never"))

    assert reason == "ErrImageNeverPull"
    assert text == f'Container image "{APP}" is not present with pull policy of Never'
    assert reported(recorder) == [
        ("Warning", "ErrImageNeverPull", text),
        ("Warning", "Failed", "Error: ErrImageNeverPull"),
    ]
    assert images.pulls == []


async def test_invalid_name_is_rejected(make_puller: MakePuller, recorder: FakeRecorder) -> None:
    reason, text = await rejection(make_puller(), pod_of("Not An Image"))

    assert reason == "InvalidImageName"
    assert "Not An Image" in text
    assert recorder.reasons() == ["InspectFailed", "Failed"]


async def test_unavailable_store_is_an_inspect_error(
    make_puller: MakePuller, images: FakeImages, recorder: FakeRecorder
) -> None:
    images.fail("image_status", RuntimeUnavailable("gone"))

    reason, text = await rejection(make_puller(), pod_of())

    assert (reason, text) == ("ImageInspectError", f'Failed to inspect image "{APP}": gone')
    assert recorder.reasons() == ["InspectFailed", "Failed"]


async def test_failed_pull_backs_off_from_10_to_300_seconds(
    make_puller: MakePuller, images: FakeImages, recorder: FakeRecorder, clock: FakeClock
) -> None:
    puller, pod = make_puller(registry_pull_qps=0), pod_of()

    reason, text = await rejection(puller, pod)

    assert (reason, text) == ("ErrImagePull", f"pull {APP}: registry returned 404")
    assert reported(recorder) == [
        ("Normal", "Pulling", f'Pulling image "{APP}"'),
        ("Warning", "Failed", f'Failed to pull image "{APP}": pull {APP}: registry returned 404'),
        ("Warning", "Failed", "Error: ErrImagePull"),
    ]
    for pause in (10, 20, 40, 80, 160, 300, 300):
        await clock.advance(pause - 1)
        cause = f'Back-off pulling image "{APP}": ErrImagePull: pull {APP}: registry returned 404'
        assert await rejection(puller, pod) == ("ImagePullBackOff", cause)
        assert reported(recorder) == [
            ("Normal", "BackOff", f'Back-off pulling image "{APP}"'),
            ("Warning", "Failed", "Error: ImagePullBackOff"),
        ]
        await clock.advance(1)
        assert (await rejection(puller, pod))[0] == "ErrImagePull"
        recorder.events.clear()


async def test_pull_that_resolves_credentials_is_listed(
    make_puller: MakePuller, images: FakeImages, clock: FakeClock
) -> None:
    class Slow(Provider):
        async def credentials(self, image: str, pod: Pod | None = None) -> tuple[Credentials, ...]:
            await clock.sleep(60)
            return ()

    images.serve(APP)
    puller, looked_up_at = make_puller(Slow()), clock.now()
    pulling = asyncio.create_task(ensure(puller, pod_of()))
    await clock.advance(30)

    assert puller.pulls() == [PullInProgress(APP, looked_up_at, False, ("default/web",), resolving_credentials=True)]
    await clock.advance(30)
    await pulling
    assert puller.pulls() == []


async def test_back_off_is_separate_per_pod(make_puller: MakePuller, images: FakeImages) -> None:
    puller = make_puller()
    await rejection(puller, pod_of(name="a"))

    images.serve(APP)

    assert (await rejection(puller, pod_of(name="a")))[0] == "ImagePullBackOff"
    await ensure(puller, pod_of(name="b"))


@pytest.mark.parametrize(
    ("text", "reason", "shown"),
    [
        (
            "RegistryUnavailable: try later",
            "RegistryUnavailable",
            f"image pull failed for {APP} because the registry is unavailable: try later",
        ),
        (
            "pull x: SignatureValidationFailed",
            "SignatureValidationFailed",
            f"image pull failed for {APP} because the signature validation failed",
        ),
        ("manifest unknown", "ErrImagePull", "manifest unknown"),
    ],
)
async def test_reason_in_the_message_of_the_runtime_is_used(
    make_puller: MakePuller, images: FakeImages, text: str, reason: str, shown: str
) -> None:
    images.fail("pull_image", RuntimeFailure(text))

    assert await rejection(make_puller(), pod_of()) == (reason, shown)


async def test_pull_secrets_are_tried_before_providers_until_success(
    make_puller: MakePuller, images: FakeImages, objects: FakeObjects
) -> None:
    images.serve(APP, ("bob", "right"))
    objects.secrets["default", "one"] = pull_secret("one", "reg.test", "bob", "wrong")
    objects.secrets["default", "two"] = pull_secret("two", "elsewhere.test", "bob", "right")
    provider = Provider(Credentials("bob", "right", "provider"), Credentials("late", "", "provider"))

    await ensure(make_puller(provider), pod_of(image_pull_secrets=[{"name": "one"}, {"name": "two"}]))

    assert [p.credentials.password for p in images.pulls if p.credentials] == ["wrong", "right"]
    assert provider.looked_up == "reg.test/app"


async def test_failed_credential_provider_is_reported_and_skipped(
    make_puller: MakePuller, images: FakeImages, recorder: FakeRecorder
) -> None:
    images.serve(APP, ("bob", "right"))

    class Inquired(Provider):
        async def lookup(self, image: str, pod: Pod | None = None) -> CredentialLookupResult:
            failed = CredentialLookup("slow", failure="did not answer within 60 s and was killed", detail="hunter2")
            return CredentialLookupResult(tuple(await self.credentials(image)), (failed, CredentialLookup("good")))

    pod = pod_of()
    await ensure(make_puller(Inquired(Credentials("bob", "right", "good"))), pod)

    (event,) = recorder.of("CredentialProviderFailed")
    assert (event.regarding.name, str(event.type)) == (pod.name, "Warning")
    assert event.note == (
        'Credential provider "slow" did not answer within 60 s and was killed; '
        "attempting to pull the image may not succeed."
    )
    assert recorder.reasons()[-1] == "Pulled"


async def test_failed_plugin_with_credentials_is_reported_and_skipped(
    make_puller: MakePuller, images: FakeImages, recorder: FakeRecorder
) -> None:
    images.serve(APP, ("bob", "right"))

    class Broken(Provider):
        async def credentials(self, image: str, pod: Pod | None = None) -> tuple[Credentials, ...]:
            raise PluginError("vault", "credential_provider.credentials failed: KeyError('token')")

    await ensure(make_puller(Broken(), Provider(Credentials("bob", "right", "good"))), pod_of())

    (event,) = recorder.of("CredentialProviderFailed")
    assert event.note.startswith("plugin vault: credential_provider.credentials failed: KeyError('token'); attempting")
    assert recorder.reasons()[-1] == "Pulled"


async def test_anonymous_pull_without_credentials(make_puller: MakePuller, images: FakeImages) -> None:
    images.serve(APP)

    await ensure(make_puller(Provider()), pod_of())

    assert [pull.credentials for pull in images.pulls] == [None]


async def test_missing_pull_secrets_are_reported_and_skipped(
    make_puller: MakePuller, images: FakeImages, objects: FakeObjects, recorder: FakeRecorder
) -> None:
    images.serve(APP)
    objects.fail("secret", ApiUnavailable("away"))

    await ensure(make_puller(), pod_of(image_pull_secrets=[{"name": "one"}, {"name": "two"}]))

    (event,) = recorder.of("FailedToRetrieveImagePullSecret")
    assert "(one, two)" in event.note
    assert recorder.reasons()[-1] == "Pulled"


async def test_invalid_pull_secret_fails_the_pull(
    make_puller: MakePuller, images: FakeImages, objects: FakeObjects
) -> None:
    images.serve(APP)
    secret = pull_secret("bad", "", "", "")
    objects.secrets["default", "bad"] = {**secret, "data": {".dockerconfigjson": "e30K!"}}

    reason, text = await rejection(make_puller(), pod_of(image_pull_secrets=[{"name": "bad"}]))

    assert reason == "ErrImagePull"
    assert "pull secret 'bad'" in text
    assert images.pulls == []


@pytest.mark.row("config.registryPullQPS", "config.registryBurst")
async def test_pull_above_the_rate_limit_is_rejected(make_puller: MakePuller, clock: FakeClock) -> None:
    puller = make_puller(registry_pull_qps=1, registry_burst=2)

    texts = [(await rejection(puller, pod_of(name=name)))[1] for name in ("a", "b", "c")]
    await clock.advance(1)
    texts.append((await rejection(puller, pod_of(name="d")))[1])

    assert [text == "pull QPS exceeded" for text in texts] == [False, False, True, False]


@pytest.mark.row("config.registryPullQPS")
async def test_rate_of_0_is_unlimited(make_puller: MakePuller, images: FakeImages) -> None:
    puller = make_puller(registry_pull_qps=0, registry_burst=1)

    for name in range(20):
        await rejection(puller, pod_of(name=f"pod-{name}"))

    assert len(images.pulls) == 20


@pytest.mark.row("config.serializeImagePulls", "config.maxParallelImagePulls")
@pytest.mark.parametrize(
    ("config", "at_once"),
    [
        ({"serialize_image_pulls": True}, 1),
        ({"serialize_image_pulls": False}, 4),
        ({"serialize_image_pulls": False, "max_parallel_image_pulls": 2}, 2),
    ],
)
async def test_parallel_pulls_are_limited(
    make_puller: MakePuller, images: FakeImages, clock: FakeClock, config: dict[str, Any], at_once: int
) -> None:
    puller = make_puller(**config)
    pods = [pod_of(f"reg.test/{n}:1", name=f"pod-{n}") for n in range(4)]
    for pod in pods:
        images.serve(pod.spec.containers[0].image)
    images.hang("pull_image")

    waiting = [asyncio.create_task(ensure(puller, pod)) for pod in pods]
    await clock.settle()
    in_flight = len(images.pulls)
    images.recover()
    await asyncio.gather(*waiting)

    assert in_flight == at_once
    assert len(images.pulls) == 4


async def test_event_contains_pull_time_and_waiting_time(
    make_puller: MakePuller, images: FakeImages, clock: FakeClock, recorder: FakeRecorder
) -> None:
    puller = make_puller()
    for image in ("reg.test/a:1", "reg.test/b:1"):
        images.serve(image)
    images.hang("pull_image")

    first = asyncio.create_task(ensure(puller, pod_of("reg.test/a:1", name="a")))
    second = asyncio.create_task(ensure(puller, pod_of("reg.test/b:1", name="b")))
    await clock.advance(1.25)
    images.recover()
    await asyncio.gather(first, second)

    notes = [event.note for event in recorder.of("Pulled")]
    assert notes[0].endswith("in 1.25s (1.25s including waiting). Image size: 1000000 bytes.")
    assert notes[1].endswith("in 0s (1.25s including waiting). Image size: 1000000 bytes.")


async def test_pods_with_equal_credentials_share_a_pull(
    make_puller: MakePuller, images: FakeImages, clock: FakeClock
) -> None:
    puller = make_puller(serialize_image_pulls=False)
    images.serve(APP)
    images.hang("pull_image")

    waiting = [asyncio.create_task(ensure(puller, pod_of(name=name))) for name in "abc"]
    await clock.settle()
    waiting[0].cancel()
    await clock.settle()
    images.recover()
    results = await asyncio.gather(*waiting, return_exceptions=True)

    assert len(images.pulls) == 1
    assert [type(result) for result in results] == [asyncio.CancelledError, PulledImage, PulledImage]


async def test_pods_do_not_share_a_pull_with_another_secret(
    make_puller: MakePuller, images: FakeImages, objects: FakeObjects, clock: FakeClock
) -> None:
    puller = make_puller(serialize_image_pulls=False)
    images.serve(APP, ("bob", "right"))
    objects.secrets["default", "mine"] = pull_secret("mine", "reg.test", "bob", "right")
    images.hang("pull_image")

    owner = asyncio.create_task(ensure(puller, pod_of(name="owner", image_pull_secrets=[{"name": "mine"}])))
    other = asyncio.create_task(rejection(puller, pod_of(name="other")))
    await clock.settle()
    images.recover()

    assert (await owner).image.repo_tags == (APP,)
    assert (await other)[1] == f"pull {APP}: registry returned 401"


async def test_pull_is_cancelled_with_its_last_waiter(
    make_puller: MakePuller, images: FakeImages, clock: FakeClock
) -> None:
    puller = make_puller()
    images.serve(APP)
    images.hang("pull_image")
    waiting = asyncio.create_task(ensure(puller, pod_of()))
    await clock.settle()

    waiting.cancel()
    await clock.settle()
    images.recover()
    await ensure(puller, pod_of(name="next"))

    assert len(images.pulls) == 2


async def test_plugin_provides_a_puller(make_puller: MakePuller) -> None:
    puller = make_puller()

    assert isinstance(image_pull.nodeagent_provide_image_puller(puller._context, ()), Puller)


async def test_long_pull_is_reported_at_increasing_intervals(
    make_puller: MakePuller, images: FakeImages, clock: FakeClock, recorder: FakeRecorder
) -> None:
    images.serve(APP)
    images.hang("pull_image")
    pulling = asyncio.create_task(ensure(make_puller(), pod_of()))

    await clock.advance(200)
    images.recover()
    await pulling
    await clock.advance(600)

    notes = [event.note for event in recorder.of("Pulling")]
    assert notes == [
        f'Pulling image "{APP}"',
        f'Still pulling image "{APP}" after 30s, the runtime does not report progress',
        f'Still pulling image "{APP}" after 1m30s, the runtime does not report progress',
    ]


async def test_report_of_a_long_pull_contains_progress_and_queueing(
    make_puller: MakePuller, images: FakeImages, clock: FakeClock, recorder: FakeRecorder, monkeypatch
) -> None:
    polled: list[Transfer] = []

    async def transfers() -> list[Transfer]:
        return list(polled)

    monkeypatch.setattr(images, "transfers", transfers, raising=False)
    images.hang("pull_image")
    puller = make_puller()
    pulls = [asyncio.create_task(ensure(puller, pod_of(image, name=image))) for image in ("a:1", "b:1")]
    await clock.advance(10)
    polled.append(Transfer("layer", 3 << 20, 12 << 20))

    await clock.advance(25)

    assert [event.note for event in recorder.of("Pulling")][2:] == [
        'Still pulling image "a:1" after 30s, 3 MiB of 12 MiB received',
        'Still pulling image "b:1" after 30s, queued behind other pulls',
    ]
    assert [(pull.image, pull.queued, pull.pods) for pull in puller.pulls()] == [
        ("a:1", False, ("default/a:1",)),
        ("b:1", True, ("default/b:1",)),
    ]
    for pull in pulls:
        pull.cancel()
    await asyncio.gather(*pulls, return_exceptions=True)


async def test_reports_of_parallel_pulls_name_the_number_of_pulls(
    make_puller: MakePuller, images: FakeImages, clock: FakeClock, recorder: FakeRecorder, monkeypatch
) -> None:
    polled: list[Transfer] = []

    async def transfers() -> list[Transfer]:
        return list(polled)

    monkeypatch.setattr(images, "transfers", transfers, raising=False)
    images.hang("pull_image")
    puller = make_puller(serialize_image_pulls=False)
    pulls = [asyncio.create_task(ensure(puller, pod_of(image, name=image))) for image in ("a:1", "b:1")]
    await clock.advance(10)
    polled.append(Transfer("layer", 512, 1024))

    await clock.advance(25)

    note = 'Still pulling image "b:1" after 30s, 512 B of 1 KiB received together with 1 other pulls'
    assert note in [event.note for event in recorder.of("Pulling")]
    for pull in pulls:
        pull.cancel()
    await asyncio.gather(*pulls, return_exceptions=True)


@pytest.mark.row("gate.RuntimeClassInImageCriApi")
@pytest.mark.parametrize(("on", "handler"), [(True, "kata"), (False, "")])
async def test_runtime_handler_is_passed_with_its_gate(
    make_puller: MakePuller, images: FakeImages, on: bool, handler: str
) -> None:
    images.serve(APP)
    api = FakeApi()
    await api.create(RUNTIME_CLASSES, {"metadata": {"name": "secure"}, "handler": "kata"})
    puller = make_puller(api=api, gates=build_gates({"RuntimeClassInImageCriApi": on}))

    await ensure(puller, pod_of(runtime_class_name="secure"))
    await ensure(puller, pod_of(name="plain", policy="Always"))

    assert [pull.runtime_handler for pull in images.pulls] == [handler, ""]


async def test_missing_runtime_class_fails_the_pull(make_puller: MakePuller) -> None:
    puller = make_puller(api=FakeApi(), gates=build_gates({"RuntimeClassInImageCriApi": True}))

    reason, message = await rejection(puller, pod_of(runtime_class_name="secure"))

    assert reason == "ErrImagePull"
    assert 'RuntimeClass "secure" not found' in message


async def test_image_of_a_volume_is_pulled_with_the_pods_secrets(
    make_puller: MakePuller, images: FakeImages, recorder: FakeRecorder, objects: FakeObjects
) -> None:
    images.serve("registry.test/tools:1", ("u", "p"))
    objects.secrets["default", "s"] = pull_secret("s", "registry.test", "u", "p")
    pod = make_pod(image_pull_secrets=[{"name": "s"}])

    found = await make_puller().ensure_volume_image(pod, ImageVolume(reference="registry.test/tools:1"))

    assert found.image == images.find("registry.test/tools:1")
    assert [pull.credentials and pull.credentials.username for pull in images.pulls] == ["u"]
    assert [event.regarding.field_path for event in recorder.events] == ["", ""]


async def test_image_of_a_volume_is_not_pulled_with_policy_never(make_puller: MakePuller) -> None:
    volume = ImageVolume(reference="registry.test/tools:1", pull_policy="Never")

    with pytest.raises(ImageError) as raised:
        await make_puller().ensure_volume_image(make_pod(), volume)

    assert raised.value.reason == "ErrImageNeverPull"


@pytest.mark.parametrize(
    ("policy", "present", "labels"),
    [
        ("IfNotPresent", True, ("ifnotpresent", "true", "false")),
        ("IfNotPresent", False, ("ifnotpresent", "false", "true")),
        ("Always", True, ("always", "unknown", "true")),
        ("Never", False, ("never", "false", "unknown")),
    ],
)
async def test_requests_are_counted_by_policy_and_outcome(
    make_puller: MakePuller, images: FakeImages, policy: str, present: bool, labels: tuple[str, ...]
) -> None:
    images.serve(APP)
    if present:
        images.add(APP)
    before = REQUESTS.value(*labels)

    with contextlib.suppress(ImageError):
        await ensure(make_puller(), pod_of(policy=policy))

    assert REQUESTS.value(*labels) == before + 1


async def test_duration_of_a_pull_is_counted_by_size(make_puller: MakePuller, images: FakeImages) -> None:
    images.serve(APP, size_bytes=20 << 20)

    await ensure(make_puller(), pod_of())

    rows = [labels for suffix, labels, count, _ in DURATIONS.family().rows if suffix == "_count" and count]
    assert 'image_size_in_bytes="10MB-100MB"' in rows


async def test_reports_of_a_pod_with_several_images_are_about_each_pull(
    make_puller: MakePuller, images: FakeImages, clock: FakeClock, recorder: FakeRecorder
) -> None:
    images.hang("pull_image")
    puller = make_puller()
    pulls = [asyncio.create_task(ensure(puller, pod_of(image))) for image in ("a:1", "b:1")]

    await clock.advance(35)

    assert [event.note for event in recorder.of("Pulling")][2:] == [
        'Still pulling image "a:1" after 30s, the runtime does not report progress',
        'Still pulling image "b:1" after 30s, queued behind other pulls',
    ]
    for pull in pulls:
        pull.cancel()


async def test_pulled_image_is_inspected_by_name_if_its_reference_is_unknown(
    make_puller: MakePuller, images: FakeImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    images.serve(APP)
    inspected: list[str] = []
    status = images.image_status

    async def by_name(image: str, *, runtime_handler: str = "") -> Any:
        inspected.append(image)
        return await status(image, runtime_handler=runtime_handler) if image == APP else None

    monkeypatch.setattr(images, "image_status", by_name)

    pulled = await ensure(make_puller(), pod_of(policy="Always"))

    assert inspected == [pulled.ref, APP]
    assert pulled.image is not None
