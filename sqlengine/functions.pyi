"""The functions of SQL for expressions. Written by `python -m sqlengine.table_api.stubs`."""

from typing import Any

from sqlengine.expression.expression import Expression

Operand = Any
"""An expression, or a Python value that is a literal."""

def count_star() -> Expression:
    """COUNT(*): the number of rows."""

def json_object(*keys_and_values: Operand) -> Expression:
    """JSON_OBJECT: keys and values in turn as a JSON object."""

def json_objectagg(key: Operand, value: Operand) -> Expression:
    """JSON_OBJECTAGG: the keys and values of a group as a JSON object."""

def abs(numeric: Operand, /) -> Expression:
    """The magnitude.

    SQL: ABS(<NUMERIC>)
    """

def acos(double: Operand, /) -> Expression:
    """The arc cosine.

    SQL: ACOS(<DOUBLE>)
    """

def approx_count_distinct(any: Operand, /) -> Expression:
    """The number of different values that are not NULL; this engine counts them exactly.

    SQL: APPROX_COUNT_DISTINCT(<ANY>)
    """

def array_agg(any: Operand, /) -> Expression:
    """The values in order of arrival, NULLs too, as an array.

    SQL: ARRAY_AGG(<ANY>)
    """

def array_append(array: Operand, any: Operand, /) -> Expression:
    """The array with one more element at its end.

    SQL: ARRAY_APPEND(<ARRAY>, <ANY>)
    """

def array_concat(array: Operand, array2: Operand = ..., /) -> Expression:
    """The arrays one after the other; NULL when one is NULL.

    SQL: ARRAY_CONCAT(<ARRAY>[, <ARRAY>])
    """

def array_contains(array: Operand, any: Operand, /) -> Expression:
    """Whether a value, NULL too, is an element.

    SQL: ARRAY_CONTAINS(<ARRAY>, <ANY>)
    """

def array_distinct(array: Operand, /) -> Expression:
    """The array without repeated elements, in the order of the first ones.

    SQL: ARRAY_DISTINCT(<ARRAY>)
    """

def array_except(array: Operand, array2: Operand, /) -> Expression:
    """The distinct elements of the first array that are not in the second.

    SQL: ARRAY_EXCEPT(<ARRAY>, <ARRAY>)
    """

def array_intersect(array: Operand, array2: Operand, /) -> Expression:
    """The distinct elements that are in both arrays.

    SQL: ARRAY_INTERSECT(<ARRAY>, <ARRAY>)
    """

def array_join(array_character: Operand, character: Operand, character2: Operand = ..., /) -> Expression:
    """The elements with a separator between; NULLs are left out, or written as the third argument.

    SQL: ARRAY_JOIN(<ARRAY<CHARACTER>>, <CHARACTER>[, <CHARACTER>])
    """

def array_max(array_comparable: Operand, /) -> Expression:
    """The greatest element that is not NULL.

    SQL: ARRAY_MAX(<ARRAY<COMPARABLE>>)
    """

def array_min(array_comparable: Operand, /) -> Expression:
    """The least element that is not NULL.

    SQL: ARRAY_MIN(<ARRAY<COMPARABLE>>)
    """

def array_position(array: Operand, any: Operand, /) -> Expression:
    """Where a value first stands in the array, from 1; 0 when it does not.

    SQL: ARRAY_POSITION(<ARRAY>, <ANY>)
    """

def array_prepend(array: Operand, any: Operand, /) -> Expression:
    """The array with one more element at its start.

    SQL: ARRAY_PREPEND(<ARRAY>, <ANY>)
    """

def array_remove(array: Operand, any: Operand, /) -> Expression:
    """The array without the elements that equal a value.

    SQL: ARRAY_REMOVE(<ARRAY>, <ANY>)
    """

def array_reverse(array: Operand, /) -> Expression:
    """The array back to front.

    SQL: ARRAY_REVERSE(<ARRAY>)
    """

def array_slice(array: Operand, integer: Operand, integer2: Operand = ..., /) -> Expression:
    """The elements from a place to another, both included, from 1; negative places count from the end.

    SQL: ARRAY_SLICE(<ARRAY>, <INTEGER>[, <INTEGER>])
    """

def array_sort(array_comparable: Operand, boolean: Operand = ..., boolean2: Operand = ..., /) -> Expression:
    """The array in order: ascending unless FALSE is given; NULLs first when ascending, unless a third argument says.

    SQL: ARRAY_SORT(<ARRAY<COMPARABLE>>[, <BOOLEAN>][, <BOOLEAN>])
    """

def array_union(array: Operand, array2: Operand, /) -> Expression:
    """The distinct elements of both arrays.

    SQL: ARRAY_UNION(<ARRAY>, <ARRAY>)
    """

def ascii(character: Operand, /) -> Expression:
    """The number of the first character of a text in Unicode; 0 for ''.

    SQL: ASCII(<CHARACTER>)
    """

def asin(double: Operand, /) -> Expression:
    """The arc sine.

    SQL: ASIN(<DOUBLE>)
    """

def atan(double: Operand, /) -> Expression:
    """The arc tangent.

    SQL: ATAN(<DOUBLE>)
    """

def atan2(double: Operand, double2: Operand, /) -> Expression:
    """The angle of the point (x, y), given y and x.

    SQL: ATAN2(<DOUBLE>, <DOUBLE>)
    """

def avg(numeric: Operand, /) -> Expression:
    """The average of the values that are not NULL, in their own type: of integers an integer, cut toward zero.

    SQL: AVG(<NUMERIC>)
    """

def bin(bigint: Operand, /) -> Expression:
    """The binary digits of an integer (two's complement).

    SQL: BIN(<BIGINT>)
    """

def bitmap_and(bitmap: Operand, bitmap2: Operand, /) -> Expression:
    """The integers that are in both sets.

    SQL: BITMAP_AND(<BITMAP>, <BITMAP>)
    """

def bitmap_and_agg(bitmap: Operand, /) -> Expression:
    """The integers that all sets have.

    SQL: BITMAP_AND_AGG(<BITMAP>)
    """

def bitmap_and_cardinality_agg(bitmap: Operand, /) -> Expression:
    """How many integers all sets have; NULL for no value.

    SQL: BITMAP_AND_CARDINALITY_AGG(<BITMAP>)
    """

def bitmap_andnot(bitmap: Operand, bitmap2: Operand, /) -> Expression:
    """The integers of the first set that are not in the second.

    SQL: BITMAP_ANDNOT(<BITMAP>, <BITMAP>)
    """

def bitmap_build(array_int: Operand, /) -> Expression:
    """The set of the integers of an array, without NULLs; -1 is the greatest.

    SQL: BITMAP_BUILD(<ARRAY<INT>>)
    """

def bitmap_build_agg(int: Operand, /) -> Expression:
    """The set of the integers.

    SQL: BITMAP_BUILD_AGG(<INT>)
    """

def bitmap_build_cardinality_agg(int: Operand, /) -> Expression:
    """How many different integers there are; NULL for no value.

    SQL: BITMAP_BUILD_CARDINALITY_AGG(<INT>)
    """

def bitmap_cardinality(bitmap: Operand, /) -> Expression:
    """How many integers the set has.

    SQL: BITMAP_CARDINALITY(<BITMAP>)
    """

def bitmap_from_bytes(binary: Operand, /) -> Expression:
    """The set that bytes in the portable format of 32-bit Roaring bitmaps hold.

    SQL: BITMAP_FROM_BYTES(<BINARY>)
    """

def bitmap_or(bitmap: Operand, bitmap2: Operand, /) -> Expression:
    """The integers that are in one of the sets or in both.

    SQL: BITMAP_OR(<BITMAP>, <BITMAP>)
    """

def bitmap_or_agg(bitmap: Operand, /) -> Expression:
    """The integers that at least one set has.

    SQL: BITMAP_OR_AGG(<BITMAP>)
    """

def bitmap_or_cardinality_agg(bitmap: Operand, /) -> Expression:
    """How many integers at least one set has; NULL for no value.

    SQL: BITMAP_OR_CARDINALITY_AGG(<BITMAP>)
    """

def bitmap_to_array(bitmap: Operand, /) -> Expression:
    """The integers of the set; negative ones come last.

    SQL: BITMAP_TO_ARRAY(<BITMAP>)
    """

def bitmap_to_bytes(bitmap: Operand, /) -> Expression:
    """The set in the portable format of 32-bit Roaring bitmaps.

    SQL: BITMAP_TO_BYTES(<BITMAP>)
    """

def bitmap_to_string(bitmap: Operand, /) -> Expression:
    """The set as text, `{1,2}`, its integers without sign; cut with `...` when it is longer than 524,288 characters.

    SQL: BITMAP_TO_STRING(<BITMAP>)
    """

def bitmap_xor(bitmap: Operand, bitmap2: Operand, /) -> Expression:
    """The integers that are in one of the sets, and not in both.

    SQL: BITMAP_XOR(<BITMAP>, <BITMAP>)
    """

