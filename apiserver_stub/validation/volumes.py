"""Validation of the volumes of pods and pod templates."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    duplicate,
    forbidden_value,
    invalid_each,
    invalid_value,
    not_supported,
    required,
)
from apiserver_stub.validation.claim_spec import validate_claim_template
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.quantities import validate_nonnegative_amount
from apiserver_stub.validation.volume_files import (
    validate_config_map,
    validate_downward_api,
    validate_projected,
    validate_secret,
)
from apiserver_stub.validation.volume_sources import (
    ISCSI_NAME_LIMIT,
    ISCSI_NAME_RULE,
    Rule,
    needs,
    validate_aws_disk,
    validate_azure_disk,
    validate_cinder,
    validate_csi_driver_name,
    validate_fc,
    validate_flex_volume,
    validate_flocker,
    validate_gce_disk,
    validate_git_repo,
    validate_host_path,
    validate_iscsi,
    validate_nfs,
    validate_quobyte,
    validate_storage_os,
)
from nodeagent.base.names import label_problems, subdomain_problems
from nodeagent.base.release import OLDEST, Release

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_SECOND_SOURCE = "may not specify more than 1 volume type"


def validate_volumes(
    volumes: Sequence[Object], pod_name: str, field: str, options: PodOptions
) -> tuple[dict[str, Object], list[Cause]]:
    """Return the valid volumes by name, and the errors.

    :param pod_name: name of the pod; empty for pod templates, and for pods without a name.
    """
    causes: list[Cause] = []
    valid: dict[str, Object] = {}
    created = {
        f"{pod_name}-{item.get('name') or ''}" for item in volumes if pod_name and item.get("ephemeral") is not None
    }
    for index, volume in enumerate(volumes):
        path = f"{field}[{index}]"
        name = volume.get("name") or ""
        found = _validate_sources(volume, name, pod_name, path, options)
        if name:
            found += invalid_each(f"{path}.name", name, label_problems(name))
        else:
            found.append(required(f"{path}.name"))
        if name in valid:
            found.append(duplicate(f"{path}.name", name))
        if found:
            causes += found
        else:
            valid[name] = volume
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName") or ""
        if claim in created:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            causes.append(invalid_value(f"{path}.persistentVolumeClaim.claimName", claim, detail))
    return valid, causes


def _validate_sources(volume: Object, name: str, pod_name: str, field: str, options: PodOptions) -> list[Cause]:
    sources = [source for source in volume if source in _SOURCES]
    if not sources:
        return [required(field, "must specify a volume type")]
    if len(sources) > 1:
        sources.sort(key=_ORDER.__getitem__)
    source = sources[0]
    content = volume[source] or {}
    path = f"{field}.{_PATHS.get(source, source)}"
    if source == "downwardAPI":
        causes = validate_downward_api(content, path, options)
    elif source == "projected":
        causes = validate_projected(content, path, options)
    elif source == "flexVolume":
        causes = validate_flex_volume(content, path, options.identity)
    elif source == "csi":
        causes = _validate_csi(content, path, options.release)
    else:
        causes = _SOURCES[source](content, path)
    if source == "ephemeral" and pod_name and name:
        claim = f"{pod_name}-{name}"
        details = [f'PVC name "{claim}": {problem}' for problem in subdomain_problems(claim)]
        causes += invalid_each(f"{field}.name", name, details)
    causes += [forbidden_value(f"{field}.{_SECOND_PATHS.get(other, other)}", _SECOND_SOURCE) for other in sources[1:]]
    iscsi = volume.get("iscsi") or {}
    if iscsi.get("initiatorName") is not None:
        text = f"{name}:{iscsi.get('targetPortal') or ''}"
        if len(text.encode()) > ISCSI_NAME_LIMIT:
            causes.append(invalid_value(f"{field}.name", name, ISCSI_NAME_RULE))
    return causes


def _validate_empty_dir(source: Object, field: str) -> list[Cause]:
    limit = source.get("sizeLimit")
    if limit is None or not validate_nonnegative_amount(limit, field):
        return []
    return [forbidden_value(f"{field}.sizeLimit", "SizeLimit field must be a valid resource quantity")]


def _validate_csi(source: Object, field: str, release: Release = OLDEST) -> list[Cause]:
    causes = validate_csi_driver_name(source.get("driver") or "", f"{field}.driver", release)
    secret = source.get("nodePublishSecretRef")
    if secret is None:
        return causes
    if not (name := secret.get("name")):
        return [*causes, required(f"{field}.nodePublishSecretRef.name")]
    return causes + invalid_each(f"{field}.name", name, subdomain_problems(name))


def _validate_ephemeral(source: Object, field: str) -> list[Cause]:
    template = source.get("volumeClaimTemplate")
    if template is None:
        return [required(f"{field}.volumeClaimTemplate")]
    return validate_claim_template(template, f"{field}.volumeClaimTemplate")


def _validate_image(source: Object, field: str) -> list[Cause]:
    causes = [] if source.get("reference") else [required(f"{field}.reference")]
    policy = source.get("pullPolicy") or ""
    if policy and policy not in _PULL_POLICIES:
        causes.append(not_supported(f"{field}.pullPolicy", policy, _PULL_POLICIES))
    return causes


def _nothing(source: Object, field: str) -> list[Cause]:
    raise AssertionError("validated with the options of the pod")


_SOURCES: dict[str, Rule] = {
    "emptyDir": _validate_empty_dir,
    "hostPath": validate_host_path,
    "gitRepo": validate_git_repo,
    "gcePersistentDisk": validate_gce_disk,
    "awsElasticBlockStore": validate_aws_disk,
    "secret": validate_secret,
    "nfs": validate_nfs,
    "iscsi": validate_iscsi,
    "glusterfs": needs("endpoints", "path"),
    "flocker": validate_flocker,
    "persistentVolumeClaim": needs("claimName"),
    "rbd": needs("monitors", "image"),
    "cinder": validate_cinder,
    "cephfs": needs("monitors"),
    "quobyte": validate_quobyte,
    "downwardAPI": _nothing,
    "fc": validate_fc,
    "flexVolume": _nothing,
    "configMap": validate_config_map,
    "azureFile": needs("secretName", "shareName"),
    "vsphereVolume": needs("volumePath"),
    "photonPersistentDisk": needs("pdID"),
    "portworxVolume": needs("volumeID"),
    "azureDisk": validate_azure_disk,
    "storageos": validate_storage_os,
    "projected": _nothing,
    "scaleIO": needs("gateway", "system", "volumeName"),
    "csi": _validate_csi,
    "ephemeral": _validate_ephemeral,
    "image": _validate_image,
}
"""Rule by source, in the order in which upstream reads them: all after the first are errors."""

_ORDER = {name: index for index, name in enumerate(_SOURCES)}
_PATHS = {"gcePersistentDisk": "persistentDisk"}
_SECOND_PATHS = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
