"""The command line: `sqlengine shell | run | serve | explain | test | spark-package`."""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from runtime.core.errors import SqlEngineError, SqlEngineWarning, code_and_text, did_you_mean, render
from runtime.core.rooms import Room, load
from sqlengine import __version__
from sqlengine.cli.formats import FORMATS
from sqlengine.cli.pack import PACK, PACK_MORE, add_pack_arguments
from sqlengine.cli.serve import SERVE, SERVE_MORE, add_serve_arguments
from sqlengine.options.dialect import DIALECT_OPTION
from sqlengine.options.target import target_options
from sqlengine.terminal.colours import Paint

if TYPE_CHECKING:
    import pyarrow as _pyarrow

    import runtime.local.allocator as _allocator
    import sqlengine.cli.explain as _explain
    import sqlengine.cli.log_output as _log_output
    import sqlengine.cli.run as _run
    import sqlengine.cli.spark_package as _spark_package
    import sqlengine.cli.test as _test
    import sqlengine.server.running as _running
    import sqlengine.shell.command as _shell
else:
    _allocator = Room("runtime.local.allocator")
    _log_output = Room("sqlengine.cli.log_output")
    _explain = Room("sqlengine.cli.explain")
    _pyarrow = Room("pyarrow")
    _run = Room("sqlengine.cli.run")
    _running = Room("sqlengine.server.running")
    _shell = Room("sqlengine.shell.command")
    _spark_package = Room("sqlengine.cli.spark_package")
    _test = Room("sqlengine.cli.test")

__all__ = ["full_command", "main"]


_COMMANDS = {
    "shell": _shell,
    "run": _run,
    "serve": _running,
    "explain": _explain,
    "test": _test,
    "spark-package": _spark_package,
}
COMMANDS = tuple(_COMMANDS)
EXIT_OK, EXIT_ERROR, EXIT_INTERRUPTED = 0, 1, 130

_EXAMPLES = """examples:
  sqlengine                                  SQL at a prompt, as `sqlengine shell`
  sqlengine shop/                            the same, on the database in the folder shop
  sqlengine run -e "SELECT 1 + 1"
  sqlengine run job.sql                      run statements in order; INSERTs run as jobs
  sqlengine run --format json job.sql | jq   results go to stdout, everything else to stderr
  sqlengine serve shop/                      the database for psql and other clients of PostgreSQL
  sqlengine explain job.sql                  how each query would run
  sqlengine test tests/                      golden-file tests of your queries

`sqlengine COMMAND --help` describes each command.
"""

_SHELL = """\
An interactive SQL prompt with multi-line editing, colours, completion and history. Queries without an end are shown
live. INSERTs run as jobs in the background. Without a terminal, the shell reads statements from standard input and stops
at the first error."""

_SHELL_MORE = """\
at the prompt:
  \\? lists the commands, HELP SELECT shows the syntax of SELECT, Ctrl-C stops a statement, Ctrl-D leaves

files:
  $XDG_CONFIG_HOME/sqlengine/init.sql (~/.config), or ~/.sqlenginerc   runs before the first prompt
  $XDG_STATE_HOME/sqlengine/history (~/.local/state)                   the history, without secrets and lines that begin
                                                                       with a space

examples:
  sqlengine shell shop/                     keeps tables with their rows, and views
  sqlengine shell postgresql://sqlengine@127.0.0.1:5433/default_catalog
                                            works on a server (sqlengine serve)
  sqlengine shop/                           the same
  sqlengine shell --catalog work.sql        keeps the definitions of tables and views
  sqlengine shell -i tables.sql             runs a file first
  echo "SELECT 1" | sqlengine shell

exit status: 0 done, 1 a statement failed, 2 wrong usage, 130 interrupted by Ctrl-C"""

_RUN = """\
Run SQL statements in order: first those of each -e, then those of each FILE.

A SELECT over input that ends prints the final rows. Over input without an end it prints each change as it comes. An
INSERT runs as a job. Over input that ends, the next statement waits for it. Over input without an end, it runs in the
background until Ctrl-C, which stops it cleanly at the end of the current epoch. The first statement that fails stops
the rest.

With --database, jobs in the background belong to the database. Ctrl-C ends the process, not the job: the next command
on the database resumes it. STOP JOB ends it. Jobs from earlier starts run beside the statements and are not waited for,
unless there are no statements, or with --wait: then the command ends with the last job, or with Ctrl-C."""