def bitmap_xor_agg(bitmap: Operand, /) -> Expression:
    """The integers that an odd number of sets has.

    SQL: BITMAP_XOR_AGG(<BITMAP>)
    """

def bitmap_xor_cardinality_agg(bitmap: Operand, /) -> Expression:
    """How many integers an odd number of sets has; NULL for no value.

    SQL: BITMAP_XOR_CARDINALITY_AGG(<BITMAP>)
    """

def btrim(character: Operand, character2: Operand = ..., /) -> Expression:
    """The text without spaces, or characters of a set, at its ends.

    SQL: BTRIM(<CHARACTER>[, <CHARACTER>])
    """

def cardinality(array_or_map: Operand, /) -> Expression:
    """The number of elements, or of entries.

    SQL: CARDINALITY(<ARRAY or MAP>)
    """

def ceil(numeric_or_datetime: Operand, unit: str = ..., /) -> Expression:
    """The least whole number not below a number; a point in time rounded up to a unit.

    SQL: CEIL(number), CEIL(point TO unit)
    """

def char_length(character: Operand, /) -> Expression:
    """The number of characters.

    SQL: CHAR_LENGTH(<CHARACTER>)
    """

def character_length(character: Operand, /) -> Expression:
    """The number of characters.

    SQL: CHARACTER_LENGTH(<CHARACTER>)
    """

def chr(bigint: Operand, /) -> Expression:
    """The character of a number modulo 256; '' for a negative number.

    SQL: CHR(<BIGINT>)
    """

def coalesce(any: Operand, any2: Operand = ..., /) -> Expression:
    """The first argument that is not NULL.

    SQL: COALESCE(<ANY>[, <ANY>])
    """

def collect(any: Operand, /) -> Expression:
    """The values that are not NULL, as a multiset.

    SQL: COLLECT(<ANY>)
    """

def concat(character: Operand, /, *more: Operand) -> Expression:
    """The texts one after the other; NULL when one is NULL.

    SQL: CONCAT(<CHARACTER>, ...)
    """

def concat_ws(character: Operand, character2: Operand, /, *more: Operand) -> Expression:
    """The texts that are not NULL, with a separator between.

    SQL: CONCAT_WS(<CHARACTER>, <CHARACTER>, ...)
    """

def convert_tz(character: Operand, character2: Operand, character3: Operand, /) -> Expression:
    """A time `yyyy-MM-dd HH:mm:ss` of one time zone in another.

    SQL: CONVERT_TZ(<CHARACTER>, <CHARACTER>, <CHARACTER>)
    """

def corr(double: Operand, double2: Operand, /) -> Expression:
    """The correlation of y and x, from -1 to 1; NULL when one of them does not vary. Pairs with a NULL are left out.

    SQL: CORR(<DOUBLE>, <DOUBLE>)
    """

def cos(double: Operand, /) -> Expression:
    """The cosine.

    SQL: COS(<DOUBLE>)
    """

def cosh(double: Operand, /) -> Expression:
    """The hyperbolic cosine.

    SQL: COSH(<DOUBLE>)
    """

def cosine_distance(array_double: Operand, array_double2: Operand, /) -> Expression:
    """1 - COSINE_SIMILARITY.

    SQL: COSINE_DISTANCE(<ARRAY<DOUBLE>>, <ARRAY<DOUBLE>>)
    """

def cosine_similarity(array_double: Operand, array_double2: Operand, /) -> Expression:
    """The cosine of the angle between two vectors; 0 where one of them is all zeros.

    SQL: COSINE_SIMILARITY(<ARRAY<DOUBLE>>, <ARRAY<DOUBLE>>)
    """

def cot(double: Operand, /) -> Expression:
    """The cotangent.

    SQL: COT(<DOUBLE>)
    """

def count(any: Operand, /, *more: Operand) -> Expression:
    """The number of rows, or of rows in which no argument is NULL.

    SQL: COUNT(); COUNT(<ANY>, ...)
    """

def covar_pop(double: Operand, double2: Operand, /) -> Expression:
    """The population covariance of y and x. Pairs with a NULL are left out.

    SQL: COVAR_POP(<DOUBLE>, <DOUBLE>)
    """

def covar_samp(double: Operand, double2: Operand, /) -> Expression:
    """The sample covariance of y and x; NULL for fewer than two pairs. Pairs with a NULL are left out.

    SQL: COVAR_SAMP(<DOUBLE>, <DOUBLE>)
    """

def cume_dist() -> Expression:
    """The share of rows that come not after this one.

    SQL: CUME_DIST()
    """

def current_database() -> Expression:
    """The name of the current database.

    SQL: CURRENT_DATABASE()
    """

def current_date() -> Expression:
    """The date in the session's time zone.

    SQL: CURRENT_DATE
    """

def current_row_timestamp() -> Expression:
    """The time now.

    SQL: CURRENT_ROW_TIMESTAMP()
    """

def current_time() -> Expression:
    """The time of day in the session's time zone.

    SQL: CURRENT_TIME
    """

def current_timestamp() -> Expression:
    """The time now.

    SQL: CURRENT_TIMESTAMP()
    """

def current_watermark(rowtime: Operand, /) -> Expression:
    """The watermark before this epoch, of a rowtime column; NULL when there is none yet.

    SQL: CURRENT_WATERMARK(<ROWTIME>)
    """

def currval(character: Operand, /) -> Expression:
    """The number that the session was given last by a sequence.

    SQL: CURRVAL(<CHARACTER>)
    """

def date_format(timestamp: Operand, character: Operand, /) -> Expression:
    """A point in time as text, by a pattern of Java's DateTimeFormatter.

    SQL: DATE_FORMAT(<TIMESTAMP>, <CHARACTER>); DATE_FORMAT(<CHARACTER>, <CHARACTER>)
    """

def dayofmonth(datetime: Operand, /) -> Expression:
    """The day of the month, 1 to 31.

    SQL: DAYOFMONTH(<DATETIME>)
    """

def dayofweek(datetime: Operand, /) -> Expression:
    """The day of the week, 1 on Sunday to 7.

    SQL: DAYOFWEEK(<DATETIME>)
    """

def dayofyear(datetime: Operand, /) -> Expression:
    """The day of the year, 1 to 366.

    SQL: DAYOFYEAR(<DATETIME>)
    """

def decode(binary: Operand, character: Operand, /) -> Expression:
    """The text whose bytes are given in a charset.

    SQL: DECODE(<BINARY>, <CHARACTER>)
    """

def degrees(double: Operand, /) -> Expression:
    """Radians in degrees.

    SQL: DEGREES(<DOUBLE>)
    """

def dense_rank() -> Expression:
    """1 + the number of different values before.

    SQL: DENSE_RANK()
    """

def dot_product(array_double: Operand, array_double2: Operand, /) -> Expression:
    """The sum of the products of two vectors' numbers.

    SQL: DOT_PRODUCT(<ARRAY<DOUBLE>>, <ARRAY<DOUBLE>>)
    """

def e() -> Expression:
    """The number e.

    SQL: E()
    """

def element(array: Operand, /) -> Expression:
    """The only element; NULL of an empty array, an error when there are more.

    SQL: ELEMENT(<ARRAY>)
    """

def elt(integer: Operand, character: Operand, character2: Operand = ..., /) -> Expression:
    """The n-th of the texts, from 1; NULL when there is none.

    SQL: ELT(<INTEGER>, <CHARACTER>[, <CHARACTER>])
    """

def encode(character: Operand, character2: Operand, /) -> Expression:
    """The text's bytes in a charset.

    SQL: ENCODE(<CHARACTER>, <CHARACTER>)
    """

def endswith(character: Operand, character2: Operand, /) -> Expression:
    """Whether a text, or bytes, end with others.

    SQL: ENDSWITH(<CHARACTER>, <CHARACTER>); ENDSWITH(<BINARY>, <BINARY>)
    """

def euclidean_distance(array_double: Operand, array_double2: Operand, /) -> Expression:
    """The distance between two points.

    SQL: EUCLIDEAN_DISTANCE(<ARRAY<DOUBLE>>, <ARRAY<DOUBLE>>)
    """

def exp(double: Operand, /) -> Expression:
    """e to the power of a.

    SQL: EXP(<DOUBLE>)
    """

def extract(unit: str, datetime: Operand, /) -> Expression:
    """A field of a point in time or of an interval.

    SQL: EXTRACT(unit FROM point)
    """

def first_value(any: Operand, /) -> Expression:
    """The first value, in order of arrival, that is not NULL.

    SQL: FIRST_VALUE(<ANY>)
    """

def first_value_respect_nulls(any: Operand, /) -> Expression:
    """FIRST_VALUE(x) RESPECT NULLS: the value of the first row of the frame, NULL too.

    SQL: FIRST_VALUE_RESPECT_NULLS(<ANY>)
    """

def floor(numeric_or_datetime: Operand, unit: str = ..., /) -> Expression:
    """The greatest whole number not above a number; the start of the unit of a point in time.

    SQL: FLOOR(number), FLOOR(point TO unit)
    """

