"""Functions of other systems, and what to write here instead; words that look like columns and are functions."""

from __future__ import annotations

__all__ = ["COLUMNS", "FUNCTIONS"]

_REGEXP = "write REGEXP(text, 'pattern')"
_FLOOR = "write FLOOR(x TO HOUR), with any unit from SECOND to YEAR"
_NOW = "write CURRENT_TIMESTAMP"
_FORMAT = "write DATE_FORMAT(x, 'yyyy-MM-dd')"
_PARSE = "write TO_TIMESTAMP(text, 'yyyy-MM-dd HH:mm:ss') or TO_DATE(text, 'yyyy-MM-dd')"
_FILTER = "write COUNT(*) FILTER (WHERE condition)"
_DIFFERENCE = "write TIMESTAMPDIFF(DAY, a, b)"
_UNNEST = "write FROM t CROSS JOIN UNNEST(array) AS u (x)"
_ABSENT = "there is no such aggregate here"
_WINDOW = "windows come from TABLE(TUMBLE(TABLE t, DESCRIPTOR(time), INTERVAL '1' MINUTE))"

FUNCTIONS = {
    "DATALENGTH": "write CHAR_LENGTH(text)",
    "ISNULL": "write x IS NULL, or COALESCE(x, y) for another value in its place", 
    "DATE_BIN": _WINDOW, "TIME_BUCKET": _WINDOW,
    "TIME_SLICE": _WINDOW, "DATEPART": "write EXTRACT(HOUR FROM x)",
    "SYSTIMESTAMP": _NOW, "GETUTCDATE": _NOW,
    "DATEADD": "write x + INTERVAL '1' DAY, or TIMESTAMPADD(DAY, 1, x)",
    "DATE_ADD": "write x + INTERVAL '1' DAY, or TIMESTAMPADD(DAY, 1, x)", "DATE_SUB": "write x - INTERVAL '1' DAY",
    "DATEDIFF": _DIFFERENCE, "DATE_DIFF": _DIFFERENCE, "AGE": _DIFFERENCE,
    "STRFTIME": _FORMAT, "FORMAT_DATETIME": _FORMAT, "FORMAT": _FORMAT,
    "STRPTIME": _PARSE, "STR_TO_DATE": _PARSE, "PARSE_DATETIME": _PARSE, "TO_NUMBER": "write CAST(text AS DECIMAL(10, 2))",
    
    
    "REGEXP_MATCHES": _REGEXP, "EXPLODE": _UNNEST, "FLATTEN": _UNNEST,
    "CONVERT": "write CAST(x AS type)", "TRY_CONVERT": "write TRY_CAST(x AS type)", "SAFE_CAST": "write TRY_CAST(x AS type)",
    "MD5_HEX": "write MD5(x)",
    "LAST": "write LAST_VALUE(x)", "FIRST": "write FIRST_VALUE(x)", 
    
    "PERCENTILE_CONT": "write PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)",
    "SKEWNESS": _ABSENT, "KURTOSIS": _ABSENT, "BIT_AND": _ABSENT, "BIT_OR": _ABSENT, "BIT_XOR": _ABSENT,
    "ARG_MAX": "number the rows with ROW_NUMBER() OVER (ORDER BY .. DESC), and keep the first",
    "ARG_MIN": "number the rows with ROW_NUMBER() OVER (ORDER BY ..), and keep the first",
    "MAX_BY": "number the rows with ROW_NUMBER() OVER (ORDER BY .. DESC), and keep the first",
    "MIN_BY": "number the rows with ROW_NUMBER() OVER (ORDER BY ..), and keep the first",
    "JSON_EXTRACT": "write JSON_VALUE(text, '$.path')", 
}  # fmt: skip
"""What to write instead of a function, by its name in capitals."""

COLUMNS = {
    "NOW": "it is a function: NOW()", "SYSDATE": _NOW, "SYSTIMESTAMP": _NOW, "PROCTIME": "it is a function: PROCTIME()",
    "ROWNUM": "number rows with ROW_NUMBER() OVER (ORDER BY ..), or take some with LIMIT",
    "WINDOW_START": _WINDOW, "WINDOW_END": _WINDOW, "WINDOW_TIME": _WINDOW,
}  # fmt: skip
"""What to write instead of a column that is not there, by its name in capitals."""
