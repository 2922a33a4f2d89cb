"""Validation of webhook configurations."""

from __future__ import annotations

from collections.abc import Iterable

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, duplicate, invalid_each, invalid_value, not_supported, required
from apiserver_stub.validation.admission_rules import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    validate_choice,
    validate_rule,
)
from apiserver_stub.validation.expressions import validate_match_conditions
from apiserver_stub.validation.labels import validate_selector
from nodeagent.base import gourl
from nodeagent.base.names import service_name_problems, subdomain_problems

_REVIEW_VERSIONS = ("v1", "v1beta1")
_SIDE_EFFECTS = ("None", "NoneOnDryRun", "Some", "Unknown")
_NO_SIDE_EFFECTS = _SIDE_EFFECTS[:2]
_REINVOCATION_POLICIES = ("IfNeeded", "Never")
_TIMEOUT_SECONDS = range(1, 31)
_DEFAULT_TIMEOUT_SECONDS = 10
_URL_FORM = "; desired format: https://host[/path]"
_PORT_RULE = "port is not valid: must be between 1 and 65535, inclusive"


def validate_webhooks(new: Object, old: Object | None = None, *, mutating: bool = False) -> list[Cause]:
    """Return the errors in the webhooks of a configuration; *old* is the stored one.

    Rules that *old* violates are not applied: an update may keep what earlier releases accepted.
    """
    hooks: list[Object] = new.get("webhooks") or []
    before: list[Object] = (old or {}).get("webhooks") or []
    safe = all(hook.get("sideEffects") in _NO_SIDE_EFFECTS for hook in before)
    recognized = all(_is_recognized(hook) for hook in before if hook.get("admissionReviewVersions"))
    names = [hook.get("name") for hook in before]
    unique = len(set(names)) == len(names)
    any_values = any(_validate_selectors(hook, "") for hook in before)
    conditions_changed = old is None or [_conditions(hook) for hook in hooks] != [_conditions(hook) for hook in before]
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, hook in enumerate(hooks):
        field, name = f"webhooks[{index}]", hook.get("name") or ""
        causes += _validate_name(name, f"{field}.name")
        for number, rule in enumerate(hook.get("rules") or ()):
            causes += validate_rule(rule, f"{field}.rules[{number}]")
        causes += _validate_choices(hook, field, _NO_SIDE_EFFECTS if safe else _SIDE_EFFECTS, mutating=mutating)
        causes += _validate_selectors(hook, field, any_values=any_values)
        causes += _validate_client(hook.get("clientConfig") or {}, f"{field}.clientConfig")
        if conditions_changed:
            causes += validate_match_conditions(_conditions(hook), f"{field}.matchConditions")
        causes += _validate_versions(hook, f"{field}.admissionReviewVersions", recognized=recognized)
        if unique and name:
            if name in seen:
                causes.append(duplicate(f"{field}.name", name))
            seen.add(name)
    return causes


def _conditions(hook: Object) -> list[Object]:
    conditions: list[Object] = hook.get("matchConditions") or []
    return conditions


def _is_recognized(hook: Object) -> bool:
    return any(version in _REVIEW_VERSIONS for version in hook.get("admissionReviewVersions") or ())


def _validate_name(name: str, field: str) -> list[Cause]:
    if not name:
        return [required(field)]
    if problems := subdomain_problems(name):
        return [invalid_value(field, name, ",".join(problems))]
    if name.count(".") < 2:
        detail = "should be a domain with at least three segments separated by dots"
        return [invalid_value(field, name, detail)]
    return []


def _validate_choices(hook: Object, field: str, side_effects: tuple[str, ...], *, mutating: bool) -> Iterable[Cause]:
    yield from validate_choice(hook.get("failurePolicy"), f"{field}.failurePolicy", FAILURE_POLICIES)
    yield from validate_choice(hook.get("matchPolicy"), f"{field}.matchPolicy", MATCH_POLICIES)
    if mutating:
        yield from validate_choice(
            hook.get("reinvocationPolicy"), f"{field}.reinvocationPolicy", _REINVOCATION_POLICIES
        )
    if (effects := hook.get("sideEffects")) is None:
        yield required(f"{field}.sideEffects", f"must specify one of {', '.join(side_effects)}")
    elif effects not in side_effects:
        yield not_supported(f"{field}.sideEffects", effects, side_effects)
    if (seconds := hook.get("timeoutSeconds", _DEFAULT_TIMEOUT_SECONDS)) not in _TIMEOUT_SECONDS:
        detail = "the timeout value must be between 1 and 30 seconds"
        yield invalid_value(f"{field}.timeoutSeconds", seconds, detail)


def _validate_selectors(hook: Object, field: str, *, any_values: bool = False) -> list[Cause]:
    return [
        cause
        for name in ("namespaceSelector", "objectSelector")
        for cause in validate_selector(hook.get(name), f"{field}.{name}", any_values=any_values)
    ]


def _validate_versions(hook: Object, field: str, *, recognized: bool) -> Iterable[Cause]:
    versions = hook.get("admissionReviewVersions") or []
    if not versions:
        yield required(field, f"must specify one of {', '.join(_REVIEW_VERSIONS)}")
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield invalid_value(f"{field}[{index}]", version, "duplicate version")
        else:
            yield from invalid_each(f"{field}[{index}]", version, service_name_problems(version))
    if recognized and not _is_recognized(hook):
        yield invalid_value(field, versions, f"must include at least one of {', '.join(_REVIEW_VERSIONS)}")


def _validate_client(config: Object, field: str) -> list[Cause]:
    url, service = config.get("url"), config.get("service")
    if url is not None and service is None:
        return list(validate_url(url, f"{field}.url"))
    if service is not None and url is None:
        return list(validate_service(service, f"{field}.service"))
    return [required(field, "exactly one of url or service is required")]


def validate_url(text: str, field: str) -> Iterable[Cause]:
    """Yield the errors in the URL of a webhook."""
    try:
        url = gourl.parse(text)
    except gourl.InvalidUrl as error:
        yield required(field, f"url must be a valid URL: {error}{_URL_FORM}")
        return
    if url.scheme != "https":
        yield invalid_value(field, url.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}")
    if not url.host:
        yield invalid_value(field, url.host, f"host must be specified{_URL_FORM}")
    if url.user is not None:
        yield invalid_value(field, url.user, "user information is not permitted in the URL")
    if url.fragment:
        yield invalid_value(field, url.fragment, "fragments are not permitted in the URL")
    if url.query:
        yield invalid_value(field, url.query, "query parameters are not permitted in the URL")


def validate_service(service: Object, field: str) -> Iterable[Cause]:
    """Yield the errors in the reference to the Service of a webhook."""
    for name, reported in (("namespace", "name"), ("name", "namespace")):  # Upstream passes them in this order.
        if not service.get(name):
            yield required(f"{field}.{reported}", f"service {reported} is required")
    if not 1 <= (port := service.get("port") or 0) <= 65535:
        yield invalid_value(f"{field}.port", port, _PORT_RULE)
    path = service.get("path") or "/"
    if path == "/":
        return
    field = f"{field}.path"
    if path == "//":
        yield invalid_value(field, path, "segment[0] may not be empty")
        return
    if not path.startswith("/"):
        yield invalid_value(field, path, "must start with a '/'")
    for index, segment in enumerate(path[1:].removesuffix("/").split("/")):
        if not segment:
            yield invalid_value(field, path, f"segment[{index}] may not be empty")
            continue
        problems = subdomain_problems(segment)
        yield from invalid_each(field, path, [f"segment[{index}]: {problem}" for problem in problems])
