"""Structured types and RAW in Python: the Table API, functions with dataclasses, rows, Arrow, and state that is restored."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from runtime.core.errors import SqlEngineError
from sqlengine import DataTypes, Row, TableEnvironment, col, udf, udtf
from sqlengine.expressions import lit, object_of
from sqlengine.parse import parse_type
from sqlengine.text.cells import cell_texts


@dataclasses.dataclass
class Address:
    city: str
    zip: int | None = None


@dataclasses.dataclass
class User:
    name: str
    born: dt.date | None
    address: Address | None

    def shout(self) -> str:
        return self.name.upper() + "!"


@pytest.fixture
def env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as made:
        yield made


def values(env: TableEnvironment, query: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in env.execute_sql(query).collect()]


USER = (
    "OBJECT_OF('com.example.User', 'born', DATE '1990-02-03', 'name', 'Bob', "
    "'address', OBJECT_OF('com.example.Address', 'zip', 12, 'city', 'Ulm'))"
)


def test_a_function_takes_and_gives_instances_of_dataclasses(env: TableEnvironment) -> None:
    @udf
    def shout(user: User) -> str:
        assert isinstance(user.address, Address)
        return f"{user.shout()} {user.address.city} {user.address.zip} {user.born}"

    @udf
    def moved(user: User | None, city: str) -> User:
        if user is None:
            return None  # type: ignore[return-value]
        return dataclasses.replace(user, address=Address(city))

    env.create_temporary_system_function("shout", shout)
    env.create_temporary_system_function("moved", moved)
    assert values(env, f"SELECT shout({USER})") == [("BOB! Ulm 12 1990-02-03",)]
    made = values(env, f"SELECT TYPEOF(u), CAST(u AS STRING), u.address.city FROM (SELECT moved({USER}, 'Bonn') AS u)")
    module = __name__
    assert made == [
        (
            f"STRUCTURED<'{module}.User', `name` STRING, `born` DATE, "
            f"`address` STRUCTURED<'{module}.Address', `city` STRING, `zip` BIGINT>>",
            "(name=Bob, born=1990-02-03, address=(city=Bonn, zip=NULL))",
            "Bonn",
        )
    ]
    assert values(env, f"SELECT moved(CASE WHEN 1 > 2 THEN {USER} END, 'x') IS NULL") == [(True,)]


def test_a_row_without_a_field_of_the_class_is_told(env: TableEnvironment) -> None:
    @udf
    def shout(user: User) -> str:
        return user.shout()

    env.create_temporary_system_function("shout", shout)
    with pytest.raises(SqlEngineError, match="E2110"):
        values(env, "SELECT shout(OBJECT_OF('com.example.User', 'name', 'Bob'))")


def test_a_table_function_gives_instances(env: TableEnvironment) -> None:
    @udtf
    def homes(user: User) -> Iterator[Address]:
        yield Address(user.name, 1)
        yield Address("x")

    env.create_temporary_system_function("homes", homes)
    found = values(env, f"SELECT h.* FROM (SELECT {USER} AS u) AS t, LATERAL TABLE(homes(u)) AS h")
    assert found == [("Bob", 1), ("x", None)]


def test_arrays_of_instances_and_plain_rows(env: TableEnvironment) -> None:
    @udf
    def both(n: int) -> list[Address]:
        return [Address("a", n), Address("b")]

    @udf(result_type="STRUCTURED<'our.P', x INT, y STRING>")
    def p(n: int) -> object:
        return Row(n, "r") if n % 2 else {"x": n, "y": "d"}

    env.create_temporary_system_function("both", both)
    env.create_temporary_system_function("p", p)
    assert values(env, "SELECT CAST(both(3) AS STRING)") == [("[(city=a, zip=3), (city=b, zip=NULL)]",)]
    assert values(env, "SELECT p(1).y, p(2).y, CAST(p(2) AS STRING)") == [("r", "d", "(x=2, y=d)")]


def test_the_table_api(env: TableEnvironment) -> None:
    kind = DataTypes.STRUCTURED(
        "our.P", [DataTypes.FIELD("x", DataTypes.INT()), DataTypes.FIELD("y", DataTypes.STRING())]
    )
    assert str(kind) == "STRUCTURED<'our.P', `x` INT, `y` STRING>"
    with pytest.raises(SqlEngineError, match="no name of a class"):
        DataTypes.STRUCTURED("a b", [])
    assert str(DataTypes.RAW("java.lang.Long", "AAxvdXIuU25hcHNob3QAAAAB", False)) == f"{SNAPSHOT} NOT NULL"
    with pytest.raises(SqlEngineError, match="no snapshot of a serializer"):
        DataTypes.RAW("java.lang.Long", "AAAA")
    t = env.from_elements(
        [(1, (5, "a")), (2, None)], DataTypes.ROW([DataTypes.FIELD("id", DataTypes.INT()), DataTypes.FIELD("p", kind)])
    )
    assert t.get_schema().types[1] == kind
    shown = t.select(col("id"), col("p").get("x"), col("p").object_update("x", 9).cast(DataTypes.STRING()))
    assert [tuple(r) for r in shown.execute().collect()] == [(1, 5, "(x=9, y=a)"), (2, None, None)]
    made = t.select(object_of("our.Q", "n", col("id"), "l", lit("z")).alias("q"))
    assert [tuple(r) for r in made.execute().collect()] == [((1, "z"),), ((2, "z"),)]
    with pytest.raises(SqlEngineError, match="E1304"):
        t.filter(col("p") == object_of("our.Q", "n", 1)).execute()


def test_arrow_carries_the_fields(env: TableEnvironment) -> None:
    made = env.execute_sql("SELECT OBJECT_OF('our.P', 'x', 1, 'y', 'a') AS p").to_arrow()
    assert made.schema.field("p").type == pa.struct({"x": pa.int32(), "y": pa.string()})
    assert made.to_pylist() == [{"p": {"x": 1, "y": "a"}}]


def test_tables_and_views_of_objects_last(tmp_path: Path) -> None:
    with TableEnvironment.create(path=tmp_path / "db") as env:
        env.execute_sql(
            "CREATE TABLE t (id INT, u STRUCTURED<'our.U', a STRING, b INT NOT NULL>, r RAW('our.R', 'AAxvdXIuU25hcHNob3QAAAAB'))"
        )
        env.execute_sql("CREATE MATERIALIZED VIEW v AS SELECT u, COUNT(*) AS n FROM t GROUP BY u")
        env.execute_sql(
            "INSERT INTO t SELECT 1, OBJECT_OF('our.U', 'a', 'x', 'b', 1), CAST(NULL AS RAW('our.R', 'AAxvdXIuU25hcHNob3QAAAAB'))"
        )
    with TableEnvironment.create(path=tmp_path / "db") as env:
        env.execute_sql("INSERT INTO t (id, u) VALUES (2, OBJECT_OF('our.U', 'a', 'x', 'b', 1))")
        assert values(env, "SELECT TYPEOF(u), u.a, n FROM v") == [
            ("STRUCTURED<'our.U', `a` STRING, `b` INT NOT NULL>", "x", 2)
        ]
        assert ("r", "RAW('our.R', '...')") in [row[:2] for row in values(env, "DESCRIBE t")]


SNAPSHOT = "RAW('java.lang.Long', 'AAxvdXIuU25hcHNob3QAAAAB')"


def test_raw_is_passed_through_and_compared(env: TableEnvironment) -> None:
    @udf(result_type=SNAPSHOT)
    def packed(n: int) -> bytes:
        return n.to_bytes(4, "big")

    @udf(result_type="BIGINT")
    def unpacked(data: bytes) -> int:
        return int.from_bytes(data, "big")

    env.create_temporary_system_function("packed", packed)
    env.create_temporary_system_function("unpacked", unpacked)
    env.execute_sql("CREATE TEMPORARY VIEW t AS SELECT packed(n) AS r, n FROM (VALUES (1), (2), (2)) AS v(n)")
    assert values(env, "SELECT TYPEOF(r), CAST(r AS BYTES), CAST(r AS BINARY(2)) FROM t WHERE n = 1") == [
        ("RAW('java.lang.Long', '...')", b"\0\0\0\1", b"\0\0")
    ]
    assert sorted(values(env, "SELECT CAST(r AS BYTES), COUNT(*) FROM t GROUP BY r")) == [
        (b"\0\0\0\1", 1),
        (b"\0\0\0\2", 2),
    ]
    assert values(env, "SELECT COUNT(*) FROM t AS a JOIN t AS b ON a.r = b.r") == [(5,)]
    assert values(env, "SELECT DISTINCT unpacked(CAST(r AS BYTES)) FROM t WHERE r <> packed(1)") == [(2,)]
    assert values(env, "SELECT r IS NULL, COALESCE(r, r) = r, ARRAY[r] = ARRAY[r] FROM t WHERE n = 1") == [
        (False, True, True)
    ]
    column = env.execute_sql("SELECT r FROM t WHERE n = 1").to_arrow().column(0).combine_chunks()
    assert cell_texts(column, parse_type(SNAPSHOT)) == ["x'00000001'"]


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("r < r", "E1304"),
        ("r + 1", "E1301"),
        ("r || 'x'", "E1301"),
        ("MAX(r)", "E1301"),
        ("CAST(r AS STRING)", "E1305"),
        ("CAST(ROW(r) AS STRING)", "E1305"),
        ("CAST(r AS BIGINT)", "E1305"),
        (f"CAST(X'00' AS {SNAPSHOT})", "E1305"),
        ("CAST(r AS RAW('java.lang.Long', 'AAxvdXIuU25hcHNob3QAAAAC'))", "E1305"),
        ("r = CAST(NULL AS RAW('other', 'AAxvdXIuU25hcHNob3QAAAAB'))", "E1304"),
        ("JSON_STRING(r)", "E1301"),
        ("COUNT(*) OVER (ORDER BY r)", "E1302"),
    ],
)
def test_what_raw_does_not_do(env: TableEnvironment, expression: str, code: str) -> None:
    env.execute_sql(f"CREATE TABLE t (r {SNAPSHOT})")
    with pytest.raises(SqlEngineError, match=code):
        env.execute_sql(f"SELECT {expression} FROM t")


@pytest.mark.parametrize("format_", ["json", "csv", "parquet"])
def test_files_hold_no_raw(env: TableEnvironment, format_: str, tmp_path: Path) -> None:
    env.execute_sql(f"CREATE TABLE t (r {SNAPSHOT})")
    options = f"'connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = '{format_}'"
    with pytest.raises(SqlEngineError, match="E1616"):
        env.execute_sql(f"CREATE TABLE f (r {SNAPSHOT}) WITH ({options})")
        env.execute_sql("INSERT INTO f SELECT r FROM t").wait()
