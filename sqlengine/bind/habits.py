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
    "LENGTH": "write CHAR_LENGTH(text)", "LEN": "write CHAR_LENGTH(text)", "DATALENGTH": "write CHAR_LENGTH(text)",
    "NVL": "write COALESCE(x, y)", "NVL2": "write CASE WHEN x IS NOT NULL THEN a ELSE b END",
    "ISNULL": "write x IS NULL, or COALESCE(x, y) for another value in its place", "ZEROIFNULL": "write COALESCE(x, 0)",
    "IIF": "write IF(condition, a, b), or CASE", "ANY_VALUE": "write MAX(x)",
    "DATE_TRUNC": _FLOOR, "TRUNC": f"{_FLOOR}, or TRUNCATE(number, digits)", "DATE_BIN": _WINDOW, "TIME_BUCKET": _WINDOW,
    "TIME_SLICE": _WINDOW, "DATE_PART": "write EXTRACT(HOUR FROM x)", "DATEPART": "write EXTRACT(HOUR FROM x)",
    "GETDATE": _NOW, "SYSDATE": _NOW, "SYSDATETIME": _NOW, "CURDATE": "write CURRENT_DATE", "CURTIME": "write CURRENT_TIME",
    "SYSTIMESTAMP": _NOW, "GETUTCDATE": _NOW,
    "DATEADD": "write x + INTERVAL '1' DAY, or TIMESTAMPADD(DAY, 1, x)",
    "DATE_ADD": "write x + INTERVAL '1' DAY, or TIMESTAMPADD(DAY, 1, x)", "DATE_SUB": "write x - INTERVAL '1' DAY",
    "ADD_MONTHS": "write x + INTERVAL '1' MONTH", "DATEDIFF": _DIFFERENCE, "DATE_DIFF": _DIFFERENCE, "AGE": _DIFFERENCE,
    "TO_CHAR": _FORMAT, "STRFTIME": _FORMAT, "FORMAT_DATETIME": _FORMAT, "FORMAT": _FORMAT,
    "STRPTIME": _PARSE, "STR_TO_DATE": _PARSE, "PARSE_DATETIME": _PARSE, "TO_NUMBER": "write CAST(text AS DECIMAL(10, 2))",
    "STRING_AGG": "write LISTAGG(x, ',')", "GROUP_CONCAT": "write LISTAGG(x, ',')",
    "ARRAY_TO_STRING": "write ARRAY_JOIN(array, ',')", "STRING_TO_ARRAY": "write SPLIT(text, ',')",
    "COUNT_IF": _FILTER, "COUNTIF": _FILTER, "SUM_IF": "write SUM(x) FILTER (WHERE condition)",
    "CHARINDEX": "write POSITION('part' IN text)", "STRPOS": "write POSITION('part' IN text)",
    "REGEXP_LIKE": _REGEXP, "REGEXP_MATCHES": _REGEXP, "EXPLODE": _UNNEST, "FLATTEN": _UNNEST, "UNNEST": _UNNEST,
    "CONVERT": "write CAST(x AS type)", "TRY_CONVERT": "write TRY_CAST(x AS type)", "SAFE_CAST": "write TRY_CAST(x AS type)",
    "MEDIAN": "write PERCENTILE(x, 0.5)", "QUANTILE": "write PERCENTILE(x, 0.5)", "MD5_HEX": "write MD5(x)",
    "SIZE": "write CARDINALITY(array)", "ARRAY_LENGTH": "write CARDINALITY(array)", "ARRAY_SIZE": "write CARDINALITY(array)",
    "LAST": "write LAST_VALUE(x)", "FIRST": "write FIRST_VALUE(x)", "UCASE": "write UPPER(x)", "LCASE": "write LOWER(x)",
    "BOOL_OR": "write COUNT(*) FILTER (WHERE x) > 0", "BOOL_AND": "write COUNT(*) FILTER (WHERE NOT x) = 0",
    "LOGICAL_OR": "write COUNT(*) FILTER (WHERE x) > 0", "LOGICAL_AND": "write COUNT(*) FILTER (WHERE NOT x) = 0",
    "EVERY": "write COUNT(*) FILTER (WHERE NOT x) = 0", "MODE": f"{_ABSENT}; count by value, and keep the first by ROW_NUMBER()",
    "PERCENTILE_CONT": "write PERCENTILE(x, 0.5)", "PERCENTILE_DISC": "write PERCENTILE(x, 0.5), which interpolates",
    "SKEWNESS": _ABSENT, "KURTOSIS": _ABSENT, "BIT_AND": _ABSENT, "BIT_OR": _ABSENT, "BIT_XOR": _ABSENT,
    "ARG_MAX": "number the rows with ROW_NUMBER() OVER (ORDER BY .. DESC), and keep the first",
    "ARG_MIN": "number the rows with ROW_NUMBER() OVER (ORDER BY ..), and keep the first",
    "MAX_BY": "number the rows with ROW_NUMBER() OVER (ORDER BY .. DESC), and keep the first",
    "MIN_BY": "number the rows with ROW_NUMBER() OVER (ORDER BY ..), and keep the first",
    "POW": "write POWER(x, y)", "JSON_EXTRACT": "write JSON_VALUE(text, '$.path')", "TODAY": "write CURRENT_DATE",
}  # fmt: skip
"""What to write instead of a function, by its name in capitals."""

COLUMNS = {
    "NOW": "it is a function: NOW()", "SYSDATE": _NOW, "SYSTIMESTAMP": _NOW, "PROCTIME": "it is a function: PROCTIME()",
    "ROWNUM": "number rows with ROW_NUMBER() OVER (ORDER BY ..), or take some with LIMIT",
    "WINDOW_START": _WINDOW, "WINDOW_END": _WINDOW, "WINDOW_TIME": _WINDOW,
}  # fmt: skip
"""What to write instead of a column that is not there, by its name in capitals."""
