"""Default values of webhook configurations, admission policies and policy bindings."""

from __future__ import annotations

from apiserver_stub.defaulting.table import Defaults

_RULE = Defaults({"scope": "*"})
_CLIENT = Defaults(below={"service": Defaults({"port": 443})})
_HOOK_VALUES = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}
_HOOK_BELOW = {"rules": _RULE, "clientConfig": _CLIENT}
_MATCH = Defaults(
    {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}},
    below={"resourceRules": _RULE, "excludeResourceRules": _RULE},
)
_MUTATING_HOOK = Defaults({**_HOOK_VALUES, "reinvocationPolicy": "Never"}, below=_HOOK_BELOW)

VALIDATING = Defaults(below={"webhooks": Defaults(_HOOK_VALUES, below=_HOOK_BELOW)})
MUTATING = Defaults(below={"webhooks": _MUTATING_HOOK})
POLICY = Defaults(below={"spec": Defaults({"failurePolicy": "Fail"}, below={"matchConstraints": _MATCH})})
BINDING = Defaults(below={"spec": Defaults(below={"matchResources": _MATCH})})
