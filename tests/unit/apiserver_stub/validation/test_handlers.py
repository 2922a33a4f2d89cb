"""Tests for the validation of probes, lifecycle hooks and their actions."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.handlers import PROBES, validate_lifecycle, validate_probes
from apiserver_stub.validation.pod_options import PodOptions
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release

EXEC = {"exec": {"command": ["a"]}}
HTTP = {"path": "/", "port": 80, "scheme": "HTTP"}
PROBE = {**EXEC, "successThreshold": 1}
ZERO = frozenset({"PodLifecycleSleepActionAllowZero"})


def options(release: int = 29, features: frozenset[str] = frozenset()) -> PodOptions:
    return PodOptions(Identity(), Release(1, release), features)


def of_hook(hook: Any, name: str = "preStop", *arguments: Any) -> list[str]:
    causes = validate_lifecycle({name: hook}, "f", 30, None, *(arguments or (options(),)))
    return [f"{cause.reason.removeprefix('FieldValue')} {cause.field.removeprefix(f'f.{name}')}" for cause in causes]


@pytest.mark.parametrize(
    ("hook", "expected"),
    [
        (EXEC, []),
        ({}, ["Required "]),
        ({"exec": None}, ["Required "]),
        ({"exec": {}}, ["Required .exec.command"]),
        ({"httpGet": HTTP}, []),
        ({"httpGet": {**HTTP, "path": ""}}, ["Required .httpGet.path"]),
        ({"httpGet": {**HTTP, "scheme": ""}}, ["NotSupported .httpGet.scheme"]),
        ({"httpGet": {**HTTP, "scheme": "http"}}, ["NotSupported .httpGet.scheme"]),
        ({"httpGet": {**HTTP, "port": 0}}, ["Invalid .httpGet.port"]),
        ({"httpGet": {**HTTP, "port": "web"}}, []),
        ({"httpGet": {**HTTP, "httpHeaders": [{"name": "X-A"}]}}, []),
        ({"httpGet": {**HTTP, "httpHeaders": [{"name": "X A"}, {}]}}, ["Invalid .httpGet.httpHeaders"] * 2),
        ({"tcpSocket": {"port": 1}}, []),
        ({"tcpSocket": {}}, ["Invalid .tcpSocket.port"]),
        ({**EXEC, "tcpSocket": {"port": 1}}, ["Forbidden .tcpSocket"]),
        ({**EXEC, "tcpSocket": {}, "sleep": {}}, ["Forbidden .tcpSocket", "Forbidden .sleep"]),
        ({"sleep": {"seconds": 30}}, []),
        ({"sleep": {"seconds": 31}}, ["Invalid .sleep"]),
        ({"sleep": {"seconds": 1}}, []),
        ({"sleep": {"seconds": 0}}, ["Invalid .sleep"]),
        ({"sleep": {}}, ["Invalid .sleep"]),
    ],
)
@pytest.mark.parametrize("name", ["preStop", "postStart"])
def test_hook_has_one_valid_action(hook: Any, name: str, expected: list[str]) -> None:
    assert of_hook(hook, name) == expected


@pytest.mark.parametrize(("port", "message"), [("", '""'), (None, "0")])
def test_missing_port_is_reported_as_it_was_set(port: Any, message: str) -> None:
    action = {"port": port} if port is not None else {}
    causes = validate_lifecycle({"preStop": {"tcpSocket": action}}, "f", 30, None, options())

    assert message in causes[0].message


@pytest.mark.parametrize(
    ("release", "features", "seconds", "text"),
    [
        (29, frozenset(), 0, "must be greater than 0 and less than terminationGracePeriodSeconds (30)"),
        (31, frozenset(), 0, "must be greater than 0 and less than terminationGracePeriodSeconds (30)"),
        (32, frozenset(), 0, "Enable AllowPodLifecycleSleepActionZeroValue feature gate for zero sleep."),
        (32, ZERO, -1, "must be non-negative and less than terminationGracePeriodSeconds (30)"),
        (32, ZERO, 0, ""),
    ],
)
def test_sleep_of_zero_seconds_depends_on_release_and_gate(
    release: int, features: frozenset[str], seconds: int, text: str
) -> None:
    lifecycle = {"preStop": {"sleep": {"seconds": seconds}}}
    causes = validate_lifecycle(lifecycle, "f", 30, None, options(release, features))

    assert len(causes) == bool(text)
    assert all(cause.message.endswith(text) for cause in causes)


@pytest.mark.parametrize(
    ("signal", "os", "reason"),
    [
        ("SIGTERM", "linux", ""),
        ("SIGRTMIN+15", "linux", ""),
        ("SIGRTMIN+16", "linux", "NotSupported"),
        ("SIGRTMAX-14", "linux", ""),
        ("SIGRTMAX-15", "linux", "NotSupported"),
        ("SIGTERM", "windows", ""),
        ("SIGHUP", "windows", "NotSupported"),
        ("SIGHUP", "other", ""),
        ("SIGTERM", None, "Forbidden"),
        (None, None, ""),
    ],
)
def test_stop_signals_depend_on_the_operating_system(signal: str | None, os: str | None, reason: str) -> None:
    enabled = options(features=frozenset({"ContainerStopSignals"}))
    lifecycle = {"stopSignal": signal}

    causes = validate_lifecycle(lifecycle, "f", 30, os, enabled)
    assert [(each.field, each.reason.removeprefix("FieldValue")) for each in causes] == (
        [("f.stopSignal", reason)] if reason else []
    )
    assert validate_lifecycle(lifecycle, "f", 30, os, options()) == []


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        *((name, {}, []) for name in PROBES),
        ("livenessProbe", {"exec": None, "grpc": {"port": 1}}, []),
        ("livenessProbe", {"exec": None, "grpc": {"port": 0}}, ["grpc.port"]),
        ("livenessProbe", {"exec": None, "sleep": {"seconds": 1}}, [""]),
        ("livenessProbe", {"periodSeconds": 0, "timeoutSeconds": 0}, []),
        ("livenessProbe", {"periodSeconds": -1, "timeoutSeconds": -1}, ["timeoutSeconds", "periodSeconds"]),
        ("livenessProbe", {"successThreshold": 2}, ["successThreshold"]),
        ("startupProbe", {"successThreshold": None}, ["successThreshold"]),
        ("readinessProbe", {"successThreshold": 2}, []),
        ("livenessProbe", {"terminationGracePeriodSeconds": 1}, []),
        ("livenessProbe", {"terminationGracePeriodSeconds": 0}, ["terminationGracePeriodSeconds"]),
        ("readinessProbe", {"terminationGracePeriodSeconds": 1}, ["terminationGracePeriodSeconds"]),
        ("readinessProbe", {"terminationGracePeriodSeconds": 0}, ["terminationGracePeriodSeconds"] * 2),
    ],
)
def test_probes_are_validated(name: str, change: Any, expected: list[str]) -> None:
    causes = validate_probes({name: {**PROBE, **change}}, "f")

    assert [cause.field for cause in causes] == [f"f.{name}.{each}".rstrip(".") for each in expected]
