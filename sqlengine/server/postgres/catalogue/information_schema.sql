-- information_schema as views over the catalogue's tables.
-- Source: SQL standard, part 11; PostgreSQL 15, chapter 37 "The Information Schema".

CREATE VIEW info.schemata AS
  SELECT getvariable('current_database') AS catalog_name, nspname AS schema_name, getvariable('user') AS schema_owner,
  CAST(NULL AS VARCHAR) AS default_character_set_catalog, CAST(NULL AS VARCHAR) AS default_character_set_schema,
  CAST(NULL AS VARCHAR) AS default_character_set_name, CAST(NULL AS VARCHAR) AS sql_path FROM cat.pg_namespace;

CREATE VIEW info.tables AS
  SELECT getvariable('current_database') AS table_catalog, n.nspname AS table_schema, c.relname AS table_name, CASE
  c.relkind WHEN 'v' THEN 'VIEW' WHEN 'r' THEN CASE c.relpersistence WHEN 't' THEN 'LOCAL TEMPORARY' ELSE 'BASE TABLE'
  END END AS table_type, CAST(NULL AS VARCHAR) AS self_referencing_column_name, CAST(NULL AS VARCHAR) AS
  reference_generation, CAST(NULL AS VARCHAR) AS user_defined_type_catalog, CAST(NULL AS VARCHAR) AS
  user_defined_type_schema, CAST(NULL AS VARCHAR) AS user_defined_type_name, CASE c.relkind WHEN 'r' THEN 'YES' ELSE
  'NO' END AS is_insertable_into, 'NO' AS is_typed, CAST(NULL AS VARCHAR) AS commit_action FROM cat.pg_class c JOIN
  cat.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'v');

CREATE VIEW info.views AS
  SELECT getvariable('current_database') AS table_catalog, schemaname AS table_schema, viewname AS table_name,
  definition AS view_definition, 'NONE' AS check_option, 'NO' AS is_updatable, 'NO' AS is_insertable_into, 'NO' AS
  is_trigger_updatable, 'NO' AS is_trigger_deletable, 'NO' AS is_trigger_insertable_into FROM cat.pg_views;

CREATE VIEW info.columns AS
  SELECT getvariable('current_database') AS table_catalog, n.nspname AS table_schema, c.relname AS table_name, a.attname
  AS column_name, CAST(a.attnum AS INTEGER) AS ordinal_position, (SELECT any_value(d.adbin) FROM cat.pg_attrdef d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum) AS column_default, CASE WHEN
  a.attnotnull THEN 'NO' ELSE 'YES' END AS is_nullable, CASE WHEN t.typcategory = 'A' THEN 'ARRAY' ELSE
  pgf_format_type(a.atttypid, NULL) END AS data_type, CASE WHEN a.atttypid IN (1042, 1043) AND a.atttypmod > 4 THEN
  a.atttypmod - 4 END AS character_maximum_length, CASE WHEN a.atttypid IN (25, 1042, 1043) THEN CASE WHEN a.atttypmod >
  4 THEN (a.atttypmod - 4) * 4 ELSE 1073741824 END END AS character_octet_length, CASE a.atttypid WHEN 21 THEN 16 WHEN
  23 THEN 32 WHEN 20 THEN 64 WHEN 700 THEN 24 WHEN 701 THEN 53 WHEN 1700 THEN (a.atttypmod - 4) >> 16 END AS
  numeric_precision, CASE WHEN a.atttypid IN (21, 23, 20, 700, 701) THEN 2 WHEN a.atttypid = 1700 THEN 10 END AS
  numeric_precision_radix, CASE WHEN a.atttypid IN (21, 23, 20) THEN 0 WHEN a.atttypid = 1700 THEN (a.atttypmod - 4) &
  65535 END AS numeric_scale, CASE WHEN a.atttypid = 1082 THEN 0 WHEN a.atttypid IN (1083, 1114, 1184) THEN CASE WHEN
  a.atttypmod < 0 THEN 6 ELSE a.atttypmod END END AS datetime_precision, CAST(NULL AS VARCHAR) AS interval_type,
  CAST(NULL AS INTEGER) AS interval_precision, CAST(NULL AS VARCHAR) AS character_set_catalog, CAST(NULL AS VARCHAR) AS
  character_set_schema, CAST(NULL AS VARCHAR) AS character_set_name, CAST(NULL AS VARCHAR) AS collation_catalog,
  CAST(NULL AS VARCHAR) AS collation_schema, CAST(NULL AS VARCHAR) AS collation_name, CAST(NULL AS VARCHAR) AS
  domain_catalog, CAST(NULL AS VARCHAR) AS domain_schema, CAST(NULL AS VARCHAR) AS domain_name,
  getvariable('current_database') AS udt_catalog, 'pg_catalog' AS udt_schema, t.typname AS udt_name, CAST(NULL AS
  VARCHAR) AS scope_catalog, CAST(NULL AS VARCHAR) AS scope_schema, CAST(NULL AS VARCHAR) AS scope_name, CAST(NULL AS
  INTEGER) AS maximum_cardinality, CAST(a.attnum AS VARCHAR) AS dtd_identifier, 'NO' AS is_self_referencing, CASE
  WHEN s.seqrelid IS NULL THEN 'NO' ELSE 'YES' END AS is_identity, CASE a.attidentity WHEN 'a' THEN 'ALWAYS' WHEN 'd' THEN
  'BY DEFAULT' END AS identity_generation, CAST(s.seqstart AS VARCHAR) AS identity_start, CAST(s.seqincrement AS VARCHAR)
  AS identity_increment, CAST(s.seqmax AS VARCHAR) AS identity_maximum, CAST(s.seqmin AS VARCHAR) AS identity_minimum,
  'NO' AS identity_cycle, 'NEVER' AS is_generated, CAST(NULL AS VARCHAR) AS generation_expression, CASE c.relkind WHEN
  'r' THEN 'YES' ELSE 'NO' END AS is_updatable FROM cat.pg_attribute a JOIN cat.pg_class c ON c.oid = a.attrelid JOIN
  cat.pg_namespace n ON n.oid = c.relnamespace JOIN cat.pg_type t ON t.oid = a.atttypid LEFT JOIN cat.pg_depend d
  ON d.refobjid = a.attrelid AND d.refobjsubid = a.attnum AND d.deptype = 'i' LEFT JOIN cat.pg_sequence s ON s.seqrelid =
  d.objid WHERE a.attnum > 0 AND c.relkind IN ('r', 'v');

