"""`python -m tests.conformance`: what the engine does with the vectors that Flink itself answered, by category.

For each category: same final contents, another result, refused; and for the streaming queries how many changelogs are
the same, change by change. Known differences, each with its reason, stand in docs/flink-compatibility.md; the list of
their ids is differences.txt. Exit status 1 when a vector differs that is not on the list, or one on the list no longer
differs.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

from tests.conformance.adapter import FeedAdapter
from tests.conformance.vectors import check

__all__ = ["known_differences", "main", "run"]

HERE = Path(__file__).parent
VECTORS = HERE / "vectors"


def known_differences() -> dict[str, str]:
    """Vector id to reason: lines `id reason...`."""
    lines = (HERE / "differences.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split(None, 1) for line in lines if line.strip() and not line.startswith("#"))


def run(only: str = "", kind: str = "all") -> dict[str, tuple[str, str, str, str]]:
    """Vector id to (category, verdict, detail, changelog verdict). Verdicts: same, differs, refused; changelog: same,
    differs, none."""
    adapter = FeedAdapter()
    found: dict[str, tuple[str, str, str, str]] = {}
    for shape, vector in check.vectors(str(VECTORS), kind):
        if only and not re.search(only, " ".join([vector["id"], vector["category"], vector["function"]])):
            continue
        verdict, detail = check.check(adapter, vector, str(VECTORS / "data"))
        word = {"pass": "same", "fail": "differs", "error": "refused"}[verdict]
        changes = "none"
        if shape == "query" and word == "same" and not vector.get("error") and vector["deterministic"]:
            strict, reason = check.check(adapter, vector, str(VECTORS / "data"), "strict")
            changes = "same" if strict == "pass" else "differs"
            detail = detail or reason
        found[vector["id"]] = (vector["category"], word, detail, changes)
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.conformance", description=__doc__)
    parser.add_argument("--only", default="", help="regular expression on id, category or function")
    parser.add_argument("--kind", default="all", choices=["all", "expr", "query"])
    parser.add_argument("-v", "--verbose", action="store_true", help="print every difference")
    args = parser.parse_args(arguments)
    results = run(args.only, args.kind)
    known = known_differences()
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for key, (category, verdict, detail, changes) in results.items():
        table[category][verdict] += 1
        table[category]["changelog " + changes] += 1
        if args.verbose and (verdict != "same" or changes == "differs"):
            print(f"{verdict:8} {key}: {detail}{'' if changes != 'differs' else ' [changelog]'}")
    header = ("category", "same", "differs", "refused", "changelog same", "changelog differs")
    print(f"{header[0]:28}" + "".join(f"{h:>19}" for h in header[1:]))
    total: Counter[str] = Counter()
    for category, counts in table.items():
        total.update(counts)
        print(f"{category:28}" + "".join(f"{counts[h]:>19}" for h in header[1:]))
    print(f"{'all':28}" + "".join(f"{total[h]:>19}" for h in header[1:]))
    surprising = [k for k, (_, verdict, _, _) in results.items() if (verdict != "same") != (k in known)]
    for key in surprising:
        category, verdict, detail, _ = results[key]
        print(f"not as listed in differences.txt: {key} ({category}) {verdict} {detail}", file=sys.stderr)
    return 1 if surprising else 0


if __name__ == "__main__":
    sys.exit(main())
