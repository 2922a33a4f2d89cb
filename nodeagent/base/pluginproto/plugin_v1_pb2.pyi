from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Capability(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CAPABILITY_UNSPECIFIED: _ClassVar[Capability]
    ADMISSION: _ClassVar[Capability]
    EVICTION: _ClassVar[Capability]
    CONTAINER_MUTATION: _ClassVar[Capability]
    NOTIFICATIONS: _ClassVar[Capability]
    NODE_REPORT: _ClassVar[Capability]
    NODE_CHECKS: _ClassVar[Capability]
    VOLUMES: _ClassVar[Capability]
    CREDENTIALS: _ClassVar[Capability]
    POD_SOURCE: _ClassVar[Capability]

class Decision(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DECISION_UNSPECIFIED: _ClassVar[Decision]
    ADMIT: _ClassVar[Decision]
    REJECT: _ClassVar[Decision]
    WAIT: _ClassVar[Decision]

class Severity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SEVERITY_UNSPECIFIED: _ClassVar[Severity]
    PROBLEM: _ClassVar[Severity]
    WARNING: _ClassVar[Severity]
CAPABILITY_UNSPECIFIED: Capability
ADMISSION: Capability
EVICTION: Capability
CONTAINER_MUTATION: Capability
NOTIFICATIONS: Capability
NODE_REPORT: Capability
NODE_CHECKS: Capability
VOLUMES: Capability
CREDENTIALS: Capability
POD_SOURCE: Capability
DECISION_UNSPECIFIED: Decision
ADMIT: Decision
REJECT: Decision
WAIT: Decision
SEVERITY_UNSPECIFIED: Severity
PROBLEM: Severity
WARNING: Severity

class GetPluginInfoRequest(_message.Message):
    __slots__ = ("supported_versions", "agent_version")
    SUPPORTED_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    supported_versions: _containers.RepeatedScalarFieldContainer[str]
    agent_version: str
    def __init__(self, supported_versions: _Optional[_Iterable[str]] = ..., agent_version: _Optional[str] = ...) -> None: ...

class GetPluginInfoResponse(_message.Message):
    __slots__ = ("name", "version", "supported_versions", "capabilities")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SUPPORTED_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    supported_versions: _containers.RepeatedScalarFieldContainer[str]
    capabilities: _containers.RepeatedScalarFieldContainer[Capability]
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., supported_versions: _Optional[_Iterable[str]] = ..., capabilities: _Optional[_Iterable[_Union[Capability, str]]] = ...) -> None: ...

class RegisterRequest(_message.Message):
    __slots__ = ("version", "capabilities", "settings", "node_name")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    version: str
    capabilities: _containers.RepeatedScalarFieldContainer[Capability]
    settings: bytes
    node_name: str
    def __init__(self, version: _Optional[str] = ..., capabilities: _Optional[_Iterable[_Union[Capability, str]]] = ..., settings: _Optional[bytes] = ..., node_name: _Optional[str] = ...) -> None: ...

class RegisterResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AdmitPodRequest(_message.Message):
    __slots__ = ("pod",)
    POD_FIELD_NUMBER: _ClassVar[int]
    pod: bytes
    def __init__(self, pod: _Optional[bytes] = ...) -> None: ...

class AdmitPodResponse(_message.Message):
    __slots__ = ("decision", "reason", "message")
    DECISION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    decision: Decision
    reason: str
    message: str
    def __init__(self, decision: _Optional[_Union[Decision, str]] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class RankPodsRequest(_message.Message):
    __slots__ = ("signal", "candidates")
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    signal: str
    candidates: _containers.RepeatedCompositeFieldContainer[EvictionCandidate]
    def __init__(self, signal: _Optional[str] = ..., candidates: _Optional[_Iterable[_Union[EvictionCandidate, _Mapping]]] = ...) -> None: ...

class EvictionCandidate(_message.Message):
    __slots__ = ("pod", "memory_bytes")
    POD_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    pod: bytes
    memory_bytes: int
    def __init__(self, pod: _Optional[bytes] = ..., memory_bytes: _Optional[int] = ...) -> None: ...

class RankPodsResponse(_message.Message):
    __slots__ = ("uids",)
    UIDS_FIELD_NUMBER: _ClassVar[int]
    uids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, uids: _Optional[_Iterable[str]] = ...) -> None: ...

class PermitEvictionRequest(_message.Message):
    __slots__ = ("pod", "signal")
    POD_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    pod: bytes
    signal: str
    def __init__(self, pod: _Optional[bytes] = ..., signal: _Optional[str] = ...) -> None: ...

class PermitEvictionResponse(_message.Message):
    __slots__ = ("vetoed", "reason", "message")
    VETOED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    vetoed: bool
    reason: str
    message: str
    def __init__(self, vetoed: _Optional[bool] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class MutateContainerRequest(_message.Message):
    __slots__ = ("pod", "container", "config")
    POD_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    pod: bytes
    container: bytes
    config: ContainerConfig
    def __init__(self, pod: _Optional[bytes] = ..., container: _Optional[bytes] = ..., config: _Optional[_Union[ContainerConfig, _Mapping]] = ...) -> None: ...

class ContainerConfig(_message.Message):
    __slots__ = ("image", "command", "args", "working_dir", "env", "mounts", "devices", "cdi_devices", "annotations")
    class AnnotationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIR_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    MOUNTS_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    CDI_DEVICES_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    image: str
    command: _containers.RepeatedScalarFieldContainer[str]
    args: _containers.RepeatedScalarFieldContainer[str]
    working_dir: str
    env: _containers.RepeatedCompositeFieldContainer[EnvVar]
    mounts: _containers.RepeatedCompositeFieldContainer[Mount]
    devices: _containers.RepeatedCompositeFieldContainer[Device]
    cdi_devices: _containers.RepeatedScalarFieldContainer[str]
    annotations: _containers.ScalarMap[str, str]
    def __init__(self, image: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., args: _Optional[_Iterable[str]] = ..., working_dir: _Optional[str] = ..., env: _Optional[_Iterable[_Union[EnvVar, _Mapping]]] = ..., mounts: _Optional[_Iterable[_Union[Mount, _Mapping]]] = ..., devices: _Optional[_Iterable[_Union[Device, _Mapping]]] = ..., cdi_devices: _Optional[_Iterable[str]] = ..., annotations: _Optional[_Mapping[str, str]] = ...) -> None: ...

class EnvVar(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class Mount(_message.Message):
    __slots__ = ("container_path", "host_path", "readonly")
    CONTAINER_PATH_FIELD_NUMBER: _ClassVar[int]
    HOST_PATH_FIELD_NUMBER: _ClassVar[int]
    READONLY_FIELD_NUMBER: _ClassVar[int]
    container_path: str
    host_path: str
    readonly: bool
    def __init__(self, container_path: _Optional[str] = ..., host_path: _Optional[str] = ..., readonly: _Optional[bool] = ...) -> None: ...

class Device(_message.Message):
    __slots__ = ("container_path", "host_path", "permissions")
    CONTAINER_PATH_FIELD_NUMBER: _ClassVar[int]
    HOST_PATH_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    container_path: str
    host_path: str
    permissions: str
    def __init__(self, container_path: _Optional[str] = ..., host_path: _Optional[str] = ..., permissions: _Optional[str] = ...) -> None: ...

class MutateContainerResponse(_message.Message):
    __slots__ = ("set_env", "remove_env", "add_mounts", "add_devices", "add_cdi_devices", "set_annotations", "command", "args")
    class SetAnnotationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SET_ENV_FIELD_NUMBER: _ClassVar[int]
    REMOVE_ENV_FIELD_NUMBER: _ClassVar[int]
    ADD_MOUNTS_FIELD_NUMBER: _ClassVar[int]
    ADD_DEVICES_FIELD_NUMBER: _ClassVar[int]
    ADD_CDI_DEVICES_FIELD_NUMBER: _ClassVar[int]
    SET_ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    set_env: _containers.RepeatedCompositeFieldContainer[EnvVar]
    remove_env: _containers.RepeatedScalarFieldContainer[str]
    add_mounts: _containers.RepeatedCompositeFieldContainer[Mount]
    add_devices: _containers.RepeatedCompositeFieldContainer[Device]
    add_cdi_devices: _containers.RepeatedScalarFieldContainer[str]
    set_annotations: _containers.ScalarMap[str, str]
    command: StringList
    args: StringList
    def __init__(self, set_env: _Optional[_Iterable[_Union[EnvVar, _Mapping]]] = ..., remove_env: _Optional[_Iterable[str]] = ..., add_mounts: _Optional[_Iterable[_Union[Mount, _Mapping]]] = ..., add_devices: _Optional[_Iterable[_Union[Device, _Mapping]]] = ..., add_cdi_devices: _Optional[_Iterable[str]] = ..., set_annotations: _Optional[_Mapping[str, str]] = ..., command: _Optional[_Union[StringList, _Mapping]] = ..., args: _Optional[_Union[StringList, _Mapping]] = ...) -> None: ...

class StringList(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, values: _Optional[_Iterable[str]] = ...) -> None: ...

class NotifyRequest(_message.Message):
    __slots__ = ("pod_admitted", "pod_status_changed", "pod_terminated", "container_started", "container_stopped", "node_ready_changed")
    POD_ADMITTED_FIELD_NUMBER: _ClassVar[int]
    POD_STATUS_CHANGED_FIELD_NUMBER: _ClassVar[int]
    POD_TERMINATED_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_STARTED_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_STOPPED_FIELD_NUMBER: _ClassVar[int]
    NODE_READY_CHANGED_FIELD_NUMBER: _ClassVar[int]
    pod_admitted: PodAdmitted
    pod_status_changed: PodStatusChanged
    pod_terminated: PodTerminated
    container_started: ContainerStarted
    container_stopped: ContainerStopped
    node_ready_changed: NodeReadyChanged
    def __init__(self, pod_admitted: _Optional[_Union[PodAdmitted, _Mapping]] = ..., pod_status_changed: _Optional[_Union[PodStatusChanged, _Mapping]] = ..., pod_terminated: _Optional[_Union[PodTerminated, _Mapping]] = ..., container_started: _Optional[_Union[ContainerStarted, _Mapping]] = ..., container_stopped: _Optional[_Union[ContainerStopped, _Mapping]] = ..., node_ready_changed: _Optional[_Union[NodeReadyChanged, _Mapping]] = ...) -> None: ...

class NotifyResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PodAdmitted(_message.Message):
    __slots__ = ("pod",)
    POD_FIELD_NUMBER: _ClassVar[int]
    pod: bytes
    def __init__(self, pod: _Optional[bytes] = ...) -> None: ...

class PodStatusChanged(_message.Message):
    __slots__ = ("pod", "status")
    POD_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    pod: bytes
    status: bytes
    def __init__(self, pod: _Optional[bytes] = ..., status: _Optional[bytes] = ...) -> None: ...

class PodTerminated(_message.Message):
    __slots__ = ("pod",)
    POD_FIELD_NUMBER: _ClassVar[int]
    pod: bytes
    def __init__(self, pod: _Optional[bytes] = ...) -> None: ...

class ContainerStarted(_message.Message):
    __slots__ = ("pod", "container_name", "container_id")
    POD_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_NAME_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_ID_FIELD_NUMBER: _ClassVar[int]
    pod: bytes
    container_name: str
    container_id: str
    def __init__(self, pod: _Optional[bytes] = ..., container_name: _Optional[str] = ..., container_id: _Optional[str] = ...) -> None: ...

class ContainerStopped(_message.Message):
    __slots__ = ("pod", "container_name", "container_id")
    POD_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_NAME_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_ID_FIELD_NUMBER: _ClassVar[int]
    pod: bytes
    container_name: str
    container_id: str
    def __init__(self, pod: _Optional[bytes] = ..., container_name: _Optional[str] = ..., container_id: _Optional[str] = ...) -> None: ...

class NodeReadyChanged(_message.Message):
    __slots__ = ("ready", "message")
    READY_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ready: bool
    message: str
    def __init__(self, ready: _Optional[bool] = ..., message: _Optional[str] = ...) -> None: ...

class ReportNodeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReportNodeResponse(_message.Message):
    __slots__ = ("labels", "taints", "conditions", "extended_resources", "not_ready")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class ExtendedResourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LABELS_FIELD_NUMBER: _ClassVar[int]
    TAINTS_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    EXTENDED_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    NOT_READY_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.ScalarMap[str, str]
    taints: _containers.RepeatedCompositeFieldContainer[Taint]
    conditions: _containers.RepeatedCompositeFieldContainer[NodeCondition]
    extended_resources: _containers.ScalarMap[str, str]
    not_ready: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, labels: _Optional[_Mapping[str, str]] = ..., taints: _Optional[_Iterable[_Union[Taint, _Mapping]]] = ..., conditions: _Optional[_Iterable[_Union[NodeCondition, _Mapping]]] = ..., extended_resources: _Optional[_Mapping[str, str]] = ..., not_ready: _Optional[_Iterable[str]] = ...) -> None: ...

class Taint(_message.Message):
    __slots__ = ("key", "value", "effect")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    effect: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ..., effect: _Optional[str] = ...) -> None: ...

class NodeCondition(_message.Message):
    __slots__ = ("type", "status", "reason", "message")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    type: str
    status: bool
    reason: str
    message: str
    def __init__(self, type: _Optional[str] = ..., status: _Optional[bool] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class CheckNodeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CheckNodeResponse(_message.Message):
    __slots__ = ("findings",)
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    findings: _containers.RepeatedCompositeFieldContainer[Finding]
    def __init__(self, findings: _Optional[_Iterable[_Union[Finding, _Mapping]]] = ...) -> None: ...

class Finding(_message.Message):
    __slots__ = ("severity", "text", "remedy")
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    REMEDY_FIELD_NUMBER: _ClassVar[int]
    severity: Severity
    text: str
    remedy: str
    def __init__(self, severity: _Optional[_Union[Severity, str]] = ..., text: _Optional[str] = ..., remedy: _Optional[str] = ...) -> None: ...

class SetUpVolumeRequest(_message.Message):
    __slots__ = ("pod", "volume", "directory")
    POD_FIELD_NUMBER: _ClassVar[int]
    VOLUME_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    pod: bytes
    volume: bytes
    directory: str
    def __init__(self, pod: _Optional[bytes] = ..., volume: _Optional[bytes] = ..., directory: _Optional[str] = ...) -> None: ...

class SetUpVolumeResponse(_message.Message):
    __slots__ = ("host_path", "readonly")
    HOST_PATH_FIELD_NUMBER: _ClassVar[int]
    READONLY_FIELD_NUMBER: _ClassVar[int]
    host_path: str
    readonly: bool
    def __init__(self, host_path: _Optional[str] = ..., readonly: _Optional[bool] = ...) -> None: ...

class TearDownVolumeRequest(_message.Message):
    __slots__ = ("pod_uid", "directory")
    POD_UID_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    pod_uid: str
    directory: str
    def __init__(self, pod_uid: _Optional[str] = ..., directory: _Optional[str] = ...) -> None: ...

class TearDownVolumeResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetCredentialsRequest(_message.Message):
    __slots__ = ("image", "pod")
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    image: str
    pod: bytes
    def __init__(self, image: _Optional[str] = ..., pod: _Optional[bytes] = ...) -> None: ...

class GetCredentialsResponse(_message.Message):
    __slots__ = ("credentials",)
    CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    credentials: _containers.RepeatedCompositeFieldContainer[RegistryCredentials]
    def __init__(self, credentials: _Optional[_Iterable[_Union[RegistryCredentials, _Mapping]]] = ...) -> None: ...

class RegistryCredentials(_message.Message):
    __slots__ = ("username", "password")
    USERNAME_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_FIELD_NUMBER: _ClassVar[int]
    username: str
    password: str
    def __init__(self, username: _Optional[str] = ..., password: _Optional[str] = ...) -> None: ...

class WatchPodsRequest(_message.Message):
    __slots__ = ("node_name",)
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    node_name: str
    def __init__(self, node_name: _Optional[str] = ...) -> None: ...

class PodSet(_message.Message):
    __slots__ = ("pods",)
    PODS_FIELD_NUMBER: _ClassVar[int]
    pods: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, pods: _Optional[_Iterable[bytes]] = ...) -> None: ...
