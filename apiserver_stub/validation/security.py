"""Validation of the security contexts of pods and containers."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, forbidden_value, invalid_value, not_supported, required
from apiserver_stub.validation.apparmor import validate_apparmor_profile
from apiserver_stub.validation.file_paths import validate_descending_path
from apiserver_stub.validation.pod_containers import containers
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.sysctls import validate_sysctls
from apiserver_stub.validation.windows import validate_windows_options
from nodeagent.base.release import Release

_ID_RULE = f"must be between 0 and {2**31 - 1}, inclusive"
_GROUP_POLICIES = ("Always", "OnRootMismatch")
_PROC_MOUNTS = ("Default", "Unmasked")
_SUPPLEMENTAL_POLICIES, _SELINUX_POLICIES = ("Merge", "Strict"), ("MountOption", "Recursive")
_UNMASKED_IN_USER_NAMESPACE, _DEVICES_IN_USER_NAMESPACE = Release(1, 30), Release(1, 34)
"""First releases that demand a user namespace for an unmasked /proc, and that reject devices in user namespaces."""
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
    return causes + _validate_newer_fields(context, path, options)


def validate_container_security(
    context: Object, field: str, options: PodOptions, *, host_users: bool = True
) -> list[Cause]:
    """Return the errors in the security context of a container."""
    privileged = context.get("privileged")
    causes = []
    if privileged and not options.allow_privileged:
        causes.append(forbidden_value(f"{field}.privileged", "disallowed by cluster policy"))
    causes += _validate_ids(context, field, "runAsUser", "runAsGroup")
    if (mount := context.get("procMount")) is not None and mount not in _PROC_MOUNTS:
        causes.append(not_supported(f"{field}.procMount", mount, _PROC_MOUNTS))
    if mount == "Unmasked" and host_users and options.release >= _UNMASKED_IN_USER_NAMESPACE:
        causes.append(invalid_value(f"{field}.procMount", mount, "`hostUsers` must be false to use `Unmasked`"))
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
    if "AppArmorFields" in options.features:
        causes += validate_apparmor_profile(context.get("appArmorProfile"), f"{field}.appArmorProfile", options.release)
    return causes


def validate_host_users(spec: Object, field: str, options: PodOptions) -> list[Cause]:
    """Return the errors in a pod with its own user namespace that uses other namespaces of the host."""
    if spec.get("hostUsers") is not False:
        return []
    names = (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC"))
    if options.release < _DEVICES_IN_USER_NAMESPACE:
        detail = "when `pod.Spec.HostUsers` is false"
        return [forbidden_value(f"{field}.{shown}", detail) for name, shown in names if spec.get(name)]
    detail = "when `hostUsers` is false"
    allowed = ("hostNetwork",) if "UserNamespacesHostNetworkSupport" in options.features else ()
    fields = [f"{field}.{shown}" for name, shown in names if spec.get(name) and name not in allowed]
    fields += [f"{path}.volumeDevices" for path, item in containers(spec, field) if item.get("volumeDevices")]
    return [forbidden_value(each, detail) for each in fields]


def _validate_newer_fields(context: Object, field: str, options: PodOptions) -> list[Cause]:
    """Return the errors in the fields of a pod's security context that releases after 1.29 have."""
    causes = []
    if "AppArmorFields" in options.features:
        causes += validate_apparmor_profile(context.get("appArmorProfile"), f"{field}.appArmorProfile", options.release)
    policy = context.get("supplementalGroupsPolicy")
    if policy is not None and "SupplementalGroupsPolicy" in options.features and policy not in _SUPPLEMENTAL_POLICIES:
        causes.append(not_supported(f"{field}.supplementalGroupsPolicy", policy, _SUPPLEMENTAL_POLICIES))
    policy = context.get("seLinuxChangePolicy")
    if policy is not None and "SELinuxChangePolicy" in options.features:
        known = _SELINUX_POLICIES if "SELinuxMount" in options.features else ("Recursive",)
        if policy not in known:
            causes.append(not_supported(f"{field}.seLinuxChangePolicy", policy, known))
    return causes


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
