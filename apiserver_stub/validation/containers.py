"""Validation of the containers of pods and pod templates: regular, init and ephemeral ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    duplicate,
    forbidden_value,
    invalid_each,
    invalid_value,
    not_found_value,
    not_supported,
    required,
)
from apiserver_stub.validation.container_ports import validate_container_ports, validate_host_ports
from apiserver_stub.validation.container_restarts import validate_init_restart_policy, validate_restart_policy
from apiserver_stub.validation.environment import validate_environment, validate_environment_sources
from apiserver_stub.validation.handlers import PROBES, validate_lifecycle, validate_probes
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.requirements import validate_requirements
from apiserver_stub.validation.security import validate_container_security
from apiserver_stub.validation.volume_mounts import validate_volume_devices, validate_volume_mounts
from nodeagent.base.names import label_problems
from nodeagent.base.release import Release
from nodeagent.base.structs import Struct

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_RESIZE_RESOURCES, _RESIZE_POLICIES = ("cpu", "memory"), ("NotRequired", "RestartContainer")
_NOT_IN_EPHEMERAL = ("ports", "resources", *PROBES, "lifecycle", "restartPolicy", "restartPolicyRules", "resizePolicy")
_WITHOUT_PRESENCE = ("resources", "restartPolicyRules")
_NOT_IN_INIT = ("lifecycle", *PROBES)

_INIT_RESIZE, _INIT_RESIZE_RESTART = Release(1, 32), Release(1, 36)
"""First releases with resize policies of init containers, and with the rule for those that are not sidecars."""


class PodContext(Struct, frozen=True):
    """Values of a pod spec that the validation of its containers depends on."""

    volumes: Mapping[str, Object]
    """Valid volumes by name."""
    claim_names: Collection[str]
    grace_seconds: int
    restart_policy: str
    os: str | None
    """Operating system; ``None`` if the pod does not state it."""
    host_users: bool
    options: PodOptions


def validate_containers(containers: Sequence[Object], field: str, context: PodContext) -> list[Cause]:
    """Return the errors in the regular containers."""
    if not containers:
        return [required(field)]
    causes = []
    names: set[str] = set()
    for index, container in enumerate(containers):
        path = f"{field}[{index}]"
        causes += _validate_container(container, path, context)
        name = container.get("name") or ""
        if name in names:
            causes.append(duplicate(f"{path}.name", name))
        names.add(name)
        causes += _validate_life(container, path, context)
        causes += validate_restart_policy(container, path, context.options)
    return causes + validate_host_ports(containers, field)


def validate_init_containers(spec: Object, field: str, context: PodContext) -> list[Cause]:
    """Return the errors in the init containers of a pod spec."""
    causes = []
    names = {item.get("name") or "" for item in spec.get("containers") or ()}
    for index, container in enumerate(spec.get("initContainers") or ()):
        path = f"{field}[{index}]"
        causes += _validate_container(container, path, context)
        policy = container.get("restartPolicy")
        causes += validate_init_restart_policy(container, path, context.options)
        name = container.get("name") or ""
        if name in names:
            causes.append(duplicate(f"{path}.name", name))
        elif name:
            names.add(name)
        # Init containers run one by one, so only the ports of the same one can conflict.
        causes += validate_host_ports([container], field)
        if policy == "Always":
            causes += _validate_life(container, path, context)
        else:
            detail = "may not be set for init containers without restartPolicy=Always"
            causes += [
                forbidden_value(f"{path}.{member}", detail)
                for member in _NOT_IN_INIT
                if container.get(member) is not None
            ]
        causes += _validate_init_resize(container.get("resizePolicy") or [], f"{path}.resizePolicy", policy, context)
    return causes


def validate_ephemeral_containers(spec: Object, field: str, context: PodContext) -> list[Cause]:
    """Return the errors in the ephemeral containers of a pod spec."""
    causes = []
    others = {item.get("name") or "" for kind in ("containers", "initContainers") for item in spec.get(kind) or ()}
    names = set(others)
    detail = "cannot be set for an Ephemeral Container"
    for index, container in enumerate(spec["ephemeralContainers"]):
        path = f"{field}[{index}]"
        causes += _validate_container(container, path, context)
        causes += validate_image(container, path)
        name = container.get("name") or ""
        if name in names:
            causes.append(duplicate(f"{path}.name", name))
        names.add(name)
        target = container.get("targetContainerName")
        if target and target not in others:
            causes.append(not_found_value(f"{path}.targetContainerName", target))
        for member in _NOT_IN_EPHEMERAL:
            value = container.get(member)
            if value or (value is not None and member not in _WITHOUT_PRESENCE):
                causes.append(forbidden_value(f"{path}.{member}", detail))
        for number, mount in enumerate(container.get("volumeMounts") or ()):
            causes += [
                forbidden_value(f"{path}.volumeMounts[{number}].{member}", detail)
                for member in ("subPath", "subPathExpr")
                if mount.get(member)
            ]
    return causes


def _validate_init_resize(
    policies: Sequence[Object], field: str, restart_policy: str | None, context: PodContext
) -> list[Cause]:
    options = context.options
    if policies and (options.release < _INIT_RESIZE or not options.allow_resize):
        return [invalid_value(field, policies, "must not be set for init containers")]
    if restart_policy == "Always" or options.release < _INIT_RESIZE_RESTART:
        return []
    detail = "must not be set to 'RestartContainer' for non-sidecar initContainers"
    return [
        invalid_value(f"{field}[{index}].restartPolicy", "RestartContainer", detail)
        for index, policy in enumerate(policies)
        if policy.get("restartPolicy") == "RestartContainer"
    ]


def validate_image(container: Object, field: str) -> list[Cause]:
    """Return the error in the image of a container of a pod; in pod templates it may have spaces around it."""
    image = container.get("image") or ""
    if image == image.strip():
        return []
    return [invalid_value(f"{field}.image", image, "must not have leading or trailing whitespace")]


def _validate_container(container: Object, field: str, context: PodContext) -> list[Cause]:
    """Return the errors in the fields that all kinds of containers have."""
    causes, options = [], context.options
    if name := container.get("name"):
        if problems := label_problems(name):
            causes += invalid_each(f"{field}.name", name, problems)
    else:
        causes.append(required(f"{field}.name"))
    if not container.get("image"):
        causes.append(required(f"{field}.image"))
    policy = container.get("terminationMessagePolicy")
    causes += _validate_choice(policy, _MESSAGE_POLICIES, f"{field}.terminationMessagePolicy")
    if ports := container.get("ports"):
        causes += validate_container_ports(ports, f"{field}.ports")
    if variables := container.get("env"):
        causes += validate_environment(variables, f"{field}.env", options)
    if sources := container.get("envFrom"):
        causes += validate_environment_sources(sources, f"{field}.envFrom", options)
    if container.get("volumeMounts"):
        causes += validate_volume_mounts(container, context.volumes, f"{field}.volumeMounts", options)
    if container.get("volumeDevices"):
        causes += validate_volume_devices(container, context.volumes, f"{field}.volumeDevices")
    causes += _validate_choice(container.get("imagePullPolicy"), _PULL_POLICIES, f"{field}.imagePullPolicy")
    if resources := container.get("resources"):
        causes += validate_requirements(resources, context.claim_names, f"{field}.resources", options)
    if resize := container.get("resizePolicy"):
        causes += _validate_resize(resize, f"{field}.resizePolicy", context.restart_policy)
    if security := container.get("securityContext"):
        causes += validate_container_security(
            security, f"{field}.securityContext", options, host_users=context.host_users
        )
    return causes


def _validate_life(container: Object, field: str, context: PodContext) -> list[Cause]:
    """Return the errors in hooks and probes."""
    causes: list[Cause] = []
    if lifecycle := container.get("lifecycle"):
        causes += validate_lifecycle(
            lifecycle, f"{field}.lifecycle", context.grace_seconds, context.os, context.options
        )
    return causes + validate_probes(container, field)


def _validate_choice(value: str | None, choices: Sequence[str], field: str) -> list[Cause]:
    if value in choices:
        return []
    return [not_supported(field, value, choices) if value else required(field)]


def _validate_resize(policies: Sequence[Object], field: str, restart_policy: str) -> list[Cause]:
    causes = []
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        resource, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if resource in seen:
            causes.append(duplicate(f"{field}[{index}]", resource))
        seen.add(resource)
        causes += _validate_choice(resource, _RESIZE_RESOURCES, field)
        causes += _validate_choice(restart, _RESIZE_POLICIES, field)
        if restart_policy == "Never" and restart != "NotRequired":
            detail = "must be 'NotRequired' when `restartPolicy` is 'Never'"
            causes.append(invalid_value(field, restart, detail))
    return causes
