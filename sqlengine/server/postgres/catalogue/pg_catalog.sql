-- The tables of pg_catalog with their columns, as PostgreSQL 15 has them. Many stay empty: what they tell of is not there.
-- Source: PostgreSQL 15, chapter 53 "System Catalogs". An oid is a UINTEGER here; names and single characters are VARCHAR.

CREATE TABLE cat.pg_aggregate (
  aggfnoid UINTEGER, aggkind VARCHAR, aggnumdirectargs SMALLINT, aggtransfn UINTEGER, aggfinalfn UINTEGER, aggtranstype
  UINTEGER
);

CREATE TABLE cat.pg_am (
  oid UINTEGER, amname VARCHAR, amhandler UINTEGER, amtype VARCHAR
);

CREATE TABLE cat.pg_amop (
  oid UINTEGER, amopfamily UINTEGER, amoplefttype UINTEGER, amoprighttype UINTEGER, amopstrategy SMALLINT, amoppurpose
  VARCHAR, amopopr UINTEGER, amopmethod UINTEGER, amopsortfamily UINTEGER
);

CREATE TABLE cat.pg_amproc (
  oid UINTEGER, amprocfamily UINTEGER, amproclefttype UINTEGER, amprocrighttype UINTEGER, amprocnum SMALLINT, amproc VARCHAR
);

CREATE TABLE cat.pg_attrdef (
  oid UINTEGER, adrelid UINTEGER, adnum SMALLINT, adbin VARCHAR
);

CREATE TABLE cat.pg_attribute (
  attrelid UINTEGER, attname VARCHAR, atttypid UINTEGER, attstattarget INTEGER, attlen SMALLINT, attnum SMALLINT,
  attndims INTEGER, attcacheoff INTEGER, atttypmod INTEGER, attbyval BOOLEAN, attalign VARCHAR, attstorage VARCHAR,
  attcompression VARCHAR, attnotnull BOOLEAN, atthasdef BOOLEAN, atthasmissing BOOLEAN, attidentity VARCHAR,
  attgenerated VARCHAR, attisdropped BOOLEAN, attislocal BOOLEAN, attinhcount INTEGER, attcollation UINTEGER, attacl
  VARCHAR[], attoptions VARCHAR[], attfdwoptions VARCHAR[], attmissingval VARCHAR
);

CREATE TABLE cat.pg_auth_members (
  roleid UINTEGER, member UINTEGER, grantor UINTEGER, admin_option BOOLEAN
);

CREATE TABLE cat.pg_authid (
  oid UINTEGER, rolname VARCHAR, rolsuper BOOLEAN, rolinherit BOOLEAN, rolcreaterole BOOLEAN, rolcreatedb BOOLEAN,
  rolcanlogin BOOLEAN
);

CREATE TABLE cat.pg_available_extensions (
  name VARCHAR, default_version VARCHAR, installed_version VARCHAR, comment VARCHAR
);

CREATE TABLE cat.pg_cast (
  oid UINTEGER, castsource UINTEGER, casttarget UINTEGER, castfunc UINTEGER, castcontext VARCHAR, castmethod VARCHAR
);

CREATE TABLE cat.pg_class (
  oid UINTEGER, relname VARCHAR, relnamespace UINTEGER, reltype UINTEGER, reloftype UINTEGER, relowner UINTEGER, relam
  UINTEGER, relfilenode UINTEGER, reltablespace UINTEGER, relpages INTEGER, reltuples FLOAT, relallvisible INTEGER,
  reltoastrelid UINTEGER, relhasindex BOOLEAN, relisshared BOOLEAN, relpersistence VARCHAR, relkind VARCHAR, relnatts
  SMALLINT, relchecks SMALLINT, relhasrules BOOLEAN, relhastriggers BOOLEAN, relhassubclass BOOLEAN, relrowsecurity
  BOOLEAN, relforcerowsecurity BOOLEAN, relispopulated BOOLEAN, relreplident VARCHAR, relispartition BOOLEAN, relrewrite
  UINTEGER, relfrozenxid UINTEGER, relminmxid UINTEGER, relacl VARCHAR[], reloptions VARCHAR[], relpartbound VARCHAR
);

