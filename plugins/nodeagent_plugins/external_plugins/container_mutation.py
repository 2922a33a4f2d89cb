"""Capability ``container_mutation``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from nodeagent import hookimpl
from nodeagent.base.plugin_rpc import methods_of
from nodeagent.base.pluginproto import plugin_v1_pb2 as api
from nodeagent.contracts.runtime import ContainerConfig, Device, Mount
from nodeagent.model.pod import Container, Pod
from nodeagent_plugins.external_plugins.hook_calls import HookCalls
from nodeagent_plugins.external_plugins.messages import encode, encode_pod

_METHODS = methods_of(api.DESCRIPTOR.services_by_name["ContainerMutation"])
_HOOK = "nodeagent_mutate_container"
_UNCHANGED = api.MutateContainerResponse()
_PERMISSIONS = frozenset("rwm")


class ContainerMutation:
    """Changes the configuration of containers before they are created."""

    def __init__(self, call: HookCalls) -> None:
        self._call = call

    @hookimpl
    async def nodeagent_mutate_container(
        self, pod: Pod, container: Container, settings: ContainerConfig
    ) -> ContainerConfig | None:
        request = api.MutateContainerRequest(
            pod=encode_pod(pod), container=encode(container), config=_to_message(settings)
        )
        response = await self._call(_HOOK, _METHODS["MutateContainer"], request)
        if response == _UNCHANGED:
            return None
        if problem := next(_problems(response), ""):
            raise self._call.invalid(_HOOK, problem)
        return _apply(settings, response)


def _to_message(settings: ContainerConfig) -> Any:
    return api.ContainerConfig(
        image=settings.user_image or settings.image,
        command=settings.command,
        args=settings.args,
        working_dir=settings.working_dir,
        env=[api.EnvVar(name=name, value=value) for name, value in settings.envs],
        mounts=[
            api.Mount(container_path=each.container_path, host_path=each.host_path, readonly=each.readonly)
            for each in settings.mounts
        ],
        devices=[
            api.Device(container_path=each.container_path, host_path=each.host_path, permissions=each.permissions)
            for each in settings.devices
        ],
        cdi_devices=settings.cdi_devices,
        annotations=dict(settings.annotations),
    )


def _problems(response: Any) -> Iterator[str]:
    """Yield the errors of a response, for which the runtime's message would not name the plugin."""
    for variable in response.set_env:
        if not variable.name or "=" in variable.name or "\0" in variable.name + variable.value:
            yield f"set_env with the name {variable.name[:80]!r}"
    for each in (*response.add_mounts, *response.add_devices):
        for path in (each.container_path, each.host_path):
            if not PurePosixPath(path).is_absolute():
                yield f"path {path[:80]!r}, expected an absolute path"
    for device in response.add_devices:
        if not _PERMISSIONS.issuperset(device.permissions):
            yield f"device permissions {device.permissions[:80]!r}, expected letters of rwm"


def _apply(settings: ContainerConfig, response: Any) -> ContainerConfig:
    set_env = {each.name: each.value for each in response.set_env}
    dropped = {*response.remove_env, *set_env}
    mounts = [
        Mount(container_path=each.container_path, host_path=each.host_path, readonly=each.readonly)
        for each in response.add_mounts
    ]
    devices = [
        Device(container_path=each.container_path, host_path=each.host_path, permissions=each.permissions or "mrw")
        for each in response.add_devices
    ]
    mounted, added = {each.container_path for each in mounts}, {each.container_path for each in devices}
    return replace(
        settings,
        envs=[*(pair for pair in settings.envs if pair[0] not in dropped), *set_env.items()],
        mounts=[*(each for each in settings.mounts if each.container_path not in mounted), *mounts],
        devices=[*(each for each in settings.devices if each.container_path not in added), *devices],
        cdi_devices=[*settings.cdi_devices, *response.add_cdi_devices],
        annotations={**settings.annotations, **response.set_annotations},
        command=list(response.command.values) if response.HasField("command") else settings.command,
        args=list(response.args.values) if response.HasField("args") else settings.args,
    )
