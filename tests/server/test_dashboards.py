"""What DBeaver and Grafana ask, and what `pg_stat_activity` and its kind tell."""

from __future__ import annotations

import psycopg
import pytest

from tests.server.conftest import Address

_PATH = """SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END FROM generate_series(
    array_lower(string_to_array(current_setting('search_path'),','),1),
    array_upper(string_to_array(current_setting('search_path'),','),1)) as i,
    string_to_array(current_setting('search_path'),',') s"""

GRAFANA = (
    "SELECT current_setting('server_version_num')::int/100 as version",
    "SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'",
    f"""SELECT CASE WHEN quote_ident(table_schema) IN ({_PATH}) THEN quote_ident(table_name)
    ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table" FROM information_schema.tables
    WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog')
    ORDER BY CASE WHEN quote_ident(table_schema) IN ({_PATH}) THEN 0 ELSE 1 END, 1""",
    f"""select quote_ident(column_name) as "column", data_type as "type" from information_schema.columns
    where CASE WHEN array_length(parse_ident('orders'),1) = 2 THEN quote_ident(table_schema) = (parse_ident('orders'))[1]
    AND quote_ident(table_name) = (parse_ident('orders'))[2]
    ELSE quote_ident(table_name) = 'orders' AND quote_ident(table_schema) IN ({_PATH}) END""",
)

DBEAVER = (
    """SELECT n.oid,n.*,d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN pg_catalog.pg_description d
    ON d.objoid=n.oid AND d.objsubid=0 AND d.classoid='pg_namespace'::regclass ORDER BY nspname""",
    """SELECT t.oid,t.*,c.relkind,format_type(nullif(t.typbasetype, 0), t.typtypmod) as base_type_name, d.description
    FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid=t.typelem
    LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid=t.typrelid LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid=d.objoid
    WHERE t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = 'c') AND (et.typcategory IS NULL OR et.typcategory <> 'C')""",
    """SELECT c.relname,a.*,pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) as def_value,dsc.description,dep.objid
    FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON (a.attrelid=c.oid)
    LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid=ad.adrelid AND a.attnum = ad.adnum)
    LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid=dsc.objoid AND a.attnum = dsc.objsubid)
    LEFT OUTER JOIN pg_depend dep on dep.refobjid = a.attrelid AND dep.deptype = 'i' and dep.refobjsubid = a.attnum
    and dep.classid = dep.refclassid WHERE NOT a.attisdropped AND c.relkind not in ('i','I','c') AND c.oid='orders'::regclass::oid
    ORDER BY a.attnum""",
    """SELECT c.oid,c.*,t.relname as tabrelname,rt.relnamespace as refnamespace,d.description, case when c.contype='c'
    then "substring"(pg_get_constraintdef(c.oid), 7) else null end consrc_copy FROM pg_catalog.pg_constraint c
    INNER JOIN pg_catalog.pg_class t ON t.oid=c.conrelid LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid=c.confrelid
    LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_constraint'::regclass
    WHERE c.conrelid='orders'::regclass::oid ORDER BY c.oid""",
    """select c.oid,pg_catalog.pg_total_relation_size(c.oid) as total_rel_size,pg_catalog.pg_relation_size(c.oid) as rel_size
    FROM pg_class c WHERE c.oid='orders'::regclass::oid""",
    """SELECT blocked_locks.pid AS blocked_pid FROM pg_catalog.pg_locks blocked_locks JOIN pg_catalog.pg_stat_activity
    blocked_activity ON blocked_activity.pid = blocked_locks.pid JOIN pg_catalog.pg_locks blocking_locks
    ON blocking_locks.locktype = blocked_locks.locktype AND blocking_locks.pid != blocked_locks.pid
    WHERE NOT blocked_locks.granted""",
    "select string_agg(word, ',') from pg_catalog.pg_get_keywords() where word <> ALL ('{a,abs}'::text[])",
)