CREATE TABLE cat.pg_collation (
  oid UINTEGER, collname VARCHAR, collnamespace UINTEGER, collowner UINTEGER, collprovider VARCHAR, collisdeterministic
  BOOLEAN, collencoding INTEGER, collcollate VARCHAR, collctype VARCHAR, colliculocale VARCHAR, collversion VARCHAR
);

CREATE TABLE cat.pg_constraint (
  oid UINTEGER, conname VARCHAR, connamespace UINTEGER, contype VARCHAR, condeferrable BOOLEAN, condeferred BOOLEAN,
  convalidated BOOLEAN, conrelid UINTEGER, contypid UINTEGER, conindid UINTEGER, conparentid UINTEGER, confrelid
  UINTEGER, confupdtype VARCHAR, confdeltype VARCHAR, confmatchtype VARCHAR, conislocal BOOLEAN, coninhcount INTEGER,
  connoinherit BOOLEAN, conkey SMALLINT[], confkey SMALLINT[], conpfeqop UINTEGER[], conppeqop UINTEGER[], conffeqop
  UINTEGER[], confdelsetcols SMALLINT[], conexclop UINTEGER[], conbin VARCHAR
);

CREATE TABLE cat.pg_conversion (
  oid UINTEGER, conname VARCHAR, connamespace UINTEGER, conowner UINTEGER, conforencoding INTEGER, contoencoding
  INTEGER, conproc UINTEGER, condefault BOOLEAN
);

CREATE TABLE cat.pg_cursors (
  name VARCHAR, statement VARCHAR, is_holdable BOOLEAN, is_binary BOOLEAN, is_scrollable BOOLEAN, creation_time
  TIMESTAMPTZ
);

CREATE TABLE cat.pg_database (
  oid UINTEGER, datname VARCHAR, datdba UINTEGER, encoding INTEGER, datlocprovider VARCHAR, datistemplate BOOLEAN,
  datallowconn BOOLEAN, datconnlimit INTEGER, datfrozenxid UINTEGER, datminmxid UINTEGER, dattablespace UINTEGER,
  datcollate VARCHAR, datctype VARCHAR, daticulocale VARCHAR, datcollversion VARCHAR, datacl VARCHAR[]
);

CREATE TABLE cat.pg_db_role_setting (
  setdatabase UINTEGER, setrole UINTEGER, setconfig VARCHAR[]
);

CREATE TABLE cat.pg_default_acl (
  oid UINTEGER, defaclrole UINTEGER, defaclnamespace UINTEGER, defaclobjtype VARCHAR, defaclacl VARCHAR[]
);

CREATE TABLE cat.pg_depend (
  classid UINTEGER, objid UINTEGER, objsubid INTEGER, refclassid UINTEGER, refobjid UINTEGER, refobjsubid INTEGER,
  deptype VARCHAR
);

CREATE TABLE cat.pg_description (
  objoid UINTEGER, classoid UINTEGER, objsubid INTEGER, description VARCHAR
);

CREATE TABLE cat.pg_enum (
  oid UINTEGER, enumtypid UINTEGER, enumsortorder FLOAT, enumlabel VARCHAR
);

CREATE TABLE cat.pg_event_trigger (
  oid UINTEGER, evtname VARCHAR, evtevent VARCHAR, evtowner UINTEGER, evtfoid UINTEGER, evtenabled VARCHAR, evttags
  VARCHAR[]
);

CREATE TABLE cat.pg_extension (
  oid UINTEGER, extname VARCHAR, extowner UINTEGER, extnamespace UINTEGER, extrelocatable BOOLEAN, extversion VARCHAR,
  extconfig UINTEGER[], extcondition VARCHAR[]
);

