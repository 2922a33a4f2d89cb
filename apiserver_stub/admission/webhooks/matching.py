"""Matching of requests against the rules and selectors of webhooks and policies. No I/O."""

from __future__ import annotations

from collections.abc import Iterable

from apiserver_stub.admission.listers import labels_of
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.kinds.registry import Registry, Resource
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.selectors import LabelSelector

_CONFIGURATIONS = frozenset(
    [
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    ]
)


def is_exempt(resource: Resource, group: str) -> bool:
    """Return whether *resource* is exempt: webhook and policy configurations, so that a broken one can be deleted.

    :param group: the API group of these configurations.
    """
    return resource.group == group and resource.plural in _CONFIGURATIONS


def matched_as(
    rules: Iterable[Object], match_policy: str, call: AdmissionRequest, registry: Registry
) -> Resource | None:
    """Return the resource as which *rules* match the request, or ``None``.

    With the match policy ``Equivalent`` this can be another version of the requested resource.
    """
    rules = list(rules)
    if any(_rule_matches(rule, call, call.resource) for rule in rules):
        return call.resource
    if match_policy == "Equivalent" and call.resource.has_versions:
        for other in registry:
            same = other.storage == call.resource.storage and other.plural == call.resource.plural
            if same and other is not call.resource and any(_rule_matches(rule, call, other) for rule in rules):
                return other
    return None


def namespace_matches(selector: LabelSelector, call: AdmissionRequest, namespace: Object) -> bool:
    """Return whether *selector* matches the request's namespace; cluster-scoped objects always match."""
    if (call.resource.group, call.resource.plural) == ("", "namespaces"):
        return selector.matches(labels_of(call.obj or call.old or {}))
    return not call.resource.namespaced or selector.matches(labels_of(namespace))


def object_matches(selector: LabelSelector, call: AdmissionRequest) -> bool:
    """Return whether *selector* matches the new or the old object."""
    if not selector:
        return True
    return any(selector.matches(labels_of(obj)) for obj in (call.new, call.old) if obj is not None)


def _rule_matches(rule: Object, call: AdmissionRequest, resource: Resource) -> bool:
    scope = rule.get("scope") or "*"
    in_namespace = resource.namespaced
    return (
        _among(rule.get("operations"), call.operation)
        and _among(rule.get("apiGroups"), resource.group)
        and _among(rule.get("apiVersions"), resource.version)
        and (scope == "*" or (scope == "Namespaced") == in_namespace)
        and any(_resource_matches(item, resource.plural, call.subresource) for item in rule.get("resources") or ())
        and (not rule.get("resourceNames") or call.name in rule["resourceNames"])
    )


def _among(given: Iterable[str] | None, value: str) -> bool:
    return any(item in ("*", value) for item in given or ())


def _resource_matches(pattern: str, plural: str, subresource: str) -> bool:
    resource, slash, part = pattern.partition("/")
    if resource not in ("*", plural):
        return False
    if not slash:
        return not subresource
    return part in ("*", subresource)
