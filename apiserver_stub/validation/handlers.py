"""Validation of the actions of probes and lifecycle hooks, and of the probes and hooks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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
from apiserver_stub.validation.pod_options import PodOptions
from nodeagent.base.names import header_name_problems
from nodeagent.base.release import Release

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_ACTIONS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_ACTIONS = ("exec", "httpGet", "tcpSocket", "sleep")
_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_SCHEMES = ("HTTP", "HTTPS")
_ZERO_SLEEP = Release(1, 32)
"""First release with a gate for a sleep of zero seconds."""
_LINUX_SIGNALS = """
    ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT RTMAX RTMIN SEGV STKFLT STOP SYS
    TERM TRAP TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ
"""
_SIGNALS = {
    "linux": sorted(
        [f"SIG{name}" for name in _LINUX_SIGNALS.split()]
        + [f"SIGRTMIN+{number}" for number in range(1, 16)]
        + [f"SIGRTMAX-{number}" for number in range(1, 15)]
    ),
    "windows": ["SIGKILL", "SIGTERM"],
}
"""Stop signals by operating system."""


def validate_probes(container: Object, field: str) -> list[Cause]:
    """Return the errors in the probes of the *container* at *field*."""
    causes = []
    for name in PROBES:
        if (probe := container.get(name)) is not None:
            causes += _validate_probe(probe, name, f"{field}.{name}")
    return causes


def validate_lifecycle(
    lifecycle: Object, field: str, grace_seconds: int, os: str | None, options: PodOptions
) -> list[Cause]:
    """Return the errors in the hooks and the stop signal of a container in a pod with *grace_seconds* to terminate.

    :param os: operating system of the pod, ``None`` if it is not stated.
    """
    causes = []
    validate_sleep = partial(_validate_sleep, grace_seconds=grace_seconds, options=options)
    for name in ("postStart", "preStop"):
        if (hook := lifecycle.get(name)) is not None:
            causes += _validate_action(hook, _HOOK_ACTIONS, f"{field}.{name}", validate_sleep)
    if "ContainerStopSignals" in options.features and (signal := lifecycle.get("stopSignal")) is not None:
        causes += _validate_stop_signal(signal, f"{field}.stopSignal", os)
    return causes


def _validate_probe(probe: Object, name: str, field: str) -> list[Cause]:
    causes = _validate_action(probe, _PROBE_ACTIONS, field)
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


def _validate_action(
    handler: Object,
    kinds: tuple[str, ...],
    field: str,
    validate_sleep: Callable[[Object, str], list[Cause]] | None = None,
) -> list[Cause]:
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
        causes += validate_sleep(action, path) if validate_sleep is not None else []
    else:
        causes += validate_port_number_or_name(action.get("port") or _no_port(action), f"{path}.port")
    return causes + [
        forbidden_value(f"{field}.{other}", "may not specify more than 1 handler type") for other in found[1:]
    ]


def _validate_sleep(action: Object, field: str, grace_seconds: int, options: PodOptions) -> list[Cause]:
    seconds = action.get("seconds") or 0
    if "PodLifecycleSleepActionAllowZero" in options.features:
        least, detail = 0, f"must be non-negative and less than terminationGracePeriodSeconds ({grace_seconds})"
    else:
        least, detail = 1, f"must be greater than 0 and less than terminationGracePeriodSeconds ({grace_seconds})"
        if options.release >= _ZERO_SLEEP:
            detail += ". Enable AllowPodLifecycleSleepActionZeroValue feature gate for zero sleep."
    return [] if least <= seconds <= grace_seconds else [invalid_value(field, seconds, detail)]


def _validate_stop_signal(signal: str, field: str, os: str | None) -> list[Cause]:
    if os is None:
        return [forbidden_value(field, "may not be set for containers with empty `spec.os.name`")]
    signals = _SIGNALS.get(os)
    return [] if signals is None or signal in signals else [not_supported(field, signal, signals)]


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