CREATE TABLE cat.pg_foreign_data_wrapper (
  oid UINTEGER, fdwname VARCHAR, fdwowner UINTEGER, fdwhandler UINTEGER, fdwvalidator UINTEGER, fdwacl VARCHAR[],
  fdwoptions VARCHAR[]
);

CREATE TABLE cat.pg_foreign_server (
  oid UINTEGER, srvname VARCHAR, srvowner UINTEGER, srvfdw UINTEGER, srvtype VARCHAR, srvversion VARCHAR, srvacl
  VARCHAR[], srvoptions VARCHAR[]
);

CREATE TABLE cat.pg_foreign_table (
  ftrelid UINTEGER, ftserver UINTEGER, ftoptions VARCHAR[]
);

CREATE TABLE cat.pg_index (
  indexrelid UINTEGER, indrelid UINTEGER, indnatts SMALLINT, indnkeyatts SMALLINT, indisunique BOOLEAN,
  indnullsnotdistinct BOOLEAN, indisprimary BOOLEAN, indisexclusion BOOLEAN, indimmediate BOOLEAN, indisclustered
  BOOLEAN, indisvalid BOOLEAN, indcheckxmin BOOLEAN, indisready BOOLEAN, indislive BOOLEAN, indisreplident BOOLEAN,
  indkey SMALLINT[], indcollation UINTEGER[], indclass UINTEGER[], indoption SMALLINT[], indexprs VARCHAR, indpred
  VARCHAR
);

CREATE TABLE cat.pg_indexes (
  schemaname VARCHAR, tablename VARCHAR, indexname VARCHAR, tablespace VARCHAR, indexdef VARCHAR
);

CREATE TABLE cat.pg_inherits (
  inhrelid UINTEGER, inhparent UINTEGER, inhseqno INTEGER, inhdetachpending BOOLEAN
);

CREATE TABLE cat.pg_language (
  oid UINTEGER, lanname VARCHAR, lanowner UINTEGER, lanispl BOOLEAN, lanpltrusted BOOLEAN, lanplcallfoid UINTEGER,
  laninline UINTEGER, lanvalidator UINTEGER, lanacl VARCHAR[]
);

CREATE TABLE cat.pg_largeobject_metadata (
  oid UINTEGER, lomowner UINTEGER, lomacl VARCHAR[]
);

CREATE TABLE cat.pg_locks (
  locktype VARCHAR, database UINTEGER, relation UINTEGER, page INTEGER, tuple SMALLINT, virtualxid VARCHAR,
  transactionid UINTEGER, classid UINTEGER, objid UINTEGER, objsubid SMALLINT, virtualtransaction VARCHAR, pid INTEGER,
  mode VARCHAR, granted BOOLEAN, fastpath BOOLEAN, waitstart TIMESTAMPTZ
);

CREATE TABLE cat.pg_matviews (
  schemaname VARCHAR, matviewname VARCHAR, matviewowner VARCHAR, tablespace VARCHAR, hasindexes BOOLEAN, ispopulated
  BOOLEAN, definition VARCHAR
);

CREATE TABLE cat.pg_namespace (
  oid UINTEGER, nspname VARCHAR, nspowner UINTEGER, nspacl VARCHAR[]
);

CREATE TABLE cat.pg_opclass (
  oid UINTEGER, opcmethod UINTEGER, opcname VARCHAR, opcnamespace UINTEGER, opcowner UINTEGER, opcfamily UINTEGER,
  opcintype UINTEGER, opcdefault BOOLEAN, opckeytype UINTEGER
);

CREATE TABLE cat.pg_operator (
  oid UINTEGER, oprname VARCHAR, oprnamespace UINTEGER, oprowner UINTEGER, oprkind VARCHAR, oprcanmerge BOOLEAN,
  oprcanhash BOOLEAN, oprleft UINTEGER, oprright UINTEGER, oprresult UINTEGER, oprcom UINTEGER, oprnegate UINTEGER,
  oprcode UINTEGER, oprrest UINTEGER, oprjoin UINTEGER
);

