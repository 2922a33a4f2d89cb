"""Tests for the helper processes: paths below a root, cgroups, namespaces, and the last steps of a container."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodeagent_plugins.embedded_runtime.helpers import (
    oci,
    oci_cgroups,
    oci_process,
    oci_root,
    own_copy,
    pause,
    syscalls,
)
from nodeagent_plugins.embedded_runtime.helpers.confined import DIRECTORY, FILE, open_in_root, opened, proc_path
from tests.descriptors import open_descriptors

# --- paths below a root -------------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    """Return the descriptor of a root with the file ``a/file``, next to which there is a file that is outside."""
    inside = tmp_path / "root"
    (inside / "a").mkdir(parents=True)
    (inside / "a/file").write_text("inside")
    (tmp_path / "file").write_text("outside")
    descriptor = os.open(inside, os.O_PATH | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def path_of(root: int, path: str, **options: Any) -> str:
    """Return the path that was opened, relative to the root."""
    before = open_descriptors()
    with opened(root, path, **options) as found:
        result = os.path.relpath(os.readlink(proc_path(found)), os.readlink(proc_path(root)))
    assert open_descriptors() <= before, "no descriptor is left"
    return result


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a/file", "a/file"),
        ("/a//./file", "a/file"),
        ("", "."),
        ("..", "."),
        ("../../a/../a/file", "a/file"),
        ("a/..", "."),
    ],
)
def test_path_never_leads_out_of_the_root(root: int, path: str, found: str) -> None:
    assert path_of(root, path) == found


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("a/file", "a/file"),
        ("/a/file", "a/file"),
        ("../file", None),
        ("../../../a/file", "a/file"),
        ("/../a/./file", "a/file"),
        ("missing", None),
    ],
)
def test_links_are_resolved_in_the_root(root: int, tmp_path: Path, target: str, found: str | None) -> None:
    (tmp_path / "root/link").symlink_to(target)
    (tmp_path / "root/a/deep").symlink_to(f"/{target}" if target.startswith("/") else f"../{target}")
    for link in ("link", "a/deep"):
        if found is None:
            with pytest.raises(FileNotFoundError):
                open_in_root(root, link)
        else:
            assert path_of(root, link) == found
    with pytest.raises(OSError, match="link: is a symbolic link"):
        open_in_root(root, "link", follow=False)


def test_number_of_links_is_limited(root: int, tmp_path: Path) -> None:
    previous = "a"
    for number in range(41):
        (tmp_path / f"root/l{number}").symlink_to(previous)
        previous = f"l{number}"
    assert path_of(root, "l39/file") == "a/file"
    with pytest.raises(OSError, match="l40: too many links") as raised:
        open_in_root(root, "l40")
    assert raised.value.errno == errno.ELOOP


def test_missing_parts_are_created(root: int, tmp_path: Path) -> None:
    assert path_of(root, "x/y/file", create=FILE) == "x/y/file"
    assert path_of(root, "x/y/directory", create=DIRECTORY) == "x/y/directory"
    assert path_of(root, "a/file", create=FILE) == "a/file"
    assert (tmp_path / "root/x/y/file").is_file() and (tmp_path / "root/x/y/directory").is_dir()
    assert (tmp_path / "root/a/file").read_text() == "inside"
    with pytest.raises(FileNotFoundError):
        open_in_root(root, "z/file")


# --- cgroups ------------------------------------------------------------------------------------------------------


@pytest.fixture
def cgroups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(oci_cgroups, "ROOT", str(tmp_path))
    return tmp_path


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_cgroup_of_version_2_has_the_controllers_of_its_parents(cgroups: Path) -> None:
    for directory in (cgroups, cgroups / "pods"):
        write(directory / "cgroup.controllers", "cpu memory")
        write(directory / "cgroup.subtree_control")
    write(cgroups / "pods/c/memory.max")

    groups = oci_cgroups.make("/pods/c", {"memory": {"limit": 100}})

    assert groups == {"": str(cgroups / "pods/c")} and (cgroups / "pods/c/memory.max").read_text() == "100"
    assert (cgroups / "pods/cgroup.subtree_control").read_text() == "+memory"
    write(cgroups / "pods/c/cgroup.procs")
    oci_cgroups.join(groups, 7)
    assert (cgroups / "pods/c/cgroup.procs").read_text() == "7"


def test_cgroups_of_version_1_are_those_of_writable_controllers(cgroups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for controller in ("memory", "cpu,cpuacct", "unified", "locked", "cpuset"):
        write(cgroups / controller / "cgroup.procs")
    (cgroups / "cpu").symlink_to("cpu,cpuacct")
    for name, value in (("cpus", "0-3"), ("mems", "0")):
        write(cgroups / "cpuset" / f"cpuset.{name}", f"{value}\n")
    mkdir = os.mkdir

    def make(path: str | Path, mode: int = 0o777) -> None:
        mkdir(path, mode)
        for name in ("cpus", "mems") if str(path).endswith("/cpuset/c") else ():
            Path(path, f"cpuset.{name}").touch()

    monkeypatch.setattr(oci_cgroups.os, "mkdir", make)
    access = os.access
    monkeypatch.setattr(oci_cgroups.os, "access", lambda path, mode: "locked" not in path and access(path, mode))

    for _ in range(2):
        groups = oci_cgroups.make("/c", {})
        assert groups == {name: str(cgroups / name / "c") for name in ("cpu,cpuacct", "cpuset", "memory")}
    assert [(cgroups / "cpuset/c" / f"cpuset.{name}").read_text() for name in ("cpus", "mems")] == ["0-3", "0"]


def test_container_without_a_path_has_no_cgroups(cgroups: Path) -> None:
    assert oci_cgroups.make("", {"memory": {"limit": 1}}) == {}
    oci_cgroups.limit({}, {"memory": {"limit": 1}})
    oci_cgroups.remove({})


def test_limit_without_its_controller_is_an_error(cgroups: Path) -> None:
    for groups in ({"": str(cgroups)}, {"cpu": str(cgroups)}, {"memory": str(cgroups)}):
        with pytest.raises(OSError, match=r"limit memory.*: the host has no such controller"):
            oci_cgroups.limit(groups, {"memory": {"limit": 1}})
    (cgroups / "memory.max").mkdir()
    with pytest.raises(OSError, match=r"limit memory\.max=1: Is a directory"):
        oci_cgroups.limit({"": str(cgroups)}, {"memory": {"limit": 1}})


def test_processes_are_killed_until_the_cgroups_are_removed(cgroups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = cgroups / "a", cgroups / "b"
    first.mkdir()
    write(second / "cgroup.procs", "7\n8\n")
    killed: list[int] = []

    def kill(pid: int, number: int) -> None:
        killed.append(pid)
        if pid == 7:
            raise ProcessLookupError
        (second / "cgroup.procs").unlink()

    monkeypatch.setattr(oci_cgroups.os, "kill", kill)
    monkeypatch.setattr(oci_cgroups.time, "sleep", lambda seconds: None)
    oci_cgroups.remove({"": str(first), "x": str(second), "y": str(cgroups / "missing")})
    assert sorted(killed) == [7, 8] and not first.exists() and not second.exists()


# --- namespaces ---------------------------------------------------------------------------------------------------


def test_namespaces_are_joined_or_created_and_the_users_first(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(oci.syscalls, "join", calls.append)
    monkeypatch.setattr(oci.syscalls, "unshare", calls.append)
    requested = [
        {"type": "network", "path": "/net"},
        {"type": "ipc"},
        {"type": "uts"},
        {"type": "pid"},
        {"type": "mount"},
        {"type": "cgroup"},
        {"type": "user", "path": "/user"},
    ]

    left = oci._enter_namespaces(requested)

    assert left == {"ipc", "uts", "mount", "cgroup"}
    flags = syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWPID
    assert calls == ["/user", "/net", flags]
    calls.clear()
    assert oci._enter_namespaces([{"type": "ipc", "path": "/ipc"}, {"type": "mount"}]) == {"mount"}
    assert calls == ["/ipc"], "nothing new is created"


@pytest.mark.parametrize(
    ("kinds", "hostname", "names", "unshared"),
    [
        (["uts", "cgroup", "mount"], "web", ["web"], syscalls.CLONE_NEWNS | syscalls.CLONE_NEWCGROUP),
        (["uts", "mount"], "", [], syscalls.CLONE_NEWNS),
        (["mount"], "web", [], syscalls.CLONE_NEWNS),
    ],
)
def test_host_name_is_changed_only_in_a_new_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kinds: list[str], hostname: str, names: list[str], unshared: int
) -> None:
    spec = {
        "hostname": hostname,
        "root": {"path": "rootfs"},
        "linux": {"resources": {}, "namespaces": [{"type": kind} for kind in kinds]},
        "process": {"args": ["/bin/a"]},
    }
    (tmp_path / "config.json").write_text(json.dumps(spec))
    set_names: list[str] = []
    flags: list[int] = []
    executed: list[Any] = []

    def fork(start: Any, _join: Any) -> int:
        flags.clear()  # Those of the namespaces that this process has created.
        start()
        return 7

    monkeypatch.setattr(oci, "_fork", fork)
    monkeypatch.setattr(oci.os, "setsid", lambda: None)
    monkeypatch.setattr(oci.syscalls, "unshare", flags.append)
    monkeypatch.setattr(oci.syscalls, "set_hostname", set_names.append)
    monkeypatch.setattr(oci.oci_root, "enter", lambda *_arguments: -1)
    monkeypatch.setattr(oci.oci_process, "become", executed.append)
    monkeypatch.setattr(oci.oci_cgroups, "make", lambda _path, _resources: {})

    oci.run({"--bundle": str(tmp_path), "--root": str(tmp_path), "--pid-file": str(tmp_path / "pid")}, "name")

    assert (set_names, flags, executed) == (names, [unshared], [spec["process"]])


def test_container_with_a_seccomp_profile_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"linux": {"seccomp": {}}}))
    with pytest.raises(OSError, match="seccomp profiles require crun or runc"):
        oci.run({"--bundle": str(tmp_path)}, "name")


def test_only_terminals_are_accepted_as_such() -> None:
    master, slave = os.openpty()
    with open("/dev/null") as null, open(__file__) as file:
        oci_root._check_terminal(slave)
        for other in (null, file):
            with pytest.raises(OSError, match="/dev/pts is not that of the container"):
                oci_root._check_terminal(other.fileno())
    os.close(master)
    os.close(slave)


def test_namespace_that_is_already_the_own_one_is_not_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    joined: list[str] = []
    monkeypatch.setattr(oci.syscalls, "join", joined.append)
    oci._share(os.getpid(), "net")
    assert joined == []
    monkeypatch.setattr(oci.os, "readlink", str)
    oci._share(7, "net")
    assert joined == ["/proc/7/ns/net"]


def test_command_line_has_options_with_and_without_values() -> None:
    words = ["--root", "/r", "--log", "/l", "run", "--detach", "--bundle", "/b", "--pid-file", "/p", "name"]
    options = {"--root": "/r", "--log": "/l", "--bundle": "/b", "--pid-file": "/p"}
    assert oci._parse(words) == (options, ["run", "name"])


@pytest.mark.parametrize(("failure", "prepared"), [(None, True), (OSError(1, "no right"), True), (None, False)])
def test_child_starts_after_it_was_prepared(tmp_path: Path, failure: OSError | None, prepared: bool) -> None:
    def start() -> None:
        if failure is not None:
            raise failure
        (tmp_path / "started").touch()
        os._exit(0)

    def prepare(pid: int) -> None:
        assert not (tmp_path / "started").exists()
        if not prepared:
            raise KeyError

    if failure is not None:
        with pytest.raises(OSError, match="no right"):
            oci._fork(start, prepare)
    elif not prepared:
        with pytest.raises(KeyError):
            oci._fork(start, prepare)
    else:
        os.waitpid(oci._fork(start, prepare), 0)
    assert (tmp_path / "started").exists() is (failure is None and prepared)


@pytest.mark.parametrize(
    ("hostname", "kinds", "flags", "names"),
    [
        ("web", ["net", "ipc", "uts"], syscalls.CLONE_NEWNET | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWUTS, ["web"]),
        ("web", ["ipc"], syscalls.CLONE_NEWIPC, []),
        ("", ["uts", "pid"], syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWPID, []),
    ],
)
def test_pause_process_holds_the_requested_namespaces(
    monkeypatch: pytest.MonkeyPatch, hostname: str, kinds: list[str], flags: int, names: list[str]
) -> None:
    unshared: list[int] = []
    hostnames: list[str] = []
    parameters: list[tuple[str, str]] = []
    loopbacks: list[bool] = []
    monkeypatch.setattr(pause.syscalls, "unshare", unshared.append)
    monkeypatch.setattr(pause.syscalls, "set_hostname", hostnames.append)
    monkeypatch.setattr(pause, "_bring_up_loopback", lambda: loopbacks.append(True))
    monkeypatch.setattr(pause, "_set_parameter", lambda name, value: parameters.append((name, value)))
    monkeypatch.setattr(pause.os, "fork", lambda: 7)
    monkeypatch.setattr("signal.signal", lambda *_: None)

    assert pause.hold(hostname, kinds, ["net.a=1=2", "kernel.b="]) == 7

    assert (unshared, hostnames, len(loopbacks)) == ([flags], names, int("net" in kinds))
    assert parameters == [("net.a", "1=2"), ("kernel.b", "")]


@pytest.mark.parametrize(
    ("arguments", "users", "held"),
    [
        (["web", "net,ipc", "a=1"], [], ("web", ["net", "ipc"], ["a=1"])),
        (
            ["", "", "uid_map=0 1 1", "a=1", "gid_map=0 2 1"],
            [{"uid_map": "0 1 1", "gid_map": "0 2 1"}],
            ("", [], ["a=1"]),
        ),
    ],
)
def test_pause_process_maps_users_before_it_creates_namespaces(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], users: list[dict[str, str]], held: Any
) -> None:
    entered: list[dict[str, str]] = []
    responses: list[str] = []
    monkeypatch.setattr(pause, "enter_user_namespace", entered.append)
    monkeypatch.setattr(pause, "hold", lambda *given: 7 if given == held else 0)
    pause.main(arguments, responses.append)
    assert (entered, responses) == (users, ["7"])


# --- last steps of a container ------------------------------------------------------------------------------------


class Executed(Exception):
    """The command was executed."""


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with the executables ``one/tool`` and ``two/tool``; of them, only the second is permitted."""
    for name in ("one/tool", "two/tool", "one/denied"):
        write(tmp_path / name)

    def execve(path: str, args: list[str], environment: dict[str, str]) -> None:
        if not Path(path).exists():
            raise FileNotFoundError(2, os.strerror(2))
        if "one" in path:
            raise PermissionError(13, os.strerror(13))
        raise Executed(path, args, environment)

    monkeypatch.setattr(oci_process.os, "execve", execve)
    return tmp_path


