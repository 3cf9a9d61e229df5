"""What the catalogue's tables hold: the engine's catalogs in the words of PostgreSQL.

A catalog is a database, a Flink database a schema, and each table, view and materialized view is a row of `pg_class`. The
number of an object is made from its name, so that it is the same for all connections and after a restart.
"""

from __future__ import annotations

import datetime as dt
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from runtime.core.errors import SqlEngineError
from runtime.core.schema import Schema
from runtime.core.secrets import masked_sql
from runtime.core.types import TypeRoot
from sqlengine.catalog.catalog import CatalogObject
from sqlengine.catalog.definitions import CatalogSequence, seen_sequences
from sqlengine.catalog.objects import (
    CatalogTable,
    CatalogView,
    Constraint,
    MaterializedView,
    ObjectPath,
    PhysicalColumn,
)
from sqlengine.database.session import Session
from sqlengine.roles.privileges import Target
from sqlengine.roles.roles import FIRST, Role
from sqlengine.server.postgres.catalogue.definitions import CLASSES, COLUMNS, quoted
from sqlengine.server.postgres.types import ARRAYS, TYPES, PgType, columns_of
from sqlengine.statements.planning import object_schema

__all__ = ["OWNER", "Contents", "last_values", "oid_of", "role_oid"]

OWNER = 10
"""The number of the role that is always there."""
_PG_CATALOG, _INFORMATION_SCHEMA, _TOAST = 11, 13000, 99
_FIRST = 16384
"""Numbers below are PostgreSQL's own."""

_INTEGERS = {TypeRoot.TINYINT: "int2", TypeRoot.SMALLINT: "int2", TypeRoot.INT: "int4", TypeRoot.BIGINT: "int8"}

Row = dict[str, Any]


def oid_of(*parts: str) -> int:
    """The number of a thing by its name."""
    return _FIRST + zlib.crc32("\0".join(parts).encode()) % (2**31 - _FIRST)


def sequence_oid(path: ObjectPath) -> int:
    """The number of a sequence."""
    return oid_of("sequence", *path.parts)


def role_oid(name: str) -> int:
    """The number of a role by its name."""
    return OWNER if name == FIRST else oid_of("role", name)