CREATE VIEW info.table_constraints AS
  SELECT getvariable('current_database') AS constraint_catalog, n.nspname AS constraint_schema, k.conname AS
  constraint_name, getvariable('current_database') AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
  CASE k.contype WHEN 'p' THEN 'PRIMARY KEY' WHEN 'u' THEN 'UNIQUE' ELSE 'CHECK' END AS constraint_type, 'NO' AS is_deferrable, 'NO' AS initially_deferred, 'YES' AS enforced, 'YES' AS
  nulls_distinct FROM cat.pg_constraint k JOIN cat.pg_class c ON c.oid = k.conrelid JOIN cat.pg_namespace n ON n.oid =
  c.relnamespace;

CREATE VIEW info.key_column_usage AS
  SELECT getvariable('current_database') AS constraint_catalog, n.nspname AS constraint_schema, k.conname AS
  constraint_name, getvariable('current_database') AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
  a.attname AS column_name, CAST(list_position(k.conkey, a.attnum) AS INTEGER) AS ordinal_position, CAST(NULL AS
  INTEGER) AS position_in_unique_constraint FROM cat.pg_constraint k JOIN cat.pg_class c ON c.oid = k.conrelid JOIN
  cat.pg_namespace n ON n.oid = c.relnamespace JOIN cat.pg_attribute a ON a.attrelid = c.oid AND list_contains(k.conkey,
  a.attnum) WHERE k.contype <> 'c';

CREATE VIEW info.check_constraints AS
  SELECT getvariable('current_database') AS constraint_catalog, n.nspname AS constraint_schema, k.conname AS
  constraint_name, '(' || k.conbin || ')' AS check_clause FROM cat.pg_constraint k JOIN cat.pg_namespace n ON n.oid =
  k.connamespace WHERE k.contype = 'c';

CREATE VIEW info.constraint_column_usage AS
  SELECT getvariable('current_database') AS table_catalog, n.nspname AS table_schema, c.relname AS table_name, a.attname
  AS column_name, getvariable('current_database') AS constraint_catalog, n.nspname AS constraint_schema, k.conname AS
  constraint_name FROM cat.pg_constraint k JOIN cat.pg_class c ON c.oid = k.conrelid JOIN cat.pg_namespace n ON n.oid =
  c.relnamespace JOIN cat.pg_attribute a ON a.attrelid = c.oid AND list_contains(k.conkey, a.attnum);

CREATE VIEW info.referential_constraints AS
  SELECT CAST(NULL AS VARCHAR) AS constraint_catalog, CAST(NULL AS VARCHAR) AS constraint_schema, CAST(NULL AS VARCHAR)
  AS constraint_name, CAST(NULL AS VARCHAR) AS unique_constraint_catalog, CAST(NULL AS VARCHAR) AS
  unique_constraint_schema, CAST(NULL AS VARCHAR) AS unique_constraint_name, CAST(NULL AS VARCHAR) AS match_option,
  CAST(NULL AS VARCHAR) AS update_rule, CAST(NULL AS VARCHAR) AS delete_rule WHERE FALSE;

