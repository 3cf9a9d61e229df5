"""`sqlengine serve`: its arguments, and what is wrong with them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from runtime.core.rooms import Room

if TYPE_CHECKING:
    import sqlengine.server.running as _running
else:
    _running = Room("sqlengine.server.running")

__all__ = ["SERVE", "SERVE_MORE", "add_serve_arguments"]

SERVE = """\
Serve a database to clients of PostgreSQL: psql, the drivers of all languages, SQLAlchemy; and, at --gateway, to those of
Flink: its SQL client and its JDBC driver; and, at --web, to browsers. Tables, views and jobs live on
when clients leave. With a folder they are there again after a restart; without one they end with the server."""

SERVE_MORE = """\
security:
  On an address of this machine roles without a password connect without one, and at first there is one role, sqlengine, which
  may do everything. Any other address needs a role with a password (ALTER ROLE sqlengine PASSWORD '..', in the database or in
  the file of --init), or --users, a file with a line NAME:PASSWORD, or NAME:SCRAM-SHA-256$..., for each user, which nobody
  else may read (chmod 600). --tls-cert and --tls-key encrypt connections, and are read again when they are renewed;
  --tls-required refuses connections to --postgres that are not encrypted.

examples:
  sqlengine serve                                     an empty database at 127.0.0.1:5433
  sqlengine serve shop/                               the database in the folder shop
  sqlengine serve shop/ --init tables.sql             runs a file first
  sqlengine serve --postgres 0.0.0.0:5433 --users users.txt --tls-cert cert.pem --tls-key key.pem shop/
  sqlengine serve --gateway 127.0.0.1:8083 shop/      also for Flink's SQL client and JDBC driver
  sqlengine serve --web 127.0.0.1:8080 shop/          also a page for browsers, and a REST API
  sqlengine serve --state 127.0.0.1:9069 shop/        also rows and state by key (sqlengine.state.StateClient)
  sqlengine serve --standby /mnt/shop/                on two machines: one serves, the other follows when it is gone
  sqlengine serve --replica-of postgresql://db1:5433  a read replica of another server
  psql -h 127.0.0.1 -p 5433 -U sqlengine              connects

exit status: 0 stopped by Ctrl-C or SIGTERM, 1 it could not start, 2 wrong usage"""


def add_serve_arguments(serve: argparse.ArgumentParser, add_options: Callable[[argparse.ArgumentParser], None]) -> None:
    """The arguments of the command, with those that all commands have."""
    serve.add_argument(
        "database", nargs="?", metavar="FOLDER", help="the folder of the database, or 's3://bucket/path'"
    )
    serve.add_argument(
        "--postgres",
        default="127.0.0.1:5433",
        metavar="HOST:PORT",
        help="where clients of PostgreSQL connect; port 0 takes a free one (default: %(default)s)",
    )
    serve.add_argument(
        "--gateway",
        metavar="HOST:PORT",
        help="where clients of Flink's SQL Gateway connect (Flink's port is 8083; default: nowhere)",
    )
    serve.add_argument(
        "--web", metavar="HOST:PORT", help="where browsers find the page, and programs the REST API (default: nowhere)"
    )
    serve.add_argument(
        "--state",
        metavar="HOST:PORTS",
        help="where rows and the state of jobs are read by key; of several ports (9069-9079) the first that is free "
        "(default: nowhere)",
    )
    serve.add_argument(
        "--state-threads",
        type=int,
        default=4,
        metavar="N",
        help="so many requests at --state are answered at once (default: %(default)s)",
    )
    serve.add_argument(
        "--openlineage",
        metavar="FILE|URL",
        help="tell what jobs read and write, as events of OpenLineage (default: nobody)",
    )
    serve.add_argument(
        "--otel", action="store_true", help="send figures and traces by OpenTelemetry; the variables OTEL_* say where"
    )
    serve.add_argument(
        "--audit",
        metavar="FILE",
        help="write down who connects, is refused, and asks what, a line of JSON for each (default: nobody does)",
    )
    serve.add_argument(
        "--standby",
        action="store_true",
        help="while another server has the database, wait, and take over when that is gone; the same command on each machine",
    )
    serve.add_argument(
        "--replica-of",
        metavar="URI",
        help="show what another server has, postgresql://ann@db1:5433,db2:5433, and change nothing",
    )
    serve.add_argument("--init", metavar="FILE", help="run this file of SQL first")
    serve.add_argument("--users", metavar="FILE", help="who may connect, and with which password")
    serve.add_argument("--tls-cert", metavar="FILE", help="the certificate that connections are encrypted with (PEM)")
    serve.add_argument("--tls-key", metavar="FILE", help="its key (PEM); default: it stands in the same file")
    serve.add_argument("--tls-required", action="store_true", help="refuse connections that are not encrypted")
    serve.add_argument(
        "--max-connections", type=int, default=1000, metavar="N", help="at most so many at once (default: %(default)s)"
    )
    serve.add_argument(
        "--allow-path",
        action="append",
        metavar="FOLDER",
        help="a folder, or s3://bucket/path, that tables may read and write; may be repeated (default: all)",
    )
    serve.add_argument(
        "--allow-host",
        action="append",
        metavar="HOST",
        help="a host that connectors may reach, also *.example.com; may be repeated (default: all)",
    )
    add_options(serve)
    serve.set_defaults(
        parser=serve,
        run=lambda args, options: _running.serve(
            _running.Serving(
                args.database,
                args.postgres,
                args.init,
                args.users,
                args.tls_cert,
                args.tls_key,
                args.tls_required,
                args.max_connections,
                args.gateway,
                args.web,
                args.state,
                args.state_threads,
                None if args.allow_path is None else tuple(args.allow_path),
                None if args.allow_host is None else tuple(args.allow_host),
                args.openlineage,
                args.otel,
                args.audit,
                args.standby,
                args.replica_of,
            ),
            options,
        ),
    )
