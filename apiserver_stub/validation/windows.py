"""Validation of the operating system of pods, and of the options of Windows containers."""

from __future__ import annotations

import re

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    forbidden_value,
    invalid_each,
    invalid_value,
    not_supported,
    required,
)
from apiserver_stub.validation.pod_containers import containers
from apiserver_stub.validation.pod_options import PodOptions
from nodeagent.base.names import subdomain_problems

_SYSTEMS = ("linux", "windows")
_CREDENTIALS_LIMIT_KIB, _DOMAIN_LIMIT, _USER_LIMIT = 64, 256, 104
_control = re.compile(r"[\x00-\x1f\x7f]")
_net_bios = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_domain = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_user_characters, _dots_and_spaces = re.compile(r'["/\\:;|=,+*?<>@\[\]]'), re.compile(r"[. ]+")
_NOT_FOR_WINDOWS = "cannot be set for a windows pod"
_NOT_IN_POD = ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace")
_NOT_IN_POD_CONTEXT = (
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "appArmorProfile",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
)
_NOT_IN_CONTEXT = (
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
    "appArmorProfile",
)


def validate_operating_system(spec: Object, field: str) -> list[Cause]:
    """Return the errors in the operating system of a pod spec, and in fields that it does not support."""
    name = spec["os"].get("name") or ""
    if not name:
        return [required(f"{field}.os.name", "cannot be empty")]
    if name == "linux":
        return _validate_linux(spec, field)
    return _validate_windows(spec, field) if name == "windows" else [not_supported(f"{field}.os", name, _SYSTEMS)]


def validate_host_processes(spec: Object, field: str, options: PodOptions) -> list[Cause]:
    """Return the errors in a pod with containers that run as processes of a Windows host."""
    of_pod = _host_process(spec)
    causes: list[Cause] = []
    total = hosted = 0
    for path, container in containers(spec, field):
        total += 1
        own = _host_process(container)
        if of_pod is not None and own is not None and own is not of_pod:
            shown = "true" if of_pod else "false"
            detail = f"pod hostProcess value must be identical if both are specified, was {shown}"
            causes.append(invalid_value(f"{path}.securityContext.windowsOptions.hostProcess", own, detail))
        hosted += bool(of_pod if own is None else own)
    if not hosted:
        return causes
    if hosted != total:
        detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        causes.append(invalid_value(field, "", detail))
    if not spec.get("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        causes.append(invalid_value(f"{field}.hostNetwork", False, detail))
    if not options.allow_privileged:
        causes.append(forbidden_value(field, "hostProcess containers are disallowed by cluster policy"))
    return causes


def validate_windows_options(windows: Object, field: str) -> list[Cause]:
    """Return the errors in the Windows options of a security context."""
    causes = []
    if (name := windows.get("gmsaCredentialSpecName")) is not None:
        causes += invalid_each(f"{field}.gmsaCredentialSpecName", name, subdomain_problems(name))
    if (content := windows.get("gmsaCredentialSpec")) is not None:
        path = f"{field}.gmsaCredentialSpec"
        if not content:
            causes.append(invalid_value(path, content, "gmsaCredentialSpec cannot be an empty string"))
        elif len(content.encode()) > _CREDENTIALS_LIMIT_KIB << 10:
            detail = f"gmsaCredentialSpec size must be under {_CREDENTIALS_LIMIT_KIB} KiB"
            causes.append(invalid_value(path, content, detail))
    if (user := windows.get("runAsUserName")) is not None:
        details = [f"runAsUserName{problem}" for problem in _user_problems(user)]
        causes += invalid_each(f"{field}.runAsUserName", user, details)
    return causes


def _user_problems(text: str) -> list[str]:
    if not text:
        return [" cannot be an empty string"]
    if _control.search(text):
        return [" cannot contain control characters"]
    domain, slash, user = text.rpartition("\\")
    if "\\" in domain:
        return [" cannot contain more than one backslash"]
    problems = []
    if len(domain.encode()) >= _DOMAIN_LIMIT:
        problems.append(f"'s Domain length must be under {_DOMAIN_LIMIT} characters")
    if slash and not (_net_bios.fullmatch(domain) or _domain.fullmatch(domain)):
        problems.append("'s Domain doesn't match the NetBios nor the DNS format")
    if not user:
        problems.append("'s User cannot be empty")
    elif len(user.encode()) > _USER_LIMIT:
        problems.append(f"'s User length must not be longer than {_USER_LIMIT} characters")
    if _dots_and_spaces.fullmatch(user):
        problems.append("'s User cannot contain only periods or spaces")
    if _user_characters.search(user):
        problems.append("'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]")
    return problems


def _validate_linux(spec: Object, field: str) -> list[Cause]:
    detail = "windows options cannot be set for a linux pod"
    contexts = [(field, spec), *containers(spec, field)]
    return [
        forbidden_value(f"{path}.securityContext.windowsOptions", detail)
        for path, owner in contexts
        if (owner.get("securityContext") or {}).get("windowsOptions") is not None
    ]


def _validate_windows(spec: Object, field: str) -> list[Cause]:
    names = [f"{field}.{name}" for name in _NOT_IN_POD if _is_set(spec, name)]
    context = spec.get("securityContext") or {}
    names += [f"{field}.securityContext.{name}" for name in _NOT_IN_POD_CONTEXT if _is_set(context, name)]
    for path, container in containers(spec, field):
        context = container.get("securityContext") or {}
        names += [f"{path}.securityContext.{name}" for name in _NOT_IN_CONTEXT if _is_set(context, name)]
    return [forbidden_value(name, _NOT_FOR_WINDOWS) for name in names]


def _is_set(obj: Object, name: str) -> bool:
    value = obj.get(name)
    return bool(value) if name in ("hostPID", "hostIPC", "sysctls") else value is not None


def _host_process(owner: Object) -> bool | None:
    windows = (owner.get("securityContext") or {}).get("windowsOptions") or {}
    value: bool | None = windows.get("hostProcess")
    return value
