"""Tests for the conversion of custom resources by webhooks."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds.conversion import NoConversion, WebhookConversion
from apiserver_stub.webhook import WebhookError
from nodeagent.base.identity import Identity

V2 = "example.com/v2"
METADATA = {"name": "x", "namespace": "a", "uid": "1", "resourceVersion": "7", "labels": {"a": "b"}}
LABEL = "conversion webhook for example.com/v1, Kind=Widget"


def widget(**spec: Any) -> dict[str, Any]:
    return {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": dict(METADATA), "spec": spec}


class Hook:
    """A webhook that renames a field; *change* edits its response."""

    def __init__(self, change: Callable[[Any], object] = lambda _: None) -> None:
        self.change = change
        self.requests: list[Any] = []

    async def post(self, config: Any, body: Any, timeout_seconds: float) -> Any:
        self.requests.append((config, body, timeout_seconds))
        converted = deepcopy(body["request"]["objects"])
        for obj in converted:
            obj["apiVersion"] = body["request"]["desiredAPIVersion"]
            obj["spec"] = {"amount": obj["spec"].pop("size", None)}
        response = {"uid": body["request"]["uid"], "result": {"status": "Success"}, "convertedObjects": converted}
        review = {"kind": body["kind"], "apiVersion": body["apiVersion"], "response": response}
        self.change(review)
        return review


def conversion(hook: Any, *versions: str) -> WebhookConversion:
    webhook = {"clientConfig": {"url": "https://x"}, "conversionReviewVersions": list(versions) or ["v1"]}
    return WebhookConversion(webhook, hook.post, Identity())


async def test_strategy_none_changes_the_api_version() -> None:
    assert await NoConversion().convert([widget(size=1)], V2) == [{**widget(size=1), "apiVersion": V2}]


async def test_one_review_converts_all_objects() -> None:
    hook = Hook()

    found = await conversion(hook, "v9", "v1beta1", "v1").convert([widget(size=1), widget(size=2)], V2)

    assert [item["spec"] for item in found] == [{"amount": 1}, {"amount": 2}]
    ((config, body, seconds),) = hook.requests
    assert (config, seconds) == ({"url": "https://x"}, 30.0)
    assert body["apiVersion"] == "apiextensions.k8s.io/v1beta1"
    assert body["request"]["desiredAPIVersion"] == V2


async def test_only_labels_and_annotations_of_the_metadata_change() -> None:
    def change(review: Any) -> None:
        review["response"]["convertedObjects"][0]["metadata"] |= {
            "labels": {"c": "d"}, "annotations": {"e": "f"}, "finalizers": ["x/y"], "resourceVersion": "9",
        }  # fmt: skip

    (found,) = await conversion(Hook(change)).convert([widget()], V2)

    assert found["metadata"] == METADATA | {"labels": {"c": "d"}, "annotations": {"e": "f"}}


def item(review: Any) -> Any:
    return review["response"]["convertedObjects"][0]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda r: r.pop("response"), "failed: no response provided"),
        (
            lambda r: r.update(kind="X"),
            "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, "
            "got apiextensions.k8s.io/v1, Kind=X",
        ),
        (lambda r: r["response"].update(result={"status": "Failed", "message": "no"}), "failed: no"),
        (lambda r: r["response"].pop("result"), "failed: response.result.status was '', not 'Success'"),
        (lambda r: r["response"].update(convertedObjects=[]), "returned 0 objects, expected 1"),
        (
            lambda r: item(r).update(apiVersion="example.com/v3"),
            "returned invalid object at index 0: invalid groupVersion (expected example.com/v2, "
            "received example.com/v3)",
        ),
        (
            lambda r: item(r).update(kind="X"),
            "returned invalid object at index 0: invalid kind (expected Widget, received X)",
        ),
        (lambda r: item(r)["metadata"].update(name="y"), "returned invalid object: must have the same name: x != y"),
        (lambda r: item(r)["metadata"].update(uid="2"), "returned invalid object: must have the same UID: 1 != 2"),
        (lambda r: item(r).pop("metadata"), "returned invalid metadata: missing metadata in converted object"),
        (
            lambda r: item(r)["metadata"].update(labels={"a": 1}),
            "returned invalid metadata: metadata.labels[a] must be a string, but is number in converted object",
        ),
    ],
)
async def test_invalid_response(change: Callable[[Any], object], text: str) -> None:
    with pytest.raises(ApiError) as caught:
        await conversion(Hook(change)).convert([widget()], V2)

    assert (caught.value.code, caught.value.message) == (500, f"{LABEL} {text}")


async def test_other_uid() -> None:
    hook = Hook(lambda review: review["response"].update(uid="2"))

    with pytest.raises(ApiError, match=r'expected response.uid="[^"]+", got "2"'):
        await conversion(hook).convert([widget()], V2)
    assert await conversion(hook, "v1beta1").convert([widget()], V2)


async def test_failed_call() -> None:
    class Down:
        async def post(self, *_: object) -> Any:
            raise WebhookError("refused")

    with pytest.raises(ApiError) as caught:
        await conversion(Down()).convert([widget()], V2)
    assert caught.value.message == f"{LABEL} failed: refused"


async def test_no_supported_review_version() -> None:
    with pytest.raises(ApiError, match="no supported conversion review versions"):
        await conversion(Hook(), "v9").convert([widget()], V2)


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"labels": {"-": "x"}}, "metadata.labels: Invalid value"),
        ({"annotations": {"-": "x"}}, "metadata.annotation: Invalid value"),
        ({"annotations": {"a": "-"}}, ""),
        ({"labels": {"-a": "stored"}}, ""),
        ({"labels": None}, ""),
    ],
)
async def test_changed_labels_and_annotations_must_be_valid(metadata: Any, text: str) -> None:
    def change(review: Any) -> None:
        review["response"]["convertedObjects"][0]["metadata"] |= metadata

    stored, found = {**widget(), "metadata": {**METADATA, "labels": {"-a": "stored"}}}, ""
    try:
        await conversion(Hook(change)).convert([stored], V2)
    except ApiError as error:
        found = error.message

    assert text in found
    assert bool(found) == bool(text)
