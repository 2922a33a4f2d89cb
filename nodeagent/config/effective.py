"""Effective configuration for plugins (implements ``nodeagent.contracts.effective_config``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodeagent.base import identity
from nodeagent.base.gates import FeatureGates
from nodeagent.base.release import SelectedRelease
from nodeagent.config import names
from nodeagent.config.credentials import load_credential_providers
from nodeagent.config.flags import field_flags
from nodeagent.config.load import masked
from nodeagent.config.nodeflags import NODE_FLAGS
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.effective_config import LoadedProviders
from nodeagent.contracts.settings import NodeSettings

_KUBELET = "kubelet"


class Effective:
    """The loaded configuration and the settings of flags."""

    def __init__(
        self,
        config: NodeAgentConfiguration,
        settings: NodeSettings,
        gates: FeatureGates,
        release: SelectedRelease | None = None,
    ) -> None:
        self._config, self._settings, self._gates = config, settings, gates
        self._release = release or SelectedRelease()

    def masked(self) -> dict[str, Any]:
        if identity.current().component == _KUBELET:
            return names.kubelet_form(masked(self._config))
        return {"kind": names.NATIVE_KIND, "apiVersion": names.native_version(), **masked(self._config)}

    def flag_values(self) -> Mapping[str, object]:
        plain = masked(self._config)
        values = {flag.name: _at(plain, flag.path) for flag in field_flags().values()}
        return values | {flag.name: getattr(self._settings, flag.attribute) for flag in NODE_FLAGS}

    def credential_providers(self) -> LoadedProviders:
        return load_credential_providers(
            self._settings.image_credential_provider_config, self._gates, assumed=self._release.assumed
        )


def _at(value: Any, path: str) -> Any:
    """Return the value at a field path; ``None`` if it, or a struct on the path, is not set."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