CREATE TABLE cat.pg_opfamily (
  oid UINTEGER, opfmethod UINTEGER, opfname VARCHAR, opfnamespace UINTEGER, opfowner UINTEGER
);

CREATE TABLE cat.pg_parameter_acl (
  oid UINTEGER, parname VARCHAR, paracl VARCHAR[]
);

CREATE TABLE cat.pg_partitioned_table (
  partrelid UINTEGER, partstrat VARCHAR, partnatts SMALLINT, partdefid UINTEGER, partattrs SMALLINT[], partclass
  UINTEGER[], partcollation UINTEGER[], partexprs VARCHAR
);

CREATE TABLE cat.pg_policy (
  oid UINTEGER, polname VARCHAR, polrelid UINTEGER, polcmd VARCHAR, polpermissive BOOLEAN, polroles UINTEGER[], polqual
  VARCHAR, polwithcheck VARCHAR
);

CREATE TABLE cat.pg_policies (
  schemaname VARCHAR, tablename VARCHAR, policyname VARCHAR, permissive VARCHAR, roles VARCHAR[], cmd VARCHAR, qual
  VARCHAR, with_check VARCHAR
);

CREATE TABLE cat.pg_prepared_statements (
  name VARCHAR, statement VARCHAR, prepare_time TIMESTAMPTZ, parameter_types UINTEGER[], from_sql BOOLEAN, generic_plans
  BIGINT, custom_plans BIGINT
);

CREATE TABLE cat.pg_prepared_xacts (
  transaction UINTEGER, gid VARCHAR, prepared TIMESTAMPTZ, owner VARCHAR, database VARCHAR
);

CREATE TABLE cat.pg_proc (
  oid UINTEGER, proname VARCHAR, pronamespace UINTEGER, proowner UINTEGER, prolang UINTEGER, procost FLOAT, prorows
  FLOAT, provariadic UINTEGER, prosupport UINTEGER, prokind VARCHAR, prosecdef BOOLEAN, proleakproof BOOLEAN,
  proisstrict BOOLEAN, proretset BOOLEAN, provolatile VARCHAR, proparallel VARCHAR, pronargs SMALLINT, pronargdefaults
  SMALLINT, prorettype UINTEGER, proargtypes UINTEGER[], proallargtypes UINTEGER[], proargmodes VARCHAR[], proargnames
  VARCHAR[], proargdefaults VARCHAR, protrftypes UINTEGER[], prosrc VARCHAR, probin VARCHAR, prosqlbody VARCHAR,
  proconfig VARCHAR[], proacl VARCHAR[]
);

CREATE TABLE cat.pg_publication (
  oid UINTEGER, pubname VARCHAR, pubowner UINTEGER, puballtables BOOLEAN, pubinsert BOOLEAN, pubupdate BOOLEAN,
  pubdelete BOOLEAN, pubtruncate BOOLEAN, pubviaroot BOOLEAN
);

CREATE TABLE cat.pg_publication_namespace (
  oid UINTEGER, pnpubid UINTEGER, pnnspid UINTEGER
);

CREATE TABLE cat.pg_publication_rel (
  oid UINTEGER, prpubid UINTEGER, prrelid UINTEGER, prqual VARCHAR, prattrs SMALLINT[]
);

CREATE TABLE cat.pg_publication_tables (
  pubname VARCHAR, schemaname VARCHAR, tablename VARCHAR, attnames VARCHAR[], rowfilter VARCHAR
);

CREATE TABLE cat.pg_range (
  rngtypid UINTEGER, rngsubtype UINTEGER, rngmultitypid UINTEGER, rngcollation UINTEGER, rngsubopc UINTEGER,
  rngcanonical UINTEGER, rngsubdiff UINTEGER
);

