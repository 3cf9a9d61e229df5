/* Objects of JSON to flat columns: runtime/kernels/json_read.py has the meaning and the twin. What is not plain is left to who
   knows all rules. */

#include "columns.h"

#define NODE 4
#define DEEPEST 64
#define MOST_KEYS 256

enum { INTEGER, REAL, BOOLEAN, TEXT, DECIMAL, OPERATIONS };
enum { OPERATION, TO, A, B };
enum { MADE, LEFT };

static const double TENS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
static const float FLOAT_TENS[] = {1e0F, 1e1F, 1e2F, 1e3F, 1e4F, 1e5F, 1e6F, 1e7F, 1e8F, 1e9F, 1e10F};

struct scan {
    const uint8_t *at, *end;
};

static int is_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

static void pass_blanks(struct scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\r'))
        s->at++;
}

/* Whether this comes next, and passes it. */
static int takes(struct scan *s, uint8_t byte)
{
    if (s->at == s->end || *s->at != byte)
        return 0;
    s->at++;
    return 1;
}

static int takes_word(struct scan *s, const char *word, int length)
{
    if (s->end - s->at < length || memcmp(s->at, word, (size_t)length) != 0)
        return 0;
    s->at += length;
    return 1;
}

/* The first byte of a word that ends plain text: a quote, an escape or a control character; 8 for none. `word` has the bytes as
   they stand, the first one lowest. */