_RUN_MORE = """\
formats:
  table      an aligned table; for input without an end, a table of changes that grows
  csv        a header and the final rows; NULL is an empty field, an empty string is ""
  json       one object a line, as changes come; if rows can be updated or deleted, "op" is
             +I (insert), -U (the row before an update), +U (after it) or -D (delete)
  changelog  one line for each change: the row kind, then the values

examples:
  sqlengine run -e "SELECT word, COUNT(*) FROM (VALUES ('a'), ('b'), ('a')) AS t(word) GROUP BY word"
  sqlengine run job.sql -D table.local-time-zone=Europe/Berlin
  sqlengine run job.sql -D execution.checkpointing.dir=state -D execution.checkpointing.interval='10 s'
                             saves the state of INSERTs; run it again to resume them
  sqlengine run --database shop job.sql
                             works on the database in the folder shop; creates it if needed
  sqlengine run --database shop
                             runs the jobs of the database until Ctrl-C
  echo "SHOW FUNCTIONS" | sqlengine run - --format csv

exit status: 0 done, 1 a statement failed, 2 wrong usage, 130 interrupted by Ctrl-C"""

_EXPLAIN = """\
Show how the statements of a file would run: for each query and INSERT the logical plan, the optimized plan, and the
physical plan. CREATE, ALTER, DROP, USE and SET are executed so that names exist; no rows are read or written."""

_EXPLAIN_MORE = """\
details:
  CHANGELOG_MODE       for each edge, the row kinds that it carries (I, UB, UA, D) and the keys of its updates
  STATE                the state of each operator, and what bounds it
  PLAN_ADVICE          possible improvements
  ESTIMATED_COST       the planner's estimates of rows and changes
  JSON_EXECUTION_PLAN  the physical plan as JSON

examples:
  sqlengine explain job.sql
  sqlengine explain --details ESTIMATED_COST -e "SELECT 1"

exit status: 0 done, 1 a statement has an error, 2 wrong usage"""

_TEST = """\
Run golden-file tests: .slt files contain SQL and its expected results, with virtual time and exact changes.
docs/testing.md describes them."""

_TEST_MORE = """\
examples:
  sqlengine test tests/                  runs every .slt file below tests/
  sqlengine test --matrix orders.slt     also cuts its input into other epochs: the answers must be the same
  sqlengine test --rewrite orders.slt    writes the results into the file; review the diff

exit status: 0 all results match, 1 some differ, 2 wrong usage"""


def build_parser() -> argparse.ArgumentParser:
    """The arguments of all commands."""
    parser = _parser(
        argparse.ArgumentParser,
        "Streaming SQL: keeps the answer to a query up to date while its input changes.",
        _EXAMPLES,
        prog="sqlengine",
    )
    parser.add_argument("--version", action="version", version=f"sqlengine {__version__}")
    parser.add_argument("--traceback", action="store_true", help="show Python stack traces of errors (for bug reports)")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    _shell_arguments(_parser(commands.add_parser, _SHELL, _SHELL_MORE, name="shell", help="SQL at a prompt"))

    run = _parser(commands.add_parser, _RUN, _RUN_MORE, name="run", help="run SQL files or statements")
    _sql_arguments(run, "statements to run, before any files (may be repeated)")
    run.add_argument(
        "--format", choices=FORMATS, default="table", help="how results are printed (default: %(default)s)"
    )
    _target_argument(run)
    _database_argument(run)
    run.add_argument(
        "--wait", action="store_true", help="after the statements, wait for the jobs that the database had before, too"
    )
    run.add_argument(
        "--fresh", action="store_true", help="start INSERTs anew, and remove the checkpoints of earlier runs"
    )
    run.set_defaults(
        run=lambda args, options: _run.run_command(
            args.execute,
            args.files,
            options,
            args.format,
            fresh=args.fresh,
            database=args.database,
            wait=args.wait,
        )
    )

    serve = _parser(commands.add_parser, SERVE, SERVE_MORE, name="serve", help="serve a database to PostgreSQL clients")
    add_serve_arguments(serve, _options_argument)

    explain = _parser(commands.add_parser, _EXPLAIN, _EXPLAIN_MORE, name="explain", help="show how queries would run")
    _sql_arguments(explain, "statements to explain, before any files (may be repeated)")
    explain.add_argument(
        "--details",
        default="CHANGELOG_MODE,STATE",
        metavar="LIST",
        help="what to show beside the plans, separated by commas (default: %(default)s)",
    )
    explain.set_defaults(
        run=lambda args, options: _explain.explain_command(args.execute, args.files, options, args.details)
    )

    test = _parser(commands.add_parser, _TEST, _TEST_MORE, name="test", help="run .slt golden-file tests")
    test.add_argument("paths", nargs="+", metavar="PATH", help=".slt files, or folders with such files")
    test.add_argument("--rewrite", action="store_true", help="write the results into the files instead of comparing")
    test.add_argument(
        "--matrix",
        action="store_true",
        help="also run each file with its input cut into other epochs, with restarts, in three tasks, with RocksDB",
    )
    _target_argument(test)
    test.add_argument("-v", "--verbose", action="store_true", help="list every file, not only those that differ")
    _options_argument(test)
    test.set_defaults(
        run=lambda args, options: _test.test_command(
            args.paths, options, rewrite=args.rewrite, matrix=args.matrix, verbose=args.verbose
        )
    )
    add_pack_arguments(
        _parser(commands.add_parser, PACK, PACK_MORE, name="spark-package", help="the engine as a file for Spark")
    )
    return parser


