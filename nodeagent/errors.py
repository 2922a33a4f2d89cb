"""Exception hierarchy of the agent.

::

    NodeAgentError                 base class of all errors below
    ├── ConfigError                invalid configuration, flags or plugin settings; contains all errors
    ├── PluginError                a plugin cannot be loaded, or violated the contract of a hook
    │   ├── PluginTimeout          a hook exceeded its deadline (transient)
    │   ├── PluginDisconnected     the process of an out-of-process plugin cannot be reached (transient)
    │   └── PluginUnavailable      a required plugin failed repeatedly (transient)
    ├── RuntimeFailure             the container runtime returned an error
    │   ├── RuntimeUnavailable     the runtime cannot be reached (transient)
    │   └── NotFound               the sandbox, container or image does not exist in the runtime
    ├── ImageError                 an image is unavailable; ``reason`` is the waiting reason in the pod status
    ├── ContainerError             a container cannot be created; ``reason`` is the waiting reason in the pod status
    ├── VolumeError                a volume cannot be set up (transient)
    │   ├── TransientVolumeError   an operation was not started
    │   ├── UncertainVolumeError   an operation may have taken effect
    │   └── VolumesNotReady        volumes of a pod were not mounted in time
    ├── DeviceError                a device cannot be allocated; the pod is rejected unless the error is transient
    │   └── DevicesNotReady        devices of a pod are unavailable now (transient)
    ├── ClaimError                 a resource claim of a pod cannot be prepared or unprepared (transient)
    ├── PluginRegistrationError    a plugin that registered with a socket is rejected (transient)
    └── ApiError                   the API server returned an error status
        ├── ApiUnavailable         the API server cannot be reached (transient)
        ├── ApiNotFound            404
        ├── ApiConflict            409
        └── ApiGone                410: the resource version is too old, list again

``transient`` is true if the same call may succeed later; ``reason`` is the CamelCase reason for users.
"""

from __future__ import annotations

from collections.abc import Sequence

from nodeagent.base.structs import Struct


class NodeAgentError(Exception):
    """Base class of the agent's errors."""

    transient: bool = False
    reason: str = "Error"

    def __init__(self, message: str, *, reason: str | None = None, transient: bool | None = None) -> None:
        super().__init__(message)
        if reason is not None:
            self.reason = reason
        if transient is not None:
            self.transient = transient


class Problem(Struct, frozen=True):
    """A validation error of an input."""

    source: str
    """The file or flag that contains the error."""
    path: str
    """The field path, such as ``authentication.x509.clientCAFile`` or ``registerWithTaints[0].key``."""
    value: object
    rule: str
    """The violated rule, without a subject: ``must be between 1 and 65535``."""

    def __str__(self) -> str:
        location = f"{self.source}: {self.path}" if self.path else self.source
        shown = str(self.value).lower() if isinstance(self.value, bool) else repr(self.value)
        value = "" if self.value is None else f" {shown}"
        return f"{location}:{value} {self.rule}" if value else f"{location}: {self.rule}"


class ConfigError(NodeAgentError):
    """Invalid input; ``problems`` contains all validation errors, not only the first."""

    reason = "InvalidConfiguration"

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class PluginError(NodeAgentError):
    """A plugin cannot be loaded, or violated the contract of a hook."""

    reason = "PluginError"

    def __init__(self, plugin: str, message: str) -> None:
        super().__init__(f"plugin {plugin}: {message}")
        self.plugin = plugin


class PluginTimeout(PluginError):
    """A hook of a plugin did not return before its deadline."""

    transient = True


class PluginDisconnected(PluginError):
    """The process of an out-of-process plugin is not running, or the connection to it was lost."""

    transient = True


class PluginUnavailable(PluginError):
    """A required plugin is not called because it failed repeatedly."""

    transient = True


class RuntimeFailure(NodeAgentError):
    """The container runtime returned an error."""

    reason = "RuntimeError"


class RuntimeUnavailable(RuntimeFailure):
    """The container runtime cannot be reached, or did not respond in time."""

    transient = True
    reason = "RuntimeUnavailable"


class RuntimeTimeout(RuntimeUnavailable):
    """The container runtime did not respond in time; the call may have its effect later."""


class NotFound(RuntimeFailure):
    """The sandbox, container or image does not exist in the runtime."""

    reason = "NotFound"


class ImageError(NodeAgentError):
    """An image is unavailable; ``reason`` is the waiting reason in the pod status (``ErrImagePull``, …)."""

    reason = "ErrImagePull"
    transient = True


class ContainerError(NodeAgentError):
    """A container cannot be created or started; ``reason`` is the waiting reason in the pod status."""

    reason = "CreateContainerError"
    transient = True


class VolumeError(NodeAgentError):
    """A volume cannot be set up or removed."""

    reason = "FailedMount"
    transient = True


class TransientVolumeError(VolumeError):
    """An operation on a volume was not started: the state of the volume did not change."""


class VolumesNotReady(VolumeError):
    """Volumes of a pod were not mounted in time; the operations have recorded their own events."""


class UncertainVolumeError(VolumeError):
    """An operation on a volume may have taken effect, or may still be running in a driver."""


class DeviceError(NodeAgentError):
    """A device cannot be allocated or used; if the error is transient, the pod waits instead of being rejected."""

    reason = "UnexpectedAdmissionError"


class DevicesNotReady(DeviceError):
    """Devices of a pod are unavailable now, for example because their device plugin has not registered yet."""

    reason = "WaitingForDevices"
    transient = True


class ClaimError(NodeAgentError):
    """A resource claim of a pod cannot be prepared or unprepared now."""

    transient = True
    reason = "FailedPrepareDynamicResources"


class PluginRegistrationError(NodeAgentError):
    """A plugin that registered with a socket is rejected."""

    reason = "PluginRegistrationFailed"
    transient = True


class ApiError(NodeAgentError):
    """The API server returned an error status; ``code`` is the HTTP status."""

    reason = "ApiError"

    def __init__(
        self, message: str, *, code: int = 0, reason: str | None = None, transient: bool | None = None
    ) -> None:
        super().__init__(message, reason=reason, transient=transient)
        self.code = code


class ApiUnavailable(ApiError):
    """The API server cannot be reached, or did not respond in time."""

    transient = True
    reason = "ApiUnavailable"


class ApiNotFound(ApiError):
    """404: the object does not exist."""

    reason = "NotFound"


class ApiConflict(ApiError):
    """409: the object was modified concurrently, or already exists."""

    reason = "Conflict"


class ApiGone(ApiError):
    """The resource version is too old (410), or does not exist on the server (504); list again."""

    reason = "Expired"
