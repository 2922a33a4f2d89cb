"""Validation of the kernel parameters of pods."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, duplicate, invalid_each, invalid_value, required
from nodeagent.base.sysctls import normalize_sysctl, sysctl_name_problems

_IPC_NAMES = frozenset(
    f"kernel.{name}"
    for name in ("sem", "shmall", "shmmax", "shmmni", "shm_rmid_forced", "shm", "msgmax", "msgmnb", "msgmni", "msg")
)


def validate_sysctls(context: Object, field: str, *, host_network: bool, host_ipc: bool, any_host: bool) -> list[Cause]:
    """Return the errors in the kernel parameters of a pod's security *context*.

    :param any_host: parameters of a namespace that the pod shares with the host are valid.
    """
    causes = []
    names: set[str] = set()
    for index, item in enumerate(context["sysctls"]):
        path = f"{field}[{index}].name"
        if not (name := item.get("name") or ""):
            causes.append(required(path))
        elif problems := sysctl_name_problems(name):
            causes += invalid_each(path, name, problems)
        elif name in names:
            causes.append(duplicate(path, name))
        if not any_host:
            causes += validate_host_sysctl(name, path, host_network=host_network, host_ipc=host_ipc)
        names.add(name)
    return causes


def validate_host_sysctl(name: str, field: str, *, host_network: bool, host_ipc: bool) -> list[Cause]:
    """Return the error in a kernel parameter of a namespace that the pod shares with the host."""
    normal = normalize_sysctl(name).partition("*")[0]
    if host_network and normal.startswith("net."):
        return [invalid_value(field, name, "may not be specified when 'hostNetwork' is true")]
    if host_ipc and (normal in _IPC_NAMES or normal.startswith("fs.mqueue.")):
        return [invalid_value(field, name, "may not be specified when 'hostIPC' is true")]
    return []
