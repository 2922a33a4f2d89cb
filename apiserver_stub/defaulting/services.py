"""Default values of services and endpoints. No I/O."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.defaulting.table import Defaults

_AFFINITY_SECONDS = 10800
_EXTERNAL_TYPES = ("LoadBalancer", "NodePort")
_INTERNAL_TYPES = ("ClusterIP", *_EXTERNAL_TYPES)


def is_externally_accessible(spec: Object) -> bool:
    """Return whether clients outside the cluster reach the service."""
    kind = spec.get("type")
    return kind in _EXTERNAL_TYPES or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def _default_spec(spec: Object) -> None:
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        client_ip = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if "timeoutSeconds" not in client_ip:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
    if is_externally_accessible(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] in _INTERNAL_TYPES:
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _default_port(port: Object) -> None:
    if port.get("targetPort") in (None, 0, ""):
        port["targetPort"] = port.get("port") or 0


_PORT = Defaults({"protocol": "TCP"}, _default_port)
_SPEC = Defaults({"type": "ClusterIP", "sessionAffinity": "None"}, _default_spec, {"ports": _PORT})
SERVICE = Defaults({"spec": {}}, below={"spec": _SPEC})
ENDPOINTS = Defaults(below={"subsets": Defaults(below={"ports": Defaults({"protocol": "TCP"})})})
