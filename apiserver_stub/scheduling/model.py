"""Pods and nodes as the filters use them. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import field

from apiserver_stub.apimachinery import resource_lists
from apiserver_stub.apimachinery.label_selectors import read_selector
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.scheduling.extended_resources import ContainerAmount, extended_amounts
from apiserver_stub.scheduling.pod_claims import PodClaim, claims_of
from apiserver_stub.scheduling.required_features import required_features
from apiserver_stub.scheduling.resized_requests import with_reserved_requests
from nodeagent.base.identity import Identity
from nodeagent.base.quantity import Quantity
from nodeagent.base.selectors import LabelSelector, Requirement
from nodeagent.base.structs import Struct

HostPort = tuple[str, str, int]
"""Address, protocol and port."""
Resources = dict[str, int]
"""Quantities by resource name: millicores of CPU, integral units of other resources."""

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared, never bound
BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")
COMPARISONS = ("Lt", "Gt")
"""Operators of tolerations that compare numbers."""
_DECIMAL_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_DO_NOT_SCHEDULE = "DoNotSchedule"
_NO_FEATURES: frozenset[str] = frozenset()


class AffinityTerm(Struct, frozen=True):
    """A required term of pod affinity or anti-affinity; a selector of ``None`` selects nothing."""

    topology_key: str
    selector: LabelSelector | None
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None

    def matches(self, pod: PodInfo, namespace_labels: Mapping[str, str]) -> bool:
        """Return whether *pod*, in a namespace with *namespace_labels*, is selected."""
        selected = self.namespace_selector is not None and self.namespace_selector.matches(namespace_labels)
        if pod.namespace not in self.namespaces and not selected:
            return False
        return self.selector is not None and self.selector.matches(pod.labels)


class SpreadConstraint(Struct, frozen=True):
    """A topology spread constraint that must hold."""

    max_skew: int
    topology_key: str
    selector: LabelSelector | None
    min_domains: int
    honors_affinity: bool
    honors_taints: bool


class PodInfo(Struct, frozen=True, eq=False, gc=False):
    """Attributes of a pod that the filters use.

    There is one for each pod, and they contain no cycles, so Python's garbage collector does not track them.
    """

    namespace: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    node: str = ""
    """Name of the node that it is assigned to."""
    deleting: bool = False
    priority: int = 0
    may_preempt: bool = True
    requests: Mapping[str, int] = field(default_factory=dict)
    ports: tuple[HostPort, ...] = ()
    tolerations: tuple[Object, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_terms: tuple[Object, ...] | None = None
    """Required node affinity; any term must match. ``None``: every node will do."""
    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    uid: str = ""
    claims: tuple[tuple[str, bool], ...] = ()
    """Names of its claims; true for those of ephemeral volumes, which the pod owns."""
    features: frozenset[str] = _NO_FEATURES
    """Features that its node must declare."""
    device_claims: tuple[PodClaim, ...] = ()
    extended: tuple[ContainerAmount, ...] = ()

    def tolerates(self, taint: Mapping[str, str]) -> bool:
        return any(tolerates(toleration, taint) for toleration in self.tolerations)

    def untolerated(self, taints: tuple[Object, ...]) -> Object | None:
        """Return the first of *taints* that the pod does not tolerate and that prevents scheduling."""
        for taint in taints:
            if taint.get("effect") in BLOCKING_EFFECTS and not self.tolerates(taint):
                return taint
        return None


class NodeTaintKeys(Struct, frozen=True):
    """Keys of the taints of unavailable nodes."""

    not_ready: str
    unreachable: str
    unschedulable: str

    @classmethod
    def of(cls, identity: Identity) -> NodeTaintKeys:
        return cls(*(identity.label(name, "node") for name in ("not-ready", "unreachable", "unschedulable")))


class NodeInfo:
    """A node and the pods that are assigned to it."""

    def __init__(self, node: Object, keys: NodeTaintKeys, *, ready: bool) -> None:
        spec, metadata = node.get("spec") or {}, node["metadata"]
        self.name: str = metadata["name"]
        self.labels: Mapping[str, str] = metadata.get("labels") or {}
        self.ready = ready
        self.unschedulable = bool(spec.get("unschedulable"))
        self.unschedulable_taint = {"key": keys.unschedulable, "effect": "NoSchedule"}
        """Taint that pods must tolerate to be scheduled on the node while it is unschedulable."""
        self.taints: tuple[Object, ...] = tuple(_taints(spec, keys, ready=ready))
        self.declared_features = frozenset(dig(node, ("status", "declaredFeatures")) or ())
        self.allocatable = read_resources(dig(node, ("status", "allocatable")))
        self.pods: dict[str, PodInfo] = {}
        self.requested: Resources = {}

    def is_like(self, other: NodeInfo) -> bool:
        """Return whether the nodes are equal for all filters, apart from their pods."""
        mine, others = (
            (node.labels, node.ready, node.unschedulable, node.taints, node.allocatable, node.declared_features)
            for node in (self, other)
        )
        return mine == others

    def add(self, key: str, pod: PodInfo) -> None:
        self.remove(key)
        self.pods[key] = pod
        for name, amount in pod.requests.items():
            self.requested[name] = self.requested.get(name, 0) + amount

    def remove(self, key: str) -> None:
        pod = self.pods.pop(key, None)
        if pod is not None:
            for name, amount in pod.requests.items():
                self.requested[name] -= amount

    def without(self, keys: list[str]) -> NodeInfo:
        """Return a copy that lacks the pods *keys*."""
        copy = object.__new__(NodeInfo)
        copy.__dict__ = {**self.__dict__, "pods": dict(self.pods), "requested": dict(self.requested)}
        for key in keys:
            copy.remove(key)
        return copy


class SchedulingFeatures(Struct, frozen=True):
    """Features of the scheduler that depend on feature gates."""

    compares_taints: bool = False
    """Tolerations may compare the numeric values of taints."""
    requires_declared: bool = False
    """Nodes must declare the features that pods require."""


def read_pod(pod: Object, features: SchedulingFeatures | None = None) -> PodInfo:
    """Return the attributes of *pod* for the filters; without *features*, none is enabled."""
    features = features or SchedulingFeatures()
    spec, metadata = pod.get("spec") or {}, pod["metadata"]
    namespace, labels = metadata.get("namespace") or "", metadata.get("labels") or {}
    affinity = spec.get("affinity") or {}
    terms = dig(affinity, ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"))
    return PodInfo(
        namespace=namespace,
        name=metadata["name"],
        labels=labels,
        node=spec.get("nodeName") or "",
        deleting="deletionTimestamp" in metadata,
        priority=spec.get("priority") or 0,
        may_preempt=spec.get("preemptionPolicy") != "Never",
        requests=_requests(with_reserved_requests(spec, pod.get("status") or {})),
        ports=tuple(_ports(spec)),
        tolerations=tuple(
            item
            for item in spec.get("tolerations") or ()
            if features.compares_taints or item.get("operator") not in COMPARISONS
        ),
        node_selector=spec.get("nodeSelector") or {},
        node_terms=None if terms is None else tuple(terms.get("nodeSelectorTerms") or ()),
        affinity=tuple(_affinity_terms(affinity.get("podAffinity"), namespace)),
        anti_affinity=tuple(_affinity_terms(affinity.get("podAntiAffinity"), namespace)),
        spread=tuple(_spread(spec, labels)),
        uid=metadata.get("uid") or "",
        claims=tuple(_claims(spec, metadata["name"])),
        features=(features.requires_declared and frozenset(required_features(spec))) or _NO_FEATURES,
        device_claims=tuple(claims_of(pod)),
        extended=tuple(extended_amounts(spec)),
    )


def read_resources(amounts: object) -> Resources:
    """Return *amounts*, a resource list of an object, in the units of the filters."""
    return _in_units(resource_lists.read(amounts if isinstance(amounts, dict) else None))


def _requests(spec: Object) -> Resources:
    total = resource_lists.of_pod(spec, "requests")
    resource_lists.add(total, resource_lists.read(spec.get("overhead")))
    return _in_units(total)


def _in_units(amounts: Mapping[str, Quantity]) -> Resources:
    return {name: amount.milli_value() if name == "cpu" else amount.value() for name, amount in amounts.items()}


def _ports(spec: Object) -> Iterator[HostPort]:
    for container in spec.get("containers") or ():
        for port in container.get("ports") or ():
            if (port.get("hostPort") or 0) > 0:
                yield port.get("hostIP") or ANY_ADDRESS, port.get("protocol") or "TCP", port["hostPort"]


def _claims(spec: Object, pod: str) -> Iterator[tuple[str, bool]]:
    for volume in spec.get("volumes") or ():
        if volume.get("ephemeral") is not None:
            yield f"{pod}-{volume.get('name')}", True
        elif name := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
            yield name, False


def _taints(spec: Object, keys: NodeTaintKeys, *, ready: bool) -> Iterator[Object]:
    taints = spec.get("taints") or ()
    yield from taints
    if not ready and not any(item.get("key") in (keys.not_ready, keys.unreachable) for item in taints):
        yield {"key": keys.not_ready, "effect": "NoSchedule"}  # The node taint controller adds it soon.


def tolerates(toleration: Object, taint: Mapping[str, str]) -> bool:
    """Return whether *toleration* matches *taint*."""
    effect, key = toleration.get("effect"), toleration.get("key")
    if (effect and effect != taint.get("effect")) or (key and key != taint.get("key")):
        return False
    match toleration.get("operator") or "Equal":
        case "Equal":
            return (toleration.get("value") or "") == (taint.get("value") or "")
        case "Exists":
            return True
        case "Lt" | "Gt" as operator:
            bound, value = (_number(item.get("value") or "") for item in (toleration, taint))
            if bound is None or value is None:
                return False
            return value < bound if operator == "Lt" else value > bound
    return False


def _number(text: str) -> int | None:
    """Return the number that *text* has in its shortest decimal form, ``None`` if it is none of 64 bits."""
    if not _DECIMAL_INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _affinity_terms(affinity: Object | None, namespace: str) -> Iterator[AffinityTerm]:
    for term in (affinity or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ():
        selector, namespaces = term.get("namespaceSelector"), term.get("namespaces") or ()
        own = [namespace] if selector is None and not namespaces else []
        yield AffinityTerm(
            term.get("topologyKey") or "",
            _selector(term.get("labelSelector")),
            frozenset([*namespaces, *own]),
            _selector(selector),
        )


def _spread(spec: Object, labels: Mapping[str, str]) -> Iterator[SpreadConstraint]:
    for constraint in spec.get("topologySpreadConstraints") or ():
        if constraint.get("whenUnsatisfiable") != _DO_NOT_SCHEDULE:
            continue
        selector = _selector(constraint.get("labelSelector"))
        shared = [key for key in constraint.get("matchLabelKeys") or () if key in labels]
        if selector is not None and shared:
            more = (Requirement(key, "in", frozenset([labels[key]])) for key in shared)
            selector = LabelSelector((*selector.requirements, *more))
        yield SpreadConstraint(
            constraint.get("maxSkew") or 0,
            constraint.get("topologyKey") or "",
            selector,
            1 if constraint.get("minDomains") is None else constraint["minDomains"],
            (constraint.get("nodeAffinityPolicy") or "Honor") == "Honor",
            (constraint.get("nodeTaintsPolicy") or "Ignore") == "Honor",
        )


def _selector(selector: Object | None) -> LabelSelector | None:
    return None if selector is None else read_selector(selector)
