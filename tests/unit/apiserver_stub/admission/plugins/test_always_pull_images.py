"""Tests for the AlwaysPullImages admission plugin."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission.plugins.always_pull_images import AlwaysPullImages
from apiserver_stub.apimachinery.status import ApiError
from tests.unit.apiserver_stub.admission.conftest import make_call


def pod(*images: str, policy: str | None = "IfNotPresent", kind: str = "containers") -> dict[str, Any]:
    containers = [{"name": f"c{number}", "image": image} for number, image in enumerate(images)]
    for container in containers:
        container.update({"imagePullPolicy": policy} if policy else {})
    return {"metadata": {"name": "p"}, "spec": {kind: containers}}


def policies(obj: dict[str, Any]) -> list[str | None]:
    return [item.get("imagePullPolicy") for kind in obj["spec"].values() for item in kind]


@pytest.mark.parametrize("kind", ["containers", "initContainers", "ephemeralContainers"])
async def test_new_containers_of_each_kind_always_pull(kind: str) -> None:
    obj = pod("a", "b", kind=kind)

    await AlwaysPullImages().admit(make_call(obj))

    assert policies(obj) == ["Always", "Always"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (pod("a"), ["a"], ["IfNotPresent"]),
        (pod("a"), ["b"], ["Always"]),
        (pod("a"), ["a", "b"], ["IfNotPresent", "Always"]),
        (None, ["a"], ["Always"]),
    ],
    ids=["unchanged", "another image", "added container", "no previous pod"],
)
async def test_update_sets_the_policy_of_changed_images(old: Any, new: list[str], expected: list[str]) -> None:
    obj = pod(*new)

    await AlwaysPullImages().admit(make_call(obj, old, operation="UPDATE"))

    assert policies(obj) == expected


@pytest.mark.parametrize(
    ("obj", "old", "operation", "problem"),
    [
        (pod("a", policy="Always"), None, "CREATE", ""),
        (pod("a"), None, "CREATE", 'spec.containers[0].imagePullPolicy: Unsupported value: "IfNotPresent"'),
        (pod("a", policy=None), None, "CREATE", 'spec.containers[0].imagePullPolicy: Unsupported value: ""'),
        (pod("a"), pod("a"), "CREATE", "imagePullPolicy"),
        (pod("a"), pod("a"), "UPDATE", ""),
        (pod("a"), pod("b"), "UPDATE", "imagePullPolicy"),
    ],
)
async def test_other_policies_are_rejected(obj: Any, old: Any, operation: str, problem: str) -> None:
    found = ""
    try:
        await AlwaysPullImages().validate(make_call(obj, old, operation=operation))
    except ApiError as error:
        found = error.message

    assert problem in found
    assert bool(found) == bool(problem)
