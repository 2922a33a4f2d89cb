"""Tests for the ImagePolicyWebhook admission plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apiserver_stub.admission import AdmissionChain
from apiserver_stub.admission.config import AdmissionError
from apiserver_stub.admission.plugins.image_policy_webhook import ImagePolicyWebhook, read_config
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.webhook import WebhookError
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock


class Backend:
    """Backend that rejects the image ``evil``."""

    async def post(self, review: Any) -> Any:
        images = [item["image"] for item in review["spec"]["containers"]]
        return {"status": {"allowed": "evil" not in images}}


@pytest.mark.parametrize("kind", ["containers", "initContainers", "ephemeralContainers"])
async def test_image_of_each_kind_of_container_is_checked(call: Any, clock: FakeClock, kind: str) -> None:
    plugin = ImagePolicyWebhook(Backend(), {}, clock, Identity())  # type: ignore[arg-type]
    old = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "a", "image": "good"}]}}
    added = [*old["spec"].get(kind, []), {"name": "b", "image": "evil"}]  # type: ignore[attr-defined]
    new = {**old, "spec": {**old["spec"], kind: added}}  # type: ignore[dict-item]
    options = {"operation": "UPDATE", "verb": "patch"}
    if kind == "ephemeralContainers":
        options["subresource"] = "ephemeralcontainers"

    await AdmissionChain([plugin]).check(call(old, old, **options))
    with pytest.raises(ApiError, match="images rejected"):
        await AdmissionChain([plugin]).check(call(new, old, **options))


class Recorder:
    """Backend that records reviews and responds with a status, or fails."""

    def __init__(self, status: Any) -> None:
        self.status, self.specs = status, list[Any]()

    async def post(self, review: Any) -> Any:
        self.specs.append(review["spec"])
        if isinstance(self.status, str):
            raise WebhookError(self.status)
        return {"status": self.status}


def web(**annotations: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "a", "image": "i"}]}
    return {"metadata": {"name": "web", "annotations": annotations}, "spec": spec}


async def problem(backend: Recorder, clock: FakeClock, requested: Any, settings: Any = None) -> str:
    plugin = ImagePolicyWebhook(backend, settings or {}, clock, Identity())  # type: ignore[arg-type]
    try:
        await plugin.validate(requested)
    except ApiError as error:
        return error.message.partition("is forbidden: ")[2]
    return ""


async def test_annotations_for_the_policy_are_sent(call: Any, clock: FakeClock) -> None:
    backend = Recorder({"allowed": True, "auditAnnotations": {"k": "v"}})
    requested = call(web(**{"a.image-policy.k8s.io/x": "y", "other": "z"}))

    assert not await problem(backend, clock, requested)
    assert not await problem(backend, clock, call(web(other="z")))

    sent = {"containers": [{"image": "i"}], "namespace": "default"}
    assert backend.specs == [{**sent, "annotations": {"a.image-policy.k8s.io/x": "y"}}, sent]
    assert requested.request.annotations == {"imagepolicywebhook.image-policy.k8s.io/k": "v"}


@pytest.mark.parametrize(
    ("status", "settings", "expected"),
    [
        ({"reason": "old"}, {}, "image policy webhook backend denied one or more images: old"),
        ({}, {"defaultAllow": True}, "one or more images rejected by webhook backend"),
        ("refused", {}, "refused"),
        (None, {}, "the response has no status"),
        ({"allowed": "false"}, {}, "the status in the response has an invalid field: allowed"),
        (
            {"allowed": True, "auditAnnotations": []},
            {},
            "the status in the response has an invalid field: auditAnnotations",
        ),
        ({"allowed": "false"}, {"defaultAllow": True}, ""),
        ("refused", {"defaultAllow": True}, ""),
        (None, {"defaultAllow": True}, ""),
    ],
)
async def test_failure_of_the_backend_follows_the_default(
    call: Any, clock: FakeClock, status: Any, settings: Any, expected: str
) -> None:
    requested = call(web())

    assert await problem(Recorder(status), clock, requested, settings) == expected
    failed_open = {"alpha.image-policy.k8s.io/failed-open": "true"}
    assert requested.request.annotations == ({} if expected else failed_open)


@pytest.mark.parametrize(
    ("allowed", "settings", "kept", "dropped"),
    [
        (True, {}, 299, 2),
        (False, {}, 29, 2),
        (True, {"allowTTL": 5, "denyTTL": 50}, 4, 2),
        (False, {"allowTTL": 50, "denyTTL": 5}, 4, 2),
        (True, {"allowTTL": -1}, None, 0),
    ],
)
async def test_decisions_are_cached_for_a_limited_time(
    call: Any, clock: FakeClock, allowed: bool, settings: Any, kept: float | None, dropped: float
) -> None:
    backend = Recorder({"allowed": allowed})
    plugin = ImagePolicyWebhook(backend, settings, clock, Identity())  # type: ignore[arg-type]

    async def validated() -> int:
        try:
            await plugin.validate(call(web()))
        except ApiError:
            assert not allowed
        return len(backend.specs)

    assert await validated() == 1
    if kept is not None:
        await clock.advance(kept)
        assert await validated() == 1
    await clock.advance(dropped)
    assert await validated() == 2


async def test_update_without_other_images_is_not_checked(call: Any, clock: FakeClock) -> None:
    backend = Recorder({"allowed": True})
    other = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "b", "image": "j"}]}}

    await problem(backend, clock, call(web(), web(), operation="CREATE"))
    await problem(backend, clock, call(web(), web(), operation="UPDATE"))
    assert len(backend.specs) == 1
    await problem(backend, clock, call(web(), other, operation="UPDATE"))
    await problem(backend, clock, call(web(), {"metadata": {}}, operation="UPDATE"))
    assert len(backend.specs) == 3


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ""),
        ({"kubeConfigFile": ""}, "imagePolicy.kubeConfigFile: Required value"),
        ({"allowTTL": 0, "denyTTL": -1, "retryBackoff": 1}, ""),
        ({"allowTTL": 1, "denyTTL": 1800, "retryBackoff": 300000}, ""),
        ({"denyTTL": 1801}, "imagePolicy.denyTTL: valid value is between 1 and 1800, got 1801"),
        ({"retryBackoff": 300001}, "imagePolicy.retryBackoff: valid value is between 1 and 300000, got 300001"),
        ({"allowTTL": -2}, "imagePolicy.allowTTL: valid value is between 1 and 1800, got -2"),
    ],
)
def test_settings_are_within_bounds(settings: Any, expected: str) -> None:
    given = {"imagePolicy": {"kubeConfigFile": "k", **settings}}

    if not expected:
        assert read_config(given, Path("/d")) == (Path("/d/k"), given["imagePolicy"])
        return
    with pytest.raises(AdmissionError) as error:
        read_config(given, Path("/d"))
    assert error.value.problems == (f"ImagePolicyWebhook: {expected}",)