CREATE VIEW info.routines AS
  SELECT CAST(NULL AS VARCHAR) AS specific_catalog, CAST(NULL AS VARCHAR) AS specific_schema, CAST(NULL AS VARCHAR) AS
  specific_name, CAST(NULL AS VARCHAR) AS routine_catalog, CAST(NULL AS VARCHAR) AS routine_schema, CAST(NULL AS
  VARCHAR) AS routine_name, CAST(NULL AS VARCHAR) AS routine_type, CAST(NULL AS VARCHAR) AS data_type, CAST(NULL AS
  VARCHAR) AS routine_definition WHERE FALSE;

CREATE VIEW info.parameters AS
  SELECT CAST(NULL AS VARCHAR) AS specific_schema, CAST(NULL AS VARCHAR) AS specific_name, CAST(NULL AS INTEGER) AS
  ordinal_position, CAST(NULL AS VARCHAR) AS parameter_mode, CAST(NULL AS VARCHAR) AS parameter_name, CAST(NULL AS
  VARCHAR) AS data_type WHERE FALSE;

CREATE VIEW info.sequences AS
  SELECT getvariable('current_database') AS sequence_catalog, n.nspname AS sequence_schema, c.relname AS sequence_name, CASE
  s.seqtypid WHEN 21 THEN 'smallint' WHEN 23 THEN 'integer' ELSE 'bigint' END AS data_type, CASE s.seqtypid WHEN 21 THEN 16
  WHEN 23 THEN 32 ELSE 64 END AS numeric_precision, 2 AS numeric_precision_radix, 0 AS numeric_scale, CAST(s.seqstart AS
  VARCHAR) AS start_value, CAST(s.seqmin AS VARCHAR) AS minimum_value, CAST(s.seqmax AS VARCHAR) AS maximum_value,
  CAST(s.seqincrement AS VARCHAR) AS "increment", CASE WHEN s.seqcycle THEN 'YES' ELSE 'NO' END AS cycle_option FROM
  cat.pg_sequence s JOIN cat.pg_class c ON c.oid = s.seqrelid JOIN cat.pg_namespace n ON n.oid = c.relnamespace WHERE NOT
  EXISTS (SELECT 1 FROM cat.pg_depend d WHERE d.objid = c.oid AND d.deptype = 'i');

CREATE VIEW info.triggers AS
  SELECT CAST(NULL AS VARCHAR) AS trigger_schema, CAST(NULL AS VARCHAR) AS trigger_name, CAST(NULL AS VARCHAR) AS
  event_object_table WHERE FALSE;

CREATE VIEW info.character_sets AS
  SELECT CAST(NULL AS VARCHAR) AS character_set_catalog, CAST(NULL AS VARCHAR) AS character_set_schema, 'UTF8' AS
  character_set_name;

CREATE VIEW info.enabled_roles AS
  SELECT getvariable('user') AS role_name;

CREATE VIEW info.applicable_roles AS
  SELECT getvariable('user') AS grantee, getvariable('user') AS role_name, 'NO' AS is_grantable WHERE FALSE;

CREATE VIEW info.information_schema_catalog_name AS
  SELECT getvariable('current_database') AS catalog_name;

CREATE VIEW info.table_privileges AS
  SELECT getvariable('user') AS grantor, getvariable('user') AS grantee, getvariable('current_database') AS
  table_catalog, n.nspname AS table_schema, c.relname AS table_name, p AS privilege_type, 'YES' AS is_grantable, 'NO' AS
  with_hierarchy FROM cat.pg_class c JOIN cat.pg_namespace n ON n.oid = c.relnamespace, (SELECT unnest(['SELECT',
  'INSERT', 'UPDATE', 'DELETE']) AS p) WHERE c.relkind IN ('r', 'v');

CREATE VIEW info.role_table_grants AS SELECT * FROM info.table_privileges;

CREATE VIEW info.column_privileges AS
  SELECT p.grantor, p.grantee, p.table_catalog, p.table_schema, p.table_name, c.column_name, p.privilege_type,
  p.is_grantable FROM info.table_privileges p JOIN info.columns c ON c.table_schema = p.table_schema AND c.table_name =
  p.table_name WHERE p.privilege_type <> 'DELETE';

CREATE VIEW info.role_column_grants AS SELECT * FROM info.column_privileges;

CREATE VIEW info.constraint_table_usage AS
  SELECT DISTINCT table_catalog, table_schema, table_name, constraint_catalog, constraint_schema, constraint_name FROM
  info.constraint_column_usage;

