"""Tests for the validation of the operating system of pods, and of the options of Windows containers."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.windows import (
    validate_host_processes,
    validate_operating_system,
    validate_windows_options,
)
from nodeagent.base.identity import Identity


def context(**windows: Any) -> dict[str, Any]:
    return {"securityContext": {"windowsOptions": windows}}


def containers(*hosted: bool | None) -> dict[str, Any]:
    """Return containers that run as processes of the host, or that inherit it from the pod."""
    return {
        "containers": [
            {"name": f"c{number}", **({} if value is None else context(hostProcess=value))}
            for number, value in enumerate(hosted)
        ]
    }


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"os": {}}, [("Required", "os.name")]),
        ({"os": {"name": "plan9"}}, [("NotSupported", "os")]),
        ({"os": {"name": "linux"}, "hostPID": True}, []),
        ({"os": {"name": "linux"}, "securityContext": {"windowsOptions": None}}, []),
        ({"os": {"name": "linux"}, **context()}, [("Forbidden", "securityContext.windowsOptions")]),
        (
            {"os": {"name": "linux"}, **containers(True)},
            [("Forbidden", "containers[0].securityContext.windowsOptions")],
        ),
        ({"os": {"name": "windows"}, **context(), **containers(None, True)}, []),
        ({"os": {"name": "windows"}, "hostPID": False, "hostIPC": False}, []),
        (
            {"os": {"name": "windows"}, "hostPID": True, "hostIPC": True, "hostUsers": False},
            [("Forbidden", "hostUsers"), ("Forbidden", "hostPID"), ("Forbidden", "hostIPC")],
        ),
        ({"os": {"name": "windows"}, "shareProcessNamespace": False}, [("Forbidden", "shareProcessNamespace")]),
        ({"os": {"name": "windows"}, "securityContext": {"sysctls": []}}, []),
        (
            {"os": {"name": "windows"}, "securityContext": {"sysctls": [{}], "fsGroup": 0}},
            [("Forbidden", "securityContext.fsGroup"), ("Forbidden", "securityContext.sysctls")],
        ),
        (
            {"os": {"name": "windows"}, "containers": [{"securityContext": {"privileged": False}}]},
            [("Forbidden", "containers[0].securityContext.privileged")],
        ),
    ],
)
def test_fields_of_the_other_system_are_rejected(spec: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    causes = validate_operating_system({"containers": [], **spec}, "spec")

    assert [(each.reason.removeprefix("FieldValue"), each.field.removeprefix("spec.")) for each in causes] == expected


OWN = "containers[0].securityContext.windowsOptions.hostProcess"


ALLOWED, DENIED = (PodOptions(Identity(), allow_privileged=allowed) for allowed in (True, False))


@pytest.mark.parametrize(
    ("spec", "hosted", "expected"),
    [
        (containers(None), False, []),
        (containers(False, None), False, []),
        ({**context(hostProcess=True), **containers(None), "hostNetwork": True}, True, []),
        ({**context(hostProcess=True), **containers(True), "hostNetwork": True}, True, []),
        ({**containers(True, True), "hostNetwork": True}, True, []),
        ({**containers(True, None), "hostNetwork": True}, True, [""]),
        ({**containers(True, True)}, True, ["hostNetwork"]),
        ({**context(hostProcess=False), **containers(False)}, False, []),
        ({**context(hostProcess=True), **containers(False)}, False, [OWN]),
        ({**context(hostProcess=False), **containers(True), "hostNetwork": True}, True, [OWN]),
        ({**context(hostProcess=True), **containers(False, None), "hostNetwork": True}, True, [OWN, ""]),
    ],
)
def test_all_containers_are_processes_of_the_host_or_none(
    spec: dict[str, Any], hosted: bool, expected: list[str]
) -> None:
    causes = validate_host_processes(spec, "spec", ALLOWED)
    denied = validate_host_processes(spec, "spec", DENIED)[len(causes) :]

    assert [each.field.removeprefix("spec").removeprefix(".") for each in causes] == expected
    assert [each.message for each in denied] == [
        "Forbidden: hostProcess containers are disallowed by cluster policy"
    ] * hosted


@pytest.mark.parametrize(("of_pod", "shown"), [(True, "true"), (False, "false")])
def test_conflict_of_pod_and_container_names_the_value_of_the_pod(of_pod: bool, shown: str) -> None:
    spec = {**context(hostProcess=of_pod), **containers(not of_pod), "hostNetwork": True}
    first, *_ = validate_host_processes(spec, "spec", ALLOWED)

    assert first.message.endswith(f"must be identical if both are specified, was {shown}")


USER = "runAsUserName"


@pytest.mark.parametrize(
    ("windows", "problems"),
    [
        ({}, []),
        ({"gmsaCredentialSpecName": "a.b"}, []),
        ({"gmsaCredentialSpecName": "A"}, ["a lowercase RFC 1123 subdomain"]),
        ({"gmsaCredentialSpec": ""}, ["gmsaCredentialSpec cannot be an empty string"]),
        ({"gmsaCredentialSpec": "a" * (64 << 10)}, []),
        ({"gmsaCredentialSpec": "a" * (64 << 10) + "a"}, ["gmsaCredentialSpec size must be under 64 KiB"]),
        ({USER: ""}, [f"{USER} cannot be an empty string"]),
        ({USER: "a\x01"}, [f"{USER} cannot contain control characters"]),
        ({USER: "a\x7f"}, [f"{USER} cannot contain control characters"]),
        ({USER: "user name"}, []),
        ({USER: "domain\\user"}, []),
        ({USER: "a_b\\user"}, []),
        ({USER: "long-domain.example.com\\user"}, []),
        ({USER: "a\\b\\c"}, [f"{USER} cannot contain more than one backslash"]),
        ({USER: "\\user"}, [f"{USER}'s Domain doesn't match the NetBios nor the DNS format"]),
        ({USER: "a" * 15 + "_\\user"}, [f"{USER}'s Domain doesn't match the NetBios nor the DNS format"]),
        ({USER: "domain\\"}, [f"{USER}'s User cannot be empty"]),
        ({USER: "a" * 104}, []),
        ({USER: "a" * 105}, [f"{USER}'s User length must not be longer than 104 characters"]),
        ({USER: ". ."}, [f"{USER}'s User cannot contain only periods or spaces"]),
        ({USER: "a@b"}, [f"{USER}'s User cannot contain the following characters"]),
        ({USER: ".".join(["a" * 50] * 5) + "\\user"}, []),
        ({USER: ".".join(["a" * 50] * 5) + ".\\user"}, ["doesn't match the NetBios nor the DNS format"]),
        ({USER: ".".join(["a" * 50] * 5) + ".b\\user"}, ["'s Domain length must be under 256 characters"]),
    ],
    ids=lambda value: str(value)[:50],
)
def test_options_of_windows_are_validated(windows: dict[str, str], problems: list[str]) -> None:
    causes = validate_windows_options(windows, "f")

    assert len(causes) == len(problems)
    for cause, problem in zip(causes, problems, strict=True):
        assert problem in cause.message
