"""Conversion of custom resources between the versions of their definition, by a webhook or of the API version only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.go_format import type_name
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, Cause
from apiserver_stub.validation.labels import validate_labels
from apiserver_stub.validation.metadata import validate_annotations
from apiserver_stub.webhook import WebhookError
from nodeagent.base.identity import Identity

TIMEOUT_SECONDS = 30.0
_SUPPORTED = ("v1", "v1beta1")
_SAME = (("name", "name"), ("namespace", "namespace"), ("uid", "UID"))

Post = Callable[[Object, Any, float], Awaitable[Object]]
"""Post a body to the webhook of a ``clientConfig`` with a timeout in seconds; raises :class:`WebhookError`."""


class _InvalidObject(Exception):
    """A converted object is invalid."""


class Converter(Protocol):
    """Conversion between the versions of one kind."""

    async def convert(self, found: Sequence[Object], api_version: str) -> list[Object]:
        """Return *found*, whose objects are in other versions, in *api_version*.

        :raises ApiError: 500, the conversion failed.
        """
        ...


class NoConversion:
    """Strategy ``None``: only the API version changes."""

    async def convert(self, found: Sequence[Object], api_version: str) -> list[Object]:
        return [{**obj, "apiVersion": api_version} for obj in found]


class WebhookConversion:
    """Strategy ``Webhook``: a webhook converts all objects of a call in one ConversionReview.

    :param webhook: the ``webhook`` of the conversion of a definition.
    """

    def __init__(self, webhook: Object, post: Post, identity: Identity) -> None:
        self._config, self._post = webhook.get("clientConfig") or {}, post
        self._group = identity.group("apiextensions")
        listed = webhook.get("conversionReviewVersions") or ()
        self._version = next((version for version in listed if version in _SUPPORTED), "")

    async def convert(self, found: Sequence[Object], api_version: str) -> list[Object]:
        if not self._version:
            raise _failure("no supported conversion review versions")
        uid, review_version = objects.new_uid(), f"{self._group}/{self._version}"
        request = {"uid": uid, "desiredAPIVersion": api_version, "objects": list(found)}
        review = {"kind": "ConversionReview", "apiVersion": review_version, "request": request}
        label = f"conversion webhook for {_kind_text(found[0].get('apiVersion'), found[0].get('kind'))}"
        try:
            response = await self._post(self._config, review, TIMEOUT_SECONDS)
            converted = _read(response, review_version, uid, checked=self._version == "v1")
        except WebhookError as error:
            raise _failure(f"{label} failed: {error}") from error
        if len(converted) != len(found):
            raise _failure(f"{label} returned {len(converted)} objects, expected {len(found)}")
        result = []
        for index, (before, after) in enumerate(zip(found, converted, strict=True)):
            try:
                _check(before, after, api_version, index)
            except _InvalidObject as error:
                raise _failure(f"{label} returned invalid {error}") from error
            try:
                result.append({**after, "metadata": _metadata(before.get("metadata") or {}, after)})
            except _InvalidObject as error:
                raise _failure(f"{label} returned invalid metadata: {error}") from error
        return result


def _failure(text: str) -> ApiError:
    return ApiError(500, "", text)


def _kind_text(api_version: Any, kind: Any) -> str:
    return f"{api_version or '/'}, Kind={kind or ''}"


def _read(review: Object, api_version: str, uid: str, *, checked: bool) -> list[Any]:
    """Return the converted objects in a response.

    :param checked: the response must repeat the kind and UID of the request, which early versions do not require.
    :raises WebhookError: the response is invalid or reports a failure.
    """
    response = review.get("response")
    given = _kind_text(review.get("apiVersion"), review.get("kind"))
    if checked and given != (expected := _kind_text(api_version, "ConversionReview")):
        raise WebhookError(f"expected webhook response of {expected}, got {given}")
    if not isinstance(response, dict):
        raise WebhookError("no response provided")
    if checked and response.get("uid") != uid:
        raise WebhookError(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    result = response.get("result")
    result = result if isinstance(result, dict) else {}
    if (status := result.get("status") or "") != "Success":
        raise WebhookError(str(result.get("message") or f"response.result.status was '{status}', not 'Success'"))
    converted = response.get("convertedObjects") or []
    if not isinstance(converted, list):
        raise WebhookError(f"response.convertedObjects is of type {type_name(converted)}, not an array")
    return converted


def _check(before: Object, after: Any, api_version: str, index: int) -> None:
    """Check that *after* is the same object as *before*, in *api_version*.

    :raises _InvalidObject: it is not.
    """
    at = f"object at index {index}"
    if not isinstance(after, dict):
        raise _InvalidObject(f"{at}: must be an object, but is of type {type_name(after)}")
    if (version := after.get("apiVersion")) != api_version:
        raise _InvalidObject(f"{at}: invalid groupVersion (expected {api_version}, received {version or '/'})")
    if (kind := after.get("kind")) != before["kind"]:
        raise _InvalidObject(f"{at}: invalid kind (expected {before['kind']}, received {kind or ''})")
    metadata = after.get("metadata")
    if not isinstance(metadata, dict):
        return  # Another error reports this.
    for name, shown in _SAME:
        expected, given = (before.get("metadata") or {}).get(name) or "", metadata.get(name) or ""
        if expected != given:
            raise _InvalidObject(f"object: must have the same {shown}: {expected} != {given}")


def _metadata(before: Object, converted: Object) -> Object:
    """Return the metadata *before* the conversion with the labels and annotations of the *converted* object.

    :raises _InvalidObject: they are invalid.
    """
    if "metadata" not in converted:
        raise _InvalidObject("missing metadata in converted object")
    given = converted["metadata"]
    if not isinstance(given, dict):
        raise _InvalidObject(f"invalid metadata of type {type_name(given)} in converted object")
    metadata = {name: value for name, value in before.items() if name not in ("labels", "annotations")}
    for name in ("labels", "annotations"):
        values = given.get(name)
        if values is None:
            continue
        if not isinstance(values, dict):
            raise _InvalidObject(f"invalid metadata.{name} of type {type_name(values)} in converted object")
        for key, value in values.items():
            if not isinstance(value, str):
                raise _InvalidObject(
                    f"metadata.{name}[{key}] must be a string, but is {type_name(value)} in converted object"
                )
        if values != before.get(name) and (causes := _problems(name, values)):
            raise _InvalidObject("; ".join(f"{cause.field}: {cause.message}" for cause in causes))
        metadata[name] = values
    return metadata


def _problems(name: str, values: dict[str, str]) -> list[Cause]:
    if name == "labels":
        return validate_labels(values, "metadata.labels")
    return validate_annotations(values, "metadata.annotation")