def from_base64(character: Operand, /) -> Expression:
    """The text whose bytes are given in Base64.

    SQL: FROM_BASE64(<CHARACTER>)
    """

def from_unixtime(bigint: Operand, character: Operand = ..., /) -> Expression:
    """Seconds since 1970 as a text of the session's time zone, by a pattern of Java's SimpleDateFormat.

    SQL: FROM_UNIXTIME(<BIGINT>[, <CHARACTER>])
    """

def generate_series(integer_or_timestamp: Operand, integer_or_timestamp2: Operand, integer_or_interval: Operand = ..., /) -> Expression:
    """Table function: the values from a first to a last by steps of 1, or of a third argument, a number or a day-time interval: FROM GENERATE_SERIES(1, 5) AS s (n).

    SQL: GENERATE_SERIES(<INTEGER or TIMESTAMP>, <INTEGER or TIMESTAMP>[, <INTEGER or INTERVAL>])
    """

def greatest(any: Operand, any2: Operand = ..., /) -> Expression:
    """The greatest argument; NULL when one is NULL, NaN when the first is.

    SQL: GREATEST(<ANY>[, <ANY>])
    """

def hex(bigint: Operand, /) -> Expression:
    """An integer, or the bytes of a text, in hexadecimal digits.

    SQL: HEX(<BIGINT>); HEX(<CHARACTER>)
    """

def hour(datetime: Operand, /) -> Expression:
    """The hour, 0 to 23.

    SQL: HOUR(<DATETIME>)
    """

def if_(boolean: Operand, any: Operand, any2: Operand, /) -> Expression:
    """The second argument where the first is TRUE, else the third.

    SQL: IF(<BOOLEAN>, <ANY>, <ANY>)
    """

def ifnull(any: Operand, any2: Operand, /) -> Expression:
    """The first argument, or the second where that is NULL.

    SQL: IFNULL(<ANY>, <ANY>)
    """

def inet_aton(character: Operand, /) -> Expression:
    """An IPv4 address as a number; the short forms of MySQL too; NULL when it is none.

    SQL: INET_ATON(<CHARACTER>)
    """

def inet_ntoa(bigint: Operand, /) -> Expression:
    """A number as an IPv4 address; NULL outside 0 to 2^32 - 1.

    SQL: INET_NTOA(<BIGINT>)
    """

def initcap(character: Operand, /) -> Expression:
    """The first letter of each word in upper case, the others in lower case.

    SQL: INITCAP(<CHARACTER>)
    """

def instr(character: Operand, character2: Operand, integer: Operand = ..., integer2: Operand = ..., /) -> Expression:
    """Where a text occurs in another for the n-th time, from a position on (negative: backwards); 0 when it does not.

    SQL: INSTR(<CHARACTER>, <CHARACTER>[, <INTEGER>][, <INTEGER>])
    """

def is_alpha(character_or_numeric: Operand, /) -> Expression:
    """Whether all characters are letters; FALSE for NULL, '' and numbers.

    SQL: IS_ALPHA(<CHARACTER or NUMERIC>)
    """

def is_decimal(character_or_numeric: Operand, /) -> Expression:
    """Whether the text reads as a number; FALSE for NULL. Of numbers TRUE for all types but DECIMAL, as in Flink.

    SQL: IS_DECIMAL(<CHARACTER or NUMERIC>)
    """

def is_digit(character_or_numeric: Operand, /) -> Expression:
    """Whether all characters are digits; FALSE for NULL and ''. Of numbers TRUE for the integer types.

    SQL: IS_DIGIT(<CHARACTER or NUMERIC>)
    """

def is_valid_utf8(binary: Operand, /) -> Expression:
    """Whether the bytes are UTF-8.

    SQL: IS_VALID_UTF8(<BINARY>)
    """

def json_array(any: Operand = ..., /) -> Expression:
    """A JSON array of values.

    SQL: JSON_ARRAY([value, ...] [{NULL|ABSENT} ON NULL])
    """

def json_arrayagg(any: Operand, /) -> Expression:
    """A JSON array of the values in order of arrival; NULLs are left out.

    SQL: JSON_ARRAYAGG(<ANY>)
    """

def json_exists(character: Operand, character2: Operand, /) -> Expression:
    """Whether a path finds something in a JSON text.

    SQL: JSON_EXISTS(text, path [{TRUE|FALSE|UNKNOWN|ERROR} ON ERROR])
    """

def json_query(character: Operand, character2: Operand, /) -> Expression:
    """The object or array that a path finds in a JSON text.

    SQL: JSON_QUERY(text, path [RETURNING type] [{WITHOUT|WITH [CONDITIONAL|UNCONDITIONAL]} WRAPPER] [.. ON EMPTY] [.. ON ERROR])
    """

def json_quote(character: Operand, /) -> Expression:
    """A text as a JSON string.

    SQL: JSON_QUOTE(<CHARACTER>)
    """

def json_string(any: Operand, /) -> Expression:
    """A value as JSON text.

    SQL: JSON_STRING(<ANY>)
    """

def json_unquote(character: Operand, /) -> Expression:
    """The text of a JSON string; what is no JSON string stays as it is.

    SQL: JSON_UNQUOTE(<CHARACTER>)
    """

def json_value(character: Operand, character2: Operand, /) -> Expression:
    """The scalar that a path finds in a JSON text.

    SQL: JSON_VALUE(text, path [RETURNING type] [{NULL|ERROR|DEFAULT e} ON EMPTY] [.. ON ERROR])
    """

def lag(any: Operand, integer: Operand = ..., any2: Operand = ..., /) -> Expression:
    """The value n rows before (1 when not given), else the default.

    SQL: LAG(<ANY>[, <INTEGER>][, <ANY>])
    """

def last_value(any: Operand, /) -> Expression:
    """The last value, in order of arrival, that is not NULL.

    SQL: LAST_VALUE(<ANY>)
    """

def last_value_respect_nulls(any: Operand, /) -> Expression:
    """LAST_VALUE(x) RESPECT NULLS: the value of the last row of the frame, NULL too.

    SQL: LAST_VALUE_RESPECT_NULLS(<ANY>)
    """

def lastval() -> Expression:
    """The number that the session was given last by any sequence.

    SQL: LASTVAL()
    """

def lead(any: Operand, integer: Operand = ..., any2: Operand = ..., /) -> Expression:
    """The value n rows after (1 when not given), else the default.

    SQL: LEAD(<ANY>[, <INTEGER>][, <ANY>])
    """

def least(any: Operand, any2: Operand = ..., /) -> Expression:
    """The least argument; NULL when one is NULL, NaN when the first is.

    SQL: LEAST(<ANY>[, <ANY>])
    """

def left(character: Operand, integer: Operand, /) -> Expression:
    """The first n characters.

    SQL: LEFT(<CHARACTER>, <INTEGER>)
    """

def listagg(character: Operand, character2: Operand = ..., /) -> Expression:
    """The values that are not NULL in order of arrival, joined by a separator (a comma when not given).

    SQL: LISTAGG(<CHARACTER>[, <CHARACTER>])
    """

def ln(double: Operand, /) -> Expression:
    """The natural logarithm.

    SQL: LN(<DOUBLE>)
    """

def localtime() -> Expression:
    """The time of day in the session's time zone.

    SQL: LOCALTIME
    """

def localtimestamp() -> Expression:
    """The time in the session's time zone.

    SQL: LOCALTIMESTAMP
    """

def locate(character: Operand, character2: Operand, integer: Operand = ..., /) -> Expression:
    """Where a text first occurs in another, at a position or behind it; 0 when it does not.

    SQL: LOCATE(<CHARACTER>, <CHARACTER>[, <INTEGER>])
    """

def log(double: Operand, double2: Operand = ..., /) -> Expression:
    """The natural logarithm of x, or with two arguments that of x to base b: LOG(b, x).

    SQL: LOG(<DOUBLE>); LOG(<DOUBLE>, <DOUBLE>)
    """

def log10(double: Operand, /) -> Expression:
    """The logarithm to base 10.

    SQL: LOG10(<DOUBLE>)
    """

def log2(double: Operand, /) -> Expression:
    """The logarithm to base 2.

    SQL: LOG2(<DOUBLE>)
    """

def lower(character: Operand, /) -> Expression:
    """The text in lower case.

    SQL: LOWER(<CHARACTER>)
    """

def lpad(character: Operand, integer: Operand, character2: Operand, /) -> Expression:
    """The text padded on the left, or cut, to a length; NULL for a negative one, or with nothing to pad with.

    SQL: LPAD(<CHARACTER>, <INTEGER>, <CHARACTER>)
    """

def ltrim(character: Operand, character2: Operand = ..., /) -> Expression:
    """The text without leading spaces, or without leading characters of a set.

    SQL: LTRIM(<CHARACTER>[, <CHARACTER>])
    """

def make_valid_utf8(binary: Operand, /) -> Expression:
    """The bytes as text; what is not UTF-8 becomes U+FFFD.

    SQL: MAKE_VALID_UTF8(<BINARY>)
    """

def map_entries(map: Operand, /) -> Expression:
    """The entries as rows (key, value).

    SQL: MAP_ENTRIES(<MAP>)
    """

