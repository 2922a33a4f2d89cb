"""Which requests a webhook or a policy is about: rules, selectors, conditions. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from apiserver_stub.admission.listers import labels_of
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.kinds.registry import Registry, Resource
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base import identity
from nodeagent.base.selectors import LabelSelector

_OWN_GROUP = identity.current().group("admissionregistration")
_OWN = frozenset(
    [
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    ]
)


def never_asked(resource: Resource) -> bool:
    """Return whether webhooks have no say: about themselves, so that a bad one can be taken away."""
    return resource.group == _OWN_GROUP and resource.plural in _OWN


def matched_as(
    rules: Iterable[Object], match_policy: str, call: AdmissionRequest, registry: Registry
) -> Resource | None:
    """Return the resource as which *rules* match the request, ``None`` when they do not.

    With policy ``Equivalent`` that may be another version of the same objects.
    """
    rules = list(rules)
    if any(_rule_matches(rule, call, call.resource) for rule in rules):
        return call.resource
    if match_policy == "Equivalent" and call.resource.convert is not None:
        for other in registry:
            same = other.storage == call.resource.storage and other.plural == call.resource.plural
            if same and other is not call.resource and any(_rule_matches(rule, call, other) for rule in rules):
                return other
    return None


def namespace_matches(selector: LabelSelector, call: AdmissionRequest, namespace: Object) -> bool:
    """Return whether the namespace of the request is chosen; what is in none always is."""
    if (call.resource.group, call.resource.plural) == ("", "namespaces"):
        return selector.matches(labels_of(call.obj or call.old or {}))
    return not call.resource.namespaced or selector.matches(labels_of(namespace))


def object_matches(selector: LabelSelector, call: AdmissionRequest) -> bool:
    """Return whether the object is chosen, as it was or as it will be."""
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


def _resource_matches(wanted: str, plural: str, subresource: str) -> bool:
    resource, slash, part = wanted.partition("/")
    if resource not in ("*", plural):
        return False
    if not slash:
        return not subresource
    return part in ("*", subresource)
