"""SELinux labels of volumes that are mounted with a label instead of being relabeled file by file.

A volume has one label on the node: pods that need different ones cannot use it at the same time. For access modes that
are not mounted with a label yet, such conflicts are only counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nodeagent.base.gates import FeatureGates
from nodeagent.base.metrics import Counter
from nodeagent.contracts.persistent_volumes import PersistentVolumeKind, VolumeSpec
from nodeagent.errors import VolumeError
from nodeagent.model.persistent_volume import READ_WRITE_ONCE_POD
from nodeagent.model.pod import Pod
from nodeagent_plugins.volumes.features import features_of

ENFORCE = Path("/sys/fs/selinux/enforce")
"""Exists if the host uses SELinux."""
_DEFAULT_USER, _DEFAULT_ROLE, _DEFAULT_TYPE = "system_u", "object_r", "container_file_t"
_SHORT_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_RETRIED = (
    "Kubelet can't start such a Pod then and it will retry, therefore value of this metric may not represent the "
    "actual nr. of Pods."
)
_LATER = (
    "They are not errors yet, but they will become real errors when SELinuxMountReadWriteOncePod feature is expanded "
    "to all volume access modes."
)


def _counter(name: str, text: str) -> Counter:
    return Counter(f"volume_manager_selinux_{name}_total", text, ("access_mode",), prefixed=False)


_POD = "Number of errors when a Pod defines different SELinux contexts for its containers that use the same volume. "
POD_ERRORS = _counter("pod_context_mismatch_errors", f"{_POD}{_RETRIED}")
POD_WARNINGS = _counter("pod_context_mismatch_warnings", f"{_POD}{_LATER}")
_VOLUME = (
    "Number of errors when a Pod uses a volume that is already mounted with a different SELinux context than the Pod "
    "needs. "
)
VOLUME_ERRORS = _counter("volume_context_mismatch_errors", f"{_VOLUME}{_RETRIED}")
VOLUME_WARNINGS = _counter("volume_context_mismatch_warnings", f"{_VOLUME}{_LATER}")
ADMITTED = _counter(
    "volumes_admitted",
    "Number of volumes whose SELinux context was fine and will be mounted with mount -o context option.",
)


class MountLabels:
    """Selects the labels of mounts, by the feature gates of the node."""

    def __init__(self, gates: FeatureGates) -> None:
        self._by_mount = gates.enabled("SELinuxMountReadWriteOncePod")
        self._all_modes = gates.enabled("SELinuxMount")
        self._policy = gates.enabled("SELinuxChangePolicy")

    async def select(
        self, pod: Pod, spec: VolumeSpec, kind: PersistentVolumeKind, others: Iterable[str]
    ) -> tuple[str, str]:
        """Return the label of the mount, and the label that the pod needs.

        :param others: the labels that other pods need for the same volume.
        :returns: the first label is empty if the volume is mounted without one; both are if the kind has no labels.
        :raises VolumeError: containers of the pod, or other pods, need another label.
        """
        source, labeled = spec.persistent_volume, features_of(kind).labeled
        if source is None or labeled is None or not self._by_mount or not _is_enabled():
            return "", ""
        if not await labeled.supports_label(spec):
            return "", ""
        modes = source.spec.access_modes or []
        mode = ",".join(_SHORT_MODES.get(each, each) for each in modes)
        mounts = self._all_modes or modes == [READ_WRITE_ONCE_POD]
        labels = container_labels(pod, spec.volume.name, policy=self._policy)
        label = labels[0]
        if len(labels) > 1:
            (POD_ERRORS if mounts else POD_WARNINGS).inc(mode)
            label = ""
            if mounts:
                raise _conflict(spec, labels[0], labels[1])
        for other in others:
            if other != label:
                (VOLUME_ERRORS if mounts else VOLUME_WARNINGS).inc(mode)
                if mounts:
                    raise _conflict(spec, other, label)
                break
        if mounts and label:
            ADMITTED.inc(mode)
        return label if mounts else "", label


def container_labels(pod: Pod, name: str, *, policy: bool = True) -> list[str]:
    """Return the labels ``user:role:type:level`` that the containers with a volume need, without duplicates.

    :param name: name of the volume in the pod spec.
    :param policy: honor the pod's ``seLinuxChangePolicy``.
    :returns: at least one label; it is empty for a container without a level, and if the pod opts out.
    """
    security = pod.spec.security_context
    if policy and security is not None and security.se_linux_change_policy == "Recursive":
        return [""]
    labels: list[str] = []
    for _, container in pod.containers():
        if name not in {mount.name for mount in container.volume_mounts or ()}:
            continue
        own = container.security_context.se_linux_options if container.security_context is not None else None
        options = own or (security.se_linux_options if security is not None else None)
        label = ""
        if options is not None and options.level:
            # The type of a process is not the type of a file; a policy maps one to the other.
            label = ":".join(
                (options.user or _DEFAULT_USER, options.role or _DEFAULT_ROLE, _DEFAULT_TYPE, options.level)
            )
        if label not in labels:
            labels.append(label)
    return labels or [""]


def _is_enabled() -> bool:
    return ENFORCE.exists()


def _conflict(spec: VolumeSpec, first: str, second: str) -> VolumeError:
    return VolumeError(f'conflicting SELinux labels of volume {spec.name}: "{first}" and "{second}"')