CREATE TABLE cat.pg_rewrite (
  oid UINTEGER, rulename VARCHAR, ev_class UINTEGER, ev_type VARCHAR, ev_enabled VARCHAR, is_instead BOOLEAN, ev_qual
  VARCHAR, ev_action VARCHAR
);

CREATE TABLE cat.pg_roles (
  rolname VARCHAR, rolsuper BOOLEAN, rolinherit BOOLEAN, rolcreaterole BOOLEAN, rolcreatedb BOOLEAN, rolcanlogin
  BOOLEAN, rolreplication BOOLEAN, rolconnlimit INTEGER, rolpassword VARCHAR, rolvaliduntil TIMESTAMPTZ, rolbypassrls
  BOOLEAN, rolconfig VARCHAR[], oid UINTEGER
);

CREATE TABLE cat.pg_rules (
  schemaname VARCHAR, tablename VARCHAR, rulename VARCHAR, definition VARCHAR
);

CREATE TABLE cat.pg_seclabel (
  objoid UINTEGER, classoid UINTEGER, objsubid INTEGER, provider VARCHAR, label VARCHAR
);

CREATE TABLE cat.pg_seclabels (
  objoid UINTEGER, classoid UINTEGER, objsubid INTEGER, objtype VARCHAR, objnamespace UINTEGER, objname VARCHAR,
  provider VARCHAR, label VARCHAR
);

CREATE TABLE cat.pg_sequence (
  seqrelid UINTEGER, seqtypid UINTEGER, seqstart BIGINT, seqincrement BIGINT, seqmax BIGINT, seqmin BIGINT, seqcache
  BIGINT, seqcycle BOOLEAN
);

-- The settings of the connection that asks.
CREATE VIEW cat.pg_settings AS SELECT
  split_part(s, '=', 1) AS name, substr(s, strpos(s, '=') + 1) AS setting, CAST(NULL AS VARCHAR) AS unit,
  'Client Connection Defaults' AS category, '' AS short_desc, CAST(NULL AS VARCHAR) AS extra_desc, 'user' AS context,
  'string' AS vartype, 'default' AS source, CAST(NULL AS VARCHAR) AS min_val, CAST(NULL AS VARCHAR) AS max_val,
  CAST(NULL AS VARCHAR[]) AS enumvals, CAST(NULL AS VARCHAR) AS boot_val, CAST(NULL AS VARCHAR) AS reset_val,
  CAST(NULL AS VARCHAR) AS sourcefile, CAST(NULL AS INTEGER) AS sourceline, FALSE AS pending_restart
  FROM (SELECT unnest(getvariable('settings')) AS s);

CREATE TABLE cat.pg_shdepend (
  dbid UINTEGER, classid UINTEGER, objid UINTEGER, objsubid INTEGER, refclassid UINTEGER, refobjid UINTEGER, deptype
  VARCHAR
);

CREATE TABLE cat.pg_shdescription (
  objoid UINTEGER, classoid UINTEGER, description VARCHAR
);

CREATE TABLE cat.pg_shseclabel (
  objoid UINTEGER, classoid UINTEGER, provider VARCHAR, label VARCHAR
);

CREATE TABLE cat.pg_stat_activity (
  datid UINTEGER, datname VARCHAR, pid INTEGER, leader_pid INTEGER, usesysid UINTEGER, usename VARCHAR, application_name
  VARCHAR, client_addr VARCHAR, client_hostname VARCHAR, client_port INTEGER, backend_start TIMESTAMPTZ, xact_start
  TIMESTAMPTZ, query_start TIMESTAMPTZ, state_change TIMESTAMPTZ, wait_event_type VARCHAR, wait_event VARCHAR, state
  VARCHAR, backend_xid UINTEGER, backend_xmin UINTEGER, query_id BIGINT, query VARCHAR, backend_type VARCHAR
);

