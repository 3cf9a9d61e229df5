"""The command line: `sqlengine run | explain | test`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from runtime.core.errors import SqlEngineError, render
from sqlengine import __version__
from sqlengine.cli.explain import explain_command
from sqlengine.cli.render import FORMATS
from sqlengine.cli.run import run_command
from sqlengine.cli.test import test_command

__all__ = ["main"]

EXIT_OK, EXIT_ERROR, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130

_EXAMPLES = """examples:
  sqlengine run -e "SELECT 1 + 1"
  sqlengine run job.sql                      statements in order; INSERTs run as jobs
  sqlengine run --format json job.sql | jq   results on stdout, all else on stderr
  sqlengine explain job.sql                  how each query would run
  sqlengine test tests/                      golden-file tests of your queries
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sqlengine", description="Streaming SQL: keeps the answer to a query up to date while its input changes.",
        epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"sqlengine {__version__}")
    parser.add_argument("--traceback", action="store_true", help="show Python stack traces of errors (for bug reports)")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    run = commands.add_parser("run", help="run SQL files or statements", description="Run statements in order. Exit status: 0 done, 1 a statement "
                              "failed, 2 wrong usage, 130 interrupted.")
    run.add_argument("files", nargs="*", metavar="FILE", help="files of SQL statements; - reads standard input")
    run.add_argument("-e", "--execute", action="append", default=[], metavar="SQL", help="statements to run (may be repeated; before any files)")
    _options_argument(run)
    run.add_argument("--format", choices=FORMATS, default="table",
                     help="results as: an aligned table, csv, json lines (with the row kind as \"op\" for changelogs), or the changelog as it comes")

    explain = commands.add_parser("explain", help="show plans", description="Show how the queries of a file would run; definitions are carried out, "
                                  "INSERTs and queries only planned.")
    explain.add_argument("files", nargs="*", metavar="FILE", help="files of SQL statements; - reads standard input")
    explain.add_argument("-e", "--execute", action="append", default=[], metavar="SQL", help="statements to explain")
    explain.add_argument("--details", default="CHANGELOG_MODE,STATE", metavar="LIST",
                         help="comma-separated: CHANGELOG_MODE, ESTIMATED_COST, STATE, JSON_EXECUTION_PLAN (default: %(default)s)")
    _options_argument(explain)

    test = commands.add_parser("test", help="run .slt golden-file tests", description="Run .slt files; docs/testing.md tells their form. Exit status 1 "
                               "when one differs.")
    test.add_argument("paths", nargs="+", metavar="PATH", help=".slt files, or folders with such files")
    test.add_argument("--rewrite", action="store_true", help="write what came out into the files instead of comparing")
    test.add_argument("--matrix", action="store_true", help="also run each file with one row an epoch, all in one epoch, and random epochs")
    test.add_argument("-v", "--verbose", action="store_true", help="name every file, not only those that differ")
    _options_argument(test)
    return parser


def _options_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-D", action="append", default=[], dest="options", metavar="KEY=VALUE", help="set an option, as SET does (may be repeated)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit status."""
    parser = build_parser()
    args = parser.parse_args(arguments)
    options: dict[str, str] = {}
    for option in args.options:
        key, equals, value = option.partition("=")
        if not equals:
            parser.error(f"-D takes KEY=VALUE, not '{option}'")
        options[key.strip()] = value.strip()
    if args.command in ("run", "explain") and not args.files and not args.execute:
        parser.error(f"{args.command} needs a FILE or -e SQL")
    try:
        match args.command:
            case "run":
                return run_command(args.execute, args.files, options, args.format)
            case "explain":
                return explain_command(args.execute, args.files, options, args.details)
            case _:
                return test_command(args.paths, options, rewrite=args.rewrite, matrix=args.matrix, verbose=args.verbose)
    except SqlEngineError as error:
        if args.traceback:
            raise
        print(render(error, source=getattr(error, "source", None)), file=sys.stderr)
        return EXIT_ERROR
    except BrokenPipeError:
        # The reader has gone; Python would complain once more while closing stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception as error:
        if args.traceback:
            raise
        print(f"E9100 internal error: {type(error).__name__}: {error}\n  hint: this is a bug of sqlengine; run again with "
              "`sqlengine --traceback ...` and report it", file=sys.stderr)
        return EXIT_ERROR


if __name__ == "__main__":
    sys.exit(main())
