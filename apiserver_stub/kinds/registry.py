"""What a resource is: a short declaration, and the strategy that knows the rules of its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery.objects import Object, decode, dig, encode_for_store
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.validation.metadata import KIND_RULES, STATUS_RULES, MetadataRules
from nodeagent.base.names import subdomain_problems

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Reservation
    from apiserver_stub.storage import Record, Store

STANDARD_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

PROXY_VERBS = ("create", "delete", "get", "patch", "update")

NameProblems = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a Table; *cell* computes its value from the object, *wide* ones are shown with ``-o wide``."""

    name: str
    cell: Callable[[Object], Any]
    type: str = "string"
    wide: bool = False
    description: str = ""
    format: str = ""
    """``name`` for the column that names the object."""


@dataclass(frozen=True, slots=True)
class Subresource:
    """A part of an object that is read and written separately, or an action of :mod:`apiserver_stub.subresources`."""

    name: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    kind: str = ""
    group: str | None = None
    version: str | None = None
    shows_tables: bool = True
    """Whether responses of a status subresource can be shown as tables; those of others never are."""


class Strategy:
    """The rules of a kind; this one has none beyond those of metadata.

    Methods are pure and change only *new*, except :meth:`reserve`.
    """

    reserves = False
    """Whether each object has something that only one may have, so that every write begins with :meth:`reserve`."""

    counted: tuple[str, ...] = ()
    """Members whose changes the generation of an object counts; without any it has none."""

    validates_metadata = True
    """Whether the kind's own rules for new objects contain those of metadata; else these hold for valid objects."""

    status_keeps: tuple[str, ...] = ()
    """Fields of the metadata that an update of the status does not change."""

    graceful = False
    """Whether deletions have a grace period; a deleted object then tells it even when it is gone at once."""

    async def reserve(
        self, store: Store, new: Object | None, old: Object | None, *, dry_run: bool = False
    ) -> Reservation:
        """Take what *new* is to have and *old* has not, and complete *new* with it; ``None`` is an object not there.

        :param dry_run: take nothing.
        :raises ApiError: it is not to be had, and nothing was taken.
        """
        raise NotImplementedError

    def default(self, new: Object) -> None:
        """Fill in what a client may leave out; for every object that comes in."""

    def default_status(self, new: Object) -> None:
        """Fill in the status that an update through a subresource may leave out."""

    def prepare_create(self, new: Object) -> None:
        """Set what the server alone decides about a new object."""

    def validate(self, new: Object) -> list[Cause]:
        """Return what is wrong with a new object."""
        return []

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        """Put back what an update through *subresource* (empty: the object itself) may not change."""
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
        """Return what is wrong with the change from *old* to *new*."""
        return [] if subresource else self.validate(new)

    def is_counted(self, new: Object, old: Object) -> bool:
        """Return whether the generation counts the change from *old* to *new*."""
        return any(new.get(name) != old.get(name) for name in self.counted)

    def canonicalize(self, new: Object) -> None:
        """Normalize a valid object before it is stored."""

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        """Return warnings for the client about a valid object; *old* is ``None`` for a new one.

        Called after validation, not for subresources.
        """
        return []

    def grace_seconds(self, obj: Object, requested: int | None) -> int:
        """Return how long a deleted object stays for somebody to finish with it; 0 removes it at once."""
        return 0

    def lingers(self, obj: Object) -> bool:
        """Return whether a deleted object stays until somebody has cleaned up behind it, finalizers aside."""
        return False

    def prepare_delete(self, obj: Object) -> None:
        """Change an object that stays for a while after its deletion."""


def any_name_problems(name: str) -> list[str]:
    """Accept *name*; only the rules for segments of URL paths remain."""
    return []


@dataclass(frozen=True, slots=True)
class Deprecation:
    """The releases that deprecated an API version, and that do not serve it any more."""

    release: str
    removal: str


