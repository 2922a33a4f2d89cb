"""Directories of manifests in the configurations of admission plugins."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from apiserver_stub.admission.config import AdmissionError, check_kind, unknown_members
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.manifests import ManifestError, Manifests

FIELD = "staticManifestsDir"
"""Field of the configuration of a plugin with the absolute path of the directory."""
GATE = "ManifestBasedAdmissionControlConfig"


async def load_manifests(
    plugin: str, context: AdmissionContext, kinds: Sequence[str], config_kind: str = ""
) -> Manifests | None:
    """Return the manifests of the directory in the configuration of *plugin*, ``None`` without one, and reload them.

    :param config_kind: kind of the configuration if it has only this field.
    :raises AdmissionError: the configuration or a file is invalid.
    """
    config = context.config
    if config_kind and config and context.gates.enabled(GATE):
        group = context.identity.group("apiserver.config")
        problems = list(check_kind(config, group, config_kind, ("v1",)))
        problems += unknown_members(config, {"apiVersion": "", "kind": "", FIELD: ""})
        if problems:
            raise AdmissionError(*(f"{plugin}: {problem}" for problem in problems))
    given = config.get(FIELD)
    if not given:
        return None
    if not context.gates.enabled(GATE):
        raise AdmissionError(f"{plugin}: {FIELD}: Forbidden: {FIELD} requires the {GATE} feature gate to be enabled")
    directory = Path(given)
    if problem := await asyncio.to_thread(_directory_problem, directory):
        raise AdmissionError(f'{plugin}: {FIELD}: Invalid value: "{directory}": {problem}')
    try:
        found = await asyncio.to_thread(Manifests, plugin, directory, kinds, context.registry, context.identity)
    except ManifestError as error:
        raise AdmissionError(f"{plugin}: {error}") from error
    context.manifest_reloads.succeeded(plugin, found.digest)
    context.start_task(found.keep_current(context.manifest_reloads), f"admission-manifests/{plugin}")
    return found


def _directory_problem(directory: Path) -> str:
    if not directory.is_absolute():
        return "must be an absolute file path"
    if not directory.exists():
        return "unable to read: no such file or directory"
    return "" if directory.is_dir() else "must be a directory"