def test_command_is_searched_in_the_path_of_the_container(commands: Path) -> None:
    path = f"PATH={commands}/none:{commands}/one:{commands}/two"
    with pytest.raises(Executed) as raised:
        oci_process._execute(["tool", "-x"], [path, "A=b=c"])
    assert raised.value.args == (f"{commands}/two/tool", ["tool", "-x"], {"PATH": path[5:], "A": "b=c"})
    with pytest.raises(PermissionError, match='exec: "denied": permission denied'):
        oci_process._execute(["denied"], [path])
    with pytest.raises(FileNotFoundError, match=r'exec: "other": executable file not found in \$PATH'):
        oci_process._execute(["other"], [path])


def test_command_with_a_slash_is_not_searched(commands: Path) -> None:
    with pytest.raises(Executed):
        oci_process._execute([f"{commands}/two/tool"], [])
    with pytest.raises(PermissionError, match="permission denied"):
        oci_process._execute([f"{commands}/one/tool"], [f"PATH={commands}/two"])
    with pytest.raises(FileNotFoundError, match='exec: "/none/tool": no such file or directory'):
        oci_process._execute(["/none/tool"], [f"PATH={commands}/two"])


class Privileges:
    """Records the calls that drop privileges."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.dropped: list[int] = []
        self.calls: list[Any] = []
        self.groups: list[Any] = []
        self.unsupported = 1000
        self.groups_error: OSError | None = None
        module: Any = oci_process
        monkeypatch.setattr(module.syscalls, "prctl", self._prctl)
        monkeypatch.setattr(module.syscalls, "set_capabilities", lambda *masks: self.calls.append(("masks", *masks)))
        monkeypatch.setattr(module.os, "setgroups", self._setgroups)
        for name in ("setresgid", "setresuid", "umask", "chdir"):
            monkeypatch.setattr(module.os, name, lambda *given, name=name: self.calls.append((name, *given)))
        monkeypatch.setattr(module.signal, "signal", lambda *_: None)
        monkeypatch.setattr(module, "_execute", lambda args, env: self.calls.append(("execute", args, env)))
        monkeypatch.setattr(module, "_adjust_oom_score", lambda score: None)

    def _prctl(self, option: int, *arguments: int) -> None:
        if option == syscalls.PR_CAPBSET_DROP:
            if arguments[0] >= self.unsupported:
                raise OSError(errno.EINVAL if self.unsupported > 5 else errno.EPERM, "capability")
            self.dropped.append(arguments[0])
        else:
            self.calls.append((option, *arguments))

    def _setgroups(self, groups: list[int]) -> None:
        self.groups.append(groups)
        if self.groups_error is not None:
            raise self.groups_error


@pytest.fixture
def privileges(monkeypatch: pytest.MonkeyPatch) -> Privileges:
    return Privileges(monkeypatch)


def process(**fields: Any) -> dict[str, Any]:
    names = ("bounding", "effective", "permitted", "inheritable")
    sets = {name: ["CAP_CHOWN", "CAP_FOWNER"] for name in names}
    return {"user": {"uid": 5, "gid": 6}, "capabilities": sets, "args": ["a"], **fields}


def test_process_keeps_only_its_capabilities_and_user(privileges: Privileges) -> None:
    oci_process.become(process())

    assert {0, 3}.isdisjoint(privileges.dropped) and privileges.dropped[:3] == [1, 2, 4]
    assert len(privileges.dropped) == len(oci_process.NAMES) - 2
    for call in (("setresgid", 6, 6, 6), ("setresuid", 5, 5, 5), ("chdir", "/"), ("masks", 9, 9, 9)):
        assert call in privileges.calls
    assert privileges.groups == [[]] and privileges.calls[-1] == ("execute", ["a"], [])
    assert (syscalls.PR_SET_NO_NEW_PRIVS, 1) not in privileges.calls


def test_process_has_its_groups_directory_and_ambient_capabilities(privileges: Privileges) -> None:
    fields = process(noNewPrivileges=True, cwd="/srv", env=["A=b"])
    fields["user"]["additionalGids"] = [7, 8]
    fields["capabilities"]["ambient"] = ["CAP_FOWNER"]
    oci_process.become(fields)

    assert privileges.groups == [[7, 8]] and ("chdir", "/srv") in privileges.calls
    assert (syscalls.PR_CAP_AMBIENT, 2, 3) in privileges.calls
    assert (syscalls.PR_SET_NO_NEW_PRIVS, 1) in privileges.calls
    assert privileges.calls[-1] == ("execute", ["a"], ["A=b"])


def test_capabilities_that_the_kernel_does_not_support_are_skipped(privileges: Privileges) -> None:
    privileges.unsupported = 38
    oci_process.become(process())
    assert max(privileges.dropped) == 37
    privileges.unsupported = 4
    with pytest.raises(OSError, match="capability"):
        oci_process.become(process())


def test_groups_have_to_be_set_outside_of_a_user_namespace(
    privileges: Privileges, monkeypatch: pytest.MonkeyPatch
) -> None:
    privileges.groups_error = PermissionError(1, "groups")
    with pytest.raises(PermissionError, match="groups"):
        oci_process.become(process())


def test_directory_outside_of_the_root_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    for path, valid in (("/srv", True), ("(unreachable)/x", False), (None, False)):

        def getcwd(path: str | None = path) -> str:
            if path is None:
                raise FileNotFoundError
            return path

        monkeypatch.setattr(oci_process.os, "getcwd", getcwd)
        if valid:
            oci_process._check_directory("/x")
        else:
            with pytest.raises(PermissionError, match="working directory /x is outside of the container"):
                oci_process._check_directory("/x")


def test_copy_of_the_interpreter_is_immutable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executed: list[Any] = []
    monkeypatch.setattr(own_copy.os, "execve", lambda copy, words, environment: executed.append((copy, environment)))
    monkeypatch.setattr(own_copy, "_shared_library", lambda: "/opt/lib/libpython3.so")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/mine")
    own_copy._ensure()

    ((copy, environment),) = executed
    assert own_copy._is_immutable(copy) and os.fstat(copy).st_size == os.stat("/proc/self/exe").st_size
    assert os.pread(copy, 4, 0) == b"\x7fELF" and stat.S_ISREG(os.fstat(copy).st_mode)
    assert environment["LD_LIBRARY_PATH"] == "/opt/lib:/mine"
    with pytest.raises(PermissionError):
        os.write(copy, b"x")
    os.close(copy)
    with (tmp_path / "plain").open("w") as file:
        assert not own_copy._is_immutable(file.fileno())


def test_immutable_interpreter_is_not_copied_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_copy, "_is_immutable", lambda descriptor: True)
    monkeypatch.setattr(own_copy.os, "execve", None)
    own_copy._ensure()