def map_from_arrays(array: Operand, array2: Operand, /) -> Expression:
    """A map of an array of keys and one of values, of one length.

    SQL: MAP_FROM_ARRAYS(<ARRAY>, <ARRAY>)
    """

def map_keys(map: Operand, /) -> Expression:
    """The keys.

    SQL: MAP_KEYS(<MAP>)
    """

def map_union(map: Operand, map2: Operand = ..., /) -> Expression:
    """The entries of all maps, later ones before earlier ones; NULL when one is NULL.

    SQL: MAP_UNION(<MAP>[, <MAP>])
    """

def map_values(map: Operand, /) -> Expression:
    """The values.

    SQL: MAP_VALUES(<MAP>)
    """

def max(comparable: Operand, /) -> Expression:
    """The greatest value that is not NULL; NaN is greater than all numbers.

    SQL: MAX(<COMPARABLE>)
    """

def md5(character: Operand, /) -> Expression:
    """The MD5 digest.

    SQL: MD5(<CHARACTER>)
    """

def min(comparable: Operand, /) -> Expression:
    """The least value that is not NULL.

    SQL: MIN(<COMPARABLE>)
    """

def minute(datetime: Operand, /) -> Expression:
    """The minute, 0 to 59.

    SQL: MINUTE(<DATETIME>)
    """

def mode(comparable: Operand, /) -> Expression:
    """The most frequent value that is not NULL; of several the first in order. Also MODE() WITHIN GROUP (ORDER BY x).

    SQL: MODE(<COMPARABLE>)
    """

def month(datetime: Operand, /) -> Expression:
    """The month, 1 to 12.

    SQL: MONTH(<DATETIME>)
    """

def mz_now() -> Expression:
    """The time that passes, in conditions of views: rows come and go with it. Not for values.

    SQL: MZ_NOW()
    """

def nextval(character: Operand, /) -> Expression:
    """The next number of a sequence, another one for each row.

    SQL: NEXTVAL(<CHARACTER>)
    """

def now() -> Expression:
    """The time now.

    SQL: NOW()
    """

def nth_value(any: Operand, integer: Operand, /) -> Expression:
    """The value of the n-th row of the frame, NULL too; NULL when it has fewer rows.

    SQL: NTH_VALUE(<ANY>, <INTEGER>)
    """

def ntile(integer: Operand, /) -> Expression:
    """The number of the row's part of n equal parts.

    SQL: NTILE(<INTEGER>)
    """

def nullif(any: Operand, any2: Operand, /) -> Expression:
    """The first argument, NULL where it equals the second.

    SQL: NULLIF(<ANY>, <ANY>)
    """

def object_of(class_: Operand, name: Operand, any: Operand, /) -> Expression:
    """A structured object of a class name and pairs of a field's name and value.

    SQL: OBJECT_OF(<CLASS>, <NAME>, <ANY>)
    """

def object_update(object: Operand, name: Operand, any: Operand, /) -> Expression:
    """A structured object with other values in some fields.

    SQL: OBJECT_UPDATE(<OBJECT>, <NAME>, <ANY>)
    """

def overlay(character: Operand, character2: Operand, integer: Operand, integer2: Operand = ..., /) -> Expression:
    """The text with n characters from a position on replaced by another text.

    SQL: OVERLAY(text PLACING other FROM start [FOR length])
    """

def parse_json(character: Operand, boolean: Operand = ..., /) -> Expression:
    """The value of a JSON text; with TRUE, the last value of a key that an object has twice, which is an error else.

    SQL: PARSE_JSON(text [, allow_duplicate_keys])
    """

def parse_url(character: Operand, character2: Operand, character3: Operand = ..., /) -> Expression:
    """A part of a URL: HOST, PATH, QUERY, REF, PROTOCOL, AUTHORITY, FILE, USERINFO; with a key, a parameter of the query.

    SQL: PARSE_URL(<CHARACTER>, <CHARACTER>[, <CHARACTER>])
    """

def percent_rank() -> Expression:
    """(RANK - 1) / (rows of the partition - 1).

    SQL: PERCENT_RANK()
    """

def percentile(numeric: Operand, fraction: Operand, integer: Operand = ..., /) -> Expression:
    """The value below which a fraction of the values lies, interpolated; the third argument counts a value several times.

    SQL: PERCENTILE(<NUMERIC>, <FRACTION>[, <INTEGER>])
    """

def percentile_disc(comparable: Operand, fraction: Operand, /) -> Expression:
    """The first value, in order, at or before which a fraction of the values lies: PERCENTILE_DISC(fraction) WITHIN GROUP (ORDER BY x).

    SQL: PERCENTILE_DISC(<COMPARABLE>, <FRACTION>)
    """

def pg_acosd(double: Operand, /) -> Expression:
    """The angle in degrees with this cosine.

    SQL: PG_ACOSD(<DOUBLE>)
    """

def pg_acosh(double: Operand, /) -> Expression:
    """The inverse hyperbolic cosine.

    SQL: PG_ACOSH(<DOUBLE>)
    """

def pg_age(timestamp: Operand, timestamp2: Operand, /) -> Expression:
    """The time between two points in time in words: 4 years 1 mon 3 days 02:30:00.

    SQL: PG_AGE(<TIMESTAMP>, <TIMESTAMP>)
    """

def pg_age_part(character: Operand, timestamp: Operand, timestamp2: Operand, /) -> Expression:
    """YEAR, MONTH, DAY, HOUR, MINUTE or MICROSECOND (with the seconds) of the time between two points in time.

    SQL: PG_AGE_PART(<CHARACTER>, <TIMESTAMP>, <TIMESTAMP>)
    """

def pg_array_fill(any: Operand, array_int: Operand, /) -> Expression:
    """An array with a value as often as the one element of the second array says.

    SQL: PG_ARRAY_FILL(value, ARRAY[count])
    """

def pg_array_positions(array: Operand, any: Operand, /) -> Expression:
    """Where a value stands in the array, from 1.

    SQL: PG_ARRAY_POSITIONS(array, value)
    """

def pg_array_replace(array: Operand, any: Operand, any2: Operand, /) -> Expression:
    """The array with another value in the place of each element that equals one; NULL equals NULL.

    SQL: PG_ARRAY_REPLACE(array, from, to)
    """

def pg_asind(double: Operand, /) -> Expression:
    """The angle in degrees with this sine.

    SQL: PG_ASIND(<DOUBLE>)
    """

def pg_asinh(double: Operand, /) -> Expression:
    """The inverse hyperbolic sine.

    SQL: PG_ASINH(<DOUBLE>)
    """

def pg_at_time_zone(timestamp: Operand, string: Operand, /) -> Expression:
    """A timestamp as the instant at which the clocks of a zone show it; an instant as what they show.

    SQL: PG_AT_TIME_ZONE(time, zone)
    """

def pg_atan2d(double: Operand, double2: Operand, /) -> Expression:
    """The angle in degrees of the point (x, y), given y and x.

    SQL: PG_ATAN2D(<DOUBLE>, <DOUBLE>)
    """

def pg_atand(double: Operand, /) -> Expression:
    """The angle in degrees with this tangent.

    SQL: PG_ATAND(<DOUBLE>)
    """

def pg_atanh(double: Operand, /) -> Expression:
    """The inverse hyperbolic tangent.

    SQL: PG_ATANH(<DOUBLE>)
    """

def pg_bit_and(integer: Operand, integer2: Operand, /) -> Expression:
    """The bits that both integers have.

    SQL: PG_BIT_AND(a, b)
    """

def pg_bit_count(binary: Operand, /) -> Expression:
    """The number of bits that are 1.

    SQL: PG_BIT_COUNT(<BINARY>)
    """

def pg_bit_not(integer: Operand, /) -> Expression:
    """An integer with all bits turned.

    SQL: PG_BIT_NOT(<INTEGER>)
    """

def pg_bit_or(integer: Operand, integer2: Operand, /) -> Expression:
    """The bits that one of two integers has.

    SQL: PG_BIT_OR(a, b)
    """

def pg_bit_xor(integer: Operand, integer2: Operand, /) -> Expression:
    """The bits that one alone of two integers has.

    SQL: PG_BIT_XOR(a, b)
    """

def pg_cbrt(double: Operand, /) -> Expression:
    """The cube root.

    SQL: PG_CBRT(<DOUBLE>)
    """

def pg_chr(integer: Operand, /) -> Expression:
    """The character of a number of Unicode.

    SQL: PG_CHR(<INTEGER>)
    """

def pg_convert_from(binary: Operand, character: Operand, /) -> Expression:
    """The text whose bytes these are in an encoding.

    SQL: PG_CONVERT_FROM(<BINARY>, <CHARACTER>)
    """

def pg_convert_to(character: Operand, character2: Operand, /) -> Expression:
    """The bytes of a text in an encoding.

    SQL: PG_CONVERT_TO(<CHARACTER>, <CHARACTER>)
    """

def pg_cosd(double: Operand, /) -> Expression:
    """The cosine of an angle in degrees.

    SQL: PG_COSD(<DOUBLE>)
    """

