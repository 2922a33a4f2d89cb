"""Predicates of pod admission; the first failure counts. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from nodeagent.base import identity
from nodeagent.base.node_affinity import node_matches
from nodeagent.base.structs import Struct
from nodeagent.contracts.pods import Rejection
from nodeagent.model.pod import Pod, Toleration
from nodeagent.model.pod_values import PodValues
from nodeagent.model.qos import is_static_or_mirror
from nodeagent.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Amounts, pod_requests

_OS = "linux"
_FIRST = (PODS, CPU, MEMORY, EPHEMERAL_STORAGE)
_ANY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104  compared, not listened on
_MILLI_NANOS, _UNIT_NANOS = 10**6, 10**9


class NodeView(Struct, frozen=True):
    """Node properties that admission checks."""

    name: str
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, Any]]
    allocatable: Amounts


class UsedResources:
    """Sums the requests of pods; only pods that changed since the last call are evaluated."""

    def __init__(self) -> None:
        self._requests = PodValues(requests_in_nanos)
        self._total: Counter[str] = Counter()

    def of(self, pods: Iterable[Pod]) -> Mapping[str, int]:
        """Return the totals in billionths by resource."""
        added, removed = self._requests.update(pods)
        for requests in added:
            self._total.update(requests)
        for requests in removed:
            self._total.subtract(requests)
        return self._total


def requests_in_nanos(pod: Pod) -> dict[str, int]:
    """Return the requests of *pod* in billionths, including one of the resource ``pods``."""
    requests = {name: amount.nanos for name, amount in pod_requests(pod).items() if amount.nanos > 0}
    return {**requests, PODS: _UNIT_NANOS}


def check_os(pod: Pod, labels: Mapping[str, str]) -> Rejection | None:
    """Reject pods for another operating system."""
    key = identity.current().label("os")
    requested = (pod.spec.node_selector or {}).get(key)
    if requested is not None and requested != labels.get(key, _OS):
        return Rejection(
            "PodOSSelectorNodeLabelDoesNotMatch", f"Failed to admit pod as the `{key}` label doesn't match node label"
        )
    if pod.spec.os is not None and pod.spec.os.name != _OS:
        return Rejection("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    return None


def check_sidecars(pod: Pod, *, allowed: bool) -> Rejection | None:
    """Reject restartable init containers if their feature gate is off."""
    for container in (pod.spec.init_containers or ()) if not allowed else ():
        if container.restart_policy is not None:
            return Rejection(
                "InitContainerRestartPolicyForbidden",
                f'Init container "{container.name}" may not have a non-default restartPolicy',
            )
    return None


def check_predicates(pod: Pod, node: NodeView, others: Sequence[Pod]) -> Rejection | None:
    """Reject pods that do not match the node, regardless of resources."""
    affinity = (pod.spec.affinity or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = None if required is None else required.get("nodeSelectorTerms") or ()
    if not node_matches(pod.spec.node_selector or {}, terms, node.labels, node.name):
        return _failed("NodeAffinity")
    if pod.spec.node_name and pod.spec.node_name != node.name:
        return _failed("NodeName")
    if _port_taken(pod, others):
        return _failed("NodePorts")
    if not is_static_or_mirror(pod) and not _tolerated(pod, node.taints):
        return _failed("TaintToleration")
    return None


def _failed(predicate: str) -> Rejection:
    return Rejection(predicate, f"Predicate {predicate} failed")


def lacking(pod: Pod, node: NodeView, used: Mapping[str, int]) -> dict[str, int]:
    """Return the resources that *pod* lacks and the missing amounts, in billionths.

    Resources that the node does not list are ignored. A rejection names the first one.
    """
    requests, found = requests_in_nanos(pod), {}
    for name in dict.fromkeys((*_FIRST, *requests)):
        requested, capacity = requests.get(name, 0), node.allocatable.get(name)
        if requested and capacity is not None and (missing := requested + used.get(name, 0) - capacity.nanos) > 0:
            found[name] = missing
    return found


def out_of(name: str, pod: Pod, node: NodeView, used: Mapping[str, int]) -> Rejection:
    """Return the rejection of *pod* because of the resource *name*."""
    unit = _MILLI_NANOS if name == CPU else _UNIT_NANOS
    requested, have, capacity = requests_in_nanos(pod)[name], used.get(name, 0), node.allocatable[name].nanos
    return Rejection(
        f"OutOf{name}",
        f"Node didn't have enough resource: {name}, requested: {requested // unit}, used: {have // unit}, "
        f"capacity: {capacity // unit}",
    )


def _port_taken(pod: Pod, others: Sequence[Pod]) -> bool:
    requested = list(_host_ports(pod))
    if not requested:
        return False
    return any(_collide(mine, theirs) for other in others for theirs in _host_ports(other) for mine in requested)


def _host_ports(pod: Pod) -> Iterator[tuple[str, str, int]]:
    for container in pod.spec.containers:
        for port in container.ports or ():
            if port.host_port > 0:
                yield port.host_ip, port.protocol or "TCP", port.host_port


def _collide(a: tuple[str, str, int], b: tuple[str, str, int]) -> bool:
    return a[1:] == b[1:] and (a[0] == b[0] or a[0] in _ANY_ADDRESS or b[0] in _ANY_ADDRESS)


def _tolerated(pod: Pod, taints: Sequence[Mapping[str, Any]]) -> bool:
    tolerations = pod.spec.tolerations or ()
    return all(
        any(_tolerates(toleration, taint) for toleration in tolerations)
        for taint in taints
        if taint.get("effect") == "NoExecute"
    )


def _tolerates(toleration: Toleration, taint: Mapping[str, Any]) -> bool:
    if toleration.effect and toleration.effect != taint.get("effect"):
        return False
    if toleration.key and toleration.key != taint.get("key"):
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.get("value", "")
