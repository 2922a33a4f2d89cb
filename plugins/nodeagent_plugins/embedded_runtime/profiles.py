"""Seccomp profiles of containers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime.errors import FailedPrecondition, InvalidArgument
from nodeagent_plugins.embedded_runtime.oci_runtimes import Runner

# System calls that affect the host; each fails with EPERM, all others are allowed.
FORBIDDEN = (
    *("acct", "add_key", "bpf", "clock_adjtime", "clock_settime", "create_module", "delete_module", "finit_module"),
    *("fsconfig", "fsmount", "fsopen", "fspick", "get_kernel_syms", "init_module", "ioperm", "iopl", "kcmp"),
    *("kexec_file_load", "kexec_load", "keyctl", "lookup_dcookie", "mbind", "migrate_pages", "mount", "mount_setattr"),
    *("move_mount", "move_pages", "name_to_handle_at", "nfsservctl", "open_by_handle_at", "open_tree"),
    *("perf_event_open", "pivot_root", "process_vm_readv", "process_vm_writev", "query_module", "quotactl"),
    *("quotactl_fd", "reboot", "request_key", "set_mempolicy", "setns", "settimeofday", "stime", "swapoff", "swapon"),
    *("sysfs", "_sysctl", "umount", "umount2", "unshare", "uselib", "userfaultfd", "ustat", "vm86", "vm86old"),
)
DEFAULT = {
    "defaultAction": "SCMP_ACT_ALLOW",
    "syscalls": [{"names": list(FORBIDDEN), "action": "SCMP_ACT_ERRNO", "errnoRet": 1}],
}


def seccomp_profile(security: cri.LinuxContainerSecurityContext, runner: Runner) -> Mapping[str, Any] | None:
    """Return the seccomp profile of a container; ``None`` for unconfined.

    :raises FailedPrecondition: the host or runtime does not support the profile.
    """
    requested = security.seccomp
    if security.privileged or not security.HasField("seccomp"):
        return None
    if requested.profile_type == cri.SecurityProfile.Unconfined:
        return None
    if not runner.filters_calls:
        raise FailedPrecondition(
            "seccomp profiles require crun or runc; install one of them, or set the profile to Unconfined"
        )
    if requested.profile_type == cri.SecurityProfile.RuntimeDefault:
        return DEFAULT
    try:
        profile = msgspec.json.decode(Path(requested.localhost_ref).read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise InvalidArgument(f"seccomp profile {requested.localhost_ref}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"seccomp profile {requested.localhost_ref}: {error}") from error
    return profile
