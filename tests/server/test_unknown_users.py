"""What a stranger may learn of who is a user: nothing, whoever made the users."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.security.scram import MECHANISMS, salt_size
from barnabas.server.net.secure.users import ScramUsers

OURS, KAFKAS = bytes(range(24)), b"1g2x3kzc0q4ii1h7dr2ab3k9vn"
CODES = {name: code for code, name in MECHANISMS.items()}


def users(*made: tuple[str, str, bytes, int]) -> ScramUsers:
    """Users of these names, mechanisms, salts and iterations."""
    records = {
        (name, CODES[mechanism]): SimpleNamespace(
            salt=salt, iterations=iterations, stored_key=b"s" * 32, server_key=b"k" * 32
        )
        for name, mechanism, salt, iterations in made
    }
    image = SimpleNamespace(scram=records, cluster_id="cluster")
    return ScramUsers(cast("Any", image), "", lambda: 0.0)


@pytest.mark.parametrize("salt", [OURS, KAFKAS, bytes(16)])
def test_salt_and_iterations_of_who_does_not_exist_are_like_those_of_most(salt: bytes) -> None:
    known = users(
        ("a", "SCRAM-SHA-256", salt, 8192),
        ("b", "SCRAM-SHA-256", salt, 8192),
        ("c", "SCRAM-SHA-256", bytes(40), 4096),
        ("d", "SCRAM-SHA-512", bytes(40), 4096),
    )
    made_up = known.made_up("eve", "SCRAM-SHA-256")
    assert salt_size(made_up.salt) == salt_size(salt)
    assert made_up.iterations == 8192


def test_a_password_of_nobody_is_hashed_as_most_passwords_are() -> None:
    assert users(("a", "SCRAM-SHA-256", OURS, 4096)).usual() == "SCRAM-SHA-256"
    both = [("a", "SCRAM-SHA-256", OURS, 4096), ("a", "SCRAM-SHA-512", OURS, 4096)]
    assert users(*both).usual() == "SCRAM-SHA-512", "who has both is checked by this one"
    assert users().usual() == "SCRAM-SHA-512"
