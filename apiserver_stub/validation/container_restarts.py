"""Validation of the restart policies of containers, and of their rules."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, forbidden_value, not_supported, required, too_many
from apiserver_stub.validation.pod_options import PodOptions

_POLICIES, _OPERATORS = ("Always", "Never", "OnFailure"), ("In", "NotIn")
_NO_POLICY = "must specify restartPolicy when restart rules are used"
_RULES_LIMIT, _EXIT_CODES_LIMIT = 20, 255


def validate_restart_policy(container: Object, field: str, options: PodOptions) -> list[Cause]:
    """Return the errors in the restart policy of a regular container."""
    if "ContainerRestartRules" in options.features:
        return _validate_policy(container, field, options)
    if container.get("restartPolicy") is None:
        return []
    return [forbidden_value(f"{field}.restartPolicy", "may not be set for non-init containers")]


def validate_init_restart_policy(container: Object, field: str, options: PodOptions) -> list[Cause]:
    """Return the errors in the restart policy of an init container."""
    policy = container.get("restartPolicy")
    if policy is None and container.get("restartPolicyRules"):
        return [required(f"{field}.restartPolicy", _NO_POLICY)]
    if "ContainerRestartRules" not in options.features:
        return [] if policy in (None, "Always") else [not_supported(f"{field}.restartPolicy", policy, ("Always",))]
    if policy != "Always" or "RestartAllContainersOnContainerExits" in options.features:
        return _validate_policy(container, field, options)
    if not container.get("restartPolicyRules"):
        return []
    detail = "restartPolicyRules are not allowed for init containers with restart policy Always"
    return [forbidden_value(f"{field}.restartPolicyRules", detail)]


def is_restarted(container: Object, pod_policy: str, exit_code: int) -> bool:
    """Return whether *container* starts again after it has ended with *exit_code*, without regard to others."""
    for rule in container.get("restartPolicyRules") or ():
        if (codes := rule.get("exitCodes")) is not None:
            contained = exit_code in (codes.get("values") or ())
            if contained is (codes.get("operator") == "In"):
                if rule.get("action") == "Restart":
                    return True
                break  # Only the first rule that matches counts.
    policy = container.get("restartPolicy") or pod_policy
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def restarts_all(spec: Object) -> bool:
    """Return whether a rule of a container restarts all containers of the pod."""
    return any(
        rule.get("action") == "RestartAllContainers"
        for kind in ("containers", "initContainers")
        for item in spec.get(kind) or ()
        for rule in item.get("restartPolicyRules") or ()
    )


def _validate_policy(container: Object, field: str, options: PodOptions) -> list[Cause]:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    causes = []
    if policy is None and rules:
        causes.append(required(f"{field}.restartPolicy", _NO_POLICY))
    elif policy is not None and policy not in _POLICIES:
        causes.append(not_supported(f"{field}.restartPolicy", policy, _POLICIES))
    if len(rules) > _RULES_LIMIT:
        causes.append(too_many(f"{field}.restartPolicyRules", len(rules), _RULES_LIMIT))
    all_containers = "RestartAllContainersOnContainerExits" in options.features
    actions = ("Restart", "RestartAllContainers") if all_containers else ("Restart",)
    for index, rule in enumerate(rules):
        path = f"{field}.restartPolicyRules[{index}]"
        if (action := rule.get("action") or "") not in actions:
            causes.append(not_supported(f"{path}.action", action, actions))
        causes += _validate_exit_codes(rule.get("exitCodes"), f"{path}.exitCodes")
    return causes


def _validate_exit_codes(codes: Object | None, field: str) -> list[Cause]:
    if codes is None:
        return [required(field, "must be specified")]
    causes = []
    if (operator := codes.get("operator") or "") not in _OPERATORS:
        causes.append(not_supported(f"{field}.operator", operator, _OPERATORS))
    if (count := len(codes.get("values") or ())) > _EXIT_CODES_LIMIT:
        causes.append(too_many(f"{field}.values", count, _EXIT_CODES_LIMIT))
    return causes
