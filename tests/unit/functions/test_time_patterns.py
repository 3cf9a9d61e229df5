"""TO_CHAR of times against PostgreSQL: patterns that people write, and random ones. FUZZ_CASES is how many of those."""

from __future__ import annotations

import os
import random
from datetime import datetime

from runtime.expr.time_patterns import time_text
from tests.servers.postgres import PostgresServer

CASES = int(os.environ.get("FUZZ_CASES", "150"))
PATTERNS = [
    "FMDay, FMDD FMMonth YYYY",
    "Mon DD, YYYY",
    "HH12:MI am",
    "IYYY-IW",
    "DDth",
    'FMDDth "of" Month',
    '"Week" WW',
    "FMHH24:MI",
    'YYYY-"Q"Q',
    "DD.MM.YYYY",
    "FMMM/FMDD/YY",
    "Day",
    "TMMonth",
    "YYYYMMDDHH24MISS",
    "FMHH12:MI:SS AM",
    "hh24:mi:ss.ms",
    "FMRM",
    "Dy DD Mon YYYY",
    "FM DD",
    "FMMonthFMDD",
    "xyz",
]
WORDS = """HH HH12 HH24 MI SS MS US SSSS AM pm A.M. YYYY YYY YY Y IYYY IY I Month MONTH month Mon MON mon Day DAY day Dy DY dy DDD
DD D ID W WW IW CC J Q RM rm BC FF3 Y,YYY hh24 mi yyyy dd mm IDDD""".split()  # noqa: SIM905
TIMES = [
    datetime(2024, 6, 1, 13, 4, 5, 120034),
    datetime(2024, 12, 30),
    datetime(2023, 1, 1, 12, 59, 59, 999999),
    datetime(2000, 2, 29, 1, 2, 3, 5000),
    datetime(1999, 9, 11, 23, 0, 1),
]


def patterns() -> list[str]:
    choose, made = random.Random(CASES), list(PATTERNS)
    for _ in range(CASES):
        parts = [
            choose.choice(("", "", "FM")) + choose.choice(WORDS) + choose.choice(("", "", "", "th", "TH"))
            for _ in range(choose.randint(1, 4))
        ]
        made.append(choose.choice((" ", "-", "/", ":", "")).join(parts))
    return made


def test_they_are_those_of_postgresql(postgres_server: PostgresServer) -> None:
    asked = "SELECT " + ", ".join("to_char(%s::timestamp, %s)" for _ in TIMES)
    with postgres_server.connect() as connection:
        for pattern in patterns():
            wanted = connection.execute(asked, [part for time in TIMES for part in (time, pattern)]).fetchone()
            assert tuple(time_text(time, pattern) for time in TIMES) == wanted, pattern
