"""What makes a pod one that a node can run, and what an update of it may change."""

from __future__ import annotations

import copy
from typing import Any

from apiserver_stub.objects import Object
from apiserver_stub.status import (
    Cause,
    duplicate,
    forbidden_value,
    invalid_value,
    not_supported,
    required,
)
from apiserver_stub.validation.names import label_problems, subdomain_problems
from nodeagent.base import identity
from nodeagent.base.quantity import Quantity

_CHOICES = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
}
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MESSAGE_POLICIES = ("FallbackToLogsOnError", "File")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_UPDATE_RULE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate_pod(pod: Object) -> list[Cause]:
    """Return what is wrong with a new pod."""
    spec = pod["spec"]
    causes: list[Cause] = []
    volumes = _validate_volumes(spec.get("volumes"), causes)
    names: set[str] = set()
    containers = _list(spec.get("containers"))
    if not containers:
        causes.append(required("spec.containers"))
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(_list(spec.get(kind))):
            field = f"spec.{kind}[{index}]"
            if not isinstance(container, dict):
                causes.append(invalid_value(field, str(container), "must be an object"))
                continue
            causes += _validate_container(container, field, names, volumes, init=kind == "initContainers")
    for name, choices in _CHOICES.items():
        if spec.get(name) not in choices:
            causes.append(not_supported(f"spec.{name}", spec.get(name), choices))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not (_integer(deadline) and 1 <= deadline <= 2**31 - 1):
        causes.append(
            invalid_value("spec.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive")
        )
    if not _integer(spec["terminationGracePeriodSeconds"]):
        grace = spec["terminationGracePeriodSeconds"]
        causes.append(invalid_value("spec.terminationGracePeriodSeconds", str(grace), "must be an integer"))
    for name in ("nodeName", "serviceAccountName"):
        if value := spec.get(name):
            causes += [invalid_value(f"spec.{name}", value, problem) for problem in subdomain_problems(str(value))]
    for name in ("hostname", "subdomain"):
        if value := spec.get(name):
            causes += [invalid_value(f"spec.{name}", value, problem) for problem in label_problems(str(value))]
    if spec.get("dnsPolicy") == "None" and not (spec.get("dnsConfig") or {}).get("nameservers"):
        detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        causes.append(required("spec.dnsConfig.nameservers", detail))
    return causes


def validate_pod_update(new: Object, old: Object) -> list[Cause]:
    """Return what is wrong with a change of a pod through its main path."""
    causes = []
    after, before = new["spec"], old["spec"]
    comparable = copy.deepcopy(after)
    for kind in ("containers", "initContainers"):
        previous = _list(before.get(kind))
        current = _list(comparable.get(kind))
        if len(previous) != len(current):
            detail = "pod updates may not add or remove containers"
            return [forbidden_value(f"spec.{kind}", detail)]
        for index, (one, other) in enumerate(zip(current, previous, strict=True)):
            if not one.get("image"):
                causes.append(required(f"spec.{kind}[{index}].image"))
            one["image"] = other.get("image")
    deadline, previous_deadline = after.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if deadline != previous_deadline:
        field = "spec.activeDeadlineSeconds"
        if deadline is None:
            causes.append(invalid_value(field, None, "must not update from a positive integer to nil value"))
        elif not _integer(deadline) or deadline < 1:
            causes.append(invalid_value(field, deadline, "must be between 1 and 2147483647, inclusive"))
        elif previous_deadline is not None and deadline > previous_deadline:
            causes.append(
                invalid_value(field, deadline, f"must be less than or equal to previous value: {previous_deadline}")
            )
        _restore(comparable, before, "activeDeadlineSeconds")
    tolerations, previous_tolerations = _list(after.get("tolerations")), _list(before.get("tolerations"))
    if any(item not in tolerations for item in previous_tolerations):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        causes.append(forbidden_value("spec.tolerations", detail))
    _restore(comparable, before, "tolerations")
    gates, previous_gates = _list(after.get("schedulingGates")), _list(before.get("schedulingGates"))
    if any(gate not in previous_gates for gate in gates):
        causes.append(
            forbidden_value("spec.schedulingGates", "only deletion is allowed, but found new scheduling gates")
        )
    _restore(comparable, before, "schedulingGates")
    if comparable != before:
        changed = sorted(name for name in {*comparable, *before} if comparable.get(name) != before.get(name))
        causes.append(forbidden_value("spec", f"{_UPDATE_RULE}\nchanged: {', '.join(changed)}"))
    mirror = identity.current().label("config.mirror")
    if _annotation(new, mirror) != _annotation(old, mirror):
        detail = "may not remove or update mirror pod annotation"
        causes.append(forbidden_value(f"metadata.annotations[{mirror}]", detail))
    return causes


def _restore(spec: Object, before: Object, name: str) -> None:
    if name in before:
        spec[name] = before[name]
    else:
        spec.pop(name, None)


def _annotation(pod: Object, name: str) -> Any:
    return (pod["metadata"].get("annotations") or {}).get(name)