@dataclass(frozen=True, eq=False)
class Resource:
    """One resource of one group version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = STANDARD_VERBS
    strategy: Strategy = field(default_factory=Strategy)
    subresources: tuple[Subresource, ...] = ()
    columns: tuple[Column, ...] = ()
    row_conditions: Callable[[Object], list[Object]] | None = None
    """Conditions of the row of an object in a table."""
    repeats_columns: bool = False
    """Every event of a watch in tables has the columns, not only the first."""
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Field labels of selectors beyond metadata.name and metadata.namespace, and where their values are."""
    other_places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Where the values of field labels are when there is none in the first place."""
    definition: type[Any] | None = None
    """Protobuf message of the kind, from which its schema is derived; the bundled kinds are found by their names."""
    storage: str = ""
    """Collection in the store; ``group/plural`` unless several resources show the same objects."""
    convert: Callable[[Object], Object] | None = None
    """Turns an object stored in another version into this one; ``None`` where there is one version."""
    renamed_fields: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Other API versions of the same objects: their fields → those of this version."""
    storage_key: str = ""
    """Last part of the reference's key, where it is not the plural."""
    hashed_version: str = ""
    """Version in which upstream stores the objects, where it is another one: the hash in discovery tells it."""
    create_on_update: bool = False
    unconditional_update: bool = True
    returns_deleted: bool = False
    name_problems: NameProblems = subdomain_problems
    """Says why a text can be no name of this kind."""
    object_name_problems: Callable[[str, Object], list[str]] | None = None
    """Rule for names that depends on the object; replaces *name_problems*."""
    deprecation: Deprecation | None = None
    """Set for an API version that later releases do not serve."""
    reset_fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Subresource (empty: the object itself) → fields that its updates do not change, where these are not the usual."""
    metadata_rules: MetadataRules = KIND_RULES
    """How often the rules of the kind repeat the rules for metadata."""
    subresource_rules: MetadataRules = STATUS_RULES
    """The same for updates through a subresource."""
    group_in_errors: bool = True
    ttl: bool = False
    """Objects expire after ``--event-ttl``."""

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "storage", self.storage or f"{self.group or 'core'}/{self.plural}")
        set_(self, "singular", self.singular or self.kind.lower())

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def deprecation_warning(self) -> str:
        """Return the warning about a deprecated API version; empty for others."""
        if self.deprecation is None:
            return ""
        release, removal = self.deprecation.release, self.deprecation.removal
        return f"{self.api_version} {self.kind} is deprecated in v{release}+, unavailable in v{removal}+"

    def name_rule(self, obj: Object) -> NameProblems:
        """Return the rule for the name of *obj*."""
        rule = self.object_name_problems
        return self.name_problems if rule is None else lambda name: rule(name, obj)

    @property
    def head(self) -> bytes:
        """What the bytes of a stored object of this version start with."""
        return b'{"kind":"%s","apiVersion":"%s",' % (self.kind.encode(), self.api_version.encode())

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

    def key(self, namespace: str, name: str) -> str:
        """Return the key of an object in the collection."""
        return f"{namespace}/{name}" if self.namespaced else name

    def subresource(self, name: str) -> Subresource | None:
        return next((sub for sub in self.subresources if sub.name == name), None)

    def has_table(self, subresource: str) -> bool:
        """Return whether what *subresource* (empty: the object itself) responds with can be shown as a table."""
        found = self.subresource(subresource)
        shows = subresource == "status" and found is not None and found.shows_tables
        return bool(self.columns) and (shows or not subresource)

    def field_value(self, obj: Object, label: str) -> str:
        """Return the value of field *label* as selectors compare it; a missing one is the empty text."""
        value = dig(obj, self.field_path(label))
        if not value and label in self.other_places:
            value = dig(obj, self.other_places[label])
        if value is None:
            return "false" if label in ("spec.unschedulable", "spec.hostNetwork") else ""
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)

    def field_path(self, label: str) -> tuple[str, ...]:
        """Return where the value of field *label* is.

        :raises KeyError: this kind cannot be selected by it.
        """
        if label == "metadata.name" or (label == "metadata.namespace" and self.namespaced):
            return tuple(label.split("."))
        return self.fields[label]


class Registry:
    """All resources that are served, by group version and plural."""

    def __init__(self, resources: Sequence[Resource]) -> None:
        self._resources = {(item.group, item.version, item.plural): item for item in resources}

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._resources.values())

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._resources.get((group, version, plural))

    def group_versions(self) -> list[tuple[str, str]]:
        """Return the group versions in the order they are declared."""
        return list(dict.fromkeys((item.group, item.version) for item in self))

    def of(self, group: str, version: str) -> list[Resource]:
        """Return the resources of a group version, sorted by plural."""
        found = [item for item in self if (item.group, item.version) == (group, version)]
        return sorted(found, key=lambda item: item.plural)