class Contents:
    """The rows of tables by name, columns that are not named are NULL.

    Args:
        session: whose current catalog is shown.
        user: the name of the role.
    """

    def __init__(self, session: Session, user: str) -> None:
        self._session = session
        self._user = user
        self._catalogs = session.catalogs
        self._catalog = session.catalogs.current_catalog
        self.tables: dict[str, list[Row]] = {}
        self._databases()
        self._roles()
        self._schemas()
        self._types()
        self._methods()
        self._own_tables()
        for name in self._catalogs.seen_databases(self._catalog):
            for thing in self._catalogs.seen_objects(self._catalog, name):
                self._object(thing)
            for sequence, is_of_column in seen_sequences(self._catalogs, self._catalog, name):
                self._sequence(sequence, is_of_column)

    def _add(self, table: str, **row: Any) -> None:
        self.tables.setdefault(table, []).append(row)

    def _databases(self) -> None:
        for catalog in self._catalogs.seen_catalogs():
            self._add(
                "pg_database",
                oid=oid_of("database", catalog.name), datname=catalog.name, datdba=OWNER, encoding=6, datlocprovider="c",
                datistemplate=False, datallowconn=True, datconnlimit=-1, datfrozenxid=0, datminmxid=1, dattablespace=1663,
                datcollate="C.UTF-8", datctype="C.UTF-8",
            )  # fmt: skip

    def _roles(self) -> None:
        known = self._session.database.roles.roles
        others = {} if self._user in known else {self._user: Role(self._user, login=True, superuser=True)}
        for role in (*known.values(), *others.values()):
            oid = role_oid(role.name)
            until = None if role.valid_until is None else dt.datetime.fromtimestamp(role.valid_until / 1000, dt.UTC)
            limit = -1 if role.limits.connections is None else role.limits.connections
            common = {
                "rolsuper": role.superuser, "rolinherit": True, "rolcreaterole": role.superuser or role.create_role,
                "rolcreatedb": role.superuser, "rolcanlogin": role.login, "rolreplication": False, "rolconnlimit": limit,
                "rolbypassrls": role.superuser, "rolvaliduntil": until,
            }  # fmt: skip
            self._add("pg_roles", oid=oid, rolname=role.name, rolpassword="********", **common)
            self._add("pg_authid", oid=oid, rolname=role.name, **common)
            if role.login:
                self._add(
                    "pg_user", usename=role.name, usesysid=oid, usecreatedb=role.superuser, usesuper=role.superuser,
                    userepl=False, usebypassrls=role.superuser, passwd="********", valuntil=until,
                )  # fmt: skip

    def _schemas(self) -> None:
        system = (("pg_catalog", _PG_CATALOG), ("information_schema", _INFORMATION_SCHEMA), ("pg_toast", _TOAST))
        own = ((name, oid_of("schema", self._catalog, name)) for name in self._catalogs.seen_databases(self._catalog))
        for name, oid in (*system, *own):
            self._add("pg_namespace", oid=oid, nspname=name, nspowner=OWNER)
        for name, database in self._catalogs.seen_databases(self._catalog).items():
            if database.comment:
                self._describe(oid_of("schema", self._catalog, name), 2615, 0, database.comment)

    def _types(self) -> None:
        for type_ in (*TYPES.values(), *ARRAYS.values()):
            self._add(
                "pg_type",
                oid=type_.oid, typname=type_.name, typnamespace=_PG_CATALOG, typowner=OWNER, typlen=type_.size,
                typbyval=0 < type_.size <= 8, typtype="p" if type_.category in "PX" else "b", typcategory=type_.category,
                typispreferred=type_.name in ("bool", "text", "float8", "oid", "timestamptz", "interval"), typisdefined=True,
                typdelim=",", typrelid=0, typelem=0 if type_.element is None else type_.element.oid, typarray=type_.array,
                typinput="array_in" if type_.element else f"{type_.name}in", typoutput="array_out" if type_.element else f"{type_.name}out",
                typreceive=f"{type_.name}recv", typsend=f"{type_.name}send", typalign="i", typstorage="p" if type_.size > 0 else "x",
                typnotnull=False, typbasetype=0, typtypmod=-1, typndims=0, typcollation=100 if type_.category == "S" else 0,
                typsubscript=0, typmodin=0, typmodout=0, typanalyze=0,
            )  # fmt: skip

    def _methods(self) -> None:
        self._add("pg_am", oid=2, amname="heap", amhandler=3, amtype="t")
        self._add("pg_am", oid=403, amname="btree", amhandler=330, amtype="i")
        self._add("pg_tablespace", oid=1663, spcname="pg_default", spcowner=OWNER)
        self._add(
            "pg_collation", oid=100, collname="default", collnamespace=_PG_CATALOG, collowner=OWNER, collprovider="d",
            collisdeterministic=True, collencoding=-1,
        )  # fmt: skip
        self._add("pg_language", oid=14, lanname="sql", lanowner=OWNER, lanispl=False, lanpltrusted=True)

    def _own_tables(self) -> None:
        """The catalogue lists its own tables, too."""
        for name, columns in COLUMNS.items():
            oid = CLASSES.get(name) or zlib.crc32(name.encode()) % _FIRST
            self._relation(oid, name, _PG_CATALOG, "r", len(columns), False)
            for number, column in enumerate(columns, 1):
                self._attribute(oid, number, column, TYPES["oid" if column == "oid" else "text"], -1, False)

    def _object(self, thing: CatalogObject) -> None:
        try:
            schema = object_schema(self._session, thing)
        except SqlEngineError:
            return  # A view over something that is gone.
        catalog, namespace, name = thing.path.parts
        owner = self._session.database.roles.owner(Target("table", thing.path.parts))
        oid, schema_oid = oid_of("object", *thing.path.parts), oid_of("schema", catalog, namespace)
        key = thing.primary_key if isinstance(thing, CatalogTable) else ()
        constraints = thing.constraints if isinstance(thing, CatalogTable) else ()
        kind = "r" if isinstance(thing, CatalogTable) else "m" if isinstance(thing, MaterializedView) else "v"
        self._relation(
            oid,
            name,
            schema_oid,
            kind,
            len(schema),
            bool(key) or any(c.condition is None for c in constraints),
            owner=role_oid(owner),
            temporary=isinstance(thing, CatalogTable) and thing.temporary,
            checks=sum(c.condition is not None for c in constraints),
        )
        filled = {c.name: c for c in thing.columns if isinstance(c, PhysicalColumn)}
        self._attributes(oid, schema, key, filled if isinstance(thing, CatalogTable) else {})
        if thing.comment:
            self._describe(oid, 1259, 0, thing.comment)
        for number, comment in _comments(thing):
            self._describe(oid, 1259, number, comment)
        if isinstance(thing, CatalogTable) and key:
            name_of_key = thing.constraint_name or f"{thing.path.name}_pkey"
            self._key(thing, oid, schema_oid, schema, Constraint(name_of_key, key), primary=True)
        for constraint in constraints:
            if constraint.condition is None:
                self._key(thing, oid, schema_oid, schema, constraint)
            else:
                numbers = [schema.index_of(c) + 1 for c in constraint.columns]
                self._constraint(thing, oid, schema_oid, constraint, "c", 0, numbers)
        common = {"schemaname": namespace}
        if isinstance(thing, MaterializedView):
            definition = masked_sql(thing.text)
            self._add(
                "pg_matviews",
                **common,
                matviewname=name,
                matviewowner=owner,
                hasindexes=False,
                ispopulated=True,
                definition=definition,
            )
        elif isinstance(thing, CatalogView):
            self._add("pg_views", **common, viewname=name, viewowner=owner, definition=masked_sql(thing.text))
        else:
            self._add(
                "pg_tables", **common, tablename=name, tableowner=owner, hasindexes=bool(key), hasrules=False,
                hastriggers=False, rowsecurity=False,
            )  # fmt: skip

    def _sequence(self, sequence: CatalogSequence, is_of_column: bool) -> None:
        """A sequence, and the column with which it goes."""
        path = sequence.path
        oid, type_ = sequence_oid(path), TYPES[_INTEGERS[sequence.type.root]]
        owner = self._session.database.roles.owner(Target("sequence", path.parts))
        schema = oid_of("schema", path.catalog, path.database)
        self._relation(oid, path.name, schema, "S", 3, False, temporary=sequence.temporary, owner=role_oid(owner))
        self._add(
            "pg_sequence", seqrelid=oid, seqtypid=type_.oid, seqstart=sequence.start, seqincrement=sequence.step,
            seqmax=sequence.high, seqmin=sequence.low, seqcache=sequence.cache, seqcycle=sequence.cycle,
        )  # fmt: skip
        if sequence.owner is not None:
            table, column = sequence.owner
            attributes = self.tables.get("pg_attribute", [])
            at = oid_of("object", *table.parts)
            number = next((a["attnum"] for a in attributes if (a["attrelid"], a["attname"]) == (at, column)), None)
            if number is not None:
                self._add(
                    "pg_depend", classid=1259, objid=oid, objsubid=0, refclassid=1259, refobjid=at, refobjsubid=number,
                    deptype="i" if is_of_column else "a",
                )  # fmt: skip

    def _relation(
        self,
        oid: int,
        name: str,
        schema: int,
        kind: str,
        columns: int,
        indexed: bool,
        *,
        temporary: bool = False,
        owner: int = OWNER,
        checks: int = 0,
    ) -> None:
        self._add(
            "pg_class",
            oid=oid, relname=name, relnamespace=schema, reltype=0, reloftype=0, relowner=owner,
            relam={"r": 2, "m": 2, "i": 403}.get(kind, 0), relfilenode=0, reltablespace=0, relpages=0, reltuples=-1.0, relallvisible=0,
            reltoastrelid=0, relhasindex=indexed, relisshared=False, relpersistence="t" if temporary else "p", relkind=kind,
            relnatts=columns, relchecks=checks, relhasrules=kind in "vm", relhastriggers=False, relhassubclass=False,
            relrowsecurity=False, relforcerowsecurity=False, relispopulated=True, relreplident="d", relispartition=False,
            relrewrite=0, relfrozenxid=0, relminmxid=0,
        )  # fmt: skip

    def _attributes(self, oid: int, schema: Schema, key: tuple[str, ...], filled: Mapping[str, PhysicalColumn]) -> None:
        columns = columns_of(schema)
        for number, (field, column) in enumerate(zip(schema, columns, strict=True), 1):
            type_ = column.type
            declared = filled.get(field.name)
            not_null = not field.type.nullable or field.name in key
            self._attribute(oid, number, field.name, type_, column.modifier, not_null, declared)
            if declared is not None and declared.default is not None:
                self._add(
                    "pg_attrdef",
                    oid=oid_of("default", str(oid), field.name),
                    adrelid=oid,
                    adnum=number,
                    adbin=_in_double_quotes(declared.default.text),
                )

    def _attribute(
        self,
        oid: int,
        number: int,
        name: str,
        type_: PgType,
        modifier: int,
        not_null: bool,
        declared: PhysicalColumn | None = None,
    ) -> None:
        has_default = declared is not None and declared.default is not None
        identity = None if declared is None else declared.identity
        identity_text = "" if identity is None else "a" if identity.always else "d"
        self._add(
            "pg_attribute",
            attrelid=oid, attname=name, atttypid=type_.oid, attstattarget=-1, attlen=type_.size, attnum=number,
            attndims=1 if type_.element else 0, attcacheoff=-1, atttypmod=modifier, attbyval=0 < type_.size <= 8, attalign="i",
            attstorage="p" if type_.size > 0 else "m" if type_.name == "numeric" else "x", attcompression="",
            attnotnull=not_null, atthasdef=has_default,
            atthasmissing=False, attidentity=identity_text, attgenerated="", attisdropped=False, attislocal=True, attinhcount=0,
            attcollation=100 if type_.category == "S" else 0,
        )  # fmt: skip

    def _key(
        self,
        thing: CatalogObject,
        oid: int,
        schema_oid: int,
        schema: Schema,
        constraint: Constraint,
        *,
        primary: bool = False,
    ) -> None:
        """The primary key, or a UNIQUE: a constraint, and an index as PostgreSQL would have one."""
        name, key = constraint.name, constraint.columns
        own = () if primary else (name,)
        index, numbers = oid_of("index", *thing.path.parts, *own), [schema.index_of(k) + 1 for k in key]
        self._relation(index, name, schema_oid, "i", len(key), False)
        columns = columns_of(schema)
        for position, number in enumerate(numbers, 1):
            column = columns[number - 1]
            self._attribute(index, position, column.name, column.type, column.modifier, False)
        self._add(
            "pg_index",
            indexrelid=index, indrelid=oid, indnatts=len(key), indnkeyatts=len(key), indisunique=True, indisprimary=primary,
            indnullsnotdistinct=not constraint.nulls_distinct, indisexclusion=False, indimmediate=True, indisclustered=False,
            indisvalid=True, indcheckxmin=False, indisready=True, indislive=True, indisreplident=False, indkey=numbers,
            indcollation=[0] * len(key), indclass=[0] * len(key), indoption=[0] * len(key),
        )  # fmt: skip
        self._constraint(thing, oid, schema_oid, constraint, "p" if primary else "u", index, numbers)
        relation = f"{quoted(thing.path.database)}.{quoted(thing.path.name)}"
        self._add(
            "pg_indexes", schemaname=thing.path.database, tablename=thing.path.name, indexname=name,
            indexdef=f"CREATE UNIQUE INDEX {quoted(name)} ON {relation} USING btree ({', '.join(map(quoted, key))})",
        )  # fmt: skip

    def _constraint(
        self,
        thing: CatalogObject,
        oid: int,
        schema_oid: int,
        constraint: Constraint,
        kind: str,
        index: int,
        numbers: list[int],
    ) -> None:
        own = () if kind == "p" else (constraint.name,)
        self._add(
            "pg_constraint",
            oid=oid_of("key", *thing.path.parts, *own), conname=constraint.name, connamespace=schema_oid, contype=kind,
            condeferrable=False, condeferred=False, convalidated=True, conrelid=oid, contypid=0, conindid=index, conparentid=0,
            confrelid=0, confupdtype=" ", confdeltype=" ", confmatchtype=" ", conislocal=True, coninhcount=0,
            connoinherit=kind != "c", conkey=numbers,
            conbin=None if constraint.condition is None else _in_double_quotes(constraint.condition.text),
        )  # fmt: skip

    def _describe(self, oid: int, of: int, number: int, text: str) -> None:
        self._add("pg_description", objoid=oid, classoid=of, objsubid=number, description=text)


def last_values(session: Session) -> list[str]:
    """Of each sequence of the session's catalog that has given a number: its number in the catalogue, `=`, and that."""
    found: list[str] = []
    catalogs, known = session.catalogs, session.database.sequences
    for name in catalogs.seen_databases(catalogs.current_catalog):
        for sequence, is_of_column in seen_sequences(catalogs, catalogs.current_catalog, name):
            last = known.last_value(sequence, is_of_column)
            if last is not None:
                found.append(f"{sequence_oid(sequence.path)}={last}")
    return found


def _in_double_quotes(text: str) -> str:
    """Flink SQL with names as PostgreSQL quotes them."""
    return re.sub(r"'(?:[^']|'')*'|`([^`]*)`", lambda m: m[0] if m[1] is None else f'"{m[1]}"', text)


def _comments(thing: CatalogObject) -> Iterator[tuple[int, str]]:
    comments = (
        thing.column_comments
        if isinstance(thing, CatalogView)
        else ()
        if isinstance(thing, MaterializedView)
        else [c.comment for c in thing.columns]
    )
    for number, comment in enumerate(comments, 1):
        if comment:
            yield number, comment
