"""Validation of volumes whose files come from the API: secrets, config maps, the downward API, projections."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, forbidden_value, invalid_each, invalid_value, required
from apiserver_stub.validation.field_refs import FILE_FIELDS, validate_field_ref, validate_resource_ref
from apiserver_stub.validation.file_paths import validate_local_path, validate_mode
from apiserver_stub.validation.labels import validate_selector
from apiserver_stub.validation.pod_certificates import CERTIFICATE_PATHS, validate_pod_certificate
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.signers import trust_bundle_name_problems, validate_signer_name
from nodeagent.base.release import Release

_LOCAL_TOKENS = Release(1, 32)
"""First release in which paths of tokens must not leave the volume."""
_TRUST_BUNDLE_FIELD = Release(1, 31)
"""First release whose errors name the field of trust bundles as the API does."""
_SHORTEST_TOKEN_SECONDS, _LONGEST_TOKEN_SECONDS = 600, 1 << 32


def validate_secret(source: Object, field: str) -> list[Cause]:
    return _validate_keys(source, "secretName", field)


def validate_config_map(source: Object, field: str) -> list[Cause]:
    return _validate_keys(source, "name", field)


def validate_downward_api(source: Object, field: str, options: PodOptions) -> list[Cause]:
    causes = validate_mode(source, "defaultMode", field)
    for item in source.get("items") or ():
        causes += _validate_downward_file(item, field, options)
    return causes


def validate_projected(source: Object, field: str, options: PodOptions) -> list[Cause]:
    causes = validate_mode(source, "defaultMode", field)
    paths = _Paths(field)
    for index, item in enumerate(source.get("sources") or ()):
        path = f"{field}.sources[{index}]"
        causes += _validate_projection(item, path, paths, options)
    return causes


class _Paths:
    """Paths of the files of all projections of one volume, which must differ."""

    def __init__(self, field: str) -> None:
        self.field = field
        self._used: set[str] = set()

    def add(self, path: str, owner: str) -> list[Cause]:
        """Add a path; returns the error if it is in use."""
        if path in self._used:
            return [invalid_value(self.field, owner, "conflicting duplicate paths")]
        self._used.add(path)
        return []


def _validate_projection(projection: Object, field: str, paths: _Paths, options: PodOptions) -> list[Cause]:
    causes: list[Cause] = []
    sources = 0
    for name in ("secret", "configMap"):
        if (source := projection.get(name)) is not None:
            sources += 1
            causes += _validate_keys(source, "name", f"{field}.{name}", paths)
    if (source := projection.get("downwardAPI")) is not None:
        sources += 1
        for item in source.get("items") or ():
            causes += _validate_downward_file(item, f"{field}.downwardAPI", options)
            if path := item.get("path"):
                causes += paths.add(path, path)
    if (source := projection.get("serviceAccountToken")) is not None:
        sources += 1
        causes += _validate_token(source, f"{field}.serviceAccountToken", paths.field, options)
    if (source := projection.get("clusterTrustBundle")) is not None:
        sources += 1
        name = "clusterTrustBundlePEM" if options.release < _TRUST_BUNDLE_FIELD else "clusterTrustBundle"
        causes += _validate_trust_bundle(source, f"{field}.{name}")
        path = source.get("path") or ""
        causes += paths.add(path, path)
    if "PodCertificateRequest" in options.features and (source := projection.get("podCertificate")) is not None:
        sources += 1
        causes += validate_pod_certificate(source, f"{field}.podCertificate")
        found = [path for name in CERTIFICATE_PATHS if (path := source.get(name))]
        for path in found:
            causes += paths.add(path, path)
    if sources > 1:
        detail = "may not specify more than 1 volume type"
        causes.append(
            forbidden_value(field, detail if options.release < _TRUST_BUNDLE_FIELD else f"{detail} per source")
        )
    return causes


def _validate_keys(source: Object, name: str, field: str, paths: _Paths | None = None) -> list[Cause]:
    """Return the errors in a source whose items are keys of a Secret or ConfigMap, which it names by field *name*."""
    owner = source.get(name) or ""
    causes = [] if owner else [required(f"{field}.{name}")]
    if paths is None:
        causes += validate_mode(source, "defaultMode", field)
    for index, item in enumerate(source.get("items") or ()):
        at = f"{field}.items[{index}]"
        path = item.get("path") or ""
        if not item.get("key"):
            causes.append(required(f"{at}.key"))
        if not path:
            causes.append(required(f"{at}.path"))
        causes += validate_local_path(path, f"{at}.path")
        causes += validate_mode(item, "mode", at)
        if paths is not None and path:
            causes += paths.add(path, owner)
    return causes


def _validate_downward_file(item: Object, field: str, options: PodOptions) -> list[Cause]:
    path = item.get("path") or ""
    causes = [] if path else [required(f"{field}.path")]
    causes += validate_local_path(path, f"{field}.path")
    ref, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if ref is not None:
        causes += validate_field_ref(ref, f"{field}.fieldRef", FILE_FIELDS, options)
        if resource is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            causes.append(invalid_value(field, "resource", detail))
    elif resource is not None:
        causes += validate_resource_ref(resource, f"{field}.resourceFieldRef", needs_container=True)
    else:
        causes.append(required(field, "one of fieldRef and resourceFieldRef is required"))
    return causes + validate_mode(item, "mode", field)


def _validate_token(source: Object, field: str, volume_field: str, options: PodOptions) -> list[Cause]:
    seconds = source.get("expirationSeconds") or 0
    causes = []
    if seconds < _SHORTEST_TOKEN_SECONDS:
        detail = "may not specify a duration less than 10 minutes"
        causes.append(invalid_value(f"{field}.expirationSeconds", seconds, detail))
    if seconds > _LONGEST_TOKEN_SECONDS:
        detail = "may not specify a duration larger than 2^32 seconds"
        causes.append(invalid_value(f"{field}.expirationSeconds", seconds, detail))
    if not (path := source.get("path")):
        causes.append(required(f"{volume_field}.path"))
    elif options.release >= _LOCAL_TOKENS and not options.any_token_paths:
        causes += validate_local_path(path, f"{volume_field}.path")
    return causes


def _validate_trust_bundle(source: Object, field: str) -> list[Cause]:
    name, signer, selector = source.get("name"), source.get("signerName"), source.get("labelSelector")
    causes = []
    if name is not None and signer is not None:
        causes.append(invalid_value(field, source, "only one of name and signerName may be used"))
    elif name is not None:
        if not name:
            causes.append(required(f"{field}.name", "must be a valid object name"))
        owner = name.rpartition(":")[0].replace(":", "/") if ":" in name else ""
        details = [f"not a valid clustertrustbundlename: {item}" for item in trust_bundle_name_problems(name, owner)]
        causes += invalid_each(f"{field}.name", name, details)
        if selector is not None:
            detail = "labelSelector must be unset if name is specified"
            causes.append(invalid_value(f"{field}.labelSelector", selector, detail))
    elif signer is not None:
        if not signer:
            causes.append(required(f"{field}.signerName", "must be a valid signer name"))
        causes += validate_signer_name(signer, f"{field}.signerName")
        causes += validate_selector(selector, f"{field}.labelSelector")
    else:
        causes.append(required(field, "either name or signerName must be specified"))
    path = source.get("path") or ""
    if not path:
        causes.append(required(f"{field}.path"))
    return causes + validate_local_path(path, f"{field}.path")
