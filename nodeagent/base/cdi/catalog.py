"""All CDI specs of the node: files by directory, precedence and conflicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import field

from nodeagent.base.cdi.names import DEFAULT_DIRECTORIES
from nodeagent.base.cdi.spec import MAX_BYTES, CdiError, ContainerEdits, Device, Spec, parse_spec
from nodeagent.base.structs import Struct

MAX_FILES = 1000
_SUFFIXES = (".json", ".yaml")


class SpecProblem(Struct, frozen=True):
    """Files that are invalid or define the same device."""

    paths: tuple[str, ...]
    text: str


class _Defined(Struct, frozen=True):
    path: str
    spec: Spec
    device: Device


class Catalog(Struct, frozen=True):
    """Devices that the specs define."""

    directories: tuple[str, ...] = DEFAULT_DIRECTORIES
    specs: int = 0
    """Number of valid files."""
    problems: tuple[SpecProblem, ...] = ()
    _devices: dict[str, _Defined] = field(default_factory=dict)

    @property
    def devices(self) -> list[str]:
        """Return the qualified names of all devices."""
        return sorted(self._devices)

    def edits(self, requested: Iterable[str]) -> ContainerEdits:
        """Return the edits of the *requested* devices, in that order; those of a file precede its first device's.

        :raises CdiError: a device is not defined, or defined differently by two files.
        """
        requested = list(requested)
        if missing := [name for name in requested if name not in self._devices]:
            where = ", ".join(self.directories)
            text = f"unresolvable CDI devices {', '.join(missing)}: not defined in {where}"
            raise CdiError("; ".join([text, *(problem.text for problem in self.problems[:3])]))
        edits, applied = ContainerEdits(), set()
        for name in requested:
            defined = self._devices[name]
            if defined.path not in applied:
                applied.add(defined.path)
                edits += defined.spec.container_edits
            edits += defined.device.container_edits
        return edits


def read_catalog(directories: Sequence[str] = DEFAULT_DIRECTORIES) -> Catalog:
    """Read the specs in *directories*, of which a later one takes precedence. Blocking.

    A device that two files of one directory define is in conflict: it is not available. Missing directories and files
    with other suffixes than ``.json`` and ``.yaml`` are ignored; invalid files are reported as problems.
    """
    problems: list[SpecProblem] = []
    devices: dict[str, _Defined] = {}
    conflicts: dict[str, set[str]] = {}
    specs = 0
    for directory in directories:
        found, local = _read_directory(Path(directory), problems), dict[str, _Defined]()
        specs += len(found)
        for path, spec in found:
            for device in spec.devices:
                name = f"{spec.kind}={device.name}"
                if (other := local.get(name)) is not None:
                    conflicts.setdefault(name, {other.path}).add(path)
                else:
                    conflicts.pop(name, None)  # A later directory overrides a conflict of an earlier one.
                    local[name] = _Defined(path, spec, device)
        devices |= local
    for name, paths in conflicts.items():
        del devices[name]
        files = tuple(sorted(paths))
        problems.append(SpecProblem(files, f"conflicting definitions of CDI device {name} in {', '.join(files)}"))
    return Catalog(tuple(directories), specs, tuple(problems), devices)


def _read_directory(directory: Path, problems: list[SpecProblem]) -> list[tuple[str, Spec]]:
    try:
        files = sorted(path for path in directory.iterdir() if path.suffix in _SUFFIXES)
    except FileNotFoundError:
        return []
    except OSError as error:
        problems.append(SpecProblem((str(directory),), f"{directory}: {error.strerror}"))
        return []
    found = []
    for path in files[:MAX_FILES]:
        try:
            if path.is_file():
                found.append((str(path), parse_spec(_read(path))))
        except CdiError as error:
            problems.append(SpecProblem((str(path),), f"invalid CDI spec {path}: {error}"))
        except FileNotFoundError:
            continue  # Replaced since it was listed.
        except OSError as error:
            problems.append(SpecProblem((str(path),), f"invalid CDI spec {path}: {error.strerror}"))
    if len(files) > MAX_FILES:
        problems.append(SpecProblem((str(directory),), f"{directory}: has more than {MAX_FILES} CDI specs"))
    return found


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        text = file.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise CdiError(f"must have at most {MAX_BYTES} bytes")
    return text