def _shell_arguments(shell: argparse.ArgumentParser) -> None:
    shell.add_argument(
        "place",
        nargs="?",
        metavar="PLACE",
        help="a server, 'postgresql://user@host:5433/default_catalog', or the folder of a database",
    )
    shell.add_argument(
        "-e",
        "--execute",
        action="append",
        default=[],
        metavar="SQL",
        help="run these statements instead of a prompt (may be repeated)",
    )
    shell.add_argument(
        "-f",
        "--file",
        action="append",
        default=[],
        metavar="FILE",
        help="run a file instead of a prompt (may be repeated)",
    )
    shell.add_argument("-i", "--init", metavar="FILE", help="run a file first; '' runs none")
    shell.add_argument("-c", "--catalog", metavar="FILE", help="use this file as the catalog, which keeps definitions")
    _database_argument(shell)
    shell.add_argument("--history", metavar="FILE", help="keep the history in this file; '' keeps none")
    _options_argument(shell)
    shell.set_defaults(run=_run_shell, parser=shell)


def _run_shell(args: argparse.Namespace, options: dict[str, str]) -> int:
    if args.place is not None and args.database is not None:
        args.parser.error("give the folder of a database, or a server, once")
    place = args.place or args.database
    if args.catalog is not None and place is not None and _shell.is_server(place):
        args.parser.error("--catalog is for a shell without a server")
    return _shell.shell_command(
        _shell.ShellArguments(args.execute, args.file, args.init, args.catalog, args.history, place), options
    )


def _parser(make: object, description: str, epilog: str, **more: object) -> argparse.ArgumentParser:
    return make(description=description, epilog=epilog, formatter_class=_Help, **more)  # type: ignore[operator, no-any-return]


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help whose options stand beside what they do."""

    def __init__(self, prog: str, indent_increment: int = 2, max_help_position: int = 30, width: int | None = None):
        super().__init__(prog, indent_increment, max_help_position, width)
        # argparse does not count how far the names of commands are moved in.
        self._action_max_length = max(map(len, COMMANDS)) + 2 * indent_increment


def _sql_arguments(parser: argparse.ArgumentParser, about: str) -> None:
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="files of SQL statements separated by semicolons; - is standard input"
    )
    parser.add_argument("-e", "--execute", action="append", default=[], metavar="SQL", help=about)
    _options_argument(parser)
    parser.set_defaults(parser=parser)


def _database_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--database",
        metavar="FOLDER",
        help="work on the database in this folder (or 's3://bucket/path'), and create it if needed; tables, rows and views are"
        " kept",
    )


def _target_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--on",
        default="",
        metavar="TARGET",
        help="where jobs run: local, processes or processes=COUNT (on this machine), spark (on this machine), or "
        "spark=MASTER (spark=spark://host:7077)",
    )


def _options_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-D",
        action="append",
        default=[],
        dest="options",
        metavar="KEY=VALUE",
        help="set an option, as SET does (may be repeated)",
    )
    parser.add_argument(
        "--dialect",
        choices=("flink", "postgres"),
        type=str.lower,
        help="how statements are read (default: flink)",
    )
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        type=str.lower,
        help="write a log from this level on (default with --log-file: info)",
    )
    parser.add_argument("--log-file", metavar="FILE", help="append the log to this file instead of stderr")
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="lines of text, or an object of JSON a line"
    )


class _NoPandas:
    """A finder of modules for which pandas is not installed."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=name)


