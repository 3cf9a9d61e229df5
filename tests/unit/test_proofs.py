"""Who comes with an `Authorization` header."""

from __future__ import annotations

import base64

import pytest

from sqlengine import TableEnvironment
from sqlengine.server.access import Access
from sqlengine.server.proofs import Proofs


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def test_a_password_is_known_again_until_it_changes() -> None:
    with TableEnvironment.create() as t_env:
        t_env.execute_sql("CREATE ROLE ann LOGIN PASSWORD 'tea: for two'")
        proofs, right = Proofs(Access(t_env.session.database, trusting=False)), basic("ann", "tea: for two")
        assert proofs.known(right) is None
        assert (found := proofs.proved(right)) is not None and found.user == "ann"
        assert proofs.known(right) is not None
        assert proofs.known(basic("ann", "tea")) is None and proofs.proved(basic("ann", "tea")) is None
        t_env.execute_sql("ALTER ROLE ann PASSWORD 'coffee'")
        assert proofs.known(right) is None and proofs.proved(right) is None


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic",
        "Basic !",
        "Basic " + base64.b64encode(b"\xff:").decode(),
        "Bearer",
        "Bearer x",
        "\udcff",
        "Bearer \udcff",
    ],
)
def test_what_proves_nothing(header: str) -> None:
    with TableEnvironment.create() as t_env:
        proofs = Proofs(Access(t_env.session.database, trusting=False))
        assert proofs.known(header) is None and proofs.proved(header) is None
