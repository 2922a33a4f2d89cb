"""Hints in the endpoint slices of Services, with the events that report them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence

from apiserver_stub.apimachinery.objects import Object, key_of
from apiserver_stub.controllers.event_recorder import EventRecorder
from apiserver_stub.controllers.plugin import ControllerContext
from apiserver_stub.controllers.views import NodeView, View
from apiserver_stub.controllers.workloads import topology_hints

_NODES = "core/nodes"


class EndpointHints:
    """Sets the hints of endpoints, and requests new ones when the CPUs of the zones have changed."""

    def __init__(self, context: ControllerContext, events: EventRecorder, request: Callable[[str], None]) -> None:
        """Use the nodes in the index of *context*.

        :param request: called with the key of each Service whose hints are outdated.
        """
        self._context, self._events, self._request = context, events, request
        self._is_enabled = context.gates.enabled("TopologyAwareHints")
        self._reported: dict[str, dict[str, str]] = {}
        """By Service and IP family the reason why there are no hints in proportion to CPUs, empty if there are."""
        context.index.listen(_NODES, self._node_changed)

    def assign(self, service: Object, ip_family: str, groups: Collection[Sequence[Object]]) -> None:
        """Set the hints of *groups* of endpoints with equal ports of one IP family."""
        if self._is_enabled and topology_hints.is_proportional(service, self._context.identity):
            problem = self._assign_proportional(groups)
            self._report(service, ip_family, problem)
            return
        if self._known(service).pop(ip_family, None) == "":
            self._record(service, ip_family, "Topology Aware Hints has been disabled")
        for endpoints in groups:
            topology_hints.set_close(service["spec"].get("trafficDistribution"), endpoints)

    def drop(self, key: str) -> None:
        """Drop what was reported about the deleted Service *key*."""
        self._reported.pop(key, None)

    def _assign_proportional(self, groups: Collection[Sequence[Object]]) -> str:
        nodes = (view for view in self._context.index.all(_NODES) if isinstance(view, NodeView))
        shares = topology_hints.zone_shares(nodes, self._context.identity)
        try:
            for endpoints in groups:
                topology_hints.set_proportional(shares, endpoints)
        except topology_hints.UnavailableError as error:
            for endpoint in itertools.chain.from_iterable(groups):
                endpoint.pop("hints", None)
            return str(error)
        return ""

    def _report(self, service: Object, ip_family: str, problem: str) -> None:
        known = self._known(service)
        if known.get(ip_family) == problem:
            return
        known[ip_family] = problem
        self._reported[_key(service)] = known
        self._record(service, ip_family, problem)

    def _record(self, service: Object, ip_family: str, problem: str) -> None:
        kind, reason = ("Warning", "TopologyAwareHintsDisabled") if problem else ("Normal", "TopologyAwareHintsEnabled")
        text = problem or "Topology Aware Hints has been enabled"
        self._events.record(service, kind, reason, "", f"{text}, addressType: {ip_family}")

    def _known(self, service: Object) -> dict[str, str]:
        return self._reported.get(_key(service), {})

    def _node_changed(self, before: View | None, after: View | None) -> None:
        if not self._reported:
            return
        identity = self._context.identity
        old, new = (
            topology_hints.zone_cpus(view, identity) if isinstance(view, NodeView) else None for view in (before, after)
        )
        if old != new:
            for key in self._reported:
                self._request(key)


def _key(service: Object) -> str:
    return key_of(service["metadata"]["namespace"], service["metadata"]["name"])