CREATE VIEW info.collations AS
  SELECT getvariable('current_database') AS collation_catalog, 'pg_catalog' AS collation_schema, collname AS
  collation_name, 'NO PAD' AS pad_attribute FROM cat.pg_collation;

-- What they tell of is not there, or not known.
CREATE VIEW info.view_table_usage AS
  SELECT CAST(NULL AS VARCHAR) AS view_catalog, CAST(NULL AS VARCHAR) AS view_schema, CAST(NULL AS VARCHAR) AS
  view_name, CAST(NULL AS VARCHAR) AS table_catalog, CAST(NULL AS VARCHAR) AS table_schema, CAST(NULL AS VARCHAR) AS
  table_name WHERE FALSE;

CREATE VIEW info.view_column_usage AS
  SELECT CAST(NULL AS VARCHAR) AS view_catalog, CAST(NULL AS VARCHAR) AS view_schema, CAST(NULL AS VARCHAR) AS
  view_name, CAST(NULL AS VARCHAR) AS table_catalog, CAST(NULL AS VARCHAR) AS table_schema, CAST(NULL AS VARCHAR) AS
  table_name, CAST(NULL AS VARCHAR) AS column_name WHERE FALSE;

CREATE VIEW info.domains AS
  SELECT CAST(NULL AS VARCHAR) AS domain_catalog, CAST(NULL AS VARCHAR) AS domain_schema, CAST(NULL AS VARCHAR) AS
  domain_name, CAST(NULL AS VARCHAR) AS data_type, CAST(NULL AS INTEGER) AS character_maximum_length, CAST(NULL AS
  INTEGER) AS character_octet_length, CAST(NULL AS INTEGER) AS numeric_precision, CAST(NULL AS INTEGER) AS
  numeric_precision_radix, CAST(NULL AS INTEGER) AS numeric_scale, CAST(NULL AS INTEGER) AS datetime_precision,
  CAST(NULL AS VARCHAR) AS domain_default, CAST(NULL AS VARCHAR) AS udt_catalog, CAST(NULL AS VARCHAR) AS udt_schema,
  CAST(NULL AS VARCHAR) AS udt_name WHERE FALSE;

CREATE VIEW info.domain_constraints AS
  SELECT CAST(NULL AS VARCHAR) AS constraint_catalog, CAST(NULL AS VARCHAR) AS constraint_schema, CAST(NULL AS
  VARCHAR) AS constraint_name, CAST(NULL AS VARCHAR) AS domain_catalog, CAST(NULL AS VARCHAR) AS domain_schema,
  CAST(NULL AS VARCHAR) AS domain_name, CAST(NULL AS VARCHAR) AS is_deferrable, CAST(NULL AS VARCHAR) AS
  initially_deferred WHERE FALSE;

CREATE VIEW info.element_types AS
  SELECT CAST(NULL AS VARCHAR) AS object_catalog, CAST(NULL AS VARCHAR) AS object_schema, CAST(NULL AS VARCHAR) AS
  object_name, CAST(NULL AS VARCHAR) AS object_type, CAST(NULL AS VARCHAR) AS collection_type_identifier, CAST(NULL AS
  VARCHAR) AS data_type, CAST(NULL AS INTEGER) AS character_maximum_length, CAST(NULL AS INTEGER) AS
  numeric_precision, CAST(NULL AS INTEGER) AS numeric_scale, CAST(NULL AS VARCHAR) AS udt_catalog, CAST(NULL AS
  VARCHAR) AS udt_schema, CAST(NULL AS VARCHAR) AS udt_name, CAST(NULL AS VARCHAR) AS dtd_identifier WHERE FALSE;

CREATE VIEW info.user_defined_types AS
  SELECT CAST(NULL AS VARCHAR) AS user_defined_type_catalog, CAST(NULL AS VARCHAR) AS user_defined_type_schema,
  CAST(NULL AS VARCHAR) AS user_defined_type_name, CAST(NULL AS VARCHAR) AS user_defined_type_category, CAST(NULL AS
  VARCHAR) AS is_instantiable, CAST(NULL AS VARCHAR) AS is_final WHERE FALSE;

CREATE VIEW info.routine_privileges AS
  SELECT CAST(NULL AS VARCHAR) AS grantor, CAST(NULL AS VARCHAR) AS grantee, CAST(NULL AS VARCHAR) AS
  specific_catalog, CAST(NULL AS VARCHAR) AS specific_schema, CAST(NULL AS VARCHAR) AS specific_name, CAST(NULL AS
  VARCHAR) AS routine_catalog, CAST(NULL AS VARCHAR) AS routine_schema, CAST(NULL AS VARCHAR) AS routine_name,
  CAST(NULL AS VARCHAR) AS privilege_type, CAST(NULL AS VARCHAR) AS is_grantable WHERE FALSE;