CREATE TABLE cat.pg_stat_database (
  datid UINTEGER, datname VARCHAR, numbackends INTEGER, xact_commit BIGINT, xact_rollback BIGINT, blks_read BIGINT,
  blks_hit BIGINT, tup_returned BIGINT, tup_fetched BIGINT, tup_inserted BIGINT, tup_updated BIGINT, tup_deleted BIGINT,
  conflicts BIGINT, temp_files BIGINT, temp_bytes BIGINT, deadlocks BIGINT, checksum_failures BIGINT,
  checksum_last_failure TIMESTAMPTZ, blk_read_time DOUBLE, blk_write_time DOUBLE, session_time DOUBLE, active_time
  DOUBLE, idle_in_transaction_time DOUBLE, sessions BIGINT, sessions_abandoned BIGINT, sessions_fatal BIGINT,
  sessions_killed BIGINT, stats_reset TIMESTAMPTZ
);

CREATE TABLE cat.pg_stat_all_tables (
  relid UINTEGER, schemaname VARCHAR, relname VARCHAR, seq_scan BIGINT, seq_tup_read BIGINT, idx_scan BIGINT,
  idx_tup_fetch BIGINT, n_tup_ins BIGINT, n_tup_upd BIGINT, n_tup_del BIGINT, n_tup_hot_upd BIGINT, n_live_tup BIGINT,
  n_dead_tup BIGINT, n_mod_since_analyze BIGINT, n_ins_since_vacuum BIGINT, last_vacuum TIMESTAMPTZ, last_autovacuum
  TIMESTAMPTZ, last_analyze TIMESTAMPTZ, last_autoanalyze TIMESTAMPTZ, vacuum_count BIGINT, autovacuum_count BIGINT,
  analyze_count BIGINT, autoanalyze_count BIGINT
);

CREATE TABLE cat.pg_stat_user_tables (
  relid UINTEGER, schemaname VARCHAR, relname VARCHAR, seq_scan BIGINT, seq_tup_read BIGINT, idx_scan BIGINT,
  idx_tup_fetch BIGINT, n_tup_ins BIGINT, n_tup_upd BIGINT, n_tup_del BIGINT, n_tup_hot_upd BIGINT, n_live_tup BIGINT,
  n_dead_tup BIGINT, n_mod_since_analyze BIGINT, n_ins_since_vacuum BIGINT, last_vacuum TIMESTAMPTZ, last_autovacuum
  TIMESTAMPTZ, last_analyze TIMESTAMPTZ, last_autoanalyze TIMESTAMPTZ, vacuum_count BIGINT, autovacuum_count BIGINT,
  analyze_count BIGINT, autoanalyze_count BIGINT
);

CREATE TABLE cat.pg_stat_user_indexes (
  relid UINTEGER, indexrelid UINTEGER, schemaname VARCHAR, relname VARCHAR, indexrelname VARCHAR, idx_scan BIGINT,
  idx_tup_read BIGINT, idx_tup_fetch BIGINT
);

CREATE TABLE cat.pg_stat_all_indexes (
  relid UINTEGER, indexrelid UINTEGER, schemaname VARCHAR, relname VARCHAR, indexrelname VARCHAR, idx_scan BIGINT,
  idx_tup_read BIGINT, idx_tup_fetch BIGINT
);

CREATE TABLE cat.pg_stat_ssl (
  pid INTEGER, ssl BOOLEAN, version VARCHAR, cipher VARCHAR, bits INTEGER, client_dn VARCHAR, client_serial VARCHAR,
  issuer_dn VARCHAR
);

CREATE TABLE cat.pg_statio_user_tables (
  relid UINTEGER, schemaname VARCHAR, relname VARCHAR, heap_blks_read BIGINT, heap_blks_hit BIGINT, idx_blks_read BIGINT,
  idx_blks_hit BIGINT, toast_blks_read BIGINT, toast_blks_hit BIGINT, tidx_blks_read BIGINT, tidx_blks_hit BIGINT
);

