"""Webhook configurations and policies in files: they apply from the start, and the API cannot change them."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.kinds.reserved_names import static_suffix
from nodeagent.base import yamlsafe

if TYPE_CHECKING:
    from apiserver_stub.admission.manifest_reloads import ManifestReloads
    from apiserver_stub.kinds.registry import Registry
    from nodeagent.base.identity import Identity

_log = logging.getLogger(__name__)

POLL_SECONDS = 2.0
_EXTENSIONS = (".yaml", ".yml", ".json")
_LIST = ("v1", "List")


class ManifestError(ValueError):
    """A file cannot be read or contains an invalid object."""


class Manifests:
    """The objects in the files of a directory; while its content is invalid, the previous objects apply.

    :param plugin: name of the plugin, for logs.
    :param kinds: the allowed kinds, version v1 of the admission registration group.
    """

    def __init__(
        self, plugin: str, directory: Path, kinds: Sequence[str], registry: Registry, identity: Identity
    ) -> None:
        self._plugin, self._directory, self._kinds = plugin, directory, kinds
        self._registry, self._identity = registry, identity
        self._group, self._suffix = identity.group("admissionregistration"), static_suffix(identity)
        self._read = ""
        self.digest = ""
        """SHA-256 hash of the files in effect."""
        self._objects: Mapping[str, list[Object]] = {}
        self.load()

    def every(self, plural: str) -> list[Object]:
        """Return the objects of a resource, ordered by name; the same list until the files change."""
        return self._objects[plural]

    def load(self) -> bool:
        """Read the files; return whether their content has changed. Reads the disk.

        :raises ManifestError: the content is invalid; the previous objects are kept.
        """
        try:
            contents = {
                path: path.read_bytes()
                for path in sorted(self._directory.iterdir())
                if path.suffix.lower() in _EXTENSIONS and path.is_file()
            }
        except OSError as error:
            raise ManifestError(f'failed to read manifest directory "{self._directory}": {error}') from error
        digest = hashlib.sha256(b"\0".join(contents.values())).hexdigest()
        if digest == self._read:
            return False
        self._read = digest
        found = self._parse(contents)
        _check_references(found)
        self._objects, self.digest = found, digest
        return True

    async def keep_current(self, reloads: ManifestReloads) -> None:
        """Reload the files within seconds of a change, until cancelled; count the results in *reloads*."""
        fields, problem = {"plugin": self._plugin, "dir": str(self._directory)}, ""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                changed = await asyncio.to_thread(self.load)
            except ManifestError as error:
                if str(error) != problem:
                    problem = str(error)
                    reloads.failed(self._plugin)
                    _log.error("Failed to reload admission manifests", extra={**fields, "err": error})
            else:
                if changed:
                    problem = ""
                    reloads.succeeded(self._plugin, self.digest)
                    _log.info("Reloaded admission manifests", extra=fields)

    def _parse(self, contents: Mapping[Path, bytes]) -> dict[str, list[Object]]:
        files: dict[tuple[str, str], Path] = {}
        found: dict[str, list[Object]] = {}
        for kind in self._kinds:
            found[self._plural(kind)] = []
        for path, content in contents.items():
            try:
                for document in _documents(content):
                    plural, obj = self._accept(document)
                    name = obj["metadata"]["name"]
                    if (other := files.get((plural, name))) is not None:
                        raise ManifestError(f'duplicate name "{name}" (previously seen in "{other}")')
                    files[plural, name] = path
                    found[plural].append(obj)
            except (ManifestError, yamlsafe.YamlError) as error:
                raise ManifestError(f"error loading {path}: {error}") from error
        for items in found.values():
            items.sort(key=lambda obj: str(obj["metadata"]["name"]))
        return found

    def _plural(self, kind: str) -> str:
        resource = self._registry.find_kind(self._group, "v1", str(kind))
        if resource is None:
            raise ManifestError(f"{kind} of {self._group}/v1 is not served")
        return resource.plural

    def _accept(self, obj: Object) -> tuple[str, Object]:
        """Return the plural and the completed form of *obj*.

        :raises ManifestError: it is invalid.
        """
        # Imported here, as listing the plugins does not need the schemas.
        from apiserver_stub.schema.field_validation import SchemaMismatch
        from apiserver_stub.validation.metadata import validate_metadata
        from apiserver_stub.verbs.body import check_types

        kind, version = obj.get("kind"), obj.get("apiVersion")
        if version != f"{self._group}/v1" or kind not in self._kinds:
            raise ManifestError(f'unsupported kind "{kind}" of "{version}"; supported: {", ".join(self._kinds)}')
        resource = self._registry.find_kind(self._group, "v1", str(kind))
        assert resource is not None
        try:
            findings = check_types(obj, resource.schema_in(self._identity.api_domain))
        except SchemaMismatch as error:
            raise ManifestError(f"{kind}: {error}") from error
        if findings.unknown:
            unknown = ", ".join(f'unknown field "{name}"' for name in findings.unknown)
            raise ManifestError(f"{kind}: strict decoding error: {unknown}")
        name = str(obj["metadata"].get("name") or "")
        if not name.endswith(self._suffix):
            raise ManifestError(f'{kind} "{name}" must have a name ending with "{self._suffix}"')
        resource.strategy.default(obj)
        resource.strategy.prepare_create(obj)
        causes = resource.strategy.validate(obj)
        causes += validate_metadata(obj["metadata"], rules=resource.metadata_rules)
        problems = [f"{cause.field}: {cause.message}" for cause in causes] + list(
            _constraint_problems(obj, self._suffix)
        )
        if problems:
            raise ManifestError(f'{kind} "{name}" is invalid: {"; ".join(problems)}')
        return resource.plural, obj


def _documents(content: bytes) -> Iterator[Object]:
    """Yield the objects in the documents of a file, and those in lists.

    :raises ManifestError: a document is not an object.
    """
    for found in yamlsafe.load_documents(content):
        document = found.value
        is_list = isinstance(document, dict) and (document.get("apiVersion"), document.get("kind")) == _LIST
        for obj in (document.get("items") or ()) if is_list else (document,):
            if not isinstance(obj, dict):
                raise ManifestError("must be an object")
            yield obj


def _constraint_problems(obj: Object, suffix: str) -> Iterator[str]:
    """Yield the parts of *obj* that refer to objects of the API, which may not exist yet."""
    for index, hook in enumerate(obj.get("webhooks") or ()):
        if not (hook.get("clientConfig") or {}).get("url"):
            yield f"webhooks[{index}].clientConfig.url is required for static manifests"
    spec = obj.get("spec") or {}
    for field in ("paramKind", "paramRef"):
        if spec.get(field) is not None:
            yield f"spec.{field} is not supported for static manifests"
    if "policyName" in spec and not str(spec["policyName"]).endswith(suffix):
        yield f'spec.policyName "{spec["policyName"]}" must end with "{suffix}"'


def _check_references(found: Mapping[str, list[Object]]) -> None:
    names = {obj["metadata"]["name"] for objects in found.values() for obj in objects if "policyName" not in _spec(obj)}
    for objects in found.values():
        for obj in objects:
            if (policy := _spec(obj).get("policyName")) is not None and policy not in names:
                name = obj["metadata"]["name"]
                raise ManifestError(
                    f'binding "{name}" references policy "{policy}" which does not exist in the manifest directory'
                )


def _spec(obj: Object) -> Object:
    return obj.get("spec") or {}
