"""Credential provider configuration and serialized node configuration source, which are separate files."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nodeagent.base import identity
from nodeagent.base.duration import Duration
from nodeagent.base.gates import FeatureGates
from nodeagent.config import names
from nodeagent.config.codec import Report, decode, encode
from nodeagent.config.credential_tokens import GATE, check_token_attributes, gate_problem
from nodeagent.config.files import Layer, UnreadableFile, read_layer
from nodeagent.config.unknown import UnknownField
from nodeagent.contracts.configuration import CredentialProvider, CredentialProviderConfig, SerializedNodeConfigSource
from nodeagent.contracts.effective_config import LoadedProviders
from nodeagent.errors import ConfigError, Problem

_SUFFIXES = (".json", ".yaml", ".yml")
"""Suffixes of the files that are read in a directory; subdirectories are not."""


def load_credential_providers(
    path: str, gates: FeatureGates | None = None, *, assumed: bool = False
) -> LoadedProviders:
    """Read and validate the file of ``--image-credential-provider-config``, or the files of a directory by name.

    Unknown fields are ignored with a warning, so that a file for a later release is accepted.
    spec: config.kind.CredentialProviderConfig

    :param gates: the feature gates that fields need; ``None`` accepts all fields.
    :param assumed: the release is a guess. A provider that needs a later release is then left out with a warning,
        because the API server may turn out to have that release.
    :raises ConfigError: a file is invalid; lists all problems.
    """
    providers: list[CredentialProvider] = []
    problems: list[Problem] = []
    warnings: list[str] = []
    rule = gate_problem(gates) if gates is not None else ""
    deferred = assumed and gates is not None and not gates.switched_off(GATE)
    digest = hashlib.sha256()
    for file in _files(path):
        earlier = {provider.name for provider in providers}
        providers += _read_providers(file, earlier, problems, warnings, rule=rule, deferred=deferred)
        content = _content(file)
        digest.update(len(content).to_bytes(8, "big") + content)
    if problems:
        raise ConfigError(problems)
    config = CredentialProviderConfig(providers=tuple(providers))
    return LoadedProviders(config, tuple(warnings), f"sha256:{digest.hexdigest()}")


def _content(file: str) -> bytes:
    """Return the content of *file*; empty if it is unreadable, which was reported before."""
    try:
        return Path(file).read_bytes()
    except OSError:
        return b""


def _files(path: str) -> list[str]:
    """Return *path*, or the configuration files in it.

    :raises ConfigError: the directory is unreadable or has no configuration file.
    """
    directory = Path(path)
    if not directory.is_dir():
        return [path]
    try:
        found = sorted(str(file) for file in directory.iterdir() if file.suffix in _SUFFIXES and file.is_file())
    except OSError as error:
        raise UnreadableFile([Problem(path, "", None, f"cannot be read: {error.strerror or error}")]) from error
    if not found:
        raise ConfigError([Problem(path, "", None, f"must have at least one file: {', '.join(_SUFFIXES)}")])
    return found


def _read_providers(
    path: str,
    earlier: Collection[str],
    problems: list[Problem],
    warnings: list[str],
    *,
    rule: str,
    deferred: bool,
) -> Sequence[CredentialProvider]:
    """Return the providers of one file; its problems and warnings are added to the lists.

    :param earlier: names of the providers in earlier files.
    :param rule: the rule that ``tokenAttributes`` violate; empty if their feature gate is enabled.
    :param deferred: leave out providers that violate *rule* with a warning.
    """
    try:
        layer = read_layer(path, [names.CREDENTIAL_KIND])
    except ConfigError as error:
        if isinstance(error, UnreadableFile):
            raise
        problems += error.problems
        return ()

    def report(where: str, value: object, rule: str) -> None:
        if isinstance(rule, UnknownField):
            warnings.append(f"{layer.origin(where).location}: {where} {rule}; it is ignored")
        else:
            problems.append(Problem(layer.origin(where).location, where, value, rule))

    config = decode(CredentialProviderConfig, layer.value, report)
    _check(config, report)
    for index, provider in enumerate(config.providers):
        if provider.name and provider.name in earlier:
            report(f"providers[{index}].name", provider.name, "duplicate provider name found in configuration file(s)")
        if rule and provider.token_attributes is not None:
            where = f"providers[{index}].tokenAttributes"
            if deferred:
                warnings.append(f"{layer.origin(where).location}: {where} {rule}; the provider is not used")
            else:
                report(where, None, rule)
    if rule and deferred:
        return [provider for provider in config.providers if provider.token_attributes is None]
    return config.providers


def decode_source(path: str) -> SerializedNodeConfigSource:
    """Read a ``SerializedNodeConfigSource`` (spec: config.kind.SerializedNodeConfigSource).

    :raises ConfigError: the file is invalid; lists all problems.
    """
    return _decode_source(read_layer(path, [names.SOURCE_KIND]))


def _decode_source(layer: Layer) -> SerializedNodeConfigSource:
    problems: list[Problem] = []

    def report(where: str, value: object, rule: str) -> None:
        problems.append(Problem(layer.origin(where).location, where, value, rule))

    source = decode(SerializedNodeConfigSource, layer.value, report)
    if problems:
        raise ConfigError(problems)
    return source


def encode_source(source: SerializedNodeConfigSource) -> dict[str, Any]:
    """Return plain values with apiVersion and kind, which :func:`decode_source` accepts."""
    return {"apiVersion": names.native_version(), "kind": names.SOURCE_KIND, **_filled(encode(source))}


def _filled(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return *plain* without empty strings, as the core API encodes this type."""
    return {key: _filled(value) if isinstance(value, dict) else value for key, value in plain.items() if value != ""}


