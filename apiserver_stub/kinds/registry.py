"""Declarations of resources, strategies of their kinds, and the registry of all resources."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery.label_selectors import format_selector
from apiserver_stub.apimachinery.objects import Object, decode, dig, encode_for_store
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.kinds.version_order import version_order
from apiserver_stub.schema.kind_schema import KindSchema, defined
from apiserver_stub.validation.metadata import KIND_RULES, STATUS_RULES, MetadataRules
from nodeagent.base.names import subdomain_problems
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Reservation
    from apiserver_stub.kinds.conversion import Converter
    from apiserver_stub.storage import Record, Store

STANDARD_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

PROXY_VERBS = ("create", "delete", "get", "patch", "update")

NameProblems = Callable[[str], list[str]]

_ABSENT = {"spec.unschedulable": "false", "spec.hostNetwork": "false", "status.successful": "0"}
"""Field labels → values of absent fields in selectors, if they are not empty."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a Table; *cell* computes its value from the object, *wide* columns are for ``-o wide``."""

    name: str
    cell: Callable[[Object], Any]
    type: str = "string"
    wide: bool = False
    description: str = ""
    format: str = ""
    """``name`` for the column with the name of the object."""
    priority: int = 0
    """0 for columns that are always shown; others are for ``-o wide``, as *wide* columns are."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "priority", self.priority or int(self.wide))


class Subresource(Struct, frozen=True):
    """A part of an object that is read and written separately, or an action of :mod:`apiserver_stub.subresources`."""

    name: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    kind: str = ""
    group: str | None = None
    version: str | None = None
    shows_tables: bool = True
    """``True`` if responses of a status subresource can be tables; those of other subresources never are."""


class ScalePaths(Struct, frozen=True):
    """Fields of an object that its subresource ``scale`` contains."""

    replicas: tuple[str, ...] = ("spec", "replicas")
    observed: tuple[str, ...] = ("status", "replicas")
    selector: Callable[[Object], str] = lambda obj: format_selector(dig(obj, ("spec", "selector")))
    """Return the label selector of the pods, in the format of query parameters."""


SCALE = Subresource("scale", kind="Scale", group="autoscaling", version="v1", shows_tables=False)


class Strategy:
    """Defaults, validation and lifecycle of a kind; the base class has no rules beyond those for metadata.

    Methods do no I/O and change only *new*, except :meth:`reserve`.
    """

    reserves = False
    """``True`` if objects have unique allocated values, so that each write starts with :meth:`reserve`."""

    counted: tuple[str, ...] = ()
    """Top-level fields whose changes increment the generation; objects have no generation if there are none."""

    validates_metadata = True
    """``False`` if the metadata of new objects is validated only once the rest of the object is valid, as upstream."""

    status_keeps: tuple[str, ...] = ()
    """Fields of the metadata that updates of the status do not change."""

    graceful = False
    """``True`` if deletions have a grace period, which deleted objects then contain even if it is 0."""

    orphans_dependents = False
    """``True`` if a deletion without a propagation policy releases the dependents instead of deleting them."""

    deletion_warning = ""
    """Warning about the deletion of one object without a propagation policy; empty: none."""

    async def reserve(
        self, store: Store, new: Object | None, old: Object | None, *, dry_run: bool = False
    ) -> Reservation:
        """Allocate the values that *new* requires beyond those of *old*, and set them in *new*.

        :param new: ``None`` for a deletion.
        :param old: ``None`` for a creation.
        :param dry_run: allocate nothing.
        :raises ApiError: a value is not available; nothing was allocated.
        """
        raise NotImplementedError

    def check_create(self) -> None:
        """Check that objects can be created now.

        :raises ApiError: 405, they cannot.
        """

    def default(self, new: Object) -> None:
        """Set default values in an object of a write request."""

    def default_status(self, new: Object) -> None:
        """Set default values in an object of an update through a subresource."""

    def warnings_as_sent(self, new: Object) -> list[str]:
        """Return warnings for the client about a new object that the server has not completed."""
        return []

    def prepare_create(self, new: Object) -> None:
        """Set and reset the fields of a new object that only the server sets."""

    def validate(self, new: Object) -> list[Cause]:
        """Return the validation errors of a new object."""
        return []

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        """Restore the fields that an update through *subresource* (empty: the object itself) does not change."""
        if subresource == "status":
            before, metadata = old["metadata"], new["metadata"]
            for name in self.status_keeps:
                metadata.pop(name, None)
            metadata |= {name: before[name] for name in self.status_keeps if name in before}
            status = {"status": new["status"]} if "status" in new else {}
            new.clear()
            new.update({name: value for name, value in old.items() if name != "status"})
            new.update({"metadata": metadata, **status})
        elif "status" in old:
            new["status"] = old["status"]
        else:
            new.pop("status", None)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        """Return the validation errors of the change from *old* to *new*."""
        return [] if subresource else self.validate(new)

    def is_counted(self, new: Object, old: Object) -> bool:
        """Return whether the change from *old* to *new* increments the generation."""
        return any(new.get(name) != old.get(name) for name in self.counted)

    def canonicalize(self, new: Object, old: Object | None) -> None:
        """Normalize a valid object before it is stored; *old* is ``None`` for a new one."""

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        """Return warnings for the client about a valid object; *old* is ``None`` for a new one.

        Called after validation, not for subresources.
        """
        return []

    def status_warnings(self, new: Object) -> list[str]:
        """Return warnings for the client about a valid object after an update of its status."""
        return []

    def grace_seconds(self, obj: Object, requested: int | None) -> int:
        """Return the grace period of a deletion in seconds; 0 removes the object immediately."""
        return 0

    def lingers(self, obj: Object) -> bool:
        """Return whether a deleted object is kept for a reason other than finalizers in its metadata."""
        return False

    def prepare_delete(self, obj: Object) -> None:
        """Change an object whose deletion is pending."""


def any_name_problems(name: str) -> list[str]:
    """Accept *name*; only the rules for segments of URL paths apply."""
    return []


class Deprecation(Struct, frozen=True):
    """The releases that deprecate and remove an API version, and its replacement."""

    release: str
    removal: str = ""
    """Empty if the removal is not planned."""
    replacement: str = ""
    """API version and kind to use instead."""
    warning: str = ""
    """Warning for clients; by default it is composed of the other fields."""


@dataclass(frozen=True, eq=False)
class Resource:
    """One resource of one group version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = STANDARD_VERBS
    strategy: Strategy = field(default_factory=Strategy)
    subresources: tuple[Subresource, ...] = ()
    scale: ScalePaths | None = None
    """Fields of the subresource ``scale``, if *subresources* contains it."""
    columns: tuple[Column, ...] = ()
    row_conditions: Callable[[Object], list[Object]] | None = None
    """Function for the conditions of an object's row in a table."""
    repeats_columns: bool = False
    """``True`` if every event of a watch in tables contains the columns, not only the first."""
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Field labels of selectors beyond metadata.name and metadata.namespace → paths of their values."""
    fallback_paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Field labels → paths that are used if there is no value at the first path."""
    definition: type[Any] | None = None
    """Protobuf message of the kind, from which its schema is derived; for bundled kinds it is found by their name."""
    schema: KindSchema | None = None
    """Schema of a kind without a definition."""
    storage: str = ""
    """Collection in the store; ``group/plural`` unless several resources share their objects."""
    convert: Callable[[Object], Object] | None = None
    """Converts an object stored in another version to this one; ``None`` if there is only one version."""
    converter: Converter | None = None
    """Converts objects to and from the storage version, the one in which they are stored; ``None``: as written."""
    renamed_fields: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Other API versions of the same objects: their fields → those of this version."""
    storage_key: str = ""
    """Last part of upstream's storage key, if it is not the plural."""
    hashed_version: str = ""
    """Version in which upstream stores the objects, if it is another one; discovery contains a hash of it."""
    typed_items: bool = False
    """``True`` if the items of lists contain their kind and API version, as those of custom kinds upstream."""
    patch_types: tuple[str, ...] = ()
    """Media types of supported patches, if not all are supported."""
    create_on_update: bool = False
    unconditional_update: bool = True
    returns_deleted: bool = False
    name_problems: NameProblems = subdomain_problems
    """Return the reasons why a text is not a valid name for the kind."""
    object_name_problems: Callable[[str, Object], list[str]] | None = None
    """Rule for names that depends on the object; replaces *name_problems*."""
    deprecation: Deprecation | None = None
    """Deprecation of the API version, if later releases do not serve it."""
    reset_fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Subresource (empty: the object itself) → fields that its updates do not change, if not the default ones."""
    metadata_rules: MetadataRules = KIND_RULES
    """Repetitions of metadata errors in the validation of the kind, as upstream."""
    subresource_rules: MetadataRules = STATUS_RULES
    """Repetitions of metadata errors for updates through a subresource."""
    group_in_errors: bool = True
    ttl: bool = False
    """Objects expire after ``--event-ttl``."""
    api_version: str = field(init=False)
    head: bytes = field(init=False)
    """First bytes of a stored object of this version."""

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "storage", self.storage or f"{self.group or 'core'}/{self.plural}")
        set_(self, "singular", self.singular or self.kind.lower())
        set_(self, "list_kind", self.list_kind or f"{self.kind}List")
        set_(self, "api_version", f"{self.group}/{self.version}" if self.group else self.version)
        set_(self, "head", b'{"kind":"%s","apiVersion":"%s",' % (self.kind.encode(), self.api_version.encode()))

    @property
    def deprecation_warning(self) -> str:
        """Warning of a deprecated API version; empty for others."""
        if self.deprecation is None:
            return ""
        if self.deprecation.warning:
            return self.deprecation.warning
        text = f"{self.api_version} {self.kind} is deprecated in v{self.deprecation.release}+"
        if self.deprecation.removal:
            text += f", unavailable in v{self.deprecation.removal}+"
        return f"{text}; use {self.deprecation.replacement}" if self.deprecation.replacement else text

    def schema_in(self, api_domain: str) -> KindSchema | None:
        """Return the schema of the kind, ``None`` if it has none.

        :param api_domain: domain of API groups.
        """
        return self.schema or defined(self.api_version, self.kind, api_domain)

    def name_rule(self, obj: Object) -> NameProblems:
        """Return the rule for the name of *obj*."""
        rule = self.object_name_problems
        return self.name_problems if rule is None else lambda name: rule(name, obj)

    @property
    def has_versions(self) -> bool:
        """``True`` if the kind has several versions."""
        return self.convert is not None or self.converter is not None

    @property
    def encoding_version(self) -> str:
        """API version in which upstream stores the objects."""
        version = self.hashed_version or self.version
        group = "" if self.storage.startswith("core/") else self.group  # Events are stored in the core form.
        return f"{group}/{version}" if group else version

    @property
    def storage_version(self) -> str:
        """API version in which objects are stored if the kind has a converter."""
        return f"{self.group}/{self.hashed_version}"

    @property
    def storage_head(self) -> bytes:
        """First bytes of an object of the storage version."""
        return b'{"kind":"%s","apiVersion":"%s",' % (self.kind.encode(), self.storage_version.encode())

    def render(self, record: Record) -> bytes:
        """Return the bytes of *record* in this version."""
        if self.convert is None or record.data.startswith(self.head):
            return record.data
        revision = decode(record.data)["metadata"]["resourceVersion"]
        from apiserver_stub.storage.record import with_revision

        return with_revision(encode_for_store(self.read(record)), int(revision))

    def read(self, record: Record) -> Object:
        """Return *record* decoded, in this version."""
        obj: Object = decode(record.data)
        return obj if self.convert is None or obj["apiVersion"] == self.api_version else self.convert(obj)

    def read_stored(self, record: Record) -> Object:
        """Return *record* decoded, in the version that a change of its metadata only may write."""
        return self.read(record) if self.converter is None else decode(record.data)

    def key(self, namespace: str, name: str) -> str:
        """Return the key of an object in the collection."""
        return f"{namespace}/{name}" if self.namespaced else name

    def subresource(self, name: str) -> Subresource | None:
        return next((sub for sub in self.subresources if sub.name == name), None)

    def has_table(self, subresource: str) -> bool:
        """Return whether responses of *subresource* (empty: the object itself) can be tables."""
        declared = self.subresource(subresource)
        shows = subresource == "status" and declared is not None and declared.shows_tables
        return bool(self.columns) and (shows or not subresource)

    def field_value(self, obj: Object, label: str) -> str:
        """Return the value of field *label* as selectors compare it, empty if there is none."""
        value = dig(obj, self.field_path(label))
        if not value and label in self.fallback_paths:
            value = dig(obj, self.fallback_paths[label])
        if value is None:
            return _ABSENT.get(label, "")
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)

    def field_path(self, label: str) -> tuple[str, ...]:
        """Return the path of the value of field *label*.

        :raises KeyError: the kind does not support *label* in selectors.
        """
        if label == "metadata.name" or (label == "metadata.namespace" and self.namespaced):
            return tuple(label.split("."))
        return self.fields[label]


class Registry:
    """All served resources, by group version and plural.

    The resources of custom kinds are added and removed while the server runs.
    """

    def __init__(self, resources: Sequence[Resource]) -> None:
        self._declared = {_name(item): item for item in resources}
        self._added: dict[str, Sequence[Resource]] = {}
        self._resources = dict(self._declared)
        self._group_versions = _group_versions(resources)
        self._listeners: list[Callable[[], None]] = []

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._resources.values())

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._resources.get((group, version, plural))

    def find_kind(self, group: str, version: str, kind: str) -> Resource | None:
        """Return the resource of *kind*."""
        return next((item for item in self if (item.group, item.version, item.kind) == (group, version, kind)), None)

    def group_versions(self) -> list[tuple[str, str]]:
        """Return the group versions: the declared ones in the order of their declaration, then the added ones."""
        return self._group_versions

    def replace(self, source: str, resources: Sequence[Resource]) -> None:
        """Replace the resources that *source*, the name of a definition, added before.

        Declared resources take precedence over added ones of the same name.
        """
        if resources:
            self._added[source] = resources
        elif self._added.pop(source, None) is None:
            return
        added = sorted((item for items in self._added.values() for item in items), key=lambda item: item.plural)
        self._resources = {_name(item): item for item in added} | self._declared
        declared = _group_versions(self._declared.values())
        extra = {(item.group, item.version) for item in added}.difference(declared)
        self._group_versions = declared + _ordered(extra)
        for listener in self._listeners:
            listener()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call *listener* after every change."""
        self._listeners.append(listener)

    @contextmanager
    def listening(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call *listener* now and after every change, until the end of the block."""
        self._listeners.append(listener)
        try:
            listener()
            yield
        finally:
            self._listeners.remove(listener)

    def of(self, group: str, version: str) -> list[Resource]:
        """Return the resources of a group version, sorted by plural."""
        resources = [item for item in self if (item.group, item.version) == (group, version)]
        return sorted(resources, key=lambda item: item.plural)


def _name(resource: Resource) -> tuple[str, str, str]:
    return resource.group, resource.version, resource.plural


def _group_versions(resources: Iterable[Resource]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((item.group, item.version) for item in resources))


def _ordered(group_versions: Collection[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return group versions of equal priority in upstream's order: by the first name of a group, then by version."""
    first: dict[str, str] = {}
    for group, version in group_versions:
        name = f"{version}.{group}"
        first[group] = min(first.get(group, name), name)
    return sorted(group_versions, key=lambda item: (first[item[0]], version_order(item[1])))
