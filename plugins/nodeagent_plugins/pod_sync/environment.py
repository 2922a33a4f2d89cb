"""Environment of a container: service variables, ``envFrom``, ``env``, and ``$(NAME)`` expansion."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import field

from nodeagent.base.names import variable_name_problems
from nodeagent.base.structs import Struct
from nodeagent.contracts.objects import ObjectReader
from nodeagent.errors import ContainerError
from nodeagent.model.downward import metadata_value, resource_value
from nodeagent.model.expansion import expand
from nodeagent.model.pod import (
    Container,
    EnvFromRef,
    EnvVar,
    EnvVarSource,
    FileKeySelector,
    KeySelector,
    Pod,
)
from nodeagent_plugins.pod_sync.env_file import read_env_file

CONFIG_ERROR = "CreateContainerConfigError"

_log = logging.getLogger(__name__)


class PodEnvironmentInputs(Struct, frozen=True):
    """Values of the node and the pod that variables can reference."""

    pod_ips: Sequence[str] = ()
    host_ips: Sequence[str] = ()
    node_name: str = ""
    allocatable: Callable[[], Mapping[str, Any]] = dict
    """Returns the node's allocatable resources, which replace unset limits."""
    volumes: Mapping[str, str] = field(default_factory=dict)
    """Host paths of the pod's volumes by name."""
    host_ips_field: bool = True
    """Resolve ``status.hostIPs``; otherwise it is empty."""


class Environment(Struct, frozen=True):
    """Environment variables, in order.

    :ivar skipped: messages of the event about invalid names, one per source.
    """

    variables: Mapping[str, str]
    skipped: Sequence[str] = ()


async def make_environment(
    pod: Pod,
    container: Container,
    facts: PodEnvironmentInputs,
    objects: ObjectReader,
    services: Sequence[Mapping[str, Any]] = (),
    *,
    any_name: bool = False,
) -> Environment:
    """Return the environment variables of *container*.

    :param services: services whose variables are included.
    :param any_name: accept all names from ``envFrom``, as Kubernetes does since 1.32.
    :raises ContainerError: a required config map, secret, file, key or field is missing.
    """
    result: dict[str, str] = {}
    skipped: list[str] = []
    for source in container.env_from or ():
        for kind, title, reference in (
            ("configmap", "configMap", source.config_map_ref),
            ("secret", "secret", source.secret_ref),
        ):
            if reference is None:
                continue
            values = await _all_keys(pod.namespace, kind, reference, objects)
            invalid = []
            for key, value in values.items():
                name = source.prefix + key
                if any_name or not variable_name_problems(name):
                    result[name] = value
                else:
                    invalid.append(name)
            if invalid:
                shown = ", ".join(sorted(invalid))
                skipped.append(
                    f"Keys [{shown}] from the EnvFrom {title} {pod.namespace}/{reference.name} were skipped "
                    "since they are considered invalid environment variable names."
                )
    known = service_variables(services) if services else {}
    for variable in container.env or ():
        found = await _value(pod, container, variable, {**known, **result} if known else result, facts, objects)
        if found is not None:
            result.pop(variable.name, None)  # A repeated variable has the position of its last definition.
            result[variable.name] = found
    for name, value in known.items():
        result.setdefault(name, value)
    return Environment(result, skipped)


