"""Tests for ``nodeagent plugins check``: findings with file, line and rule, and no false positives."""

from __future__ import annotations

import textwrap

import pytest

from nodeagent.authoring.check import InvalidPluginPath, check_plugin

HEAD = "import asyncio\nimport subprocess\nimport time\nfrom pathlib import Path\nfrom nodeagent import hookimpl\n"
PROJECT = '[project]\nname = "x"\n[project.entry-points.nodeagent]\nshelf = "shelf"\n'


@pytest.fixture
def findings(tmp_path):
    """Return a function that checks one module and returns line (after the head), rule and message of each finding."""

    def check(source, head=HEAD):
        file = tmp_path / "shelf.py"
        file.write_text(head + textwrap.dedent(source).lstrip("\n"))
        lines = head.count("\n")
        return [(one.line - lines, str(one.rule), one.message) for one in check_plugin(file, load=False)]

    return check


@pytest.fixture
def project(tmp_path):
    """Return a function that checks a project and returns file, line and rule of each finding."""

    def check(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return [
            (str(one.file.relative_to(tmp_path)), one.line, str(one.rule)) for one in check_plugin(tmp_path, load=False)
        ]

    return check


GOOD = """
@hookimpl(tryfirst=True)
async def nodeagent_admit_pod(pod):
    await asyncio.sleep(1)
    await asyncio.to_thread(Path("x").read_text)


class Part:
    @hookimpl
    def nodeagent_provide_background_loops(self, context):
        return [Path("x").read_text()]
"""


def test_valid_plugin_has_no_findings(findings):
    assert findings(GOOD) == []


# --- hooks ----------------------------------------------------------------------------------------------------


def test_unknown_hook_is_reported_with_a_suggestion(findings):
    ((line, rule, message),) = findings("@hookimpl\nasync def nodeagent_admit_pods(pod):\n    pass\n")
    assert (line, rule) == (2, "unknown-hook")
    assert message == "unknown hook nodeagent_admit_pods; did you mean nodeagent_admit_pod?"


def test_marker_under_another_name_is_recognized(findings):
    head = (
        "from nodeagent import hookimpl as alias\nimport nodeagent, pluggy\nown = pluggy.HookimplMarker('nodeagent')\n"
    )
    found = findings(
        """
        @alias
        def nodeagent_one(): pass
        @nodeagent.hookimpl
        def nodeagent_two(): pass
        @own
        def nodeagent_three(): pass
        """,
        head,
    )
    assert [(line, rule) for line, rule, _ in found] == [(n, "unknown-hook") for n in (2, 4, 6)]


def test_hook_without_marker_is_reported(findings):
    source = GOOD + "\n\ndef nodeagent_configure(context):\n    pass\n\n\ndef nodeagent_own_function():\n    pass\n"
    ((line, rule, message),) = findings(source)
    assert (line, rule) == (13, "unmarked-hook")
    assert "lacks @hookimpl" in message


def test_plugin_without_hooks_is_reported(findings):
    ((_, rule, _),) = findings("x = 1\n")
    assert rule == "no-hooks"


def test_wrapper_option_is_reported(findings):
    ((line, rule, message),) = findings("@hookimpl(wrapper=True)\nasync def nodeagent_admit_pod(pod):\n    pass\n")
    assert (line, rule) == (1, "hook-option")
    assert "wrapper" in message


def test_hook_of_another_plugin_has_no_finding(findings):
    assert findings("@hookimpl(optionalhook=True)\nasync def shelf_tidied(books):\n    pass\n") == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("pods", 'no argument "pods"; did you mean pod?'),
        ("pod, xyzzy", 'no argument "xyzzy"; supported: pod, active'),
        ("pod=None", "has a default and is therefore never passed"),
        ("*, pod", 'keyword-only argument "pod" is never passed'),
    ],
)
def test_invalid_argument_is_reported(findings, arguments, text):
    ((line, rule, message),) = findings(f"@hookimpl\nasync def nodeagent_admit_pod({arguments}):\n    pass\n")
    assert (line, rule) == (2, "argument")
    assert text in message


def test_self_of_a_method_is_not_checked_as_argument(findings):
    source = "class A:\n    @hookimpl\n    async def nodeagent_admit_pod(this, pod, own=1): pass\n"
    assert findings(source) == []


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ("def nodeagent_admit_pod(pod)", "must be an async def"),
        ("async def nodeagent_configure(context)", "must be a plain def"),
    ],
)
def test_sync_async_mismatch_with_the_hook_is_reported(findings, definition, text):
    ((line, rule, message),) = findings(f"@hookimpl\n{definition}:\n    pass\n")
    assert (line, rule) == (2, "async")
    assert text in message


# --- blocking calls -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("time.sleep(1)", "time.sleep"),
        ("subprocess.run(['x'])", "subprocess.run"),
        ("subprocess.check_output(['x'])", "subprocess.check_output"),
        ("open('x').read()", "open"),
        ("Path('x').read_text()", "read_text"),
        ("asyncio.run(f())", "asyncio.run"),
    ],
)
def test_blocking_call_in_an_async_hook_is_reported(findings, call, name):
    ((line, rule, message),) = findings(f"@hookimpl\nasync def nodeagent_admit_pod(pod):\n    {call}\n")
    assert (line, rule) == (3, "blocking-call")
    assert message.startswith(f"{name}() blocks the event loop, called from async nodeagent_admit_pod; ")


def test_blocking_libraries_are_reported_under_any_alias(findings):
    head = "from nodeagent import hookimpl\nimport requests as r\nfrom time import sleep as nap\nimport httpx\n"
    found = findings(
        """
        @hookimpl
        async def nodeagent_admit_pod(pod):
            r.get("http://x")
            nap(1)
            httpx.post("http://x")
            httpx.AsyncClient()
        """,
        head,
    )
    assert [(line, message.partition("(")[0]) for line, _, message in found] == [
        (3, "requests.get"),
        (4, "time.sleep"),
        (5, "httpx.post"),
    ]