static inline int64_t plain_bytes(uint64_t word)
{
    const uint64_t ones = 0x0101010101010101U, tops = 0x8080808080808080U;
    uint64_t quote = word ^ ones * '"', slash = word ^ ones * '\\';
    uint64_t found = (((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((word - ones * 32) & ~word)) & tops;
    return found ? lowest_bit(found) / 8 : 8;
}

/* Passes a text to behind its closing quote; gives its length, or -1 for one that has an escape, a control character or no
   end. It begins behind its opening quote. */
static int64_t plain_text(struct scan *s)
{
    const uint8_t *from = s->at, *at = from, *end = s->end;
    while (end - at >= 8) {
        int64_t plain = plain_bytes(word_at(at));
        at += plain;
        if (plain < 8)
            break;
    }
    while (at < end && *at != '"') {
        if (*at == '\\' || *at < 32)
            return -1;
        at++;
    }
    if (at == end)
        return -1;
    s->at = at + 1;
    return at - from;
}

struct number {
    uint64_t digits;
    int negative, count, fraction, exponent, is_integer;
};

/* Digits up to the first other byte; -1 where more than 18 count. They are read and counted without writing in between, because
   a byte that is read may be anything to the compiler. */
static inline int64_t pass_digits(struct scan *s, struct number *n)
{
    const uint8_t *from = s->at, *at = from, *end = s->end;
    uint64_t digits = n->digits;
    while (!digits && at < end && *at == '0')
        at++;
    const uint8_t *counts = at;
    for (; at < end && is_digit(*at); at++) {
        if (n->count + (at - counts) >= 18)
            return -1;
        digits = digits * 10 + (uint64_t)(*at - '0');
    }
    n->digits = digits;
    n->count += (int)(at - counts);
    s->at = at;
    return at - from;
}

/* A number of at most 18 digits that count, and an exponent of at most three. */
static int plain_number(struct scan *s, struct number *n)
{
    memset(n, 0, sizeof *n);
    n->negative = takes(s, '-');
    n->is_integer = 1;
    if (s->end - s->at > 1 && *s->at == '0' && is_digit(s->at[1]))
        return 0;
    if (pass_digits(s, n) <= 0)
        return 0;
    if (s->at < s->end && *s->at == '.') {
        s->at++;
        n->is_integer = 0;
        int64_t fraction = pass_digits(s, n);
        if (fraction <= 0 || fraction > 18)
            return 0;
        n->fraction = (int)fraction;
    }
    if (s->at < s->end && (*s->at == 'e' || *s->at == 'E')) {
        s->at++;
        n->is_integer = 0;
        int below = 0, length = 0;
        if (s->at < s->end && (*s->at == '+' || *s->at == '-'))
            below = *s->at++ == '-';
        for (; s->at < s->end && is_digit(*s->at); s->at++, length++) {
            if (length == 3)
                return 0;
            n->exponent = n->exponent * 10 + (*s->at - '0');
        }
        if (!length)
            return 0;
        n->exponent = below ? -n->exponent : n->exponent;
    }
    return 1;
}

/* Passes a value that nobody wants; 0 where it is not plain. */
static int pass_value(struct scan *s, int depth)
{
    struct number number;
    pass_blanks(s);
    if (s->at == s->end || depth > DEEPEST)
        return 0;
    switch (*s->at) {
    case '"':
        s->at++;
        return plain_text(s) >= 0;
    case 't': return takes_word(s, "true", 4);
    case 'f': return takes_word(s, "false", 5);
    case 'n': return takes_word(s, "null", 4);
    case '{':
    case '[': {
        uint8_t opening = *s->at++, closing = opening == '{' ? '}' : ']';
        pass_blanks(s);
        if (takes(s, closing))
            return 1;
        for (;;) {
            if (opening == '{') {
                pass_blanks(s);
                if (!takes(s, '"') || plain_text(s) < 0)
                    return 0;
                pass_blanks(s);
                if (!takes(s, ':'))
                    return 0;
            }
            if (!pass_value(s, depth + 1))
                return 0;
            pass_blanks(s);
            if (takes(s, closing))
                return 1;
            if (!takes(s, ','))
                return 0;
        }
    }
    default:
        return plain_number(s, &number) && number.exponent < 100 && number.exponent > -100;
    }
}

/* A number of few digits times a small power of ten is exact: one rounding makes the nearest value. */
static int add_real(uint8_t *arena, int64_t *column, const struct number *n)
{
    int power = n->exponent - n->fraction, size = power < 0 ? -power : power;
    /* -0 without a point is 0 to some. */
    if (n->negative && !n->digits && n->is_integer)
        return LEFT;
    if (column[KIND] == 4) {
        if (n->digits >= 1U << 24 || size > 10)
            return LEFT;
        float value = (float)n->digits;
        value = power < 0 ? value / FLOAT_TENS[size] : value * FLOAT_TENS[size];
        value = n->negative ? -value : value;
        return add(arena, column, 1, &value) ? LEFT : MADE;
    }
    if (n->digits >= (uint64_t)1 << 53 || size > 22)
        return LEFT;
    double value = (double)n->digits;
    value = power < 0 ? value / TENS[size] : value * TENS[size];
    value = n->negative ? -value : value;
    return add(arena, column, 1, &value) ? LEFT : MADE;
}

/* A: the digits of the fraction; B: below 10^B in all. */
static int add_decimal(uint8_t *arena, int64_t *column, const int64_t *node, const struct number *n)
{
    int64_t more = node[A] - n->fraction, digits = n->count;
    uint64_t value = n->digits, words[2];
    if (n->exponent || more < 0)
        return LEFT;
    if (value == 0)
        digits = more = 0;
    if (digits + more > 18 || digits + more > node[B])
        return LEFT;
    for (; more > 0; more--)
        value *= 10;
    words[0] = n->negative ? 0 - value : value;
    words[1] = n->negative && value ? UINT64_MAX : 0;
    return add_wide(arena, column, 1, words, 16) ? LEFT : MADE;
}

static int add_integer(uint8_t *arena, int64_t *column, const struct number *n)
{
    int64_t bits = column[KIND] * 8 - 1;
    uint64_t most = bits == 63 ? INT64_MAX : ((uint64_t)1 << bits) - 1;
    if (!n->is_integer || n->digits > most + (uint64_t)n->negative)
        return LEFT;
    return add_number(arena, column, (int64_t)(n->negative ? 0 - n->digits : n->digits)) ? LEFT : MADE;
}

static int add_value(struct scan *s, const int64_t *node, int64_t *columns, uint8_t *arena)
{
    int64_t *column = columns + node[TO] * COLUMN;
    struct number number;
    pass_blanks(s);
    if (s->at == s->end)
        return LEFT;
    if (*s->at == 'n')
        return takes_word(s, "null", 4) && !add(arena, column, 0, NULL) ? MADE : LEFT;
    switch (node[OPERATION]) {
    case TEXT: {
        if (!takes(s, '"'))
            return LEFT;
        const uint8_t *from = s->at;
        int64_t length = plain_text(s);
        return length >= 0 && !add_bytes(arena, column, from, length) ? MADE : LEFT;
    }
    case BOOLEAN: {
        int yes = *s->at == 't';
        if (!(yes ? takes_word(s, "true", 4) : takes_word(s, "false", 5)))
            return LEFT;
        return add_number(arena, column, yes) ? LEFT : MADE;
    }
    default:
        if (!plain_number(s, &number))
            return LEFT;
        return node[OPERATION] == INTEGER ? add_integer(arena, column, &number)
               : node[OPERATION] == REAL  ? add_real(arena, column, &number)
                                          : add_decimal(arena, column, node, &number);
    }
}

/* Whether the name of a column and the quote behind it come next, and passes them. The column had this place in an object
   before, so its name is plain text. */
static int takes_name(struct scan *s, const uint8_t *names, const int64_t *name_ends, int64_t column)
{
    int64_t from = column ? name_ends[column - 1] : 0, length = name_ends[column] - from;
    if (s->end - s->at <= length || s->at[length] != '"' || memcmp(s->at, names + from, (size_t)length) != 0)
        return 0;
    s->at += length + 1;
    return 1;
}

/* Which column has this name, -1 for none. */
static int64_t
column_of(const uint8_t *names, const int64_t *name_ends, int64_t count, const uint8_t *key, int64_t length)
{
    for (int64_t name = 0; name < count; name++) {
        int64_t from = name ? name_ends[name - 1] : 0;
        if (name_ends[name] - from == length && memcmp(names + from, key, (size_t)length) == 0)
            return name;
    }
    return -1;
}

/* Objects between `starts` and `ends`, one each. `nodes`: of each name what is done with its value, and the column. `seen` and
   `order` are for this function. state[i] is 1 for an object that is left alone: it adds nothing to the columns. Gives the
   number of those. */
KERNEL sqlengine_json_read(
    const uint8_t *data, int64_t size, const int64_t *starts, int64_t starts_size, const int64_t *ends, int64_t records,
    const uint8_t *names, int64_t names_size, const int64_t *name_ends, int64_t count, const int64_t *nodes,
    int64_t nodes_size, int64_t *columns, int64_t columns_size, uint8_t *arena, int64_t arena_size, int64_t *saved,
    int64_t saved_size, int64_t *seen, int64_t seen_size, int64_t *order, int64_t order_size, uint8_t *state,
    int64_t state_size)
{
    int64_t left = 0, at = 0;
    if (starts_size != records || state_size != records || nodes_size % NODE || nodes_size / NODE != count ||
        columns_size % COLUMN || columns_size / COLUMN != count || saved_size % 3 || saved_size / 3 != count ||
        seen_size != count || order_size != MOST_KEYS || !are_columns(columns, count, arena_size))
        return MISFIT;
    for (int64_t i = 0; i < count; i++) {
        const int64_t *node = nodes + i * NODE;
        if (name_ends[i] < at || name_ends[i] > names_size || !within(node[OPERATION], OPERATIONS) || !within(node[TO], count) ||
            !within(node[A], 39) || !within(node[B], 39))
            return MISFIT;
        at = name_ends[i];
        int64_t kind = columns[node[TO] * COLUMN + KIND];
        if (node[OPERATION] == INTEGER ? kind < 1 || kind > 8
            : node[OPERATION] == REAL  ? kind != 4 && kind != 8
            : node[OPERATION] == TEXT  ? kind != STRINGS
            : node[OPERATION] == BOOLEAN ? kind != 1
                                         : kind != 16)
            return MISFIT;
        seen[i] = -1;
    }
    for (int64_t row = 0; row < records; row++) {
        if (!within(ends[row], size + 1) || !within(starts[row], ends[row] + 1))
            return OUTSIDE(row);
        for (int64_t i = 0; i < count; i++)
            memcpy(saved + 3 * i, columns + i * COLUMN + COUNT, 3 * sizeof(int64_t));
        struct scan s = {data + starts[row], data + ends[row]};
        int plain = is_text(s.at, s.end) && takes(&s, '{'), key_number = 0;
        pass_blanks(&s);
        if (plain && !takes(&s, '}'))
            for (;; key_number += key_number < MOST_KEYS - 1) {
                pass_blanks(&s);
                if (!takes(&s, '"')) {
                    plain = 0;
                    break;
                }
                int64_t name = order[key_number];
                if (!within(name, count) || !takes_name(&s, names, name_ends, name)) {
                    const uint8_t *key = s.at;
                    int64_t length = plain_text(&s);
                    if (length < 0) {
                        plain = 0;
                        break;
                    }
                    order[key_number] = name = column_of(names, name_ends, count, key, length);
                }
                pass_blanks(&s);
                if (!takes(&s, ':')) {
                    plain = 0;
                    break;
                }
                if (name < 0 ? !pass_value(&s, 0)
                             : seen[name] == row || add_value(&s, nodes + name * NODE, columns, arena) != MADE) {
                    plain = 0;
                    break;
                }
                if (name >= 0)
                    seen[name] = row;
                pass_blanks(&s);
                if (takes(&s, '}'))
                    break;
                if (!takes(&s, ',')) {
                    plain = 0;
                    break;
                }
            }
        pass_blanks(&s);
        plain = plain && s.at == s.end;
        for (int64_t i = 0; plain && i < count; i++)
            if (seen[i] != row)
                plain = !add(arena, columns + nodes[i * NODE + TO] * COLUMN, 0, NULL);
        if (!plain) {
            for (int64_t i = 0; i < count; i++)
                memcpy(columns + i * COLUMN + COUNT, saved + 3 * i, 3 * sizeof(int64_t));
            left++;
        }
        state[row] = (uint8_t)!plain;
    }
    return left;
}
