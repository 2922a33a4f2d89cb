"""Generate the Python modules of the ``.proto`` files, or check that they are current.

``python tools/protogen.py`` writes ``X_pb2.py`` (and ``X_pb2.pyi`` where type stubs are needed) next to each
``X.proto``; ``--check`` writes nothing and exits 1 when a module does not match its ``.proto``. The check compares
descriptors, not text, so another version of the compiler does not disturb it.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

ROOT = Path(__file__).resolve().parent.parent
# The generated check of the runtime's version would demand the latest runtime for definitions that every
# runtime since 4 can load; what matters is compared by --check.
VERSION_CHECK = re.compile(
    r"^from google\.protobuf import runtime_version as _runtime_version\n|^_runtime_version\.[^)]*\)\n|"
    r"^# Protobuf Python Version.*\n",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Source:
    """A tree with ``.proto`` files: its import root, where the files are, and whether to generate type stubs."""

    root: Path
    directory: str
    stubs: bool = False

    @property
    def files(self) -> list[str]:
        return [str(path.relative_to(self.root)) for path in sorted((self.root / self.directory).glob("*.proto"))]


SOURCES = (
    Source(ROOT, "nodeagent/base/apiproto/_proto"),
    Source(ROOT, "nodeagent/base/criproto", stubs=True),
    Source(ROOT, "apiserver_stub/storage/etcd/proto", stubs=True),
    Source(ROOT, "apiserver_stub/endpoints/openapi/proto", stubs=True),
)


def compile_protos(source: Source, *arguments: str) -> None:
    """Run the compiler over *source*; raise ``SystemExit`` if it fails."""
    from grpc_tools import protoc  # type: ignore[import-untyped]  # a development tool: only this script needs it

    include = Path(protoc.__file__).parent / "_proto"
    if protoc.main(["protoc", f"-I{source.root}", f"-I{include}", *arguments, *source.files]):
        raise SystemExit(f"protoc failed on {source.directory}")


def generate(source: Source) -> None:
    """Write the modules of *source* next to its ``.proto`` files."""
    stubs = (f"--pyi_out={source.root}",) if source.stubs else ()
    compile_protos(source, f"--python_out={source.root}", *stubs)
    for name in source.files:
        module = source.root / name.replace(".proto", "_pb2.py")
        module.write_text(VERSION_CHECK.sub("", module.read_text()))


def stale(source: Source) -> list[str]:
    """Return the ``.proto`` files of *source* whose module is missing or differs."""
    sys.path.insert(0, str(source.root))
    with tempfile.TemporaryDirectory() as directory:
        expected = Path(directory) / "expected.binpb"
        compile_protos(source, f"--descriptor_set_out={expected}")
        for name in source.files:  # options of fields are read only once their definitions are loaded
            load(name)
        files = FileDescriptorSet.FromString(expected.read_bytes()).file
    return [file.name for file in files if not is_current(file)]


def load(name: str) -> ModuleType | None:
    """Return the checked-in module of the ``.proto`` file *name*, ``None`` where there is none."""
    try:
        return importlib.import_module(name.replace(".proto", "_pb2").replace("/", "."))
    except ImportError:
        return None


def is_current(expected: FileDescriptorProto) -> bool:
    """Return whether the checked-in module describes exactly *expected*."""
    found = FileDescriptorProto()
    module = load(expected.name)
    if module is None:
        return False
    module.DESCRIPTOR.CopyToProto(found)
    for file in (found, expected):  # the compiler fills these in, the runtime does not
        for message in file.message_type:
            clear_json_names(message)
        for extension in file.extension:
            extension.ClearField("json_name")
    return found == expected


def clear_json_names(message: object) -> None:
    """Drop the derived JSON names, which only one of the two sides carries."""
    for field in message.field:  # type: ignore[attr-defined]
        field.ClearField("json_name")
    for nested in message.nested_type:  # type: ignore[attr-defined]
        clear_json_names(nested)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a module is not current")
    if not parser.parse_args().check:
        for source in filter(lambda source: source.files, SOURCES):
            generate(source)
        return 0
    behind = [name for source in SOURCES if source.files for name in stale(source)]
    for name in behind:
        print(f"{name}: its module is not current; run: python tools/protogen.py", file=sys.stderr)
    return 1 if behind else 0


if __name__ == "__main__":
    sys.exit(main())
