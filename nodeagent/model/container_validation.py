"""Validation of the containers of a static pod. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nodeagent.base.names import (
    any_variable_name_problems,
    config_key_problems,
    header_name_problems,
    label_problems,
    port_name_problems,
    qualified_name_problems,
    subdomain_problems,
)
from nodeagent.model import checks
from nodeagent.model.checks import Problems
from nodeagent.model.pod import (
    AppArmorProfile,
    Container,
    ContainerPort,
    EnvVar,
    HttpGetAction,
    LifecycleHandler,
    PodSpec,
    Probe,
    RestartPolicy,
    SeccompProfile,
)
from nodeagent.model.resources import HUGEPAGES_PREFIX, quantity
from nodeagent.model.volume_validation import check_field, check_quantity, check_resource_field

_ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.labels",
    "metadata.annotations",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROPAGATIONS = ("None", "HostToContainer", "Bidirectional")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_PROFILES = ("RuntimeDefault", "Unconfined", "Localhost")
_MAX_RULES, _MAX_EXIT_CODES = 20, 255
_MAX_ID = 2**31 - 1


def check_containers(problems: Problems, spec: PodSpec, volumes: set[str]) -> None:
    """Check the regular and init containers of a pod.

    :param volumes: the names that mounts may refer to.
    """
    if not spec.containers:
        problems.add("spec.containers", None, "needs at least one container")
    names: set[str] = set()
    host_ports: set[tuple[str, str, int]] = set()
    for kind, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for i, container in enumerate(containers or ()):
            at = f"spec.{kind}[{i}]"
            if problems.name(f"{at}.name", container.name, label_problems) and container.name in names:
                problems.add(f"{at}.name", container.name, "is a duplicate in this pod")
            names.add(container.name)
            _check_container(problems, at, container, spec, volumes)
            _check_restarts(problems, at, container)
            if kind == "containers":
                _check_host_ports(problems, at, container.ports or (), host_ports)
            else:
                _check_init(problems, at, container)


def _check_container(problems: Problems, at: str, container: Container, spec: PodSpec, volumes: set[str]) -> None:
    if problems.require(f"{at}.image", container.image) and container.image != container.image.strip():
        problems.add(f"{at}.image", container.image, "must not start or end with a space")
    problems.choice(f"{at}.imagePullPolicy", container.image_pull_policy, _PULL_POLICIES)
    problems.choice(f"{at}.terminationMessagePolicy", container.termination_message_policy, _MESSAGE_POLICIES)
    _check_ports(problems, f"{at}.ports", container.ports or (), on_host=spec.host_network)
    _check_env(problems, at, container)
    _check_mounts(problems, at, container, volumes)
    _check_resources(problems, f"{at}.resources", container)
    _check_probe(problems, f"{at}.livenessProbe", container.liveness_probe, must_succeed_once=True)
    _check_probe(problems, f"{at}.readinessProbe", container.readiness_probe, must_succeed_once=False)
    _check_probe(problems, f"{at}.startupProbe", container.startup_probe, must_succeed_once=True)
    if container.lifecycle is not None:
        _check_handler(problems, f"{at}.lifecycle.postStart", container.lifecycle.post_start)
        _check_handler(problems, f"{at}.lifecycle.preStop", container.lifecycle.pre_stop)
    _check_security(problems, f"{at}.securityContext", container)


def _check_restarts(problems: Problems, at: str, container: Container) -> None:
    problems.choice(f"{at}.restartPolicy", container.restart_policy, list(RestartPolicy))
    rules = container.restart_policy_rules or ()
    if rules and container.restart_policy is None:
        problems.add(f"{at}.restartPolicy", None, "is required together with restartPolicyRules")
    if len(rules) > _MAX_RULES:
        problems.add(f"{at}.restartPolicyRules", None, f"must not have more than {_MAX_RULES} rules")
    for i, rule in enumerate(rules):
        path, codes = f"{at}.restartPolicyRules[{i}]", rule.exit_codes
        problems.choice(f"{path}.action", rule.action or "-", ("Restart", "RestartAllContainers"))
        if codes is None:
            problems.add(f"{path}.exitCodes", None, "is required")
            continue
        problems.choice(f"{path}.exitCodes.operator", codes.operator or "-", ("In", "NotIn"))
        if not 0 < len(codes.values or ()) <= _MAX_EXIT_CODES:
            problems.add(f"{path}.exitCodes.values", None, f"must have 1 to {_MAX_EXIT_CODES} values")


def _check_init(problems: Problems, at: str, container: Container) -> None:
    if container.restartable_init:
        return
    for name, value in (
        ("lifecycle", container.lifecycle),
        ("livenessProbe", container.liveness_probe),
        ("readinessProbe", container.readiness_probe),
        ("startupProbe", container.startup_probe),
    ):
        if value is not None:
            problems.add(f"{at}.{name}", None, "must not be set for an init container without restartPolicy Always")


# --- ports, environment, mounts -------------------------------------------------------------------------------


def _check_ports(problems: Problems, path: str, ports: Sequence[ContainerPort], *, on_host: bool) -> None:
    names: set[str] = set()
    for i, port in enumerate(ports):
        at = f"{path}[{i}]"
        problems.between(f"{at}.containerPort", port.container_port, 1, 65535)
        problems.between(f"{at}.hostPort", port.host_port, 0, 65535)
        problems.choice(f"{at}.protocol", port.protocol or "-", _PROTOCOLS)
        problems.optional(f"{at}.hostIP", port.host_ip, checks.ip_address)
        if port.name:
            problems.check(f"{at}.name", port.name, port_name_problems)
            if port.name in names:
                problems.add(f"{at}.name", port.name, "is a duplicate in this container")
            names.add(port.name)
        if on_host and port.host_port not in (0, port.container_port):
            problems.add(f"{at}.hostPort", port.host_port, "must be containerPort when hostNetwork is true")


def _check_host_ports(
    problems: Problems, at: str, ports: Sequence[ContainerPort], used: set[tuple[str, str, int]]
) -> None:
    for i, port in enumerate(ports):
        key = (port.host_ip, port.protocol, port.host_port)
        if port.host_port and key in used:
            problems.add(f"{at}.ports[{i}].hostPort", port.host_port, "is used by another port of this pod")
        used.add(key)


def _check_env(problems: Problems, at: str, container: Container) -> None:
    for i, variable in enumerate(container.env or ()):
        problems.name(f"{at}.env[{i}].name", variable.name, any_variable_name_problems)
        _check_env_source(problems, f"{at}.env[{i}]", variable)
    for i, source in enumerate(container.env_from or ()):
        path = f"{at}.envFrom[{i}]"
        problems.optional(f"{path}.prefix", source.prefix, any_variable_name_problems)
        given = {"configMapRef": source.config_map_ref, "secretRef": source.secret_ref}
        problems.exactly_one(path, [name for name, value in given.items() if value is not None])
        for name, value in given.items():
            if value is not None:
                problems.name(f"{path}.{name}.name", value.name, subdomain_problems)


def _check_env_source(problems: Problems, at: str, variable: EnvVar) -> None:
    source = variable.value_from
    if source is None:
        return
    if variable.value:
        problems.add(f"{at}.valueFrom", None, "must not be set together with value")
    given = {
        "fieldRef": source.field_ref,
        "resourceFieldRef": source.resource_field_ref,
        "configMapKeyRef": source.config_map_key_ref,
        "secretKeyRef": source.secret_key_ref,
        "fileKeyRef": source.file_key_ref,
    }
    problems.exactly_one(f"{at}.valueFrom", [name for name, value in given.items() if value is not None])
    if source.field_ref is not None:
        check_field(problems, f"{at}.valueFrom.fieldRef", source.field_ref, _ENV_FIELDS)
    if source.resource_field_ref is not None:
        check_resource_field(problems, f"{at}.valueFrom.resourceFieldRef", source.resource_field_ref)
    for name, reference in (
        ("configMapKeyRef", source.config_map_key_ref),
        ("secretKeyRef", source.secret_key_ref),
    ):
        if reference is not None:
            problems.name(f"{at}.valueFrom.{name}.name", reference.name, subdomain_problems)
            problems.name(f"{at}.valueFrom.{name}.key", reference.key, config_key_problems)

    if (file := source.file_key_ref) is not None:
        path = f"{at}.valueFrom.fileKeyRef"
        problems.require(f"{path}.volumeName", file.volume_name)
        problems.add(f"{path}.path", file.path, checks.relative_path(file.path))
        problems.name(f"{path}.key", file.key, any_variable_name_problems)


def _check_mounts(problems: Problems, at: str, container: Container, volumes: set[str]) -> None:
    paths: set[str] = set()
    privileged = container.security_context is not None and container.security_context.privileged is True
    for i, mount in enumerate(container.volume_mounts or ()):
        path = f"{at}.volumeMounts[{i}]"
        if problems.require(f"{path}.name", mount.name) and mount.name not in volumes:
            problems.add(f"{path}.name", mount.name, "must be the name of a volume of this pod")
        if problems.require(f"{path}.mountPath", mount.mount_path) and mount.mount_path in paths:
            problems.add(f"{path}.mountPath", mount.mount_path, "is a duplicate in this container")
        if ":" in mount.mount_path:
            problems.add(f"{path}.mountPath", mount.mount_path, "must not contain ':'")
        paths.add(mount.mount_path)
        problems.optional(f"{path}.subPath", mount.sub_path, checks.relative_path)
        problems.optional(f"{path}.subPathExpr", mount.sub_path_expr, checks.relative_path)
        if mount.sub_path and mount.sub_path_expr:
            problems.add(f"{path}.subPathExpr", mount.sub_path_expr, "must not be set together with subPath")
        problems.choice(f"{path}.mountPropagation", mount.mount_propagation, _PROPAGATIONS)
        if mount.mount_propagation == "Bidirectional" and not privileged:
            problems.add(f"{path}.mountPropagation", "Bidirectional", "needs a privileged container")
    for i, device in enumerate(container.volume_devices or ()):
        path = f"{at}.volumeDevices[{i}]"
        if problems.require(f"{path}.name", device.name) and device.name not in volumes:
            problems.add(f"{path}.name", device.name, "must be the name of a volume of this pod")
        if problems.require(f"{path}.devicePath", device.device_path):
            problems.add(f"{path}.devicePath", device.device_path, checks.no_backsteps(device.device_path))


# --- resources, probes, security ------------------------------------------------------------------------------


def _check_resources(problems: Problems, at: str, container: Container) -> None:
    limits, requests = container.resources.limits or {}, container.resources.requests or {}
    valid: dict[tuple[str, str], Any] = {}
    for kind, values in (("limits", limits), ("requests", requests)):
        for name, value in values.items():
            problems.check(f"{at}.{kind}", name, qualified_name_problems)
            before = len(problems.found)
            check_quantity(problems, f"{at}.{kind}[{name}]", value)
            if len(problems.found) == before:
                valid[kind, name] = quantity(value)
    for name in requests:
        request, limit = valid.get(("requests", name)), valid.get(("limits", name))
        if request is None or limit is None:
            continue
        if request > limit:
            problems.add(f"{at}.requests[{name}]", requests[name], f"must not exceed the limit of {limit}")
        elif name.startswith(HUGEPAGES_PREFIX) and request != limit:
            problems.add(f"{at}.requests[{name}]", requests[name], f"must equal the limit of {limit}")


def _check_probe(problems: Problems, at: str, probe: Probe | None, *, must_succeed_once: bool) -> None:
    if probe is None:
        return
    for name, seconds in (
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("failureThreshold", probe.failure_threshold),
        ("successThreshold", probe.success_threshold),
    ):
        problems.at_least(f"{at}.{name}", seconds, 0)
    if must_succeed_once and probe.success_threshold != 1:
        problems.add(f"{at}.successThreshold", probe.success_threshold, "must be 1")
    if probe.termination_grace_period_seconds is not None:
        if must_succeed_once:
            problems.at_least(f"{at}.terminationGracePeriodSeconds", probe.termination_grace_period_seconds, 1)
        else:
            problems.add(f"{at}.terminationGracePeriodSeconds", None, "must not be set for a readiness probe")
    given = {"exec": probe.exec, "httpGet": probe.http_get, "tcpSocket": probe.tcp_socket, "grpc": probe.grpc}
    problems.exactly_one(at, [name for name, value in given.items() if value is not None])
    _check_actions(problems, at, probe)
    if probe.grpc is not None:
        problems.between(f"{at}.grpc.port", probe.grpc.port, 1, 65535)


def _check_handler(problems: Problems, at: str, handler: LifecycleHandler | None) -> None:
    if handler is None:
        return
    given = {
        "exec": handler.exec,
        "httpGet": handler.http_get,
        "tcpSocket": handler.tcp_socket,
        "sleep": handler.sleep,
    }
    problems.exactly_one(at, [name for name, value in given.items() if value is not None])
    _check_actions(problems, at, handler)


def _check_actions(problems: Problems, at: str, action: Probe | LifecycleHandler) -> None:
    if action.exec is not None and not action.exec.command:
        problems.add(f"{at}.exec.command", None, "is required")
    if action.http_get is not None:
        _check_http(problems, f"{at}.httpGet", action.http_get)
    if action.tcp_socket is not None:
        _check_port(problems, f"{at}.tcpSocket.port", action.tcp_socket.port)


def _check_http(problems: Problems, at: str, action: HttpGetAction) -> None:
    problems.require(f"{at}.path", action.path)
    _check_port(problems, f"{at}.port", action.port)
    problems.choice(f"{at}.scheme", action.scheme or "-", ("HTTP", "HTTPS"))
    for i, header in enumerate(action.http_headers or ()):
        problems.name(f"{at}.httpHeaders[{i}].name", header.name, header_name_problems)


def _check_port(problems: Problems, at: str, port: int | str) -> None:
    if isinstance(port, int):
        problems.between(at, port, 1, 65535)
    else:
        problems.name(at, port, port_name_problems)


def check_seccomp(problems: Problems, at: str, profile: SeccompProfile | None) -> None:
    """Check a seccomp profile; only type ``Localhost`` has a path."""
    if profile is None:
        return
    problems.choice(f"{at}.type", profile.type or "-", _PROFILES)
    path = profile.localhost_profile
    if profile.type == "Localhost":
        problems.add(f"{at}.localhostProfile", path, checks.relative_path(path or ""))
    elif path is not None:
        problems.add(f"{at}.localhostProfile", path, "must be set only with type Localhost")


def check_apparmor(problems: Problems, at: str, profile: AppArmorProfile | None) -> None:
    """Check an AppArmor profile; only type ``Localhost`` has a name."""
    if profile is None:
        return
    problems.choice(f"{at}.type", profile.type or "-", _PROFILES)
    name = profile.localhost_profile
    if profile.type == "Localhost":
        if problems.require(f"{at}.localhostProfile", (name or "").strip()) and name != (name or "").strip():
            problems.add(f"{at}.localhostProfile", name, "must not be padded with whitespace")
    elif name is not None:
        problems.add(f"{at}.localhostProfile", name, "must be set only with type Localhost")


def _check_security(problems: Problems, at: str, container: Container) -> None:
    context = container.security_context
    if context is None:
        return
    problems.between(f"{at}.runAsUser", context.run_as_user, 0, _MAX_ID)
    problems.between(f"{at}.runAsGroup", context.run_as_group, 0, _MAX_ID)
    problems.choice(f"{at}.procMount", context.proc_mount, ("Default", "Unmasked"))
    check_seccomp(problems, f"{at}.seccompProfile", context.seccomp_profile)
    check_apparmor(problems, f"{at}.appArmorProfile", context.app_armor_profile)
    if context.allow_privilege_escalation is False:
        added = (context.capabilities.add if context.capabilities else None) or []
        if context.privileged:
            problems.add(f"{at}.allowPrivilegeEscalation", False, "must not be false in a privileged container")
        if {"SYS_ADMIN", "CAP_SYS_ADMIN"} & set(added):
            problems.add(f"{at}.allowPrivilegeEscalation", False, "must not be false with capability SYS_ADMIN")
