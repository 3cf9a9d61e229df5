-- Functions of PostgreSQL that questions to the catalogue call, as macros over its tables; each calls only those before it.
-- A macro has the name of the function behind pgf_, so that none of DuckDB's own is meant. DuckDB puts arguments into a macro as
-- they are written, so the names of relations inside begin with x_, which no question has.
-- Source: PostgreSQL 15, 9.26 "System Information Functions and Operators".

CREATE MACRO pgf__one_type(t, m) AS
  CASE WHEN t IS NULL THEN NULL
    WHEN t = 0 THEN '-'
    WHEN t = 16 THEN 'boolean'
    WHEN t = 18 THEN '"char"'
    WHEN t = 20 THEN 'bigint'
    WHEN t = 21 THEN 'smallint'
    WHEN t = 23 THEN 'integer'
    WHEN t = 700 THEN 'real'
    WHEN t = 701 THEN 'double precision'
    WHEN t = 1042 THEN 'character' || CASE WHEN m >= 4 THEN '(' || (m - 4) || ')' ELSE '' END
    WHEN t = 1043 THEN 'character varying' || CASE WHEN m >= 4 THEN '(' || (m - 4) || ')' ELSE '' END
    WHEN t = 1700 THEN 'numeric' || CASE WHEN m >= 4 THEN '(' || ((m - 4) >> 16) || ',' || ((m - 4) & 65535) || ')' ELSE '' END
    WHEN t = 1083 THEN 'time' || CASE WHEN m >= 0 THEN '(' || m || ')' ELSE '' END || ' without time zone'
    WHEN t = 1114 THEN 'timestamp' || CASE WHEN m >= 0 THEN '(' || m || ')' ELSE '' END || ' without time zone'
    WHEN t = 1184 THEN 'timestamp' || CASE WHEN m >= 0 THEN '(' || m || ')' ELSE '' END || ' with time zone'
    ELSE coalesce(list_extract(getvariable('type_names'), list_position(getvariable('type_oids'), t)), '???') END;

-- Without a subquery: what is joined to a list of columns would change its order, and psql's \gdesc says none.
CREATE MACRO pgf__element(t) AS list_extract(getvariable('type_elements'), list_position(getvariable('type_oids'), t));
CREATE MACRO pgf_format_type(t, m) AS
  CASE WHEN pgf__element(t) > 0 THEN pgf__one_type(pgf__element(t), coalesce(m, -1)) || '[]'
  ELSE pgf__one_type(t, coalesce(m, -1)) END;

CREATE MACRO pgf_pg_table_is_visible(o) AS
  (SELECT count(*) > 0 FROM cat.pg_class x_c JOIN cat.pg_namespace x_n ON x_n.oid = x_c.relnamespace WHERE x_c.oid = o
  AND x_n.nspname IN (getvariable('current_schema'), 'pg_catalog'));
CREATE MACRO pgf_pg_type_is_visible(o) AS TRUE;
CREATE MACRO pgf_pg_function_is_visible(o) AS TRUE;
CREATE MACRO pgf_pg_collation_is_visible(o) AS TRUE;
CREATE MACRO pgf_pg_operator_is_visible(o) AS TRUE;
CREATE MACRO pgf_pg_opclass_is_visible(o) AS TRUE;
CREATE MACRO pgf_pg_ts_config_is_visible(o) AS TRUE;
CREATE MACRO pgf_pg_ts_dict_is_visible(o) AS TRUE;
CREATE MACRO pgf_pg_ts_parser_is_visible(o) AS TRUE;
CREATE MACRO pgf_pg_ts_template_is_visible(o) AS TRUE;
CREATE MACRO pgf_pg_statistics_obj_is_visible(o) AS TRUE;
CREATE MACRO pgf_pg_conversion_is_visible(o) AS TRUE;

CREATE MACRO pgf_pg_get_userbyid(o) AS
  coalesce((SELECT any_value(rolname) FROM cat.pg_roles WHERE oid = o), 'unknown (OID=' || o || ')');
CREATE MACRO pgf_pg_get_expr(e, o, p := FALSE) AS CAST(e AS VARCHAR);

CREATE MACRO pgf_quote_ident(n) AS
  CASE WHEN regexp_full_match(n, '[a-z_][a-z0-9_$]*') AND NOT list_contains(getvariable('keywords'), n) THEN n
  ELSE '"' || replace(n, '"', '""') || '"' END;