CREATE TABLE cat.pg_stat_bgwriter (
  checkpoints_timed BIGINT, checkpoints_req BIGINT, checkpoint_write_time DOUBLE, checkpoint_sync_time DOUBLE,
  buffers_checkpoint BIGINT, buffers_clean BIGINT, maxwritten_clean BIGINT, buffers_backend BIGINT, buffers_backend_fsync
  BIGINT, buffers_alloc BIGINT, stats_reset TIMESTAMPTZ
);

CREATE TABLE cat.pg_stat_replication (
  pid INTEGER, usesysid UINTEGER, usename VARCHAR, application_name VARCHAR, client_addr VARCHAR, client_hostname VARCHAR,
  client_port INTEGER, backend_start TIMESTAMPTZ, backend_xmin UINTEGER, state VARCHAR, sent_lsn VARCHAR, write_lsn
  VARCHAR, flush_lsn VARCHAR, replay_lsn VARCHAR, write_lag INTERVAL, flush_lag INTERVAL, replay_lag INTERVAL,
  sync_priority INTEGER, sync_state VARCHAR, reply_time TIMESTAMPTZ
);

CREATE TABLE cat.pg_replication_slots (
  slot_name VARCHAR, plugin VARCHAR, slot_type VARCHAR, datoid UINTEGER, database VARCHAR, temporary BOOLEAN, active
  BOOLEAN, active_pid INTEGER, xmin UINTEGER, catalog_xmin UINTEGER, restart_lsn VARCHAR, confirmed_flush_lsn VARCHAR,
  wal_status VARCHAR, safe_wal_size BIGINT, two_phase BOOLEAN
);

CREATE TABLE cat.pg_group (
  groname VARCHAR, grosysid UINTEGER, grolist UINTEGER[]
);

CREATE TABLE cat.pg_statistic_ext (
  oid UINTEGER, stxrelid UINTEGER, stxname VARCHAR, stxnamespace UINTEGER, stxowner UINTEGER, stxstattarget INTEGER,
  stxkeys SMALLINT[], stxkind VARCHAR[], stxexprs VARCHAR
);

CREATE TABLE cat.pg_stats (
  schemaname VARCHAR, tablename VARCHAR, attname VARCHAR, inherited BOOLEAN, null_frac FLOAT, avg_width INTEGER,
  n_distinct FLOAT
);

CREATE TABLE cat.pg_subscription (
  oid UINTEGER, subdbid UINTEGER, subname VARCHAR, subowner UINTEGER, subenabled BOOLEAN, subbinary BOOLEAN, substream
  BOOLEAN, subconninfo VARCHAR, subslotname VARCHAR, subsynccommit VARCHAR, subpublications VARCHAR[]
);

CREATE TABLE cat.pg_tables (
  schemaname VARCHAR, tablename VARCHAR, tableowner VARCHAR, tablespace VARCHAR, hasindexes BOOLEAN, hasrules BOOLEAN,
  hastriggers BOOLEAN, rowsecurity BOOLEAN
);

CREATE TABLE cat.pg_tablespace (
  oid UINTEGER, spcname VARCHAR, spcowner UINTEGER, spcacl VARCHAR[], spcoptions VARCHAR[]
);

CREATE TABLE cat.pg_timezone_names (
  name VARCHAR, abbrev VARCHAR, utc_offset VARCHAR, is_dst BOOLEAN
);

CREATE TABLE cat.pg_transform (
  oid UINTEGER, trftype UINTEGER, trflang UINTEGER, trffromsql UINTEGER, trftosql UINTEGER
);

CREATE TABLE cat.pg_trigger (
  oid UINTEGER, tgrelid UINTEGER, tgparentid UINTEGER, tgname VARCHAR, tgfoid UINTEGER, tgtype SMALLINT, tgenabled
  VARCHAR, tgisinternal BOOLEAN, tgconstrrelid UINTEGER, tgconstrindid UINTEGER, tgconstraint UINTEGER, tgdeferrable
  BOOLEAN, tginitdeferred BOOLEAN, tgnargs SMALLINT, tgattr SMALLINT[], tgargs VARCHAR, tgqual VARCHAR, tgoldtable
  VARCHAR, tgnewtable VARCHAR
);

