"""Default values of ingress classes and endpoint slices. No I/O."""

from __future__ import annotations

from apiserver_stub.defaulting.table import Defaults

_PARAMETERS = Defaults({"scope": "Cluster"})
INGRESS_CLASS = Defaults(below={"spec": Defaults(below={"parameters": _PARAMETERS})})
ENDPOINT_SLICE = Defaults(below={"ports": Defaults({"name": "", "protocol": "TCP"})})