def test_method_of_a_local_variable_is_not_a_blocking_library(findings):
    assert not findings(
        """
        @hookimpl
        async def nodeagent_report_node():
            requests = {}
            requests.get("cpu")
        """
    )


def test_blocking_call_through_functions_of_the_file_is_reported(findings):
    found = findings(
        """
        def read():
            return Path("x").read_text()

        class Part:
            @hookimpl
            async def nodeagent_admit_pod(self, pod):
                self.decide()
                await asyncio.to_thread(read)

            def decide(self):
                return read()
        """
    )
    ((line, _, message),) = found
    assert line == 2
    assert "called from async nodeagent_admit_pod through decide and read" in message


def test_calls_outside_the_event_loop_are_not_reported(findings):
    source = """
        @hookimpl
        async def nodeagent_admit_pod(pod):
            def inner():
                time.sleep(1)
            await asyncio.to_thread(inner)
            await asyncio.to_thread(lambda: open("x").read())

        def again():
            again()
            time.sleep(1)
        """
    assert findings(source) == []


def test_ignore_comment_suppresses_only_the_listed_rule(findings):
    call = "    time.sleep(1)  # nodeagent: ignore[{}]\n"
    body = "@hookimpl\nasync def nodeagent_admit_pod(pod):\n"
    assert findings(body + call.format("blocking-call")) == []
    assert len(findings(body + call.format("argument"))) == 1


# --- settings -------------------------------------------------------------------------------------------------

READS = """
@hookimpl
def nodeagent_configure(context):
    context.plugin_settings.get("shelf", {})
"""
SCHEMA = "@hookimpl\ndef nodeagent_settings_schema():\n    return {'type': 'object'}\n"


def test_settings_without_schema_are_reported_at_their_use(findings):
    ((line, rule, message),) = findings(READS)
    assert (line, rule) == (3, "settings-schema")
    assert "nodeagent_settings_schema" in message
    assert findings(READS + SCHEMA) == []


def test_settings_under_another_name_than_the_entry_point_are_reported(project):
    source = HEAD + READS.replace('"shelf"', "NAME") + SCHEMA + 'NAME = "drawer"\n'
    assert project({"pyproject.toml": PROJECT, "shelf.py": source}) == [("shelf.py", 9, "settings-schema")]
    assert project({"shelf.py": source.replace("drawer", "shelf")}) == []


# --- imports --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        ("from nodeagent.podworker import worker", "core-import"),
        ("from nodeagent import agent", "core-import"),
        ("import nodeagent.pluginmanager", "core-import"),
        ("from nodeagent.testing import make_pod", "core-import"),
        ("import apiserver_stub.server.state", "core-import"),
        ("from nodeagent.config.load import masked", "core-import"),
        ("from nodeagent.apiclient import connect", "core-import"),
        ("from nodeagent_plugins.cri import client", "plugin-import"),
    ],
)
def test_import_of_internals_is_reported(findings, statement, rule):
    ((line, found, message),) = findings(f"{statement}\n{GOOD}")
    assert (line, found) == (1, rule)
    assert message.startswith(statement.split()[1])


def test_type_only_import_of_an_internal_module_is_reported(findings):
    source = """
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from nodeagent.pluginmanager import PluginManager
        """
    ((line, rule, message),) = findings(textwrap.dedent(source) + GOOD)
    assert (line, rule) == (3, "core-import")
    assert "nodeagent.pluginmanager is internal" in message


def test_public_imports_are_accepted(findings):
    source = """
        from typing import TYPE_CHECKING
        import nodeagent.base.quantity, nodeagent
        from nodeagent import __version__, contracts
        from nodeagent.contracts.reviews import review
        from nodeagent.errors import NodeAgentError
        from . import other
        if TYPE_CHECKING:
            from nodeagent.contracts.hooks import PluginHost
        """
    assert findings(textwrap.dedent(source) + GOOD) == []


# --- projects -------------------------------------------------------------------------------------------------


def test_source_is_checked_despite_a_missing_entry_point(project):
    bad = HEAD + "@hookimpl\ndef nodeagent_admit_pod(pod): pass\n"
    found = project({"pyproject.toml": '[project]\nname = "x"\n', "shelf.py": bad, "tests/test_x.py": bad})
    assert found == [("pyproject.toml", 1, "entry-point"), ("shelf.py", 7, "async")]


def test_entry_point_without_module_is_reported(project):
    files = {"pyproject.toml": PROJECT + 'lamp = "lamp.on"\n', "src/shelf/__init__.py": HEAD + GOOD}
    assert project(files) == [("pyproject.toml", 5, "entry-point")]


def test_all_files_of_the_package_are_checked(project):
    files = {
        "pyproject.toml": PROJECT,
        "shelf/__init__.py": HEAD + GOOD,
        "shelf/part.py": "import nodeagent.agent\n",
        "tests/test_shelf.py": "import nodeagent.agent\n",
    }
    assert project(files) == [("shelf/part.py", 1, "core-import")]


def test_syntax_error_is_reported(project):
    found = project({"pyproject.toml": PROJECT, "shelf.py": HEAD + "def (\n"})
    assert found == [("shelf.py", 6, "syntax")]


@pytest.mark.parametrize("name", ["absent", "empty", "notes.txt", "broken"])
def test_path_without_plugin_is_rejected(tmp_path, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").touch()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "pyproject.toml").write_text("[")
    with pytest.raises(InvalidPluginPath):
        check_plugin(tmp_path / name, load=False)
