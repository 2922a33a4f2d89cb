"""Validation of the security contexts of pods and containers."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, forbidden_value, invalid_value, not_supported, required
from apiserver_stub.validation.file_paths import validate_descending_path
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.sysctls import validate_sysctls
from apiserver_stub.validation.windows import validate_windows_options

_ID_RULE = f"must be between 0 and {2**31 - 1}, inclusive"
_GROUP_POLICIES = ("Always", "OnRootMismatch")
_PROC_MOUNTS = ("Default", "Unmasked")
_SECCOMP_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")


def validate_pod_security(spec: Object, field: str, options: PodOptions) -> list[Cause]:
    """Return the errors in the security context of a pod spec, which is at *field*."""
    context = spec.get("securityContext")
    if not context:
        return _validate_shared_processes(spec, f"{field}.securityContext.shareProcessNamespace")
    path = f"{field}.securityContext"
    causes = _validate_ids(context, path, "fsGroup", "runAsUser", "runAsGroup")
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        causes += _validate_id(group, f"{path}.supplementalGroups[{index}]")
    causes += _validate_shared_processes(spec, f"{path}.shareProcessNamespace")
    if context.get("sysctls"):
        causes += validate_sysctls(
            context,
            f"{path}.sysctls",
            host_network=bool(spec.get("hostNetwork")),
            host_ipc=bool(spec.get("hostIPC")),
            any_host=options.any_sysctls,
        )
    if (policy := context.get("fsGroupChangePolicy")) is not None and policy not in _GROUP_POLICIES:
        causes.append(not_supported(f"{path}.fsGroupChangePolicy", policy, _GROUP_POLICIES))
    causes += _validate_seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    if (windows := context.get("windowsOptions")) is not None:
        causes += validate_windows_options(windows, f"{path}.windowsOptions")
    return causes


def validate_container_security(context: Object, field: str, options: PodOptions) -> list[Cause]:
    """Return the errors in the security context of a container."""
    privileged = context.get("privileged")
    causes = []
    if privileged and not options.allow_privileged:
        causes.append(forbidden_value(f"{field}.privileged", "disallowed by cluster policy"))
    causes += _validate_ids(context, field, "runAsUser", "runAsGroup")
    if (mount := context.get("procMount")) is not None and mount not in _PROC_MOUNTS:
        causes.append(not_supported(f"{field}.procMount", mount, _PROC_MOUNTS))
    causes += _validate_seccomp(context.get("seccompProfile"), f"{field}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        start = "cannot set `allowPrivilegeEscalation` to false and"
        if privileged:
            causes.append(invalid_value(field, context, f"{start} `privileged` to true"))
        causes += [
            invalid_value(field, context, f"{start} `capabilities.Add` CAP_SYS_ADMIN")
            for name in (context.get("capabilities") or {}).get("add") or ()
            if name == "CAP_SYS_ADMIN"
        ]
    if (windows := context.get("windowsOptions")) is not None:
        causes += validate_windows_options(windows, f"{field}.windowsOptions")
    return causes


def validate_host_users(spec: Object, field: str) -> list[Cause]:
    """Return the errors in a pod with its own user namespace that uses other namespaces of the host."""
    if spec.get("hostUsers") is not False:
        return []
    names = (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC"))
    detail = "when `pod.Spec.HostUsers` is false"
    return [forbidden_value(f"{field}.{shown}", detail) for name, shown in names if spec.get(name)]


def _validate_shared_processes(spec: Object, field: str) -> list[Cause]:
    if not (spec.get("shareProcessNamespace") and spec.get("hostPID")):
        return []
    return [invalid_value(field, True, "ShareProcessNamespace and HostPID cannot both be enabled")]


def _validate_ids(context: Object, field: str, *names: str) -> list[Cause]:
    causes = []
    for name in names:
        if (number := context.get(name)) is not None:
            causes += _validate_id(number, f"{field}.{name}")
    return causes


def _validate_id(number: int, field: str) -> list[Cause]:
    return [] if 0 <= number < 1 << 31 else [invalid_value(field, number, _ID_RULE)]


def _validate_seccomp(profile: Object | None, field: str) -> list[Cause]:
    if profile is None:
        return []
    kind, path = profile.get("type") or "", profile.get("localhostProfile")
    causes = []
    if not kind:
        causes.append(required(f"{field}.type", "type is required when seccompProfile is set"))
    elif kind not in _SECCOMP_TYPES:
        causes.append(not_supported(f"{field}.type", kind, _SECCOMP_TYPES))
    at = f"{field}.localhostProfile"
    if kind == "Localhost":
        if path is None:
            return [*causes, required(at, "must be set when seccomp type is Localhost")]
        return causes + validate_descending_path(path, at)
    if path is not None:
        causes.append(invalid_value(at, profile, "can only be set when seccomp type is Localhost"))
    return causes
