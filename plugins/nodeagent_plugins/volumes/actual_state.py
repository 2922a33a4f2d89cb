"""State of volumes on this node: desired mounts, actual mounts and the device of each volume. No I/O."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from msgspec import field

from nodeagent.base.structs import MutableStruct
from nodeagent.contracts.persistent_volumes import DeviceOnDisk, PersistentVolumeKind, VolumeOnDisk, VolumeSpec
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.model.pod import Pod
from nodeagent_plugins.volumes.features import NO_FEATURES, KindFeatures, features_of


class MountState(Enum):
    """State of a volume for one pod; a volume that is not mounted has no entry."""

    MOUNTED = "Mounted"
    UNCERTAIN = "Uncertain"
    """Must be mounted again if desired, and unmounted if not."""


class DeviceState(Enum):
    """State of the device of a volume."""

    NOT_MOUNTED = "NotMounted"
    MOUNTED = "GloballyMounted"
    UNCERTAIN = "Uncertain"


class DesiredMount(MutableStruct):
    """A volume that a pod needs."""

    pod: Pod
    spec: VolumeSpec
    names: list[str]
    """Names in the pod spec; several entries can name one claim."""
    directory: Path
    since: float
    """Monotonic time of the first request."""
    selinux_label: str = ""
    needed_label: str = ""
    """SELinux label that the pod needs, also if the volume is not mounted with it but relabeled by the runtime."""
    requested: bool = True
    """True if a pod sync has requested a mount, or a refresh, that has not started."""
    has_parent: bool = False
    """True if the parent of *directory* was created; until then an event of another pod must not start the mount."""
    read_at: float = 0.0
    """Monotonic time at which the PersistentVolume was read."""
    claim_read_at: float = 0.0
    """Monotonic time at which the claim was read."""


class PodMount(MutableStruct):
    """A volume that is mounted for a pod, or may be."""

    volume: VolumeOnDisk
    state: MountState
    names: list[str] = field(default_factory=list)
    spec: VolumeSpec | None = None
    mounted: MountedVolume | None = None
    reconstructed: bool = False
    """True if the entry was found on disk and has not been mounted since."""
    released: bool = False
    """True if the pod has terminated: only then the volume may be unmounted."""


class NodeVolume(MutableStruct):
    """A volume on this node, with the pods that use it."""

    unique_name: str
    kind: PersistentVolumeKind
    plugin: str
    """The kind or its driver, as in metrics."""
    paced: bool = False
    """True for an adapted kind, which is set up and torn down only when a pod worker requests it."""
    desired: dict[str, DesiredMount] = field(default_factory=dict)
    mounts: dict[str, PodMount] = field(default_factory=dict)
    attachable: bool | None = False
    """``None`` after a restart, until the node status was read."""
    attached: bool = False
    detached: bool = False
    """True if this node has requested the detachment since the last mount."""
    device_path: str = ""
    device_state: DeviceState = DeviceState.NOT_MOUNTED
    device: DeviceOnDisk | None = None
    device_reconstructed: bool = False
    selinux_label: str = ""
    migrated: bool = False
    """True if an in-tree source was translated to a CSI driver."""
    size: int | None = None
    """Known size of the claim in bytes."""
    expansion_stopped: bool = False
    """True if the driver cannot expand the volume while it is in use."""
    expansion_failed: bool = False
    """True if the last expansion has certainly failed."""

    @property
    def features(self) -> KindFeatures:
        """The optional protocols of the kind."""
        return NO_FEATURES if self.paced else features_of(self.kind)

    @property
    def unused(self) -> bool:
        """True if no pod needs the volume or has it mounted."""
        return not self.desired and not self.mounts

    def needs_mount(self, pod_uid: str) -> bool:
        """Return whether the volume has to be mounted, or mounted again, for a pod that needs it."""
        desired, mount = self.desired[pod_uid], self.mounts.get(pod_uid)
        if not desired.has_parent:
            return False
        if self.paced:
            return desired.requested
        return mount is None or mount.state is MountState.UNCERTAIN or desired.requested

    def is_ready(self, pod_uid: str) -> bool:
        """Return whether the volume is certainly mounted for the pod, with the requested label."""
        mount = self.mounts.get(pod_uid)
        return mount is not None and mount.state is MountState.MOUNTED and not self.label_differs(pod_uid)

    def label_differs(self, pod_uid: str) -> bool:
        """Return whether the volume is mounted with another SELinux label than a pod needs."""
        desired = self.desired.get(pod_uid)
        mounted = bool(self.mounts) or self.device_state is not DeviceState.NOT_MOUNTED
        return desired is not None and mounted and desired.selinux_label != self.selinux_label


class NodeVolumes(dict[str, NodeVolume]):
    """All volumes on this node by unique name, with an index by pod."""

    def __init__(self) -> None:
        super().__init__()
        self._of_pods: dict[str, dict[str, None]] = {}
        self._pods_of: dict[str, set[str]] = {}

    def assign(self, volume: NodeVolume, pod_uid: str) -> None:
        """Record that a pod needs the volume or has it mounted."""
        self._of_pods.setdefault(pod_uid, {})[volume.unique_name] = None
        self._pods_of.setdefault(volume.unique_name, set()).add(pod_uid)

    def of_pod(self, pod_uid: str) -> list[NodeVolume]:
        """Return the volumes that a pod needs or has mounted."""
        volumes = [self[name] for name in self._of_pods.get(pod_uid, ())]
        return [volume for volume in volumes if pod_uid in volume.desired or pod_uid in volume.mounts]

    def remove(self, volume: NodeVolume) -> None:
        """Remove an unused volume."""
        self.pop(volume.unique_name, None)
        for uid in self._pods_of.pop(volume.unique_name, ()):
            names = self._of_pods[uid]
            del names[volume.unique_name]
            if not names:
                del self._of_pods[uid]
