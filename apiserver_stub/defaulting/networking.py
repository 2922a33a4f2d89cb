"""Default values of ingress classes, network policies and endpoint slices. No I/O."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.defaulting.table import Defaults

_PARAMETERS = Defaults({"scope": "Cluster"})
INGRESS_CLASS = Defaults(below={"spec": Defaults(below={"parameters": _PARAMETERS})})
ENDPOINT_SLICE = Defaults(below={"ports": Defaults({"name": "", "protocol": "TCP"})})


def _default_policy(spec: Object) -> None:
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]


_POLICY_RULE = Defaults(below={"ports": Defaults({"protocol": "TCP"})})
NETWORK_POLICY = Defaults(
    below={"spec": Defaults(rule=_default_policy, below={"ingress": _POLICY_RULE, "egress": _POLICY_RULE})}
)