def pg_cotd(double: Operand, /) -> Expression:
    """The cotangent of an angle in degrees.

    SQL: PG_COTD(<DOUBLE>)
    """

def pg_decode(character: Operand, character2: Operand, /) -> Expression:
    """The bytes of such a text.

    SQL: PG_DECODE(<CHARACTER>, <CHARACTER>)
    """

def pg_divide(numeric: Operand, numeric2: Operand, /) -> Expression:
    """The quotient of exact numbers with 16 digits behind the point, as PostgreSQL's numeric.

    SQL: PG_DIVIDE(a, b)
    """

def pg_encode(character_or_binary: Operand, character: Operand, /) -> Expression:
    """Bytes as a text: 'base64', 'hex' or 'escape'.

    SQL: PG_ENCODE(<CHARACTER or BINARY>, <CHARACTER>)
    """

def pg_factorial(integer: Operand, /) -> Expression:
    """The product of all numbers from 1 on.

    SQL: PG_FACTORIAL(<INTEGER>)
    """

def pg_format(character: Operand, character2: Operand, /, *more: Operand) -> Expression:
    """A form with texts in the places of %s, names of %I, and literals of %L.

    SQL: PG_FORMAT(<CHARACTER>, ...); PG_FORMAT(<CHARACTER>, <CHARACTER>, ...)
    """

def pg_gcd(integer: Operand, integer2: Operand, /) -> Expression:
    """The greatest common divisor of two integers.

    SQL: PG_GCD(a, b)
    """

def pg_get_bit(binary: Operand, integer: Operand, /) -> Expression:
    """A bit, from 0, the last one of the first byte.

    SQL: PG_GET_BIT(<BINARY>, <INTEGER>)
    """

def pg_get_byte(binary: Operand, integer: Operand, /) -> Expression:
    """A byte, from 0.

    SQL: PG_GET_BYTE(<BINARY>, <INTEGER>)
    """

def pg_get_serial_sequence(character: Operand, character2: Operand, /) -> Expression:
    """The name of the sequence of a numbered column, or of one that goes with a column.

    SQL: PG_GET_SERIAL_SEQUENCE(<CHARACTER>, <CHARACTER>)
    """

def pg_in_integer(numeric: Operand, integer: Operand, /) -> Expression:
    """A whole number that an integer of so many bits holds; another one is an error.

    SQL: PG_IN_INTEGER(<NUMERIC>, <INTEGER>)
    """

def pg_in_numeric(numeric: Operand, integer: Operand, integer2: Operand, /) -> Expression:
    """A number that a numeric of so many digits, and so many behind the point, holds rounded; another one is an error.

    SQL: PG_IN_NUMERIC(<NUMERIC>, <INTEGER>, <INTEGER>)
    """

def pg_in_real(approximate_numeric: Operand, /) -> Expression:
    """A number that real holds; another one is an error.

    SQL: PG_IN_REAL(<APPROXIMATE_NUMERIC>)
    """

def pg_in_text(character: Operand, integer: Operand, /) -> Expression:
    """A text of at most so many characters, blanks at its end left out; a longer one is an error.

    SQL: PG_IN_TEXT(<CHARACTER>, <INTEGER>)
    """

def pg_jsonb_array_length(variant: Operand, /) -> Expression:
    """The number of elements of an array.

    SQL: PG_JSONB_ARRAY_LENGTH(<VARIANT>)
    """

def pg_jsonb_concat(variant: Operand, variant2: Operand, /) -> Expression:
    """jsonb || jsonb: both objects as one, or both arrays.

    SQL: PG_JSONB_CONCAT(<VARIANT>, <VARIANT>)
    """

def pg_jsonb_contains(variant: Operand, variant2: Operand, /) -> Expression:
    """jsonb @> jsonb: whether the first contains the second.

    SQL: PG_JSONB_CONTAINS(<VARIANT>, <VARIANT>)
    """

def pg_jsonb_get(variant: Operand, character: Operand, /) -> Expression:
    """jsonb -> key, and jsonb -> n from 0: the member or element; NULL where there is none.

    SQL: PG_JSONB_GET(<VARIANT>, <CHARACTER>); PG_JSONB_GET(<VARIANT>, <INTEGER>)
    """

def pg_jsonb_has(variant: Operand, character: Operand, /) -> Expression:
    """jsonb ? key: whether it is a key, or a text of the array.

    SQL: PG_JSONB_HAS(<VARIANT>, <CHARACTER>)
    """

def pg_jsonb_has_all(variant: Operand, array_string: Operand, /) -> Expression:
    """jsonb ?& keys: whether all of them are keys.

    SQL: PG_JSONB_HAS_ALL(<VARIANT>, <ARRAY<STRING>>)
    """

def pg_jsonb_has_any(variant: Operand, array_string: Operand, /) -> Expression:
    """jsonb ?| keys: whether one of them is a key.

    SQL: PG_JSONB_HAS_ANY(<VARIANT>, <ARRAY<STRING>>)
    """

def pg_jsonb_insert(variant: Operand, array_string: Operand, variant2: Operand, boolean: Operand, /) -> Expression:
    """JSONB_INSERT: the value with a new element before, or with TRUE behind, the one that the path leads to, or a new member.

    SQL: PG_JSONB_INSERT(<VARIANT>, <ARRAY<STRING>>, <VARIANT>, <BOOLEAN>)
    """

def pg_jsonb_object(array_string: Operand, /) -> Expression:
    """The object of keys and values in turn; values are strings.

    SQL: PG_JSONB_OBJECT(<ARRAY<STRING>>)
    """

def pg_jsonb_object_of_two(array_string: Operand, array_string2: Operand, /) -> Expression:
    """The object of keys and of as many values.

    SQL: PG_JSONB_OBJECT_OF_TWO(<ARRAY<STRING>>, <ARRAY<STRING>>)
    """

def pg_jsonb_path_array(variant: Operand, character: Operand, variant2: Operand, boolean: Operand, /) -> Expression:
    """What a path finds, as an array of jsonb.

    SQL: PG_JSONB_PATH_ARRAY(<VARIANT>, <CHARACTER>, <VARIANT>, <BOOLEAN>)
    """

def pg_jsonb_path_exists(variant: Operand, character: Operand, variant2: Operand, boolean: Operand, /) -> Expression:
    """Whether a path finds anything.

    SQL: PG_JSONB_PATH_EXISTS(<VARIANT>, <CHARACTER>, <VARIANT>, <BOOLEAN>)
    """

def pg_jsonb_path_first(variant: Operand, character: Operand, variant2: Operand, boolean: Operand, /) -> Expression:
    """The first value that a path finds.

    SQL: PG_JSONB_PATH_FIRST(<VARIANT>, <CHARACTER>, <VARIANT>, <BOOLEAN>)
    """

def pg_jsonb_path_match(variant: Operand, character: Operand, variant2: Operand, boolean: Operand, /) -> Expression:
    """The truth that a path finds.

    SQL: PG_JSONB_PATH_MATCH(<VARIANT>, <CHARACTER>, <VARIANT>, <BOOLEAN>)
    """

def pg_jsonb_path_rows(variant: Operand, character: Operand, variant2: Operand, boolean: Operand, /) -> Expression:
    """What a path finds, as an array of values of jsonb.

    SQL: PG_JSONB_PATH_ROWS(<VARIANT>, <CHARACTER>, <VARIANT>, <BOOLEAN>)
    """

def pg_jsonb_pretty(variant: Operand, /) -> Expression:
    """The value on lines, each level further in.

    SQL: PG_JSONB_PRETTY(<VARIANT>)
    """

def pg_jsonb_set(variant: Operand, array_string: Operand, variant2: Operand, boolean: Operand, /) -> Expression:
    """JSONB_SET: the value with another one where the path leads to; the last step is added if it is not there.

    SQL: PG_JSONB_SET(<VARIANT>, <ARRAY<STRING>>, <VARIANT>, <BOOLEAN>)
    """

def pg_jsonb_shown(variant: Operand, /) -> Expression:
    """The value as PostgreSQL writes it.

    SQL: PG_JSONB_SHOWN(<VARIANT>)
    """

def pg_jsonb_step(variant: Operand, character: Operand, /) -> Expression:
    """A step of a path: the member of an object, or the element of an array whose number the text is.

    SQL: PG_JSONB_STEP(<VARIANT>, <CHARACTER>)
    """

def pg_jsonb_strip_nulls(variant: Operand, /) -> Expression:
    """The value without members that are null.

    SQL: PG_JSONB_STRIP_NULLS(<VARIANT>)
    """

def pg_jsonb_text(variant: Operand, /) -> Expression:
    """The text of a value of jsonb: that of a string without quotes, NULL of null; what ->> gives.

    SQL: PG_JSONB_TEXT(<VARIANT>)
    """

def pg_jsonb_texts(array_variant_or_map_string_variant: Operand, /) -> Expression:
    """An array or map of values of jsonb with their texts, as ->> gives them.

    SQL: PG_JSONB_TEXTS(values)
    """

