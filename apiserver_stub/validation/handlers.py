"""Validation of the actions of probes and lifecycle hooks, and of the probes and hooks."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    forbidden_value,
    invalid_each,
    invalid_value,
    not_supported,
    required,
)
from apiserver_stub.validation.container_ports import validate_port_number_or_name
from nodeagent.base.names import header_name_problems

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_ACTIONS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_ACTIONS = ("exec", "httpGet", "tcpSocket", "sleep")
_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_SCHEMES = ("HTTP", "HTTPS")


def validate_probes(container: Object, field: str, grace_seconds: int) -> list[Cause]:
    """Return the errors in the probes of the *container* at *field*."""
    causes = []
    for name in PROBES:
        if (probe := container.get(name)) is not None:
            causes += _validate_probe(probe, name, f"{field}.{name}", grace_seconds)
    return causes


def validate_lifecycle(lifecycle: Object, field: str, grace_seconds: int) -> list[Cause]:
    """Return the errors in the lifecycle hooks of a container in a pod with *grace_seconds* to terminate."""
    causes = []
    for name in ("postStart", "preStop"):
        if (hook := lifecycle.get(name)) is not None:
            causes += _validate_action(hook, _HOOK_ACTIONS, f"{field}.{name}", grace_seconds)
    return causes


def _validate_probe(probe: Object, name: str, field: str, grace_seconds: int) -> list[Cause]:
    causes = _validate_action(probe, _PROBE_ACTIONS, field, grace_seconds)
    for number in _NUMBERS:
        if (value := probe.get(number) or 0) < 0:
            causes.append(invalid_value(f"{field}.{number}", value, "must be greater than or equal to 0"))
    if (seconds := probe.get("terminationGracePeriodSeconds")) is not None:
        at = f"{field}.terminationGracePeriodSeconds"
        if seconds <= 0:
            causes.append(invalid_value(at, seconds, "must be greater than 0"))
        if name == "readinessProbe":
            causes.append(invalid_value(at, seconds, "must not be set for readinessProbes"))
    if name != "readinessProbe" and (successes := probe.get("successThreshold") or 0) != 1:
        causes.append(invalid_value(f"{field}.successThreshold", successes, "must be 1"))
    return causes


def _validate_action(handler: Object, kinds: tuple[str, ...], field: str, grace_seconds: int) -> list[Cause]:
    found = [kind for kind in kinds if handler.get(kind) is not None]
    if not found:
        return [required(field, "must specify a handler type")]
    kind = found[0]
    action, path = handler[kind], f"{field}.{kind}"
    causes = []
    if kind == "exec":
        if not action.get("command"):
            causes.append(required(f"{path}.command"))
    elif kind == "httpGet":
        causes += _validate_http(action, path)
    elif kind == "sleep":
        seconds = action.get("seconds") or 0
        if not 0 < seconds <= grace_seconds:
            detail = f"must be greater than 0 and less than terminationGracePeriodSeconds ({grace_seconds})"
            causes.append(invalid_value(path, seconds, detail))
    else:
        causes += validate_port_number_or_name(action.get("port") or _no_port(action), f"{path}.port")
    return causes + [
        forbidden_value(f"{field}.{other}", "may not specify more than 1 handler type") for other in found[1:]
    ]


def _validate_http(action: Object, field: str) -> list[Cause]:
    causes = [] if action.get("path") else [required(f"{field}.path")]
    causes += validate_port_number_or_name(action.get("port") or _no_port(action), f"{field}.port")
    if (scheme := action.get("scheme") or "") not in _SCHEMES:
        causes.append(not_supported(f"{field}.scheme", scheme, _SCHEMES))
    for header in action.get("httpHeaders") or ():
        name = header.get("name") or ""
        causes += invalid_each(f"{field}.httpHeaders", name, header_name_problems(name))
    return causes


def _no_port(action: Object) -> int | str:
    """Return the port of an action without one: the empty name if that was set, else number 0."""
    return "" if action.get("port") == "" else 0
