"""Container configuration for the runtime. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nodeagent.contracts.device_responses import DeviceResponse
from nodeagent.contracts.images import PulledImage
from nodeagent.contracts.runtime import ContainerConfig, ContainerSecurity, Device, LinuxResources
from nodeagent.model.expansion import expand
from nodeagent.model.pod import Container, Pod
from nodeagent_plugins.pod_sync.definitions import container_hash
from nodeagent_plugins.pod_sync.labels import container_annotations, container_labels
from nodeagent_plugins.pod_sync.mounts import PreparedFiles
from nodeagent_plugins.pod_sync.paths import log_path

NO_DEVICES = DeviceResponse()


def make_container_config(
    pod: Pod,
    container: Container,
    *,
    image: PulledImage,
    variables: Mapping[str, str],
    files: PreparedFiles,
    security: ContainerSecurity,
    resources: LinuxResources,
    sandbox_id: str,
    backoff_seconds: int,
    stop_signal: str = "",
    block_devices: Sequence[Device] = (),
    devices: DeviceResponse = NO_DEVICES,
) -> ContainerConfig:
    """Return the configuration of one run of *container*.

    :param variables: environment variables, including those of the devices.
    :param block_devices: devices of volumes.
    :param devices: contents that the container's devices add; the agent's annotations take precedence.
    :param backoff_seconds: back-off before the next run, stored on the container for a later restart.
    """
    return ContainerConfig(
        name=container.name,
        attempt=files.attempt,
        image=image.ref,
        user_image=container.image,
        command=[expand(word, variables) for word in container.command or ()],
        args=[expand(word, variables) for word in container.args or ()],
        working_dir=container.working_dir,
        envs=tuple(variables.items()),
        mounts=(*devices.mounts, *files.mounts),
        devices=(*devices.devices, *block_devices),
        cdi_devices=devices.cdi_devices,
        labels=container_labels(pod, container),
        annotations={
            **devices.annotations,
            **container_annotations(
                pod,
                container,
                files.attempt,
                spec_hash=container_hash(container),
                sandbox_id=sandbox_id,
                backoff_seconds=backoff_seconds,
            ),
        },
        log_path=log_path(container.name, files.attempt),
        stdin=container.stdin,
        stdin_once=container.stdin_once,
        tty=container.tty,
        stop_signal=stop_signal,
        resources=resources,
        security=security,
    )