def pg_jsonb_typeof(variant: Operand, /) -> Expression:
    """object, array, string, number, boolean or null.

    SQL: PG_JSONB_TYPEOF(<VARIANT>)
    """

def pg_jsonb_without(variant: Operand, character: Operand, /) -> Expression:
    """jsonb - key: without the member.

    SQL: PG_JSONB_WITHOUT(<VARIANT>, <CHARACTER>)
    """

def pg_jsonb_without_element(variant: Operand, integer: Operand, /) -> Expression:
    """jsonb - n: without the element n, from 0.

    SQL: PG_JSONB_WITHOUT_ELEMENT(<VARIANT>, <INTEGER>)
    """

def pg_jsonb_without_keys(variant: Operand, array_string: Operand, /) -> Expression:
    """jsonb - keys: without these members.

    SQL: PG_JSONB_WITHOUT_KEYS(<VARIANT>, <ARRAY<STRING>>)
    """

def pg_jsonb_without_path(variant: Operand, array_string: Operand, /) -> Expression:
    """jsonb #- path: without what the path leads to.

    SQL: PG_JSONB_WITHOUT_PATH(<VARIANT>, <ARRAY<STRING>>)
    """

def pg_lcm(integer: Operand, integer2: Operand, /) -> Expression:
    """The least common multiple of two integers.

    SQL: PG_LCM(a, b)
    """

def pg_lockstep(array: Operand, array2: Operand = ..., /) -> Expression:
    """The elements of arrays side by side, as rows; those of shorter arrays are NULL at the end, and NULL has none.

    SQL: PG_LOCKSTEP(array, ...)
    """

def pg_md5(character_or_binary: Operand, /) -> Expression:
    """The MD5 digest of a text, or of bytes.

    SQL: PG_MD5(<CHARACTER or BINARY>)
    """

def pg_min_scale(decimal: Operand, /) -> Expression:
    """How many digits behind the point a number needs.

    SQL: PG_MIN_SCALE(<DECIMAL>)
    """

def pg_normalize(character: Operand, character2: Operand, /) -> Expression:
    """The text in NFC, NFD, NFKC or NFKD.

    SQL: PG_NORMALIZE(<CHARACTER>, <CHARACTER>)
    """

def pg_number_text(numeric: Operand, character: Operand, /) -> Expression:
    """A number by a pattern such as '999,990.00'.

    SQL: PG_NUMBER_TEXT(<NUMERIC>, <CHARACTER>)
    """

def pg_octet_length(character_or_binary: Operand, /) -> Expression:
    """The number of bytes.

    SQL: PG_OCTET_LENGTH(<CHARACTER or BINARY>)
    """

def pg_parse_ident(character: Operand, boolean: Operand, /) -> Expression:
    """The parts of a qualified name.

    SQL: PG_PARSE_IDENT(<CHARACTER>, <BOOLEAN>)
    """

def pg_quote_ident(character: Operand, /) -> Expression:
    """A name as statements write it.

    SQL: PG_QUOTE_IDENT(<CHARACTER>)
    """

def pg_quote_literal(character: Operand, /) -> Expression:
    """A text as statements write it.

    SQL: PG_QUOTE_LITERAL(<CHARACTER>)
    """

def pg_quote_nullable(character: Operand, /) -> Expression:
    """The same, and NULL for NULL.

    SQL: PG_QUOTE_NULLABLE(<CHARACTER>)
    """

def pg_regexp_count(character: Operand, character2: Operand, integer: Operand, character3: Operand, /) -> Expression:
    """The number of matches from a place on.

    SQL: PG_REGEXP_COUNT(<CHARACTER>, <CHARACTER>, <INTEGER>, <CHARACTER>)
    """

def pg_regexp_instr(character: Operand, character2: Operand, integer: Operand, integer2: Operand, integer3: Operand, character3: Operand, integer4: Operand, /) -> Expression:
    """Where the n-th match from a place on, or a group of it, begins or ends.

    SQL: PG_REGEXP_INSTR(<CHARACTER>, <CHARACTER>, <INTEGER>, <INTEGER>, <INTEGER>, <CHARACTER>, <INTEGER>)
    """

def pg_regexp_like(character: Operand, character2: Operand, character3: Operand, /) -> Expression:
    """Whether the expression matches somewhere.

    SQL: PG_REGEXP_LIKE(<CHARACTER>, <CHARACTER>, <CHARACTER>)
    """

def pg_regexp_match(character: Operand, character2: Operand, character3: Operand, /) -> Expression:
    """The groups of the first match, or all of it.

    SQL: PG_REGEXP_MATCH(<CHARACTER>, <CHARACTER>, <CHARACTER>)
    """

def pg_regexp_matches(character: Operand, character2: Operand, character3: Operand, /) -> Expression:
    """The same of the first match, with the flag g of all.

    SQL: PG_REGEXP_MATCHES(<CHARACTER>, <CHARACTER>, <CHARACTER>)
    """

def pg_regexp_replace(character: Operand, character2: Operand, character3: Operand, character4: Operand, /) -> Expression:
    """The text with another one for the first match, with the flag g for all; \\1 is a group, \\& the match.

    SQL: PG_REGEXP_REPLACE(<CHARACTER>, <CHARACTER>, <CHARACTER>, <CHARACTER>)
    """

def pg_regexp_replace_nth(character: Operand, character2: Operand, character3: Operand, integer: Operand, integer2: Operand, character4: Operand, /) -> Expression:
    """The text with another one for the n-th match from a place on, 0 for all.

    SQL: PG_REGEXP_REPLACE_NTH(<CHARACTER>, <CHARACTER>, <CHARACTER>, <INTEGER>, <INTEGER>, <CHARACTER>)
    """

def pg_regexp_split(character: Operand, character2: Operand, character3: Operand, /) -> Expression:
    """The text between the matches.

    SQL: PG_REGEXP_SPLIT(<CHARACTER>, <CHARACTER>, <CHARACTER>)
    """

def pg_regexp_substr(character: Operand, character2: Operand, integer: Operand, integer2: Operand, character3: Operand, integer3: Operand, /) -> Expression:
    """The n-th match from a place on, or a group of it.

    SQL: PG_REGEXP_SUBSTR(<CHARACTER>, <CHARACTER>, <INTEGER>, <INTEGER>, <CHARACTER>, <INTEGER>)
    """

def pg_round_even(approximate_numeric: Operand, /) -> Expression:
    """The nearest whole number, halves to the even one.

    SQL: PG_ROUND_EVEN(<APPROXIMATE_NUMERIC>)
    """

def pg_seconds_text(numeric: Operand, /) -> Expression:
    """Seconds of a minute as a time has them, with two digits before a point.

    SQL: PG_SECONDS_TEXT(<NUMERIC>)
    """

def pg_set_bit(binary: Operand, integer: Operand, integer2: Operand, /) -> Expression:
    """The bytes with another bit in a place.

    SQL: PG_SET_BIT(<BINARY>, <INTEGER>, <INTEGER>)
    """

def pg_set_byte(binary: Operand, integer: Operand, integer2: Operand, /) -> Expression:
    """The bytes with another one in a place.

    SQL: PG_SET_BYTE(<BINARY>, <INTEGER>, <INTEGER>)
    """

def pg_sha224(character_or_binary: Operand, /) -> Expression:
    """The SHA-224 digest, as bytes.

    SQL: PG_SHA224(<CHARACTER or BINARY>)
    """

def pg_sha256(character_or_binary: Operand, /) -> Expression:
    """The SHA-256 digest, as bytes.

    SQL: PG_SHA256(<CHARACTER or BINARY>)
    """

def pg_sha384(character_or_binary: Operand, /) -> Expression:
    """The SHA-384 digest, as bytes.

    SQL: PG_SHA384(<CHARACTER or BINARY>)
    """

def pg_sha512(character_or_binary: Operand, /) -> Expression:
    """The SHA-512 digest, as bytes.

    SQL: PG_SHA512(<CHARACTER or BINARY>)
    """

def pg_shift_left(integer: Operand, integer2: Operand, /) -> Expression:
    """An integer with its bits moved to the left.

    SQL: PG_SHIFT_LEFT(<INTEGER>, <INTEGER>)
    """

def pg_shift_right(integer: Operand, integer2: Operand, /) -> Expression:
    """An integer with its bits moved to the right; its sign stays.

    SQL: PG_SHIFT_RIGHT(<INTEGER>, <INTEGER>)
    """

def pg_sind(double: Operand, /) -> Expression:
    """The sine of an angle in degrees.

    SQL: PG_SIND(<DOUBLE>)
    """

def pg_string_to_array(character: Operand, character2: Operand, character3: Operand, /) -> Expression:
    """The parts of a text between separators, or its characters; those that are the third text are NULL.

    SQL: PG_STRING_TO_ARRAY(<CHARACTER>, <CHARACTER>, <CHARACTER>)
    """

