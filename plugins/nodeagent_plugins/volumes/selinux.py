"""SELinux labels of volumes that are mounted with a label instead of being relabeled file by file."""

from __future__ import annotations

from pathlib import Path

from nodeagent.model.pod import Pod

_ENFORCE = Path("/sys/fs/selinux/enforce")
_DEFAULT_USER, _DEFAULT_ROLE, _DEFAULT_TYPE = "system_u", "object_r", "container_file_t"


def volume_label(pod: Pod, name: str, *, policy: bool = True, enabled: bool | None = None) -> str:
    """Return the label ``user:role:type:level`` for a volume of a pod.

    :param pod: the pod.
    :param name: name of the volume in the pod spec.
    :param policy: honor the pod's ``seLinuxChangePolicy``.
    :param enabled: whether the host uses SELinux; ``None`` checks it.
    :returns: the label that all containers with the volume share; empty if they differ, one of them has no level, the
        pod opts out, or the host does not use SELinux.
    """
    if not (_ENFORCE.exists() if enabled is None else enabled):
        return ""
    security = pod.spec.security_context
    if policy and security is not None and security.se_linux_change_policy == "Recursive":
        return ""
    labels = set()
    for _, container in pod.containers():
        if name not in {mount.name for mount in container.volume_mounts or ()}:
            continue
        own = container.security_context.se_linux_options if container.security_context is not None else None
        options = own or (security.se_linux_options if security is not None else None)
        if options is None or not options.level:
            return ""
        # The type of a process is not the type of a file; a policy maps one to the other.
        parts = (options.user or _DEFAULT_USER, options.role or _DEFAULT_ROLE, _DEFAULT_TYPE, options.level)
        labels.add(":".join(parts))
    return labels.pop() if len(labels) == 1 else ""
