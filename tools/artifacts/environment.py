"""Private Python environment: a virtual environment for several Python versions, which share what is identical."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from tools.artifacts.tree import Tree
from tools.artifacts.wheels import Wheel

PLUGINS = "/usr/local/lib/nodeagent/plugins"
"""Directory of third-party plugins, outside of the package manager's control."""
_UNUSED = ("cel_expr_python/ext/ext_encoders.", "cel_expr_python/ext/ext_math.", "cel_expr_python/ext/ext_proto.")
"""Extension modules that are not imported, a sixth of the environment."""
_CONFIGURATION = "home = /usr/bin\ninclude-system-site-packages = false\n"


def add_environment(tree: Tree, home: str, own: Wheel, wheels: Mapping[str, Sequence[Wheel]]) -> None:
    """Add an environment at *home* to *tree*.

    Wheels with the same file name for all Python versions, and *own*, are installed once, in ``common``.
    """
    names = [{wheel.path.name for wheel in found} for found in wheels.values()]
    shared = set.intersection(*names)
    tree.add(f"{home}/pyvenv.cfg", _CONFIGURATION.encode())
    tree.link(f"{home}/bin/python3", "../../../bin/python3")  # Of Debian, for /usr/lib/nodeagent.
    tree.link(f"{home}/bin/python", "python3")
    _unpack(tree, f"{home}/common", own)
    for index, (python, found) in enumerate(wheels.items()):
        site = f"{home}/lib/python{python}/site-packages"
        # Relative to the file, so that the environment can be moved.
        line = "import sys, os; sys.path[:0] = [os.path.join(sys.prefix, 'common')]"
        tree.add(f"{site}/nodeagent.pth", f"{line}\n{PLUGINS}\n".encode())
        for wheel in found:
            if wheel.path.name not in shared:
                _unpack(tree, site, wheel)
            elif index == 0:
                _unpack(tree, f"{home}/common", wheel)


def distributions(own: Wheel, wheels: Mapping[str, Sequence[Wheel]]) -> Iterator[Wheel]:
    """Yield every bundled wheel once."""
    seen = set[str]()
    for wheel in (own, *(each for found in wheels.values() for each in found)):
        if wheel.path.name not in seen:
            seen.add(wheel.path.name)
            yield wheel


def _unpack(tree: Tree, directory: str, wheel: Wheel) -> None:
    for member in wheel.archive.infolist():
        top, _, rest = member.filename.partition("/")
        # Scripts and data files, which the packages install elsewhere; leftovers of a build.
        if top.endswith(".data") or top.startswith("bazel-"):
            continue
        # Type information and sources of extension modules are not used at run time.
        if (
            member.is_dir()
            or member.filename.startswith(_UNUSED)
            or rest.endswith((".pyi", ".pyx", ".pxd", ".c", ".h", "/RECORD"))
        ):
            continue
        tree.add(f"{directory}/{member.filename}", partial(wheel.archive.read, member))