def pg_subscripts(array: Operand, integer: Operand, boolean: Operand, /) -> Expression:
    """The places of the elements of an array, from the last one where TRUE says so; none beyond its one dimension.

    SQL: PG_SUBSCRIPTS(<ARRAY>, <INTEGER>, <BOOLEAN>)
    """

def pg_tand(double: Operand, /) -> Expression:
    """The tangent of an angle in degrees.

    SQL: PG_TAND(<DOUBLE>)
    """

def pg_time_pattern(timestamp: Operand, character: Operand, /) -> Expression:
    """A point in time by a pattern such as 'FMDay, DD FMMonth YYYY'.

    SQL: PG_TIME_PATTERN(<TIMESTAMP>, <CHARACTER>)
    """

def pg_time_text(character: Operand, /) -> Expression:
    """A text that writes a time, with seconds, and without an offset from UTC.

    SQL: PG_TIME_TEXT(<CHARACTER>)
    """

def pg_timestamptz(character: Operand, /) -> Expression:
    """The text as a timestamp with time zone: at the offset that it ends with, else in the session's zone.

    SQL: PG_TIMESTAMPTZ(<CHARACTER>)
    """

def pg_to_hex(integer: Operand, /) -> Expression:
    """The hexadecimal digits of an integer; of a negative one, of its bits.

    SQL: PG_TO_HEX(<INTEGER>)
    """

def pg_trim_array(array: Operand, integer: Operand, /) -> Expression:
    """The array without its last elements.

    SQL: PG_TRIM_ARRAY(<ARRAY>, <INTEGER>)
    """

def pg_unistr(character: Operand, /) -> Expression:
    """The text with its Unicode escapes read.

    SQL: PG_UNISTR(<CHARACTER>)
    """

def pg_width_bucket(any: Operand, array: Operand, /) -> Expression:
    """How many of the bounds in an array, which are in order, are not greater than a value.

    SQL: PG_WIDTH_BUCKET(value, bounds)
    """

def pi() -> Expression:
    """The number pi.

    SQL: PI()
    """

def position(character: Operand, character2: Operand, integer: Operand = ..., /) -> Expression:
    """Where a text first occurs in another, from 1; 0 when it does not.

    SQL: POSITION(part IN text)
    """

def power(double: Operand, double2: Operand, /) -> Expression:
    """a to the power of b.

    SQL: POWER(<DOUBLE>, <DOUBLE>)
    """

def printf(character: Operand, any: Operand, /, *more: Operand) -> Expression:
    """The arguments in a format of java.util.Formatter.

    SQL: PRINTF(<CHARACTER>, ...); PRINTF(<CHARACTER>, <ANY>, ...)
    """

def proctime() -> Expression:
    """The time at which a row is processed; as a column, a time attribute.

    SQL: PROCTIME()
    """

def quarter(datetime: Operand, /) -> Expression:
    """The quarter, 1 to 4.

    SQL: QUARTER(<DATETIME>)
    """

def radians(double: Operand, /) -> Expression:
    """Degrees in radians.

    SQL: RADIANS(<DOUBLE>)
    """

def rand(int: Operand = ..., /) -> Expression:
    """A random number in [0, 1); with a seed, of a sequence that repeats.

    SQL: RAND([<INT>])
    """

def rand_integer(int: Operand, int2: Operand = ..., /) -> Expression:
    """A random integer in [0, bound), or with two arguments RAND_INTEGER(seed, bound).

    SQL: RAND_INTEGER(<INT>); RAND_INTEGER(<INT>, <INT>)
    """

def rank() -> Expression:
    """1 + the number of rows that come before all equal ones.

    SQL: RANK()
    """

def regexp(character: Operand, character2: Operand, /) -> Expression:
    """Whether the expression matches somewhere; FALSE for a wrong or empty one.

    SQL: REGEXP(text, pattern)
    """

def regexp_count(character: Operand, character2: Operand, /) -> Expression:
    """The number of matches.

    SQL: REGEXP_COUNT(<CHARACTER>, <CHARACTER>)
    """

def regexp_extract(character: Operand, character2: Operand, integer: Operand = ..., /) -> Expression:
    """A group of the first match, 0 (the default) for all of it.

    SQL: REGEXP_EXTRACT(<CHARACTER>, <CHARACTER>[, <INTEGER>])
    """

def regexp_extract_all(character: Operand, character2: Operand, integer: Operand = ..., /) -> Expression:
    """A group (1) of all matches.

    SQL: REGEXP_EXTRACT_ALL(<CHARACTER>, <CHARACTER>[, <INTEGER>])
    """

def regexp_instr(character: Operand, character2: Operand, /) -> Expression:
    """Where the first match begins, from 1; 0 when there is none.

    SQL: REGEXP_INSTR(<CHARACTER>, <CHARACTER>)
    """

def regexp_replace(character: Operand, character2: Operand, character3: Operand, /) -> Expression:
    """The text with every match replaced by a plain text; NULL for a wrong regular expression.

    SQL: REGEXP_REPLACE(<CHARACTER>, <CHARACTER>, <CHARACTER>)
    """

def regexp_substr(character: Operand, character2: Operand, /) -> Expression:
    """The first match.

    SQL: REGEXP_SUBSTR(<CHARACTER>, <CHARACTER>)
    """

def regr_avgx(double: Operand, double2: Operand, /) -> Expression:
    """The average of x. Pairs with a NULL are left out.

    SQL: REGR_AVGX(<DOUBLE>, <DOUBLE>)
    """

def regr_avgy(double: Operand, double2: Operand, /) -> Expression:
    """The average of y. Pairs with a NULL are left out.

    SQL: REGR_AVGY(<DOUBLE>, <DOUBLE>)
    """

def regr_count(double: Operand, double2: Operand, /) -> Expression:
    """The number of pairs without a NULL.

    SQL: REGR_COUNT(<DOUBLE>, <DOUBLE>)
    """

def regr_intercept(double: Operand, double2: Operand, /) -> Expression:
    """The intercept of that line; NULL when x does not vary. Pairs with a NULL are left out.

    SQL: REGR_INTERCEPT(<DOUBLE>, <DOUBLE>)
    """

def regr_r2(double: Operand, double2: Operand, /) -> Expression:
    """How much of the variation of y the line explains, from 0 to 1; NULL when x does not vary. Pairs with a NULL are left out.

    SQL: REGR_R2(<DOUBLE>, <DOUBLE>)
    """

def regr_slope(double: Operand, double2: Operand, /) -> Expression:
    """The slope of the line y = a + b * x with the least squared error; NULL when x does not vary. Pairs with a NULL are left out.

    SQL: REGR_SLOPE(<DOUBLE>, <DOUBLE>)
    """

def regr_sxx(double: Operand, double2: Operand, /) -> Expression:
    """The sum of the squared distances of x from its average. Pairs with a NULL are left out.

    SQL: REGR_SXX(<DOUBLE>, <DOUBLE>)
    """

def regr_sxy(double: Operand, double2: Operand, /) -> Expression:
    """The sum of the products of the distances of x and y from their averages. Pairs with a NULL are left out.

    SQL: REGR_SXY(<DOUBLE>, <DOUBLE>)
    """

def regr_syy(double: Operand, double2: Operand, /) -> Expression:
    """The sum of the squared distances of y from its average. Pairs with a NULL are left out.

    SQL: REGR_SYY(<DOUBLE>, <DOUBLE>)
    """

def repeat(character: Operand, integer: Operand, /) -> Expression:
    """The text n times.

    SQL: REPEAT(<CHARACTER>, <INTEGER>)
    """

def replace(character: Operand, character2: Operand, character3: Operand, /) -> Expression:
    """The text with each occurrence of a part replaced.

    SQL: REPLACE(<CHARACTER>, <CHARACTER>, <CHARACTER>)
    """

def reverse(character: Operand, /) -> Expression:
    """The text back to front.

    SQL: REVERSE(<CHARACTER>)
    """

def right(character: Operand, integer: Operand, /) -> Expression:
    """The last n characters.

    SQL: RIGHT(<CHARACTER>, <INTEGER>)
    """

def round(numeric: Operand, int: Operand = ..., /) -> Expression:
    """The number rounded half up to d digits after the point (0).

    SQL: ROUND(<NUMERIC>[, <INT>])
    """

def row(any: Operand = ..., /) -> Expression:
    """A row of values.

    SQL: ROW([<ANY>])
    """

def row_number() -> Expression:
    """The position of the row in its partition, from 1.

    SQL: ROW_NUMBER()
    """

def rpad(character: Operand, integer: Operand, character2: Operand, /) -> Expression:
    """The text padded on the right, or cut, to a length; NULL for a negative one, or with nothing to pad with.

    SQL: RPAD(<CHARACTER>, <INTEGER>, <CHARACTER>)
    """

def rtrim(character: Operand, character2: Operand = ..., /) -> Expression:
    """The text without trailing spaces, or without trailing characters of a set.

    SQL: RTRIM(<CHARACTER>[, <CHARACTER>])
    """

def second(datetime: Operand, /) -> Expression:
    """The second, 0 to 59.

    SQL: SECOND(<DATETIME>)
    """