CREATE TABLE cat.pg_ts_config (
  oid UINTEGER, cfgname VARCHAR, cfgnamespace UINTEGER, cfgowner UINTEGER, cfgparser UINTEGER
);

CREATE TABLE cat.pg_ts_dict (
  oid UINTEGER, dictname VARCHAR, dictnamespace UINTEGER, dictowner UINTEGER, dicttemplate UINTEGER, dictinitoption
  VARCHAR
);

CREATE TABLE cat.pg_ts_parser (
  oid UINTEGER, prsname VARCHAR, prsnamespace UINTEGER, prsstart UINTEGER, prstoken UINTEGER, prsend UINTEGER,
  prsheadline UINTEGER, prslextype UINTEGER
);

CREATE TABLE cat.pg_ts_template (
  oid UINTEGER, tmplname VARCHAR, tmplnamespace UINTEGER, tmplinit UINTEGER, tmpllexize UINTEGER
);

CREATE TABLE cat.pg_type (
  oid UINTEGER, typname VARCHAR, typnamespace UINTEGER, typowner UINTEGER, typlen SMALLINT, typbyval BOOLEAN, typtype
  VARCHAR, typcategory VARCHAR, typispreferred BOOLEAN, typisdefined BOOLEAN, typdelim VARCHAR, typrelid UINTEGER,
  typsubscript UINTEGER, typelem UINTEGER, typarray UINTEGER, typinput VARCHAR, typoutput VARCHAR, typreceive VARCHAR,
  typsend VARCHAR, typmodin UINTEGER, typmodout UINTEGER, typanalyze UINTEGER, typalign VARCHAR, typstorage VARCHAR,
  typnotnull BOOLEAN, typbasetype UINTEGER, typtypmod INTEGER, typndims INTEGER, typcollation UINTEGER, typdefaultbin
  VARCHAR, typdefault VARCHAR, typacl VARCHAR[]
);

CREATE TABLE cat.pg_user (
  usename VARCHAR, usesysid UINTEGER, usecreatedb BOOLEAN, usesuper BOOLEAN, userepl BOOLEAN, usebypassrls BOOLEAN,
  passwd VARCHAR, valuntil TIMESTAMPTZ, useconfig VARCHAR[]
);

CREATE TABLE cat.pg_user_mapping (
  oid UINTEGER, umuser UINTEGER, umserver UINTEGER, umoptions VARCHAR[]
);

CREATE TABLE cat.pg_user_mappings (
  umid UINTEGER, srvid UINTEGER, srvname VARCHAR, umuser UINTEGER, usename VARCHAR, umoptions VARCHAR[]
);

CREATE TABLE cat.pg_views (
  schemaname VARCHAR, viewname VARCHAR, viewowner VARCHAR, definition VARCHAR
);

-- What sequences have given last is told by the session that asks.
CREATE VIEW cat.pg_sequences AS SELECT
  n.nspname AS schemaname, c.relname AS sequencename, r.rolname AS sequenceowner, t.typname AS data_type,
  s.seqstart AS start_value, s.seqmin AS min_value, s.seqmax AS max_value, s.seqincrement AS increment_by,
  s.seqcycle AS cycle, s.seqcache AS cache_size, (SELECT any_value(CAST(split_part(v, '=', 2) AS BIGINT)) FROM (SELECT
  unnest(getvariable('sequences')) AS v) WHERE split_part(v, '=', 1) = CAST(s.seqrelid AS VARCHAR)) AS last_value
  FROM cat.pg_sequence s JOIN cat.pg_class c ON c.oid = s.seqrelid JOIN cat.pg_namespace n ON n.oid = c.relnamespace JOIN
  cat.pg_type t ON t.oid = s.seqtypid LEFT JOIN cat.pg_roles r ON r.oid = c.relowner;
