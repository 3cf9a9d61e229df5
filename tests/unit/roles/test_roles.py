"""Roles, passwords and tokens of a database, and who may change them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from runtime.core.errors import SqlEngineError
from runtime.core.secrets import masked_sql
from sqlengine import TableEnvironment
from sqlengine.roles.authority import Authority
from sqlengine.roles.roles import token_hash
from sqlengine.roles.verifier import Verifier
from sqlengine.server.access import Access, TooMany


def rows(env: TableEnvironment, sql: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in env.execute_sql(sql).to_arrow().to_pylist()]


def as_role(env: TableEnvironment, name: str) -> TableEnvironment:
    session = env.new_session()
    session.session.authority = Authority(env.session.database.roles, name)
    return session


def test_they_are_there_again(tmp_path: Path) -> None:
    with TableEnvironment.create(path=tmp_path / "shop") as env:
        env.execute_sql("CREATE ROLE readers")
        env.execute_sql("CREATE USER ann PASSWORD 'geheim' CONNECTION LIMIT 3 VALID UNTIL '2030-01-01 12:00:00'")
        env.execute_sql("CREATE ROLE IF NOT EXISTS ann")
        env.execute_sql("ALTER ROLE ann RENAME TO anna")
        env.execute_sql("ALTER ROLE sqlengine WITH PASSWORD 'first'")
        token = str(rows(env, "CREATE TOKEN t FOR anna VALID UNTIL '2031-01-01'")[0][0])
        shown = rows(env, "SHOW ROLES"), rows(env, "SHOW USERS"), rows(env, "SHOW TOKENS")
        roles = env.session.database.roles
        assert roles.roles["anna"].verifier is not None and roles.roles["anna"].verifier.accepts("geheim")
    for file in (tmp_path / "shop").rglob("*"):
        data = file.read_bytes() if file.is_file() else b""
        assert b"geheim" not in data and token.encode() not in data
    with TableEnvironment.create(path=tmp_path / "shop") as env:
        assert (rows(env, "SHOW ROLES"), rows(env, "SHOW USERS"), rows(env, "SHOW TOKENS")) == shown
        assert env.session.database.roles.by_token(token, 0) == env.session.database.roles.roles["anna"]
        env.execute_sql("BACKUP TO " + repr(str(tmp_path / "backup")))
    with TableEnvironment.create(path=tmp_path / "other") as env:
        env.execute_sql("RESTORE FROM " + repr(str(tmp_path / "backup")))
        assert rows(env, "SHOW ROLES") == shown[0]
        env.execute_sql("DROP ROLE anna, readers")
        assert rows(env, "SHOW TOKENS") == [] and len(rows(env, "SHOW ROLES")) == 1


def test_who_may_change_roles() -> None:
    with TableEnvironment.create() as env:
        env.execute_sql("CREATE USER boss CREATEROLE")
        env.execute_sql("CREATE USER ann PASSWORD 'x'")
        ann, boss = as_role(env, "ann"), as_role(env, "boss")
        ann.execute_sql("ALTER ROLE ann PASSWORD 'y'")
        ann.execute_sql("CREATE TOKEN mine")
        boss.execute_sql("CREATE ROLE team")
        boss.execute_sql("CREATE TOKEN of_ann FOR ann")
        assert [row[0] for row in rows(ann, "SHOW TOKENS")] == ["mine", "of_ann"]
        assert rows(as_role(env, "team"), "SHOW TOKENS") == []
        for session, sql in (
            (ann, "CREATE ROLE other"),
            (ann, "ALTER ROLE ann SUPERUSER"),
            (ann, "ALTER ROLE ann CONNECTION LIMIT -1 VALID UNTIL 'infinity' CREATEROLE"),
            (ann, "ALTER ROLE boss PASSWORD 'z'"),
            (ann, "ALTER ROLE ann RENAME TO boss2"),
            (ann, "CREATE TOKEN t FOR boss"),
            (ann, "CREATE TOKEN t HASH '" + "0" * 64 + "'"),
            (ann, "DROP ROLE team"),
            (boss, "CREATE ROLE other SUPERUSER"),
            (boss, "ALTER ROLE boss SUPERUSER"),
            (boss, "ALTER ROLE sqlengine PASSWORD 'mine'"),
            (boss, "CREATE TOKEN t FOR sqlengine"),
        ):
            with pytest.raises(SqlEngineError) as raised:
                session.execute_sql(sql)
            assert raised.value.code == "E1800", sql
        env.execute_sql("DROP ROLE boss")
        with pytest.raises(SqlEngineError, match="E1800"):
            boss.execute_sql("CREATE ROLE late")


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("CREATE ROLE ann", "E1470"),
        ("CREATE ROLE public", "E1474"),
        ("CREATE ROLE pg_x", "E1474"),
        ("ALTER ROLE nobody LOGIN", "E1473"),
        ("ALTER ROLE ann", "E1100"),
        ("ALTER ROLE ann PASSWORD 'md5" + "0" * 32 + "'", "E1500"),
        ("ALTER ROLE ann PASSWORD 'SCRAM-SHA-256$9:x'", "E1500"),
        ("ALTER ROLE ann PASSWORD ''", "E1500"),
        ("ALTER ROLE ann VALID UNTIL 'soon'", "E1500"),
        ("ALTER ROLE ann CONNECTION LIMIT -2", "E1100"),
        ("ALTER ROLE sqlengine NOSUPERUSER", "E1471"),
        ("ALTER ROLE sqlengine RENAME TO x", "E1471"),
        ("DROP ROLE sqlengine", "E1471"),
        ("DROP ROLE nobody", "E1473"),
        ("DROP TOKEN t", "E1473"),
        ("CREATE TOKEN t FOR team", "E1472"),
        ("CREATE TOKEN t FOR ann HASH 'x'", "E1500"),
    ],
)
def test_what_is_wrong(sql: str, code: str) -> None:
    with TableEnvironment.create() as env:
        env.execute_sql("CREATE USER ann")
        env.execute_sql("CREATE ROLE team")
        with pytest.raises(SqlEngineError) as raised:
            env.execute_sql(sql)
        assert raised.value.code == code


def test_no_password_is_shown() -> None:
    for sql in ("CREATE USER a WITH PASSWORD 'it''s'", "ALTER ROLE a ENCRYPTED  PASSWORD U&'x' VALID UNTIL 'y'"):
        shown = masked_sql(sql)
        assert "******'" in shown and "it" not in shown.partition("PASSWORD")[2] and "x'" not in shown
    assert repr(Verifier.of_password("x")) == "Verifier(***)"


def test_passwords_as_clients_take_them() -> None:
    # RFC 4013: a soft hyphen means nothing, a wide space is a space, ligatures are their letters.
    assert Verifier.of_password("I\u00adX\u2003\ufb01").accepts("IX fi")
    assert Verifier.of_password("\u0007\u00e4").accepts("\u0007\u00e4")
    assert not Verifier.of_password("\u00e4").accepts("a")
    one, again, other = (Verifier.of_nobody(name) for name in ("u", "u", "v"))
    assert one.salt == again.salt != other.salt and not one.accepts("")


def test_who_may_connect() -> None:
    now = [0.0]
    with TableEnvironment.create() as env:
        database = env.session.database
        trusting = Access(database, trusting=True, now=lambda: now[0])
        guarded = Access(database, trusting=False, now=lambda: now[0])
        assert not trusting.needs_password("anybody") and trusting.authority("anybody").is_superuser
        assert not guarded.is_guarded and guarded.needs_password("sqlengine") and guarded.by_nothing() is None
        env.execute_sql("CREATE USER ann PASSWORD 'x' VALID UNTIL '1970-01-01 00:00:01' CONNECTION LIMIT 1")
        env.execute_sql("CREATE ROLE team PASSWORD 'x'")
        assert trusting.needs_password("anybody") and not trusting.authority("anybody").is_superuser
        assert trusting.needs_password("ann") and trusting.needs_password("team")
        assert not trusting.needs_password("sqlengine") and trusting.by_nothing() is not None
        found = guarded.by_password("ann", "x")
        assert found is not None and not found.is_superuser
        assert guarded.by_password("ann", "y") is guarded.by_password("team", "x") is None
        with guarded.connected(found), pytest.raises(TooMany), guarded.connected(found):
            pass
        with guarded.connected(found):
            pass
        token = str(rows(env, "CREATE TOKEN t FOR ann VALID UNTIL '1970-01-01 00:00:02'")[0][0])
        env.execute_sql(f"CREATE TOKEN kept FOR ann HASH '{token_hash('known')}'")
        assert token_hash("known") == hashlib.sha256(b"known").hexdigest()
        assert guarded.by_token(token) is not None and guarded.by_token("known") is not None
        now[0] = 1500
        assert guarded.by_password("ann", "x") is None and guarded.by_token(token) is not None
        now[0] = 2500
        assert guarded.by_token(token) is None
        env.execute_sql("ALTER ROLE ann NOLOGIN")
        assert guarded.by_token("known") is None
        users = Access(database, {"root": Verifier.of_password("p")}, trusting=True)
        assert users.by_nothing() is None and users.needs_password("sqlengine")
        root = users.by_password("root", "p")
        assert root is not None and root.is_superuser and root.user == "root"
