"""Tests for the ImagePolicyWebhook admission plugin."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission import AdmissionChain
from apiserver_stub.admission.plugins.image_policy_webhook import ImagePolicyWebhook
from apiserver_stub.apimachinery.status import ApiError
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
