"""Requests to which admission policies apply through their bindings, and the parameters of the policies. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.admission.listers import Lister, labels_of
from apiserver_stub.admission.webhooks.matching import matched_as, namespace_matches, object_matches
from apiserver_stub.apimachinery.label_selectors import read_selector
from apiserver_stub.apimachinery.objects import Object

if TYPE_CHECKING:
    from apiserver_stub.kinds.registry import Registry, Resource
    from apiserver_stub.verbs.admission import AdmissionRequest


class PolicyMatcher:
    """Matcher of policies and bindings."""

    def __init__(self, lister: Lister, registry: Registry) -> None:
        self._lister, self._registry = lister, registry

    def namespace_of(self, call: AdmissionRequest) -> Object:
        """Return the namespace of a request, empty for cluster-scoped resources."""
        return self._lister.namespace(call.namespace) if call.resource.namespaced else {}

    def match(self, match: Object, call: AdmissionRequest, namespace: Object) -> Resource | None:
        """Return the resource as which *match* matches the request, or ``None``."""
        policy = match.get("matchPolicy") or ""
        if not namespace_matches(read_selector(match.get("namespaceSelector")), call, namespace):
            return None
        if not object_matches(read_selector(match.get("objectSelector")), call):
            return None
        if matched_as(match.get("excludeResourceRules") or (), policy, call, self._registry) is not None:
            return None
        return matched_as(match.get("resourceRules") or (), policy, call, self._registry)

    def binding_matches(self, match: Object | None, call: AdmissionRequest, namespace: Object) -> bool:
        """Return whether the ``matchResources`` of a binding match the request."""
        if not match:
            return True
        if match.get("resourceRules"):
            return self.match(match, call, namespace) is not None
        every = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*", "*/*"]}]
        return self.match({**match, "resourceRules": every}, call, namespace) is not None

    def params(self, kind: Object, reference: Object | None, call: AdmissionRequest) -> list[Object | None]:
        """Return the parameter objects, or ``None`` as the only one if the policy or the binding has no reference."""
        if not kind or not reference:
            return [None]
        group, _, version = str(kind.get("apiVersion") or "").rpartition("/")
        resource = self._registry.find_kind(group, version, str(kind.get("kind") or ""))
        if resource is None:
            return []
        namespace = (reference.get("namespace") or call.namespace) if resource.namespaced else ""
        if name := reference.get("name"):
            found = self._lister.find(resource.storage, name, namespace)
            return [found] if found is not None else []
        selector = read_selector(reference.get("selector"))
        return [item for item in self._lister.every(resource.storage, namespace) if selector.matches(labels_of(item))]