def _check(config: CredentialProviderConfig, report: Report) -> None:
    if not config.providers:
        report("providers", None, "must name at least one provider")
    seen: set[str] = set()
    for index, provider in enumerate(config.providers):
        path = f"providers[{index}]"
        _check_provider(provider, path, report)
        if provider.name and provider.name in seen:
            report(f"{path}.name", provider.name, "is already used by an earlier entry")
        seen.add(provider.name)


def _check_provider(provider: CredentialProvider, path: str, report: Report) -> None:
    name = provider.name
    if not name:
        report(f"{path}.name", name, "must be set")
    elif "/" in name or any(letter.isspace() for letter in name) or name in (".", "..") or "\0" in name:
        report(f"{path}.name", name, "must be a file name without '/' and white space, other than '.' and '..'")
    if not provider.match_images:
        report(f"{path}.matchImages", None, "must name at least one pattern")
    for index, pattern in enumerate(provider.match_images):
        if not is_image_pattern(pattern):
            report(f"{path}.matchImages[{index}]", pattern, "must be a domain with optional port and path, no scheme")
    if provider.default_cache_duration is None:
        report(f"{path}.defaultCacheDuration", None, "must be set")
    elif provider.default_cache_duration < Duration():
        report(f"{path}.defaultCacheDuration", str(provider.default_cache_duration), "must not be negative")
    versions = protocol_versions()
    if provider.api_version not in versions:
        report(f"{path}.apiVersion", provider.api_version, f"must be one of {', '.join(versions)}")
    check_token_attributes(provider, f"{path}.tokenAttributes", report)
    for index, variable in enumerate(provider.env):
        if not variable.name or "=" in variable.name or "\0" in variable.name + variable.value:
            report(f"{path}.env[{index}].name", variable.name, "must be the name of an environment variable")


def protocol_versions() -> tuple[str, ...]:
    """Return the supported versions of the exec protocol."""
    group = identity.current().credential_group
    return tuple(f"{group}/{version}" for version in ("v1alpha1", "v1beta1", "v1"))


def is_image_pattern(pattern: str) -> bool:
    """Return whether *pattern* has the form ``domain[:port][/path]``."""
    if not pattern or "://" in pattern or any(letter.isspace() for letter in pattern):
        return False
    if "[" in pattern.partition("/")[0]:  # Part of a glob; a URL parser expects an address.
        return True
    try:
        parts = urlsplit(f"//{pattern}")
        return bool(parts.netloc) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
