"""The errors of the agent::

    NodeAgentError                 every error that this project raises on purpose
    ├── ConfigError                the configuration, a flag or a plugin's settings are wrong; carries all problems
    ├── PluginError                a plugin cannot be loaded, or broke the rules of a hook
    ├── RuntimeFailure             the container runtime refused or failed a call
    │   ├── RuntimeUnavailable     the runtime cannot be reached (transient)
    │   └── NotFound               the runtime does not know that sandbox, container or image
    ├── ImageError                 an image cannot be had; ``reason`` is the waiting reason users see
    ├── ContainerError             a container cannot be made; ``reason`` is the waiting reason users see
    ├── VolumeError                a volume cannot be prepared (transient)
    └── ApiError                   the API server answered with an error status
        ├── ApiUnavailable         the API server cannot be reached (transient)
        ├── ApiNotFound            404
        ├── ApiConflict            409
        └── ApiGone                410: the resource version is too old, list again

``transient`` says whether the same call may succeed later; ``reason`` is the CamelCase word users see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class NodeAgentError(Exception):
    """Base of every error that this project raises on purpose."""

    transient: bool = False
    reason: str = "Error"

    def __init__(self, message: str, *, reason: str | None = None, transient: bool | None = None) -> None:
        super().__init__(message)
        if reason is not None:
            self.reason = reason
        if transient is not None:
            self.transient = transient


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a piece of input."""

    source: str
    """The file or flag it stands in."""
    path: str
    """The field path inside it, such as ``authentication.x509.clientCAFile`` or ``registerWithTaints[0].key``."""
    value: object
    rule: str
    """The rule it breaks, as a sentence part: ``must be between 1 and 65535``."""

    def __str__(self) -> str:
        where = f"{self.source}: {self.path}" if self.path else self.source
        shown = "" if self.value is None else f" {self.value!r}"
        return f"{where}:{shown} {self.rule}" if shown else f"{where}: {self.rule}"


class ConfigError(NodeAgentError):
    """The input is wrong; ``problems`` holds every problem found, not just the first."""

    reason = "InvalidConfiguration"

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class PluginError(NodeAgentError):
    """A plugin cannot be loaded, or broke the rules of a hook."""

    reason = "PluginError"

    def __init__(self, plugin: str, message: str) -> None:
        super().__init__(f"plugin {plugin}: {message}")
        self.plugin = plugin


class RuntimeFailure(NodeAgentError):
    """The container runtime refused or failed a call."""

    reason = "RuntimeError"


class RuntimeUnavailable(RuntimeFailure):
    """The container runtime cannot be reached, or did not answer in time."""

    transient = True
    reason = "RuntimeUnavailable"


class NotFound(RuntimeFailure):
    """The container runtime does not know that sandbox, container or image."""

    reason = "NotFound"


class ImageError(NodeAgentError):
    """An image cannot be had; ``reason`` is the waiting reason users see (``ErrImagePull``, …)."""

    reason = "ErrImagePull"
    transient = True


class ContainerError(NodeAgentError):
    """A container cannot be made or started; ``reason`` is the waiting reason users see."""

    reason = "CreateContainerError"
    transient = True


class VolumeError(NodeAgentError):
    """A volume cannot be prepared or removed."""

    reason = "FailedMount"
    transient = True


class ApiError(NodeAgentError):
    """The API server answered with an error status; ``code`` is the HTTP status."""

    reason = "ApiError"

    def __init__(
        self, message: str, *, code: int = 0, reason: str | None = None, transient: bool | None = None
    ) -> None:
        super().__init__(message, reason=reason, transient=transient)
        self.code = code


class ApiUnavailable(ApiError):
    """The API server cannot be reached, or did not answer in time."""

    transient = True
    reason = "ApiUnavailable"


class ApiNotFound(ApiError):
    """404: the object does not exist."""

    reason = "NotFound"


class ApiConflict(ApiError):
    """409: the object changed meanwhile, or exists already."""

    reason = "Conflict"


class ApiGone(ApiError):
    """410: the resource version is too old; list again."""

    reason = "Expired"
