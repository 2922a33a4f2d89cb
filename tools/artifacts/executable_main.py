"""Entry point of the single-file executable: extract the environment once, then execute Python in it.

The name under which the file is started selects the command; another name starts ``nodeagent``.
"""

import os
import shutil
import stat
import sys
import tempfile
import zipfile

# values


def main():
    """Execute the command in the extracted environment."""
    if f"{sys.version_info[0]}.{sys.version_info[1]}" not in PYTHONS:  # noqa: F821
        sys.exit(f"{sys.argv[0]}: Python {' or '.join(PYTHONS)} is required, not {sys.version.split()[0]}")  # noqa: F821
    archive = os.path.dirname(os.path.abspath(__file__))
    name = os.path.basename(sys.argv[0])
    module = MODULES.get(name, MODULES["nodeagent"])  # noqa: F821
    python = os.path.join(environment(archive), "bin/python")
    os.execv(python, [python, "-P", "-m", module, *sys.argv[1:]])


def environment(archive):
    """Return the directory of the environment, which is extracted atomically."""
    root = os.environ.get("NODEAGENT_CACHE_DIR") or default_cache()
    os.makedirs(root, mode=0o700, exist_ok=True)
    status = os.stat(root)
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        sys.exit(f"{sys.argv[0]}: {root} must be owned by this user and writable only for it")
    directory = os.path.join(root, DIGEST)  # noqa: F821
    if os.path.exists(directory):
        return directory
    incomplete = tempfile.mkdtemp(prefix=f"{DIGEST}.", dir=root)  # noqa: F821
    try:
        extract(archive, incomplete)
        os.chmod(incomplete, 0o755)
        os.rename(incomplete, directory)
    except OSError:
        shutil.rmtree(incomplete, ignore_errors=True)
        if not os.path.exists(directory):  # Another process has extracted it concurrently.
            raise
    return directory


def default_cache():
    """Return the cache directory of the user."""
    if os.geteuid() == 0:
        return "/var/cache/nodeagent"
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "nodeagent")


def extract(archive, directory):
    """Extract the files and links of the environment."""
    with zipfile.ZipFile(archive) as content:
        for member in content.infolist():
            if not member.filename.startswith("environment/"):
                continue
            path = os.path.join(directory, member.filename.removeprefix("environment/"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            mode = member.external_attr >> 16
            if stat.S_ISLNK(mode):
                target = content.read(member).decode()
                # The interpreter that runs this file, which may be another one than that of Debian.
                os.symlink(sys.executable if target.startswith("../") else target, path)
                continue
            with content.open(member) as source, open(path, "xb") as file:
                shutil.copyfileobj(source, file)
            os.chmod(path, stat.S_IMODE(mode))
    configuration = os.path.join(directory, "pyvenv.cfg")
    with open(configuration, "w") as file:
        file.write(
            f"home = {os.path.dirname(os.path.realpath(sys.executable))}\ninclude-system-site-packages = false\n"
        )


main()