CREATE MACRO pgf_pg_get_viewdef(o, p := FALSE) AS
  (SELECT any_value(d) FROM (SELECT x_v.definition AS d FROM cat.pg_views x_v JOIN cat.pg_class x_c ON x_c.relname =
  x_v.viewname JOIN cat.pg_namespace x_n ON x_n.oid = x_c.relnamespace AND x_n.nspname = x_v.schemaname WHERE x_c.oid =
  o UNION ALL SELECT x_v.definition FROM cat.pg_matviews x_v JOIN cat.pg_class x_c ON x_c.relname = x_v.matviewname JOIN
  cat.pg_namespace x_n ON x_n.oid = x_c.relnamespace AND x_n.nspname = x_v.schemaname WHERE x_c.oid = o) AS defs);

CREATE MACRO pgf_pg_get_indexdef(o, k := 0, p := FALSE) AS
  CASE WHEN k > 0 THEN (SELECT any_value(attname) FROM cat.pg_attribute WHERE attrelid = o AND attnum = k)
  ELSE (SELECT any_value(x_i.indexdef) FROM cat.pg_indexes x_i JOIN cat.pg_class x_c ON x_c.relname = x_i.indexname
  JOIN cat.pg_namespace x_n ON x_n.oid = x_c.relnamespace AND x_n.nspname = x_i.schemaname WHERE x_c.oid = o) END;

CREATE MACRO pgf_pg_get_constraintdef(o, p := FALSE) AS
  (SELECT any_value(CASE x_k.contype WHEN 'c' THEN 'CHECK ((' || x_k.conbin || '))' ELSE CASE x_k.contype WHEN 'p' THEN
  'PRIMARY KEY (' WHEN 'u' THEN 'UNIQUE (' END || (SELECT string_agg(pgf_quote_ident(x_a.attname), ', ' ORDER BY list_position(x_k.conkey,
  x_a.attnum)) FROM cat.pg_attribute x_a WHERE x_a.attrelid = x_k.conrelid AND list_contains(x_k.conkey, x_a.attnum)) ||
  ')' END) FROM cat.pg_constraint x_k WHERE x_k.oid = o);
CREATE MACRO pgf_pg_get_triggerdef(o, p := FALSE) AS CAST(NULL AS VARCHAR);
CREATE MACRO pgf_pg_get_ruledef(o, p := FALSE) AS CAST(NULL AS VARCHAR);
CREATE MACRO pgf_pg_get_partkeydef(o) AS CAST(NULL AS VARCHAR);
CREATE MACRO pgf_pg_get_partition_constraintdef(o) AS CAST(NULL AS VARCHAR);
CREATE MACRO pgf_pg_get_statisticsobjdef_columns(o) AS CAST(NULL AS VARCHAR);
CREATE MACRO pgf_pg_get_serial_sequence(t, c) AS
  (SELECT any_value(x_n.nspname || '.' || x_s.relname) FROM cat.pg_depend x_d JOIN cat.pg_class x_s ON x_s.oid = x_d.objid
  AND x_s.relkind = 'S' JOIN cat.pg_namespace x_n ON x_n.oid = x_s.relnamespace JOIN cat.pg_class x_t ON x_t.oid =
  x_d.refobjid JOIN cat.pg_attribute x_a ON x_a.attrelid = x_t.oid AND x_a.attnum = x_d.refobjsubid WHERE x_a.attname = c
  AND x_t.relname = replace(regexp_extract(t, '[^.]+$'), '"', ''));
