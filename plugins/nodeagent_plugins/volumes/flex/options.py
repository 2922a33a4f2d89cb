"""Driver options: the JSON object that describes a volume to its driver."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nodeagent.base import identity
from nodeagent.contracts.api import SECRETS
from nodeagent.errors import ApiError, VolumeError
from nodeagent.model.pod import FlexVolume, Pod
from nodeagent_plugins.volumes.payload import fs_group

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext


def device_options(name: str, source: FlexVolume) -> str:
    """Return the options of calls about the device."""
    return _json(_device(name, source))


async def mount_options(context: CgroupsContext, pod: Pod, name: str, source: FlexVolume) -> str:
    """Return the options of ``mount``, which include pod, group and the volume's secret.

    :raises VolumeError: the secret is missing, has the wrong type or cannot be read.
    """
    label = identity.current().label
    options = _device(name, source) | {
        label("pod.name"): pod.name,
        label("pod.namespace"): pod.namespace,
        label("pod.uid"): pod.uid,
        label("serviceAccount.name"): pod.spec.service_account_name,
    }
    if (group := fs_group(pod)) is not None:
        options[label("mounterArgs.FsGroup")] = str(group)
    if source.secret_ref is not None and source.secret_ref.name:
        namespace = source.secret_ref.namespace or pod.namespace
        secret = await _secret(context, namespace, source.secret_ref.name, source.driver, pod)
        options |= {f"{label('secret')}/{key}": value for key, value in secret.items()}
    return _json(options)


async def _secret(context: CgroupsContext, namespace: str, name: str, driver: str, pod: Pod) -> dict[str, str]:
    """Return the values of a secret in base64; that of a PersistentVolume is in another namespace and not cached."""
    found: Mapping[str, Any] | None
    try:
        if namespace == pod.namespace or context.api is None:
            found = await context.objects.secret(namespace, name)
        else:
            found = await context.api.get(SECRETS, name, namespace, into=dict)
    except ApiError as error:
        raise VolumeError(f'failed to read secret "{name}": {error}') from error
    if found is None:
        raise VolumeError(f'secret "{name}" not found')
    if found.get("type") != driver:
        raise VolumeError(f'secret "{name}" has the wrong type: must be {driver}')
    try:
        data = {key: base64.b64decode(value, validate=True) for key, value in (found.get("data") or {}).items()}
    except ValueError:
        raise VolumeError(f'secret "{name}" has a value that is not base64') from None
    return {key: base64.b64encode(value).decode() for key, value in data.items()}


def _device(name: str, source: FlexVolume) -> dict[str, str]:
    label = identity.current().label
    return (source.options or {}) | {
        label("fsType"): source.fs_type,
        label("readwrite"): "ro" if source.read_only else "rw",
        label("pvOrVolumeName"): name,
    }


def _json(options: dict[str, str]) -> str:
    return json.dumps(options, sort_keys=True, separators=(",", ":"))
