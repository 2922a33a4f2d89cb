"""References of a pod to other API objects, which static pods may not have from release 1.34 on. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from nodeagent.model.pod import Container, Pod, Volume


class ApiReference(NamedTuple):
    """Field that refers to an object, and the objects in the kubelet's words."""

    path: str
    objects: str


_VOLUME_SOURCES = (
    ("config_map", "configMap", "configmaps (via configmap volumes)"),
    ("secret", "secret", "secrets (via secret volumes)"),
    ("csi", "csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistent_volume_claim", "persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azure_file", "azureFile", "secrets (via azureFile volumes)"),
)
_PROJECTED_SOURCES = (
    ("config_map", "configMap", "configmaps (via projected volumes)"),
    ("secret", "secret", "secrets (via projected volumes)"),
    ("service_account_token", "serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("cluster_trust_bundle", "clusterTrustBundle", "clustertrustbundles"),
    ("pod_certificate", "podCertificate", "podcertificates"),
)


def api_references(pod: Pod) -> Iterator[ApiReference]:
    """Yield the references of *pod* to service accounts, secrets, config maps, claims and similar objects."""
    spec = pod.spec
    if spec.service_account_name or spec.service_account:
        yield ApiReference("spec.serviceAccountName", "serviceaccounts")
    for index, reference in enumerate(spec.image_pull_secrets or ()):
        if reference.name:
            yield ApiReference(f"spec.imagePullSecrets[{index}]", "secrets")
    for field, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for index, container in enumerate(containers or ()):
            yield from _of_container(container, f"spec.{field}[{index}]")
    if spec.resource_claims:
        yield ApiReference("spec.resourceClaims", "resourceclaims")
    for index, volume in enumerate(spec.volumes or ()):
        yield from _of_volume(volume, f"spec.volumes[{index}]")


def _of_container(container: Container, path: str) -> Iterator[ApiReference]:
    for index, source in enumerate(container.env_from or ()):
        if source.secret_ref is not None:
            yield ApiReference(f"{path}.envFrom[{index}].secretRef", "secrets")
        if source.config_map_ref is not None:
            yield ApiReference(f"{path}.envFrom[{index}].configMapRef", "configmaps")
    for index, variable in enumerate(container.env or ()):
        if variable.value_from is None:
            continue
        if variable.value_from.secret_key_ref is not None:
            yield ApiReference(f"{path}.env[{index}].valueFrom.secretKeyRef", "secrets")
        if variable.value_from.config_map_key_ref is not None:
            yield ApiReference(f"{path}.env[{index}].valueFrom.configMapKeyRef", "configmaps")


def _of_volume(volume: Volume, path: str) -> Iterator[ApiReference]:
    for name, field, objects in _VOLUME_SOURCES:
        if getattr(volume, name) is not None:
            yield ApiReference(f"{path}.{field}", objects)
    if volume.projected is not None:
        for index, source in enumerate(volume.projected.sources or ()):
            for name, field, objects in _PROJECTED_SOURCES:
                if getattr(source, name) is not None:
                    yield ApiReference(f"{path}.projected.sources[{index}].{field}", objects)
