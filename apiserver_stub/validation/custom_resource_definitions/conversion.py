"""Validation of the conversion between the versions of a custom kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, forbidden_value, invalid_value, not_supported, required
from apiserver_stub.validation.webhook_configurations import validate_service, validate_url
from nodeagent.base.names import service_name_problems

_FIELD = "spec.conversion"
_CONFIG, _VERSIONS = f"{_FIELD}.webhookClientConfig", f"{_FIELD}.conversionReviewVersions"
_STRATEGIES = ("None", "Webhook")
_REVIEW_VERSIONS = ("v1", "v1beta1")


def validate_conversion(conversion: Object | None, before: Object | None) -> Iterator[Cause]:
    """Yield the errors in a conversion; *before* is the stored one of an update."""
    if conversion is None:
        return
    strategy = conversion.get("strategy") or ""
    if not strategy:
        yield required(f"{_FIELD}.strategy")
    elif strategy not in _STRATEGIES:
        yield not_supported(f"{_FIELD}.strategy", strategy, _STRATEGIES)
    webhook = conversion.get("webhook") or {}
    config, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if strategy != "Webhook":
        text = "should not be set when strategy is not set to Webhook"
        if config is not None:
            yield forbidden_value(_CONFIG, text)
        if versions:
            yield forbidden_value(_VERSIONS, text)
        return
    if config is None:
        yield required(_CONFIG, "required when strategy is set to Webhook")
    elif (config.get("url") is None) == (config.get("service") is None):
        yield required(_CONFIG, "exactly one of url or service is required")
    elif config.get("url") is not None:
        yield from validate_url(config["url"], f"{_CONFIG}.url")
    else:
        yield from validate_service(config["service"], f"{_CONFIG}.service")
    known = ((before or {}).get("webhook") or {}).get("conversionReviewVersions") or []
    yield from _validate_versions(versions, recognized=not known or _is_recognized(known))


def _validate_versions(versions: Sequence[str], *, recognized: bool) -> Iterator[Cause]:
    if not versions:
        yield required(_VERSIONS)
        return
    for index, version in enumerate(versions):
        field = f"{_VERSIONS}[{index}]"
        if version in versions[:index]:
            yield invalid_value(field, version, "duplicate version")
        else:
            for problem in service_name_problems(version):
                yield invalid_value(field, version, problem)
    if recognized and not _is_recognized(versions):
        yield invalid_value(_VERSIONS, list(versions), f"must include at least one of {', '.join(_REVIEW_VERSIONS)}")


def _is_recognized(versions: Sequence[str]) -> bool:
    return any(version in _REVIEW_VERSIONS for version in versions)
