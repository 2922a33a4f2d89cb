"""Image volumes: pull the images of a pod's volumes and mount them in containers."""

from __future__ import annotations

from collections.abc import Mapping

from nodeagent.contracts.images import ImagePuller, PulledImage
from nodeagent.contracts.runtime import ImageMount
from nodeagent.errors import ImageError
from nodeagent.model.pod import Container
from nodeagent_plugins.pod_sync.metrics import FAILED_IMAGE_VOLUMES, MOUNTED_IMAGE_VOLUMES, REQUESTED_IMAGE_VOLUMES
from nodeagent_plugins.pod_sync.step import Step

MOUNT_FAILED = "ImageVolumeMountFailed"
"""Start of the runtime's error message about the mount of an image."""


def count_created(mounts: Mapping[str, ImageMount], error: str = "") -> None:
    """Count the images that a container mounts.

    :param error: the error of the container's creation; empty on success.
    """
    REQUESTED_IMAGE_VOLUMES.inc(by=len(mounts))
    if not error:
        MOUNTED_IMAGE_VOLUMES.inc(by=len(mounts))
    elif MOUNT_FAILED in error:
        FAILED_IMAGE_VOLUMES.inc(by=len(mounts))


async def image_mounts(step: Step, container: Container, puller: ImagePuller) -> Mapping[str, ImageMount]:
    """Return the images that *container* mounts, by volume name.

    The first call of a step pulls the images of all volumes of the pod.

    :raises ImageError: the image of a mounted volume is not available.
    """
    images = {volume.name: volume.image for volume in step.pod.spec.volumes or () if volume.image is not None}
    if not images:
        return {}
    if step.volume_images is None:
        results: dict[str, PulledImage | ImageError] = {}
        for name, volume in images.items():
            try:
                results[name] = await puller.ensure_volume_image(step.pod, volume, step.sandbox)
            except ImageError as error:
                results[name] = error
        step.volume_images = results
    mounts = {}
    for mount in container.volume_mounts or ():
        if mount.name in images:
            result = step.volume_images[mount.name]
            if isinstance(result, ImageError):
                raise result
            mounts[mount.name] = ImageMount(result.ref, images[mount.name].reference)
    return mounts