def setval(character: Operand, bigint: Operand, boolean: Operand = ..., /) -> Expression:
    """Has a sequence go on behind a number; with FALSE as the third argument, with it.

    SQL: SETVAL(<CHARACTER>, <BIGINT>); SETVAL(<CHARACTER>, <BIGINT>, <BOOLEAN>)
    """

def sha1(character: Operand, /) -> Expression:
    """The SHA-1 digest.

    SQL: SHA1(<CHARACTER>)
    """

def sha2(character: Operand, integer: Operand, /) -> Expression:
    """The SHA-2 digest of 224, 256, 384 or 512 bits.

    SQL: SHA2(<CHARACTER>, <INTEGER>)
    """

def sha224(character: Operand, /) -> Expression:
    """The SHA-224 digest.

    SQL: SHA224(<CHARACTER>)
    """

def sha256(character: Operand, /) -> Expression:
    """The SHA-256 digest.

    SQL: SHA256(<CHARACTER>)
    """

def sha384(character: Operand, /) -> Expression:
    """The SHA-384 digest.

    SQL: SHA384(<CHARACTER>)
    """

def sha512(character: Operand, /) -> Expression:
    """The SHA-512 digest.

    SQL: SHA512(<CHARACTER>)
    """

def sign(numeric: Operand, /) -> Expression:
    """-1, 0 or 1, in the argument's type; NULL where that has no digit before the point.

    SQL: SIGN(<NUMERIC>)
    """

def sin(double: Operand, /) -> Expression:
    """The sine.

    SQL: SIN(<DOUBLE>)
    """

def single_value(any: Operand, /) -> Expression:
    """The value of the only row; more than one row is an error. What a scalar subquery becomes.

    SQL: SINGLE_VALUE(<ANY>)
    """

def sinh(double: Operand, /) -> Expression:
    """The hyperbolic sine.

    SQL: SINH(<DOUBLE>)
    """

def source_watermark() -> Expression:
    """In WATERMARK FOR only: the source gives the watermark.

    SQL: SOURCE_WATERMARK()
    """

def split(character: Operand, character2: Operand, /) -> Expression:
    """The parts of a text between separators; with an empty separator its characters.

    SQL: SPLIT(<CHARACTER>, <CHARACTER>)
    """

def split_index(character: Operand, character2: Operand, integer: Operand, /) -> Expression:
    """The n-th part, from 0, of a text split at a separator; NULL when there is none.

    SQL: SPLIT_INDEX(<CHARACTER>, <CHARACTER>, <INTEGER>); SPLIT_INDEX(<CHARACTER>, <INTEGER>, <INTEGER>)
    """

def sqrt(double: Operand, /) -> Expression:
    """The square root.

    SQL: SQRT(<DOUBLE>)
    """

def startswith(character: Operand, character2: Operand, /) -> Expression:
    """Whether a text, or bytes, start with others.

    SQL: STARTSWITH(<CHARACTER>, <CHARACTER>); STARTSWITH(<BINARY>, <BINARY>)
    """

def stddev(numeric: Operand, /) -> Expression:
    """The same as STDDEV_SAMP.

    SQL: STDDEV(<NUMERIC>)
    """

def stddev_pop(numeric: Operand, /) -> Expression:
    """The population standard deviation.

    SQL: STDDEV_POP(<NUMERIC>)
    """

def stddev_samp(numeric: Operand, /) -> Expression:
    """The sample standard deviation; NULL for fewer than two values.

    SQL: STDDEV_SAMP(<NUMERIC>)
    """

def str_to_map(character: Operand, character2: Operand = ..., character3: Operand = ..., /) -> Expression:
    """A map read from a text: entries between `,`, keys before `=`; the two delimiters are regular expressions.

    SQL: STR_TO_MAP(<CHARACTER>[, <CHARACTER>][, <CHARACTER>])
    """

def substring(character: Operand, integer: Operand, integer2: Operand = ..., /) -> Expression:
    """The characters from a position on (from 1, negative from the end), at most n of them.

    SQL: SUBSTRING(text FROM start [FOR length])
    """

def sum(numeric: Operand, /) -> Expression:
    """The sum of the values that are not NULL; NULL when there is none. Integers wrap around in their own type.

    SQL: SUM(<NUMERIC>)
    """

def sum0(numeric: Operand, /) -> Expression:
    """The sum of the values that are not NULL; 0 when there is none.

    SQL: SUM0(<NUMERIC>)
    """

def tan(double: Operand, /) -> Expression:
    """The tangent.

    SQL: TAN(<DOUBLE>)
    """

def tanh(double: Operand, /) -> Expression:
    """The hyperbolic tangent.

    SQL: TANH(<DOUBLE>)
    """

def timestampadd(unit: str, integer: Operand, datetime: Operand, /) -> Expression:
    """A point in time moved by a number of units.

    SQL: TIMESTAMPADD(unit, number, point)
    """

def timestampdiff(unit: str, datetime: Operand, datetime2: Operand, /) -> Expression:
    """The whole units from one point in time to another.

    SQL: TIMESTAMPDIFF(unit, from, to)
    """

def to_base64(character: Operand, /) -> Expression:
    """The text's bytes in Base64.

    SQL: TO_BASE64(<CHARACTER>)
    """

def to_date(character: Operand, character2: Operand = ..., /) -> Expression:
    """A text as a date, by a pattern of Java's SimpleDateFormat.

    SQL: TO_DATE(<CHARACTER>[, <CHARACTER>])
    """

def to_timestamp(character: Operand, character2: Operand = ..., /) -> Expression:
    """A text as a TIMESTAMP, by a pattern of Java's DateTimeFormatter.

    SQL: TO_TIMESTAMP(<CHARACTER>[, <CHARACTER>])
    """

def to_timestamp_ltz(character: Operand, character2: Operand = ..., character3: Operand = ..., /) -> Expression:
    """A number of units (10^-p seconds, p is 3 when left out) since 1970, or a text, as a point in time.

    SQL: TO_TIMESTAMP_LTZ(<NUMERIC>[, <INT>]); TO_TIMESTAMP_LTZ(<CHARACTER>[, <CHARACTER>][, <CHARACTER>])
    """

def translate(character: Operand, character2: Operand, character3: Operand, /) -> Expression:
    """The text with each character of one list replaced by that at the same place of another, or left out.

    SQL: TRANSLATE(<CHARACTER>, <CHARACTER>, <CHARACTER>)
    """

def trim(character: Operand, character2: Operand = ..., character3: Operand = ..., /) -> Expression:
    """The text without spaces, or without the given characters, at its ends.

    SQL: TRIM([BOTH|LEADING|TRAILING] [chars] FROM text)
    """

def truncate(numeric: Operand, int: Operand = ..., /) -> Expression:
    """The number cut off after d digits after the point (0).

    SQL: TRUNCATE(<NUMERIC>[, <INT>])
    """

def try_parse_json(character: Operand, boolean: Operand = ..., /) -> Expression:
    """PARSE_JSON that gives NULL for what is no JSON.

    SQL: TRY_PARSE_JSON(text [, allow_duplicate_keys])
    """

def typeof(any: Operand, boolean: Operand = ..., /) -> Expression:
    """The type of an expression, as DDL would write it.

    SQL: TYPEOF(<ANY>[, <BOOLEAN>])
    """

def unhex(character: Operand, /) -> Expression:
    """The bytes of hexadecimal digits; NULL when they are none.

    SQL: UNHEX(<CHARACTER>)
    """

def unix_timestamp(character: Operand = ..., character2: Operand = ..., /) -> Expression:
    """Seconds since 1970, now or of a text in the session's time zone.

    SQL: UNIX_TIMESTAMP(); UNIX_TIMESTAMP(<CHARACTER>[, <CHARACTER>])
    """

def upper(character: Operand, /) -> Expression:
    """The text in upper case.

    SQL: UPPER(<CHARACTER>)
    """

def url_decode(character: Operand, /) -> Expression:
    """A text out of a query string; NULL when an escape is wrong.

    SQL: URL_DECODE(<CHARACTER>)
    """

def url_encode(character: Operand, /) -> Expression:
    """A text as in a query string: application/x-www-form-urlencoded, UTF-8.

    SQL: URL_ENCODE(<CHARACTER>)
    """

def uuid() -> Expression:
    """A random identifier of 36 characters (version 4).

    SQL: UUID()
    """

def var_pop(numeric: Operand, /) -> Expression:
    """The population variance.

    SQL: VAR_POP(<NUMERIC>)
    """

def var_samp(numeric: Operand, /) -> Expression:
    """The sample variance; NULL for fewer than two values.

    SQL: VAR_SAMP(<NUMERIC>)
    """

def variance(numeric: Operand, /) -> Expression:
    """The same as VAR_SAMP.

    SQL: VARIANCE(<NUMERIC>)
    """

def week(datetime: Operand, /) -> Expression:
    """The week of the year by ISO 8601, 1 to 53.

    SQL: WEEK(<DATETIME>)
    """

def year(datetime: Operand, /) -> Expression:
    """The year of a point in time.

    SQL: YEAR(<DATETIME>)
    """
