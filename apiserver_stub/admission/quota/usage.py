"""Quota usage of objects, and the limits and scopes that apply to them. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from apiserver_stub.admission.tolerations import is_extended
from apiserver_stub.apimachinery import resource_lists
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.resource_lists import Amounts
from apiserver_stub.validation.pod_qos import qos_class
from nodeagent.base.identity import Identity
from nodeagent.base.quantity import Quantity
from nodeagent.base.structs import Struct

ONE = Quantity(1)
PODS, SERVICES, CLAIMS = "pods", "services", "persistentvolumeclaims"
COUNTED = frozenset([PODS, SERVICES, CLAIMS, "configmaps", "secrets", "resourcequotas", "replicationcontrollers"])
"""Resources of the core group that can be limited by plural, in addition to ``count/``."""
MEASURED = frozenset([PODS, SERVICES, CLAIMS])
"""Resources whose usage depends on the fields of each object; usage of all others is the object count."""
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_REQUIRED = frozenset(["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"])
_POD_NAMES = frozenset([PODS, *_COMPUTE, *(f"{side}.{name}" for side in ("requests", "limits") for name in _COMPUTE)])
_SERVICE_NAMES = frozenset([SERVICES, "services.nodeports", "services.loadbalancers"])
_FINISHED = ("Succeeded", "Failed")


class QuotaNames(Struct, frozen=True):
    """Names that limited resources contain."""

    label_domain: str
    """Domain of resources that are not extended resources."""
    storage_class: str
    """Part between the name of a storage class and the limited resource."""

    @classmethod
    def of(cls, identity: Identity) -> QuotaNames:
        return cls(identity.label_domain, f".storageclass.{identity.group('storage')}/")


def usage(label: str, obj: Object, names: QuotaNames) -> Amounts:
    """Return the quota usage of *obj*, an object of the resource *label* (``plural.group``)."""
    result: Amounts = {f"count/{label}": ONE}
    if label == PODS:
        if dig(obj, ("status", "phase")) not in _FINISHED:
            result |= _of_pod(obj.get("spec") or {}, names.label_domain)
    elif label == SERVICES:
        result |= _of_service(obj.get("spec") or {})
    elif label == CLAIMS:
        result |= _of_claim(obj.get("spec") or {}, names.storage_class)
    elif label in COUNTED:
        result[label] = ONE
    return result


def concerned(label: str, limited: Iterable[str], names: QuotaNames) -> set[str]:
    """Return the *limited* resources that apply to objects of *label*."""
    return {name for name in limited if _concerns(label, name, names)}


def not_given(pod: Object, names: Collection[str], label_domain: str) -> str:
    """Return an error if containers lack a request or limit that a quota requires, else an empty text.

    Example: ``must specify limits.cpu for: a,b``.
    """
    missing: dict[str, list[str]] = {}
    spec = pod.get("spec") or {}
    if resource_lists.has_pod_level(spec):
        return ""  # The containers share the resources of the pod.
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind) or ():
            given = _compute(
                resource_lists.of_container(container, "requests"),
                resource_lists.of_container(container, "limits"),
                label_domain,
            )
            for name in _REQUIRED.intersection(names) - given.keys():
                missing.setdefault(name, []).append(container.get("name", ""))
    texts = [f"{name} for: {','.join(sorted(set(missing[name])))}" for name in sorted(missing)]
    return f"must specify {'; '.join(texts)}" if texts else ""


def scopes(quota: Object) -> list[Object]:
    """Return the scopes of a quota, each as an expression."""
    spec = quota.get("spec") or {}
    plain = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    return plain + list((spec.get("scopeSelector") or {}).get("matchExpressions") or ())


def in_scope(label: str, obj: Object, expression: Object) -> bool:
    """Return whether the scope *expression* matches *obj*; only pods have scopes."""
    if label != PODS:
        return False
    spec = obj.get("spec") or {}
    match expression.get("scopeName"):
        case "Terminating":
            return _has_deadline(spec)
        case "NotTerminating":
            return not _has_deadline(spec)
        case "BestEffort":
            return qos_class(spec) == "BestEffort"
        case "NotBestEffort":
            return qos_class(spec) != "BestEffort"
        case "PriorityClass":
            return _has_class(spec, expression)
        case "CrossNamespacePodAffinity":
            return any(
                term.get("namespaces") or term.get("namespaceSelector") is not None for term in _affinity_terms(spec)
            )
    return False


def _concerns(label: str, name: str, names: QuotaNames) -> bool:
    if name.startswith("count/"):
        return name == f"count/{label}"
    if label == PODS:
        extended = name.startswith("requests.") and is_extended(name.removeprefix("requests."), names.label_domain)
        return name in _POD_NAMES or extended or name.removeprefix("requests.").startswith("hugepages-")
    if label == SERVICES:
        return name in _SERVICE_NAMES
    if label == CLAIMS:
        return name in (CLAIMS, "requests.storage") or names.storage_class in name
    return label in COUNTED and name == label


def _of_pod(spec: Object, label_domain: str) -> Amounts:
    requests, limits = resource_lists.of_pod(spec, "requests"), resource_lists.of_pod(spec, "limits")
    overhead = resource_lists.read(spec.get("overhead"))
    resource_lists.add(requests, overhead)
    resource_lists.add(limits, {name: amount for name, amount in overhead.items() if name in limits})
    return _compute(requests, limits, label_domain) | {PODS: ONE}


def _compute(requests: Amounts, limits: Amounts, label_domain: str) -> Amounts:
    found: Amounts = {}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            found[name] = found[f"requests.{name}"] = amount
        elif is_extended(name, label_domain):
            found[f"requests.{name}"] = amount
    found |= {f"limits.{name}": amount for name, amount in limits.items() if name in _COMPUTE}
    return found


def _of_service(spec: Object) -> Amounts:
    found = {SERVICES: ONE}
    ports = Quantity(len(spec.get("ports") or ()))
    if spec.get("type") == "NodePort":
        found["services.nodeports"] = ports
    elif spec.get("type") == "LoadBalancer":
        found["services.loadbalancers"] = ONE
        if spec.get("allocateLoadBalancerNodePorts") is not False:
            found["services.nodeports"] = ports
    return found


def _of_claim(spec: Object, storage_class: str) -> Amounts:
    found = {CLAIMS: ONE}
    name = spec.get("storageClassName")
    if name:
        found[f"{name}{storage_class}{CLAIMS}"] = ONE
    size = resource_lists.read((spec.get("resources") or {}).get("requests")).get("storage")
    if size is not None:
        found["requests.storage"] = size
        if name:
            found[f"{name}{storage_class}requests.storage"] = size
    return found


def _has_deadline(spec: Object) -> bool:
    seconds = spec.get("activeDeadlineSeconds")
    return seconds is not None and seconds >= 0


def _has_class(spec: Object, expression: Object) -> bool:
    name, values = spec.get("priorityClassName") or "", expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return name in values
        case "NotIn":
            return name not in values
        case "Exists":
            return bool(name)
        case "DoesNotExist":
            return not name
    return False


def _affinity_terms(spec: Object) -> Iterator[Object]:
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        found = affinity.get(kind) or {}
        yield from found.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for item in found.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield item.get("podAffinityTerm") or {}
