"""Debian packages for the disks of virtual nodes: of release 0.1.0, and of this checkout.

``python -m tests.vm.releases DIRECTORY`` writes them to ``0.1.0`` and ``latest`` in the directory. Release 0.1.0 had no
packages; these contain its code, with the units and maintainer scripts of this checkout.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))

from tests.integration import images  # noqa: E402
from tools.artifacts import __main__ as artifacts  # noqa: E402
from tools.artifacts import deb, packages, parsers, project, wheels  # noqa: E402

OLD = "0.1.0"
_COMMIT = "e38b27183a5110d3b9b5416b01c32143f7f94f98"
"""Commit that assembled the changelog of release 0.1.0."""
_FORMER_DEPENDENCIES = ("psutil==7.2.2",)


def main() -> int:
    directory, cache = Path(sys.argv[1]).resolve(), ROOT / "build/dist"
    shutil.rmtree(directory, ignore_errors=True)
    artifacts.build(directory / "latest", cache, None, ("deb",))
    build_old(directory / OLD, cache)
    images.write_archive(directory / "images.tar")
    for path in directory.glob("latest/*"):
        if path.suffix != ".deb":
            path.unlink()
    return 0


def build_old(output: Path, cache: Path) -> None:
    """Write the packages of release 0.1.0 to *output*."""
    output.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as source:
        archive = subprocess.run(["git", "archive", _COMMIT], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "--extract", "--directory", source], input=archive, check=True)
        command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", source]
        subprocess.run(command, cwd=source, check=True, stdout=subprocess.DEVNULL)
        own = wheels.Wheel(next(Path(source).glob("nodeagent-*.whl")))
        former = wheels.download(cache, _FORMER_DEPENDENCIES)
        dependencies = {python: [*found, *former[python]] for python, found in wheels.download(cache).items()}
        time = project.source_date()
        for package in packages.packages(own, dependencies, parsers.executables(), OLD, time):
            deb.write(package, OLD, project.architecture(), packages.MAINTAINER, time, output)


if __name__ == "__main__":
    sys.exit(main())
