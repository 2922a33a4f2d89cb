"""Effective configuration: access to the loaded configuration in other forms, and to the files that it names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from nodeagent.base.structs import Struct
from nodeagent.contracts.configuration import CredentialProviderConfig


class LoadedProviders(Struct, frozen=True):
    """A valid credential provider configuration."""

    config: CredentialProviderConfig
    warnings: tuple[str, ...]
    """Unknown fields that were ignored and providers that are not used, one sentence each."""
    digest: str = ""
    """Digest of the files: ``sha256:`` and 64 hexadecimal digits."""


class EffectiveConfig(Protocol):
    """The effective configuration; ``context.effective``."""

    def masked(self) -> dict[str, Any]:
        """Return the configuration in JSON form for display, without values that may be credentials.

        It is a ``KubeletConfiguration`` if the component is named ``kubelet``, which is the default.
        """
        ...

    def flag_values(self) -> Mapping[str, object]:
        """Return the effective value of each flag by its name, without values that may be credentials."""
        ...

    def credential_providers(self) -> LoadedProviders:
        """Read and validate the file of ``--image-credential-provider-config``. Reads the disk.

        spec: config.kind.CredentialProviderConfig, flag.image-credential-provider-config

        :raises ConfigError: the file cannot be read or is invalid; contains all errors.
        """
        ...
