"""Restarts of containers: the policies of pod and container, and the rules for exit codes. No I/O.

They apply to regular and plain init containers; sidecars are always restarted.
"""

from __future__ import annotations

from nodeagent.model.pod import Container, ContainerRestartRule, Pod, RestartPolicy

RESTART = "Restart"
"""Action of a rule."""


def restarts_after_exit(pod: Pod, container: Container, exit_code: int) -> bool:
    """Return whether *container* is restarted after it exited with *exit_code*.

    The first matching rule decides, then the container's policy, then the pod's.
    """
    if any(rule.action == RESTART for rule in _matching(container, exit_code)[:1]):
        return True
    policy = container.restart_policy or pod.spec.restart_policy
    if policy == RestartPolicy.NEVER:
        return False
    return policy != RestartPolicy.ON_FAILURE or exit_code != 0


def restarts_after_kill(pod: Pod, container: Container) -> bool:
    """Return whether *container* is restarted after a failed probe: rules apply only to its own exit."""
    return (container.restart_policy or pod.spec.restart_policy) != RestartPolicy.NEVER


def may_restart(pod: Pod, container: Container) -> bool:
    """Return whether there is an exit code after which *container* is restarted."""
    return restarts_after_kill(pod, container) or any(
        rule.action == RESTART for rule in container.restart_policy_rules or ()
    )


def _matching(container: Container, exit_code: int) -> list[ContainerRestartRule]:
    return [rule for rule in container.restart_policy_rules or () if _matches(rule, exit_code)]


def _matches(rule: ContainerRestartRule, exit_code: int) -> bool:
    codes = rule.exit_codes
    if codes is None:
        return False
    listed = exit_code in (codes.values or ())
    return {"In": listed, "NotIn": not listed}.get(codes.operator, False)
