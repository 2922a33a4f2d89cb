"""Fields of features that a stored pod or pod template uses: updates may keep them while the feature is disabled."""

from __future__ import annotations

from collections.abc import Callable

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.validation.pod_containers import containers
from nodeagent.base.names import variable_name_problems


def features_in_use(spec: Object, known: frozenset[str]) -> frozenset[str]:
    """Return *known* and the feature gates whose fields *spec* uses."""
    return known | {gate for gate, uses in _USES if gate not in known and uses(spec)}


def _variables(spec: Object) -> list[Object]:
    return [variable for _, item in containers(spec, "") for variable in item.get("env") or ()]


def _names(spec: Object) -> list[str]:
    prefixes = [source.get("prefix") or "" for _, item in containers(spec, "") for source in item.get("envFrom") or ()]
    return [name for name in (*prefixes, *(item.get("name") or "" for item in _variables(spec))) if name]


def _searches(spec: Object) -> list[str]:
    found: list[str] = (spec.get("dnsConfig") or {}).get("searches") or []
    return found


def _rules(spec: Object) -> list[Object]:
    return [rule for _, item in containers(spec, "") for rule in item.get("restartPolicyRules") or ()]


def _has_restart_policies(spec: Object) -> bool:
    plain = any(item.get("restartPolicy") for item in spec.get("containers") or ())
    return (
        plain
        or bool(_rules(spec))
        or any(item.get("restartPolicy") not in (None, "Always") for item in spec.get("initContainers") or ())
    )


def _sleeps_zero(spec: Object) -> bool:
    hooks = [
        (item.get("lifecycle") or {}).get(hook) or {}
        for _, item in containers(spec, "")
        for hook in ("postStart", "preStop")
    ]
    return any(hook.get("sleep") is not None and not hook["sleep"].get("seconds") for hook in hooks)


_USES: tuple[tuple[str, Callable[[Object], bool]], ...] = (
    ("RelaxedEnvironmentVariableValidation", lambda spec: any(map(variable_name_problems, _names(spec)))),
    ("RelaxedDNSSearchValidation", lambda spec: any("_" in name or name == "." for name in _searches(spec))),
    ("EnvFiles", lambda spec: any((item.get("valueFrom") or {}).get("fileKeyRef") for item in _variables(spec))),
    ("ContainerRestartRules", _has_restart_policies),
    (
        "RestartAllContainersOnContainerExits",
        lambda spec: any(rule.get("action") == "RestartAllContainers" for rule in _rules(spec)),
    ),
    ("PodLifecycleSleepActionAllowZero", _sleeps_zero),
    (
        "TaintTolerationComparisonOperators",
        lambda spec: any(item.get("operator") in ("Lt", "Gt") for item in spec.get("tolerations") or ()),
    ),
    ("SELinuxMount", lambda spec: bool((spec.get("securityContext") or {}).get("seLinuxChangePolicy"))),
)
"""Feature gate, and test for the use of its field."""