def _validate_container(
    container: Object, field: str, names: set[str], volumes: set[str], *, init: bool
) -> list[Cause]:
    causes = []
    name = container.get("name") or ""
    if not name:
        causes.append(required(f"{field}.name"))
    else:
        causes += [invalid_value(f"{field}.name", name, problem) for problem in label_problems(str(name))]
        if name in names:
            causes.append(duplicate(f"{field}.name", name))
        names.add(name)
    image = container.get("image") or ""
    if not image:
        causes.append(required(f"{field}.image"))
    elif image != str(image).strip():
        causes.append(invalid_value(f"{field}.image", image, "must not have leading or trailing whitespace"))
    if container["imagePullPolicy"] not in _PULL_POLICIES:
        causes.append(not_supported(f"{field}.imagePullPolicy", container["imagePullPolicy"], _PULL_POLICIES))
    policy = container["terminationMessagePolicy"]
    if policy not in _MESSAGE_POLICIES:
        causes.append(not_supported(f"{field}.terminationMessagePolicy", policy, _MESSAGE_POLICIES))
    for member in ("command", "args"):
        if not all(isinstance(word, str) for word in _list(container.get(member))):
            causes.append(invalid_value(f"{field}.{member}", "", "must be a list of strings"))
    causes += _validate_ports(container, field)
    causes += _validate_resources(container, f"{field}.resources")
    for index, variable in enumerate(_objects(container.get("env"))):
        if not variable.get("name"):
            causes.append(required(f"{field}.env[{index}].name"))
        if variable.get("value") and variable.get("valueFrom"):
            detail = "may not be specified when `value` is not empty"
            causes.append(invalid_value(f"{field}.env[{index}].valueFrom", "", detail))
    paths: set[str] = set()
    for index, mount in enumerate(_objects(container.get("volumeMounts"))):
        at = f"{field}.volumeMounts[{index}]"
        if not mount.get("name"):
            causes.append(required(f"{at}.name"))
        elif mount["name"] not in volumes:
            causes.append(Cause("FieldValueNotFound", f'Not found: "{mount["name"]}"', f"{at}.name"))
        path = mount.get("mountPath") or ""
        if not path:
            causes.append(required(f"{at}.mountPath"))
        elif path in paths:
            causes.append(invalid_value(f"{at}.mountPath", path, "must be unique"))
        paths.add(path)
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(value := container.get(probe), dict):
            causes += _validate_probe(value, f"{field}.{probe}")
            if init and container.get("restartPolicy") != "Always":
                causes.append(forbidden_value(f"{field}.{probe}", "may not be set for init containers"))
    restart = container.get("restartPolicy")
    if restart is not None and (not init or restart != "Always"):
        if init:
            causes.append(not_supported(f"{field}.restartPolicy", restart, ("Always",)))
        else:
            causes.append(forbidden_value(f"{field}.restartPolicy", "may not be set for non-init containers"))
    return causes


def _validate_ports(container: Object, field: str) -> list[Cause]:
    causes = []
    for index, port in enumerate(_objects(container.get("ports"))):
        at = f"{field}.ports[{index}]"
        number = port.get("containerPort")
        if not number:
            causes.append(required(f"{at}.containerPort"))
        for name in ("containerPort", "hostPort"):
            value = port.get(name)
            if value and not (_integer(value) and 1 <= value <= 65535):
                causes.append(invalid_value(f"{at}.{name}", value, "must be between 1 and 65535, inclusive"))
        if port["protocol"] not in _PROTOCOLS:
            causes.append(not_supported(f"{at}.protocol", port["protocol"], _PROTOCOLS))
    return causes


def _validate_resources(container: Object, field: str) -> list[Cause]:
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    causes = [
        invalid_value(f"{field}.{kind}[{name}]", str(amount), "must be greater than or equal to 0")
        for kind, amounts in (("limits", limits), ("requests", requests))
        for name, amount in amounts.items()
        if _amount(amount) < Quantity()
    ]
    for name, amount in requests.items():
        if name not in limits:
            continue
        least, most = _amount(amount), _amount(limits[name])
        if least > most:
            detail = f"must be less than or equal to {name} limit of {limits[name]}"
            causes.append(invalid_value(f"{field}.requests", str(amount), detail))
        elif least < most and ("/" in name or name.startswith("hugepages-")):  # what cannot be promised twice
            detail = f"must be equal to {name} limit of {limits[name]}"
            causes.append(invalid_value(f"{field}.requests", str(amount), detail))
    return causes


def _amount(value: Any) -> Quantity:
    return Quantity.parse(str(value))


def _validate_probe(probe: Object, field: str) -> list[Cause]:
    causes = []
    handlers = [name for name in _HANDLERS if probe.get(name) is not None]
    if not handlers:
        causes.append(required(field, "must specify a handler type"))
    causes += [forbidden_value(f"{field}.{name}", "may not specify more than 1 handler type") for name in handlers[1:]]
    for name in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        value = probe.get(name)
        if value is not None and not (_integer(value) and value >= 0):
            causes.append(invalid_value(f"{field}.{name}", value, "must be greater than or equal to 0"))
    if probe.get("successThreshold", 1) != 1 and not field.endswith("readinessProbe"):
        causes.append(invalid_value(f"{field}.successThreshold", probe["successThreshold"], "must be 1"))
    return causes


def _validate_volumes(volumes: Any, causes: list[Cause]) -> set[str]:
    names: set[str] = set()
    for index, volume in enumerate(_list(volumes)):
        field = f"spec.volumes[{index}]"
        if not isinstance(volume, dict):
            causes.append(invalid_value(field, str(volume), "must be an object"))
            continue
        name = volume.get("name") or ""
        if not name:
            causes.append(required(f"{field}.name"))
        else:
            causes += [invalid_value(f"{field}.name", name, problem) for problem in label_problems(str(name))]
            if name in names:
                causes.append(duplicate(f"{field}.name", name))
            names.add(name)
        sources = [key for key, value in volume.items() if isinstance(value, dict)]
        causes += [
            forbidden_value(f"{field}.{source}", "may not specify more than 1 volume type") for source in sources[1:]
        ]
    return names


def _list(items: Any) -> list[Any]:
    return items if isinstance(items, list) else []


def _objects(items: Any) -> list[Object]:
    return [item for item in _list(items) if isinstance(item, dict)]


def _integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