def _leave_pandas_alone() -> None:
    """With its first value pyarrow looks for pandas and loads it where it is installed, which takes as long as all else
    that a small query needs. Not found, it is looked for again when something is converted to pandas. Only where the
    process is ours: a program that uses both expects pyarrow to know its Series."""
    sys.meta_path.insert(0, _NoPandas)
    try:
        _pyarrow.scalar(True)
    finally:
        sys.meta_path.remove(_NoPandas)


def full_command(words: list[str]) -> list[str]:
    """The words with the command that is meant where none is given: a shell, for a folder or for options alone."""
    options = 0
    while options < len(words) and words[options].startswith("-D"):
        options += 1 if len(words[options]) > 2 else 2
    rest = words[options:]
    if (
        rest
        and rest[0] not in COMMANDS
        and (os.path.isdir(rest[0]) or rest[0].endswith(("/", os.sep)) or "://" in rest[0])
    ):
        return ["shell", *words[:options], "--database", *rest]
    return ["shell", *words] if options and not rest else words


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit status. Wrong usage exits with 2, as argparse does."""
    parser = build_parser()
    given = sys.argv[1:] if arguments is None else list(arguments)
    if not given and sys.stdin.isatty() and sys.stdout.isatty():
        given = ["shell"]
    given = full_command(given)
    if given and not given[0].startswith("-") and given[0] not in COMMANDS:
        file = given[0].endswith(".sql") or os.path.isfile(given[0])
        hint = f"did you mean: sqlengine run {given[0]}" if file else did_you_mean(given[0], COMMANDS)
        parser.error(f"no command '{given[0]}'; {hint or 'there is: ' + ', '.join(COMMANDS)}")
    args = parser.parse_args(given)
    options: dict[str, str] = {}
    for option in args.options:
        key, equals, value = option.partition("=")
        if not equals:
            getattr(args, "parser", parser).error(f"-D takes KEY=VALUE, not '{option}'")
        options[key.strip()] = value.strip()
    if getattr(args, "dialect", None) is not None:
        options[DIALECT_OPTION] = args.dialect
    needs_sql = args.command == "explain" or (args.command == "run" and args.database is None)
    if needs_sql and not args.files and not args.execute:
        args.parser.error("give a FILE of SQL, - for standard input, or -e SQL")
    if args.command == "run" and args.wait and args.database is None:
        args.parser.error("--wait waits for the jobs of a database: give --database FOLDER, too")
    _check_log(args, parser)
    if arguments is None and args.command == "serve":
        _allocator.share_freed_memory()
    load(_COMMANDS[args.command])
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if arguments is None:
        _leave_pandas_alone()
    if not gc.isenabled():
        # What is loaded by now stays until the end.
        gc.freeze()
        gc.enable()
    # Warnings come with the results, which are shown.
    warnings.simplefilter("ignore", SqlEngineWarning)
    try:
        if getattr(args, "on", ""):
            options = {**target_options(args.on), **options}
        with _logged(args):
            return args.run(args, options)
    except SqlEngineError as error:
        if args.traceback:
            raise
        _complain(render(error))
        return EXIT_ERROR
    except BrokenPipeError:
        # The reader has gone; Python would complain once more while closing stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except KeyboardInterrupt:
        _complain("interrupted")
        return EXIT_INTERRUPTED
    except Exception as error:
        if args.traceback:
            raise
        code, message = code_and_text(error)
        _complain(
            f"{code} internal error: {message}\n  hint: this is a bug of sqlengine; run again with "
            "`sqlengine --traceback ...` and report it"
        )
        return EXIT_ERROR


def _logged(args: argparse.Namespace) -> AbstractContextManager[None]:
    """While a command runs, the log goes where its arguments say. Nobody asks: nothing is written."""
    level, file = getattr(args, "log_level", None), getattr(args, "log_file", None)
    return (
        nullcontext()
        if level is None and file is None
        else _log_output.log_output(level or "info", file, args.log_format)
    )


def _check_log(args: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Exits with 2 where the log cannot be."""
    file = getattr(args, "log_file", None)
    if file is not None:
        try:
            open(file, "a").close()
        except OSError as error:
            parser.error(f"--log-file {file} cannot be written: {error.strerror}")
    prompt = args.command == "shell" and not args.execute and not args.file and sys.stdin.isatty()
    if prompt and file is None and args.log_level is not None:
        parser.error("at a prompt the log needs a file: give --log-file, too")


def _complain(message: str) -> None:
    """An error on stderr, its first line in red on a terminal."""
    sys.stdout.flush()
    first, newline, rest = message.partition("\n")
    print(Paint(sys.stderr)(first, "error") + newline + rest, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
