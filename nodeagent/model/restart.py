"""Restarts of containers: the policies of pod and container, and the rules for exit codes. No I/O.

They apply to regular and plain init containers; sidecars are always restarted.
"""

from __future__ import annotations

from nodeagent.model.pod import Container, ContainerRestartRule, Pod, PodStatus, RestartPolicy

RESTART = "Restart"
RESTART_ALL = "RestartAllContainers"
"""Actions of a rule."""
ALL_CONTAINERS_RESTARTING = "AllContainersRestarting"
"""Condition of a pod whose containers are removed so that it starts again in its sandbox."""
RESTARTING_ALL_CONTAINERS = "RestartingAllContainers"
"""Reason of the state of such containers."""


def restarts_after_exit(pod: Pod, container: Container, exit_code: int) -> bool:
    """Return whether *container* is restarted after it exited with *exit_code*.

    The first matching rule decides, then the container's policy, then the pod's.
    """
    if _action(container, exit_code) in (RESTART, RESTART_ALL):
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


def restarts_all(container: Container, exit_code: int) -> bool:
    """Return whether all containers of the pod are restarted after *container* exited with *exit_code*."""
    return _action(container, exit_code) == RESTART_ALL


def may_restart_all(pod: Pod) -> bool:
    """Return whether there is a container and an exit code after which all containers are restarted."""
    return any(
        rule.action == RESTART_ALL
        for container in (*(pod.spec.init_containers or ()), *pod.spec.containers)
        for rule in container.restart_policy_rules or ()
    )


def is_restarting_all(status: PodStatus) -> bool:
    """Return whether *status* reports that all containers are being restarted."""
    return any(c.type == ALL_CONTAINERS_RESTARTING and c.status == "True" for c in status.conditions or ())


def _action(container: Container, exit_code: int) -> str:
    """Return the action of the first matching rule, or the empty string."""
    return next((rule.action for rule in container.restart_policy_rules or () if _matches(rule, exit_code)), "")


def _matches(rule: ContainerRestartRule, exit_code: int) -> bool:
    codes = rule.exit_codes
    if codes is None:
        return False
    listed = exit_code in (codes.values or ())
    return {"In": listed, "NotIn": not listed}.get(codes.operator, False)
