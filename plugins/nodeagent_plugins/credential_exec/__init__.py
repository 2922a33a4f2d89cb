"""Exec credential providers: executables that return registry credentials for an image.

spec: credential.providers, credential.name, flag.image-credential-provider-config,
flag.image-credential-provider-bin-dir
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nodeagent import hookimpl

if TYPE_CHECKING:
    from nodeagent.contracts.context import ApiContext
    from nodeagent.contracts.images import CredentialProvider

_BIN_DIR = "--image-credential-provider-bin-dir"

_log = logging.getLogger(__name__)


@hookimpl
def nodeagent_provide_credential_providers(context: ApiContext) -> Sequence[CredentialProvider]:
    """Read the provider configuration; every executable must exist and be usable.

    :raises ConfigError: the file, the directory or an executable is invalid; carries all problems.
    """
    file, given = context.settings.image_credential_provider_config, context.settings.image_credential_provider_bin_dir
    if not file:
        return ()
    from nodeagent.errors import ConfigError, Problem
    from nodeagent_plugins.credential_exec.credentials import ExecCredentials
    from nodeagent_plugins.credential_exec.executables import find_directory, find_executable
    from nodeagent_plugins.credential_exec.provider import CONFIG_INFO, ExecProvider

    loaded = context.effective.credential_providers()
    for warning in loaded.warnings:
        _log.warning("Ignored setting of credential provider configuration", extra={"reason": warning})
    try:
        directory = find_directory(given)
    except ValueError as error:
        raise ConfigError([Problem(_BIN_DIR, "", given, str(error))]) from error
    problems = []
    for settings in loaded.config.providers:
        try:
            find_executable(directory, settings.name)
        except ValueError as error:
            problems.append(Problem(_BIN_DIR, "", str(directory / settings.name), str(error)))
    if problems:
        raise ConfigError(problems)
    CONFIG_INFO.set(1, loaded.digest)
    providers = [
        ExecProvider(entry, directory, context.clock, context.tasks, api=context.api)
        for entry in loaded.config.providers
    ]
    return [ExecCredentials(providers)]
