"""Tests for the resolution of users and groups in the files of an image."""

from __future__ import annotations

import os

import pytest

from nodeagent_plugins.embedded_runtime import cri_responses
from nodeagent_plugins.embedded_runtime.errors import InvalidArgument
from nodeagent_plugins.embedded_runtime.images.store import Image
from nodeagent_plugins.embedded_runtime.users import MAX_FILE_BYTES, User, resolve_user


@pytest.fixture
def root(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nweb:x:1000:1001::/srv:/bin/sh\nbad:line\n")
    (tmp_path / "etc/group").write_text("web:x:1001:\nextra:x:2000:root,web\n")
    return tmp_path


@pytest.mark.parametrize(
    ("requested", "user"),
    [
        ("", User(0, 0, (0, 2000), "/root")),
        ("web", User(1000, 1001, (1001, 2000), "/srv")),
        ("1000", User(1000, 1001, (1001, 2000), "/srv")),
        ("web:extra", User(1000, 2000, (2000,), "/srv")),
        ("77", User(77, 0, (0,), "/")),
        ("77:88", User(77, 88, (88,), "/")),
    ],
)
def test_user_and_group_resolve_by_name_and_number(root, requested, user):
    assert resolve_user(root, requested) == user


def test_separately_requested_group_takes_precedence(root):
    assert resolve_user(root, "web:extra", 5, (6,)) == User(1000, 5, (5, 6, 2000), "/srv")


@pytest.mark.parametrize("requested", ["nobody", "web:nobody"])
def test_unknown_name_is_rejected(root, requested):
    with pytest.raises(InvalidArgument, match='"nobody" in the image'):
        resolve_user(root, requested)


def test_root_resolves_without_a_passwd_file(tmp_path):
    assert resolve_user(tmp_path, "") == User(0, 0, (0,), "/")


def test_links_to_user_files_of_the_host_are_not_followed(tmp_path):
    (tmp_path / "etc").symlink_to("/etc")

    with pytest.raises(InvalidArgument):
        resolve_user(tmp_path, "root")


def test_strict_policy_ignores_groups_of_the_image(root):
    assert resolve_user(root, "web:extra", 5, (6,), strict=True).groups == (5, 6)


@pytest.mark.parametrize("requested", ["4294967296", "2147483648", "9" * 5000, "77:4294967296"])
def test_id_that_wraps_around_to_root_is_rejected(root, requested):
    with pytest.raises(InvalidArgument, match="invalid user or group ID"):
        resolve_user(root, requested)


def test_user_file_with_an_id_out_of_range_is_ignored(root):
    (root / "etc/passwd").write_text("evil:x:4294967296:0::/:/bin/sh\n")

    with pytest.raises(InvalidArgument, match='no user "evil"'):
        resolve_user(root, "evil")


def test_user_file_that_is_a_pipe_does_not_block(tmp_path):
    (tmp_path / "etc").mkdir()
    os.mkfifo(tmp_path / "etc/passwd")

    assert resolve_user(tmp_path, "") == User(0, 0, (0,), "/")


@pytest.mark.parametrize("user", ["4294967296", "9" * 30])
def test_image_with_an_id_out_of_range_is_listed(user):
    response = cri_responses.image(Image(id="sha256:0", layers=[], config={"User": user}))

    assert response.username == user
    assert not response.HasField("uid")


def test_user_files_are_read_up_to_a_limit(root):
    (root / "etc/passwd").write_text("web:x:1000:1001::/srv:/bin/sh\n" + "#" * MAX_FILE_BYTES + "\nlate:x:5:5::/:\n")
    with (root / "etc/group").open("w") as groups:
        groups.write("extra:x:2000:web\n")
        groups.truncate(1 << 40)

    assert resolve_user(root, "web") == User(1000, 1001, (1001, 2000), "/srv")
    with pytest.raises(InvalidArgument, match='no user "late"'):
        resolve_user(root, "late")


def test_largest_id_is_the_largest_signed_number(root):
    assert resolve_user(root, "2147483647:2147483647").uid == 2147483647
    for requested in ("2147483648", "0:2147483648", "00000000001"):
        with pytest.raises(InvalidArgument, match="must be at most 2147483647"):
            resolve_user(root, requested)