def service_variables(services: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the variables of *services*; those without a cluster IP have none."""
    result: dict[str, str] = {}
    for service in services:
        spec = service.get("spec") or {}
        ip, ports = spec.get("clusterIP") or "", spec.get("ports") or []
        if not ip or ip == "None" or not ports:
            continue
        prefix = str(service["metadata"]["name"]).upper().replace("-", "_")
        result[f"{prefix}_SERVICE_HOST"] = ip
        result[f"{prefix}_SERVICE_PORT"] = str(ports[0]["port"])
        for port in ports:
            if port.get("name"):
                result[f"{prefix}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = str(port["port"])
        host = f"[{ip}]" if ":" in ip else ip
        for position, port in enumerate(ports):
            protocol, number = port.get("protocol") or "TCP", port["port"]
            url = f"{protocol.lower()}://{host}:{number}"
            if position == 0:
                result[f"{prefix}_PORT"] = url
            part = f"{prefix}_PORT_{number}_{protocol.upper()}"
            result |= {part: url, f"{part}_PROTO": protocol.lower(), f"{part}_PORT": str(number), f"{part}_ADDR": ip}
    return result


def field_value(pod: Pod, path: str, facts: PodEnvironmentInputs) -> str:
    """Return the value of a ``fieldRef``.

    :raises ContainerError: the field is not supported.
    """
    if (found := metadata_value(pod, path)) is not None:
        return found
    match path:
        case "spec.nodeName":
            return pod.spec.node_name or facts.node_name
        case "spec.serviceAccountName":
            return pod.spec.service_account_name
        case "status.hostIP":
            return facts.host_ips[0] if facts.host_ips else ""
        case "status.hostIPs":
            return ",".join(facts.host_ips) if facts.host_ips_field else ""
        case "status.podIP":
            return facts.pod_ips[0] if facts.pod_ips else ""
        case "status.podIPs":
            return ",".join(facts.pod_ips)
    raise ContainerError(f"unsupported fieldPath: {path}", reason=CONFIG_ERROR)


def host_resources() -> Mapping[str, Any]:
    """Return the resources of the host, for nodes without a node object."""
    return {"cpu": os.cpu_count() or 1, "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")}


async def _value(
    pod: Pod,
    container: Container,
    variable: EnvVar,
    known: Mapping[str, str],
    facts: PodEnvironmentInputs,
    objects: ObjectReader,
) -> str | None:
    """Return the value of one variable, ``None`` if an optional source is missing."""
    source: EnvVarSource | None = variable.value_from
    if source is None:
        return expand(variable.value, known)
    if source.field_ref is not None:
        return field_value(pod, source.field_ref.field_path, facts)
    if source.resource_field_ref is not None:
        try:
            return resource_value(pod, source.resource_field_ref, facts.allocatable, container)
        except ValueError as error:
            raise ContainerError(str(error), reason=CONFIG_ERROR) from error
    if source.config_map_key_ref is not None:
        return await _one_key(pod.namespace, "configmap", source.config_map_key_ref, objects)
    if source.secret_key_ref is not None:
        return await _one_key(pod.namespace, "secret", source.secret_key_ref, objects)
    if source.file_key_ref is not None:
        return await _key_of_file(pod, source.file_key_ref, facts.volumes)
    return ""


async def _key_of_file(pod: Pod, selector: FileKeySelector, volumes: Mapping[str, str]) -> str | None:
    volume = volumes.get(selector.volume_name)
    if volume is None:
        text = f'cannot find the volume "{selector.volume_name}" referenced by FileKeyRef'
        raise ContainerError(text, reason=CONFIG_ERROR)
    path = Path(volume) / selector.path
    try:
        value = await asyncio.to_thread(read_env_file, Path(volume), selector.path, selector.key)
    except (OSError, ValueError) as error:
        if selector.optional and isinstance(error, FileNotFoundError):
            return None
        _log.error("Failed to parse env file", extra={"pod": pod.full_name, "path": str(path), "err": str(error)})
        raise ContainerError("couldn't parse env file", reason=CONFIG_ERROR) from error
    if value:
        return value
    if selector.optional:
        return None
    text = f'environment variable key "{selector.key}" not found in file "{path}"'
    raise ContainerError(text, reason=CONFIG_ERROR)


async def _one_key(namespace: str, kind: str, selector: KeySelector, objects: ObjectReader) -> str | None:
    content = await _read(namespace, kind, selector.name, objects)
    if content is not None and selector.key in content:
        return content[selector.key]
    if selector.optional:
        return None
    if content is None:
        raise ContainerError(f'{kind} "{selector.name}" not found', reason=CONFIG_ERROR)
    title = "ConfigMap" if kind == "configmap" else "Secret"
    text = f"couldn't find key {selector.key} in {title} {namespace}/{selector.name}"
    raise ContainerError(text, reason=CONFIG_ERROR)


async def _all_keys(namespace: str, kind: str, reference: EnvFromRef, objects: ObjectReader) -> Mapping[str, str]:
    content = await _read(namespace, kind, reference.name, objects)
    if content is not None:
        return content
    if reference.optional:
        return {}
    raise ContainerError(f'{kind} "{reference.name}" not found', reason=CONFIG_ERROR)


async def _read(namespace: str, kind: str, name: str, objects: ObjectReader) -> Mapping[str, str] | None:
    """Return the text keys of a config map or secret, ``None`` if it does not exist."""
    if kind == "configmap":
        found = await objects.config_map(namespace, name)
        return None if found is None else found.get("data") or {}
    found = await objects.secret(namespace, name)
    if found is None:
        return None
    try:
        return {
            key: base64.b64decode(value).decode("utf-8", "surrogateescape")
            for key, value in (found.get("data") or {}).items()
        }
    except (binascii.Error, ValueError) as error:
        raise ContainerError(f"secret {namespace}/{name} is not base64", reason=CONFIG_ERROR) from error