@pytest.fixture
def orders(client: psycopg.Connection) -> psycopg.Connection:
    client.execute("CREATE TABLE orders (id INT PRIMARY KEY, name TEXT, CHECK (id > 0))")
    client.execute("INSERT INTO orders SELECT i::int, 'x' FROM generate_series(1, 3000) AS g (i)")
    return client


def test_what_grafana_asks(orders: psycopg.Connection) -> None:
    version, extension, tables, columns = (orders.execute(query).fetchall() for query in GRAFANA)
    assert (version, extension) == ([(1500,)], [])
    assert tables[0] == ("orders",)
    assert columns == [("id", "integer"), ("name", "text")]


def test_what_dbeaver_asks(orders: psycopg.Connection) -> None:
    found = {query: orders.execute(query) for query in DBEAVER}
    names = [[column.name for column in cursor.description or ()] for cursor in found.values()]
    assert (names[0][:2], names[-1]) == (["oid", "oid"], ["string_agg"])
    rows = [cursor.fetchall() for cursor in found.values()]
    assert [(row[0], row[2]) for row in rows[2]] == [("orders", "id"), ("orders", "name")]
    assert sorted(row[2] for row in rows[3]) == ["orders_id_check", "orders_pkey"]
    ((_, total, own),) = rows[4]
    assert total == own > 3000 * 4


def test_who_is_connected_and_what_they_do(address: Address, orders: psycopg.Connection) -> None:
    asked = (
        "SELECT pid, state, query, usename, client_addr FROM pg_stat_activity WHERE application_name = 'an other one'"
    )
    with psycopg.connect(address.conninfo, autocommit=True, application_name="an other one") as other:
        with other.transaction():
            other.execute("SELECT 1 AS one")
            pid = other.info.backend_pid
            expected = (pid, "idle in transaction", "SELECT 1 AS one", "sqlengine", address.host)
            assert orders.execute(asked).fetchall() == [expected]
            assert orders.execute("SELECT mode, granted FROM pg_locks WHERE pid = %s", [pid]).fetchall() == [
                ("ExclusiveLock", True)
            ]
        assert orders.execute(asked).fetchall()[0][1:3] == ("idle", "COMMIT")
    own = orders.execute("SELECT state, query FROM pg_stat_activity WHERE pid = pg_backend_pid()").fetchall()
    assert own == [("active", "SELECT state, query FROM pg_stat_activity WHERE pid = pg_backend_pid()")]


def test_others_statements_are_for_superusers(address: Address, orders: psycopg.Connection) -> None:
    orders.execute("CREATE ROLE watcher LOGIN")
    try:
        conninfo = f"host={address.host} port={address.port} user=watcher dbname=default_catalog"
        with psycopg.connect(conninfo, autocommit=True) as watcher:
            seen = watcher.execute("SELECT DISTINCT query FROM pg_stat_activity WHERE usename = 'sqlengine'").fetchall()
        assert seen == [("<insufficient privilege>",)]
    finally:
        orders.execute("DROP ROLE watcher")


def test_how_large_things_are(address: Address, orders: psycopg.Connection) -> None:
    size = orders.execute("SELECT pg_table_size('orders'), pg_total_relation_size(%s)", [f"{address.schema}.orders"])
    assert len(set(size.fetchall()[0])) == 1
    asked = "SELECT n_live_tup FROM pg_stat_user_tables WHERE schemaname = current_schema() AND relname = 'orders'"
    assert orders.execute(asked).fetchall() == [(3000,)]
    numbers = [0, 10239, 10240, 1536 * 2**20, 20 * 2**30, -20480, 2**62]
    shown = orders.execute("SELECT " + ", ".join(f"pg_size_pretty({n}::bigint)" for n in numbers)).fetchall()
    assert shown == [("0 bytes", "10239 bytes", "10 kB", "1536 MB", "20 GB", "-20 kB", "4096 PB")]


def test_current_schemas_beside_own_columns(address: Address, orders: psycopg.Connection) -> None:
    query = "SELECT current_schemas(TRUE), current_schema(), id FROM orders WHERE id = 1"
    assert orders.execute(query).fetchall() == [(["pg_catalog", address.schema], address.schema, 1)]