CREATE MACRO pgf_pg_get_functiondef(o) AS CAST(NULL AS VARCHAR);
CREATE MACRO pgf_pg_get_function_result(o) AS CAST(NULL AS VARCHAR);
CREATE MACRO pgf_pg_get_function_arguments(o) AS CAST(NULL AS VARCHAR);
CREATE MACRO pgf_pg_get_function_identity_arguments(o) AS CAST(NULL AS VARCHAR);
CREATE MACRO pgf_pg_relation_is_publishable(o) AS FALSE;
CREATE MACRO pgf_pg_relation_is_updatable(o, i := FALSE) AS 28;
CREATE MACRO pgf_pg_tablespace_size(o) AS CAST(0 AS BIGINT);
CREATE MACRO pgf_pg_get_function_sqlbody(o) AS CAST(NULL AS VARCHAR);
-- Of each unit twice the number is rounded, as PostgreSQL does it.
CREATE MACRO pgf__unit(n, bits) AS CAST((abs(n) // (1::HUGEINT << bits) + 1) // 2 AS BIGINT) * sign(n);
CREATE MACRO pgf_pg_size_pretty(n) AS
  CASE WHEN abs(n) < 10240 THEN CAST(n AS HUGEINT) || ' bytes'
  WHEN abs(n) // 512 < 20479 THEN pgf__unit(n, 9) || ' kB'
  WHEN abs(n) // (1::HUGEINT << 19) < 20479 THEN pgf__unit(n, 19) || ' MB'
  WHEN abs(n) // (1::HUGEINT << 29) < 20479 THEN pgf__unit(n, 29) || ' GB'
  WHEN abs(n) // (1::HUGEINT << 39) < 20479 THEN pgf__unit(n, 39) || ' TB'
  ELSE pgf__unit(n, 49) || ' PB' END;
CREATE MACRO pgf_pg_tablespace_location(o) AS '';
CREATE MACRO pgf_pg_is_other_temp_schema(o) AS FALSE;
CREATE MACRO pgf_pg_my_temp_schema() AS CAST(0 AS UINTEGER);
CREATE MACRO pgf_pg_backend_pid() AS CAST(getvariable('backend_pid') AS INTEGER);
CREATE MACRO pgf_pg_postmaster_start_time() AS CAST(getvariable('started') AS TIMESTAMPTZ);
CREATE MACRO pgf_pg_conf_load_time() AS CAST(getvariable('started') AS TIMESTAMPTZ);
CREATE MACRO pgf_pg_sleep(s) AS py_sleep(CAST(s AS DOUBLE));
CREATE MACRO pgf_pg_sleep_for(i) AS py_sleep(epoch(CAST(i AS INTERVAL)));
CREATE MACRO pgf_pg_sleep_until(t) AS py_sleep(greatest(epoch(CAST(t AS TIMESTAMPTZ)) - epoch(get_current_timestamp()), 0));
CREATE MACRO pgf_pg_notify(c, p) AS
  py_notify(CAST(getvariable('backend_pid') AS INTEGER), CAST(c AS VARCHAR), CAST(p AS VARCHAR));
CREATE MACRO pgf_pg_listening_channels() AS unnest(CAST(getvariable('listening') AS VARCHAR[]));
CREATE MACRO pgf_pg_listening_channels() AS TABLE
  SELECT unnest(CAST(getvariable('listening') AS VARCHAR[])) AS pg_listening_channels;
CREATE MACRO pgf_pg_notification_queue_usage() AS CAST(0 AS DOUBLE);
CREATE MACRO pgf_pg_cancel_backend(p) AS py_cancel(CAST(getvariable('backend_pid') AS INTEGER), CAST(p AS INTEGER));
CREATE MACRO pgf_pg_terminate_backend(p, t := 0) AS
  py_terminate(CAST(getvariable('backend_pid') AS INTEGER), CAST(p AS INTEGER), CAST(t AS BIGINT));
CREATE MACRO pgf_txid_current() AS CAST(1 AS BIGINT);
CREATE MACRO pgf_pg_encoding_to_char(e) AS CASE WHEN e = 6 THEN 'UTF8' ELSE '' END;
CREATE MACRO pgf_pg_char_to_encoding(e) AS 6;
CREATE MACRO pgf_pg_client_encoding() AS 'UTF8';

CREATE MACRO pgf_obj_description(o, c := NULL) AS
  (SELECT any_value(description) FROM cat.pg_description WHERE objoid = o AND objsubid = 0);

CREATE MACRO pgf_col_description(o, n) AS
  (SELECT any_value(description) FROM cat.pg_description WHERE objoid = o AND objsubid = n);
CREATE MACRO pgf_shobj_description(o, c) AS CAST(NULL AS VARCHAR);
CREATE MACRO pgf_has_schema_privilege(a, b, c := NULL) AS TRUE;
CREATE MACRO pgf_has_table_privilege(a, b, c := NULL) AS TRUE;
CREATE MACRO pgf_has_column_privilege(a, b, c, d := NULL) AS TRUE;
CREATE MACRO pgf_has_database_privilege(a, b, c := NULL) AS TRUE;
CREATE MACRO pgf_has_function_privilege(a, b, c := NULL) AS TRUE;
CREATE MACRO pgf_has_any_column_privilege(a, b, c := NULL) AS TRUE;
CREATE MACRO pgf_has_sequence_privilege(a, b, c := NULL) AS TRUE;
CREATE MACRO pgf_pg_has_role(a, b, c := NULL) AS TRUE;

CREATE MACRO pgf__setting(n, missing) AS
  CASE WHEN list_contains(getvariable('setting_names'), n) THEN list_extract(getvariable('setting_values'),
  list_position(getvariable('setting_names'), n)) WHEN missing THEN NULL ELSE error('unrecognized configuration parameter "' ||
  n || '"') END;
CREATE MACRO pgf_current_setting(n, missing := FALSE) AS pgf__setting(lower(n), missing);
CREATE MACRO pgf_pg_is_in_recovery() AS pgf__setting('in_hot_standby', FALSE) = 'on';
CREATE MACRO pgf_current_database() AS getvariable('current_database');
CREATE MACRO pgf_current_catalog() AS getvariable('current_database');
CREATE MACRO pgf_current_schema() AS getvariable('current_schema');

CREATE MACRO pgf_current_schemas(s) AS
  CASE WHEN s THEN ['pg_catalog', getvariable('current_schema')] ELSE [getvariable('current_schema')] END;
CREATE MACRO pgf_current_user() AS getvariable('user');
CREATE MACRO pgf_session_user() AS getvariable('user');
CREATE MACRO pgf_user() AS getvariable('user');
CREATE MACRO pgf_version() AS getvariable('version');
CREATE MACRO pgf_inet_server_addr() AS CAST(NULL AS VARCHAR);
CREATE MACRO pgf_inet_server_port() AS CAST(NULL AS INTEGER);
CREATE MACRO pgf_inet_client_addr() AS CAST(NULL AS VARCHAR);

CREATE MACRO pgf_quote_literal(n) AS '''' || replace(CAST(n AS VARCHAR), '''', '''''') || '''';
CREATE MACRO pgf_pg_advisory_unlock_all() AS CAST(NULL AS VARCHAR);
CREATE MACRO pgf_pg_advisory_lock(k) AS CAST(NULL AS VARCHAR);
CREATE MACRO pgf_pg_advisory_unlock(k) AS TRUE;
CREATE MACRO pgf_pg_try_advisory_lock(k) AS TRUE;
CREATE MACRO pgf__unquoted(n) AS CASE WHEN n LIKE '"%' THEN replace(n[2:-2], '""', '"') ELSE n END;
CREATE MACRO pgf__parts(n) AS regexp_extract_all(n, '"(?:[^"]|"")*"|[^."]+');

-- A name alone is first one of pg_catalog, whose numbers are the least.
CREATE MACRO pgf__regclass(n) AS
  (SELECT min(x_c.oid) FROM cat.pg_class x_c JOIN cat.pg_namespace x_s ON x_s.oid = x_c.relnamespace WHERE x_c.relname =
  pgf__unquoted(list_extract(pgf__parts(n), -1)) AND CASE WHEN len(pgf__parts(n)) > 1 THEN x_s.nspname =
  pgf__unquoted(list_extract(pgf__parts(n), -2)) ELSE x_s.nspname IN ('pg_catalog', getvariable('current_schema')) END);
CREATE MACRO pgf__size(o) AS
  CASE WHEN o IS NOT NULL THEN coalesce(list_extract(getvariable('sizes'), list_position(getvariable('sized'),
  coalesce(try_cast(CAST(o AS VARCHAR) AS UINTEGER), pgf__regclass(CAST(o AS VARCHAR)), (SELECT any_value(x_d.oid) FROM
  cat.pg_database x_d WHERE x_d.datname = CAST(o AS VARCHAR))))), 0) END;
CREATE MACRO pgf_pg_relation_size(o, f := '') AS pgf__size(o);
CREATE MACRO pgf_pg_total_relation_size(o) AS pgf__size(o);
CREATE MACRO pgf_pg_table_size(o) AS pgf__size(o);
CREATE MACRO pgf_pg_indexes_size(o) AS CAST(0 AS BIGINT);
CREATE MACRO pgf_pg_database_size(o) AS pgf__size(o);
CREATE MACRO pgf_to_regclass(n) AS (SELECT any_value(oid) FROM (SELECT pgf__regclass(n) AS oid) AS q WHERE oid > 0);

CREATE MACRO pgf__regclass_there(n) AS
  coalesce(pgf__regclass(n), try_cast(n AS UINTEGER), error('relation "' || n || '" does not exist'));
CREATE MACRO pgf__regnamespace(n) AS
  coalesce((SELECT any_value(x_s.oid) FROM cat.pg_namespace x_s WHERE x_s.nspname = pgf__unquoted(n)),
  try_cast(n AS UINTEGER), error('schema "' || n || '" does not exist'));
CREATE MACRO pgf__regnamespace_name(o) AS
  coalesce((SELECT any_value(x_s.nspname) FROM cat.pg_namespace x_s WHERE x_s.oid = o), CAST(o AS VARCHAR));
CREATE MACRO pgf__regproc(n) AS
  coalesce(CAST(try_cast(n AS UINTEGER) AS VARCHAR), (SELECT any_value(x_f.f) FROM (SELECT unnest([typinput, typoutput]) AS f
  FROM cat.pg_type) x_f WHERE x_f.f = regexp_replace(n, '^pg_catalog\.', '')), error('function "' || n ||
  '" does not exist'));
CREATE MACRO pgf_pg_get_keywords() AS TABLE
  SELECT keyword_name AS word, CASE keyword_category WHEN 'reserved' THEN 'R' WHEN 'unreserved' THEN 'U' WHEN 'column_name'
  THEN 'C' ELSE 'T' END AS catcode, keyword_category AS catdesc FROM duckdb_keywords();

CREATE MACRO pgf__regclass_name(o) AS
  coalesce((SELECT any_value(x_c.relname) FROM cat.pg_class x_c WHERE x_c.oid = o), CAST(o AS VARCHAR));

CREATE MACRO pgf__regtype(n) AS
  (SELECT any_value(oid) FROM cat.pg_type WHERE typname = CASE lower(n) WHEN 'integer' THEN 'int4' WHEN 'int' THEN
  'int4' WHEN 'bigint' THEN 'int8' WHEN 'smallint' THEN 'int2' WHEN 'boolean' THEN 'bool' WHEN 'character varying' THEN
  'varchar' WHEN 'double precision' THEN 'float8' WHEN 'real' THEN 'float4' WHEN 'decimal' THEN 'numeric' WHEN
  'timestamp without time zone' THEN 'timestamp' WHEN 'timestamp with time zone' THEN 'timestamptz' ELSE
  regexp_replace(lower(n), '^pg_catalog\.', '') END);
CREATE MACRO pgf_to_regtype(n) AS pgf__regtype(n);
CREATE MACRO pgf_array_upper(a, d) AS nullif(len(a), 0);
CREATE MACRO pgf_array_lower(a, d) AS CASE WHEN len(a) > 0 THEN 1 END;
CREATE MACRO pgf_array_length(a, d) AS nullif(len(a), 0);
CREATE MACRO pgf_array_to_string(a, s, n := NULL) AS array_to_string(CAST(a AS VARCHAR[]), s);
CREATE MACRO pgf_array_remove(a, x) AS list_filter(a, lambda e: e IS DISTINCT FROM x);
CREATE MACRO pgf_string_to_array(t, s) AS string_split(t, s);
CREATE MACRO pgf_generate_subscripts(a, d) AS unnest(range(1, coalesce(len(a), 0) + 1));
CREATE MACRO pgf_parse_ident(n) AS list_transform(pgf__parts(n), lambda p: pgf__unquoted(p));
CREATE MACRO pgf_pg_typeof(x) AS typeof(x);
CREATE MACRO pgf_pg_stat_get_numscans(o) AS CAST(0 AS BIGINT);
CREATE MACRO pgf_pg_sequence_last_value(o) AS
  (SELECT any_value(CAST(split_part(x_v, '=', 2) AS BIGINT)) FROM (SELECT unnest(getvariable('sequences')) AS x_v) WHERE
  split_part(x_v, '=', 1) = CAST(o AS VARCHAR));
CREATE MACRO pgf_pg_column_is_updatable(a, b, c) AS TRUE;

CREATE MACRO pgf__pg_expandarray(a) AS
  unnest(list_transform(range(1, coalesce(len(a), 0) + 1), lambda i: {'x': a[i], 'n': i}));
CREATE MACRO pgf_bool_and(x) AS bool_and(x);
CREATE MACRO pgf_set_config(n, v, l) AS v;
