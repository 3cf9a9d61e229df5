/* VARIANT as canonical JSON text: runtime/kernels/variants.py, where the form is told. Texts are bytes one after the other,
   text i from offsets[i] to offsets[i + 1]. What a kernel writes is never longer than what it reads. */

#include <stdlib.h>
#include <string.h>

#include "kernel.h"

/* What became of a row: `runtime/kernels/variants.py` has the same numbers. */
#define MADE 0
#define WRONG 1
#define REPEATED 2
#define LEFT 3
#define SKIPPED (-1)

#define MOST_LEVELS 500
#define MOST_DIGITS 38
#define FEW_MEMBERS 12

typedef struct {
    const uint8_t *text;
    size_t key_size, size, number;
} Member;

typedef struct {
    const uint8_t *at, *end;
    uint8_t *out;
    int repeats, floats;
    Member *members;
    size_t used, room;
    uint8_t *scratch;
    size_t scratch_size;
} Reader;

static void skip_space(Reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

static int is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static int32_t hex4(const uint8_t *at)
{
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t c = at[i];
        int digit = is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static void put_character(Reader *r, uint32_t c)
{
    static const char digits[] = "0123456789ABCDEF";
    if (c < 0x20) {
        const char *found = strchr("\bb\ff\nn\rr\tt", (int)c);
        *r->out++ = '\\';
        if (c && found) {
            *r->out++ = (uint8_t)found[1];
            return;
        }
        memcpy(r->out, "u00", 3);
        r->out[3] = (uint8_t)digits[c >> 4];
        r->out[4] = (uint8_t)digits[c & 15];
        r->out += 5;
    } else if (c < 0x80) {
        if (c == '"' || c == '\\')
            *r->out++ = '\\';
        *r->out++ = (uint8_t)c;
    } else if (c < 0x800) {
        *r->out++ = (uint8_t)(0xC0 | c >> 6);
        *r->out++ = (uint8_t)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *r->out++ = (uint8_t)(0xE0 | c >> 12);
        *r->out++ = (uint8_t)(0x80 | (c >> 6 & 63));
        *r->out++ = (uint8_t)(0x80 | (c & 63));
    } else {
        *r->out++ = (uint8_t)(0xF0 | c >> 18);
        *r->out++ = (uint8_t)(0x80 | (c >> 12 & 63));
        *r->out++ = (uint8_t)(0x80 | (c >> 6 & 63));
        *r->out++ = (uint8_t)(0x80 | (c & 63));
    }
}

/* A string, from its first quote on. */
static int read_string(Reader *r)
{
    *r->out++ = *r->at++;
    while (r->at < r->end) {
        const uint8_t *from = r->at;
        while (r->at < r->end && *r->at != '"' && *r->at != '\\' && *r->at >= 0x20)
            r->at++;
        memmove(r->out, from, (size_t)(r->at - from));
        r->out += r->at - from;
        if (r->at == r->end || *r->at < 0x20)
            return WRONG;
        if (*r->at == '"') {
            *r->out++ = *r->at++;
            return MADE;
        }
        if (r->end - r->at < 2)
            return WRONG;
        uint8_t escaped = r->at[1];
        r->at += 2;
        if (escaped == '/')
            *r->out++ = '/';
        else if (escaped && strchr("\"\\bfnrt", escaped)) {
            *r->out++ = '\\';
            *r->out++ = escaped;
        } else if (escaped == 'u') {
            int32_t unit = r->end - r->at < 4 ? -1 : hex4(r->at);
            if (unit < 0)
                return WRONG;
            r->at += 4;
            uint32_t c = (uint32_t)unit;
            if (c >= 0xD800 && c < 0xE000) {
                int32_t low = c < 0xDC00 && r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u' ? hex4(r->at + 2) : -1;
                if (low >= 0xDC00 && low < 0xE000) {
                    c = 0x10000 + ((c - 0xD800) << 10) + ((uint32_t)low - 0xDC00);
                    r->at += 6;
                } else
                    c = '?';
            }
            put_character(r, c);
        } else
            return WRONG;
    }
    return WRONG;
}

/* An integer or a fraction; what must be a DOUBLE is left. */
static int read_number(Reader *r)
{
    const uint8_t *start = r->at, *whole, *point = NULL, *last;
    if (*r->at == '-')
        r->at++;
    whole = r->at;
    while (r->at < r->end && is_digit(*r->at))
        r->at++;
    last = r->at;
    if (last == whole || (*whole == '0' && last - whole > 1))
        return WRONG;
    if (r->at < r->end && *r->at == '.') {
        point = r->at++;
        while (r->at < r->end && is_digit(*r->at))
            r->at++;
        last = r->at;
        if (last == point + 1)
            return WRONG;
    }
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E'))
        return LEFT;
    const uint8_t *first = whole;
    while (first < last && (*first == '0' || *first == '.'))
        first++;
    if (last - first - (point && first < point ? 1 : 0) > MOST_DIGITS || (point && last - point - 1 > MOST_DIGITS))
        return LEFT;
    if (point) {
        while (last[-1] == '0')
            last--;
        if (last == point + 1) {
            if (r->floats)
                return LEFT;
            last = point;
        }
    }
    if (first >= last) {
        *r->out++ = '0';
        return MADE;
    }
    memmove(r->out, start, (size_t)(last - start));
    r->out += last - start;
    return MADE;
}

static int read_word(Reader *r)
{
    static const char *const words[] = {"null", "true", "false"};
    for (int i = 0; i < 3; i++) {
        size_t size = strlen(words[i]);
        if ((size_t)(r->end - r->at) >= size && memcmp(r->at, words[i], size) == 0) {
            memcpy(r->out, words[i], size);
            r->out += size;
            r->at += size;
            return MADE;
        }
    }
    return WRONG;
}

static int by_key(const void *a, const void *b)
{
    const Member *x = a, *y = b;
    size_t size = x->key_size < y->key_size ? x->key_size : y->key_size;
    int order = memcmp(x->text, y->text, size);
    if (order)
        return order;
    if (x->key_size != y->key_size)
        return x->key_size < y->key_size ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static int same_key(const Member *a, const Member *b)
{
    return a->key_size == b->key_size && memcmp(a->text, b->text, a->key_size) == 0;
}

/* Puts the members that were written behind `begin` in order of their keys; of equal keys the last one stays. */
static int order_members(Reader *r, size_t first, uint8_t *begin)
{
    Member *members = r->members + first;
    size_t count = r->used - first;
    int ordered = 1;
    for (size_t i = 1; i < count && ordered; i++)
        ordered = by_key(members + i - 1, members + i) < 0 && !same_key(members + i - 1, members + i);
    if (ordered)
        return MADE;
    if (count <= FEW_MEMBERS)
        for (size_t i = 1; i < count; i++) {
            Member moved = members[i];
            size_t to = i;
            for (; to > 0 && by_key(members + to - 1, &moved) > 0; to--)
                members[to] = members[to - 1];
            members[to] = moved;
        }
    else
        qsort(members, count, sizeof *members, by_key);
    size_t size = (size_t)(r->out - begin);
    if (size > r->scratch_size) {
        uint8_t *grown = realloc(r->scratch, size);
        if (!grown)
            return (int)NO_MEMORY;
        r->scratch = grown;
        r->scratch_size = size;
    }
    uint8_t *to = r->scratch;
    for (size_t i = 0; i < count; i++) {
        if (i + 1 < count && same_key(members + i, members + i + 1)) {
            if (!r->repeats)
                return REPEATED;
            continue;
        }
        if (to > r->scratch)
            *to++ = ',';
        memcpy(to, members[i].text, members[i].size);
        to += members[i].size;
    }
    memcpy(begin, r->scratch, (size_t)(to - r->scratch));
    r->out = begin + (to - r->scratch);
    return MADE;
}

static int read_value(Reader *r, int level);

static int read_object(Reader *r, int level)
{
    size_t first = r->used;
    *r->out++ = *r->at++;
    uint8_t *begin = r->out;
    skip_space(r);
    if (r->at < r->end && *r->at == '}') {
        *r->out++ = *r->at++;
        return MADE;
    }
    for (;;) {
        uint8_t *text = r->out;
        skip_space(r);
        if (r->at == r->end || *r->at != '"')
            return WRONG;
        int failed = read_string(r);
        if (failed)
            return failed;
        size_t key_size = (size_t)(r->out - text);
        skip_space(r);
        if (r->at == r->end || *r->at != ':')
            return WRONG;
        *r->out++ = *r->at++;
        failed = read_value(r, level);
        if (failed)
            return failed;
        if (r->used == r->room) {
            size_t room = r->room ? 2 * r->room : 64;
            Member *grown = realloc(r->members, room * sizeof *grown);
            if (!grown)
                return (int)NO_MEMORY;
            r->members = grown;
            r->room = room;
        }
        /* The key without its last quote, which would be greater than the letters of a longer key. */
        r->members[r->used] = (Member){text, key_size - 1, (size_t)(r->out - text), r->used};
        r->used++;
        skip_space(r);
        if (r->at == r->end)
            return WRONG;
        if (*r->at == '}')
            break;
        if (*r->at != ',')
            return WRONG;
        *r->out++ = *r->at++;
    }
    r->at++;
    int failed = order_members(r, first, begin);
    r->used = first;
    *r->out++ = '}';
    return failed;
}

static int read_array(Reader *r, int level)
{
    *r->out++ = *r->at++;
    skip_space(r);
    if (r->at < r->end && *r->at == ']') {
        *r->out++ = *r->at++;
        return MADE;
    }
    for (;;) {
        int failed = read_value(r, level);
        if (failed)
            return failed;
        skip_space(r);
        if (r->at == r->end)
            return WRONG;
        uint8_t c = *r->out++ = *r->at++;
        if (c == ']')
            return MADE;
        if (c != ',')
            return WRONG;
    }
}

static int read_value(Reader *r, int level)
{
    skip_space(r);
    if (r->at == r->end || level > MOST_LEVELS)
        return WRONG;
    switch (*r->at) {
    case '{':
        return read_object(r, level + 1);
    case '[':
        return read_array(r, level + 1);
    case '"':
        return read_string(r);
    case 'n':
    case 't':
    case 'f':
        return read_word(r);
    default:
        return is_digit(*r->at) || *r->at == '-' ? read_number(r) : WRONG;
    }
}

/* Whether a text may end where a value does: behind numbers and words only space may follow, as in Jackson. */
static int ends_well(const Reader *r)
{
    return r->at == r->end || strchr("\"]}", r->at[-1]) || *r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r';
}

/* The canonical forms of JSON texts; with `floats`, numbers such as 1.0 are DOUBLE, too. `state` says of each row what became of it, and of rows that are SKIPPED before. */
KERNEL sqlengine_parse_variants(
    const uint8_t *bytes, int64_t size, const int64_t *offsets, int64_t offsets_size, const uint8_t *repeats,
    int64_t repeats_size, int64_t floats, uint8_t *out, int64_t out_size, int64_t *ends, int64_t rows, int8_t *state, int64_t state_size)
{
    if (offsets_size != rows + 1 || state_size != rows || repeats_size != rows || out_size < size)
        return MISFIT;
    Reader r = {0};
    int64_t result = 0;
    r.out = out;
    r.floats = floats != 0;
    for (int64_t i = 0; i < rows; i++) {
        if (!within(offsets[i], size + 1) || !within(offsets[i + 1], size + 1) || offsets[i] > offsets[i + 1]
            || offsets[i] < (int64_t)(r.out - out)) {
            result = OUTSIDE(i);
            break;
        }
        uint8_t *begin = r.out;
        if (state[i] != SKIPPED) {
            r.at = bytes + offsets[i];
            r.end = bytes + offsets[i + 1];
            r.repeats = repeats[i];
            r.used = 0;
            int made = read_value(&r, 0);
            if (made == (int)NO_MEMORY) {
                result = NO_MEMORY;
                break;
            }
            if (made == MADE && !ends_well(&r))
                made = WRONG;
            state[i] = (int8_t)made;
            if (made != MADE)
                r.out = begin;
        }
        ends[i] = (int64_t)(r.out - out);
    }
    free(r.members);
    free(r.scratch);
    return result;
}

/* Behind the canonical value that begins at `at`. */
static const uint8_t *behind(const uint8_t *at, const uint8_t *end)
{
    int64_t level = 0;
    for (; at < end; at++) {
        if (*at == '"') {
            for (at++; at < end && *at != '"'; at++)
                at += *at == '\\';
            if (at >= end)
                return end;
        } else if (*at == '{' || *at == '[')
            level++;
        else if (*at == '}' || *at == ']') {
            if (level == 0)
                return at;
            level--;
        } else if (*at == ',' || *at == ':') {
            if (level == 0)
                return at;
        }
    }
    return end;
}

/* The values of the member `keys` (one for all rows, or one for each) of objects; a key is written as in the texts, with
   its quotes. MADE, WRONG where there is no such member, LEFT where the value is no object. */
KERNEL sqlengine_variant_members(
    const uint8_t *bytes, int64_t size, const int64_t *offsets, int64_t offsets_size, const uint8_t *keys, int64_t keys_size,
    const int64_t *key_offsets, int64_t key_offsets_size, uint8_t *out, int64_t out_size, int64_t *ends, int64_t rows,
    int8_t *state, int64_t state_size)
{
    if (offsets_size != rows + 1 || state_size != rows || out_size < size
        || (key_offsets_size != 2 && key_offsets_size != rows + 1))
        return MISFIT;
    int64_t used = 0;
    for (int64_t i = 0; i < rows; i++) {
        int64_t k = key_offsets_size == 2 ? 0 : i;
        if (!within(offsets[i], size + 1) || !within(offsets[i + 1], size + 1) || offsets[i] > offsets[i + 1]
            || !within(key_offsets[k], keys_size + 1) || !within(key_offsets[k + 1], keys_size + 1)
            || key_offsets[k] > key_offsets[k + 1] || offsets[i] < used)
            return OUTSIDE(i);
        if (state[i] != SKIPPED) {
            const uint8_t *at = bytes + offsets[i], *end = bytes + offsets[i + 1], *key = keys + key_offsets[k];
            size_t key_size = (size_t)(key_offsets[k + 1] - key_offsets[k]);
            state[i] = at < end && *at == '{' ? WRONG : LEFT;
            while (state[i] == WRONG && at < end && *at != '}') {
                const uint8_t *name = at + 1, *colon = behind(name, end);
                const uint8_t *value = colon < end ? colon + 1 : end;
                at = behind(value, end);
                if ((size_t)(colon - name) == key_size && memcmp(name, key, key_size) == 0) {
                    memcpy(out + used, value, (size_t)(at - value));
                    used += at - value;
                    state[i] = MADE;
                }
            }
        }
        ends[i] = used;
    }
    return 0;
}

/* The elements `places` (from 1; one for all rows, or one for each) of arrays. MADE, WRONG where there is no such element,
   LEFT where the value is no array. */
KERNEL sqlengine_variant_elements(
    const uint8_t *bytes, int64_t size, const int64_t *offsets, int64_t offsets_size, const int64_t *places,
    int64_t places_size, uint8_t *out, int64_t out_size, int64_t *ends, int64_t rows, int8_t *state, int64_t state_size)
{
    if (offsets_size != rows + 1 || state_size != rows || out_size < size || (places_size != 1 && places_size != rows))
        return MISFIT;
    int64_t used = 0;
    for (int64_t i = 0; i < rows; i++) {
        if (!within(offsets[i], size + 1) || !within(offsets[i + 1], size + 1) || offsets[i] > offsets[i + 1]
            || offsets[i] < used)
            return OUTSIDE(i);
        if (state[i] != SKIPPED) {
            const uint8_t *at = bytes + offsets[i], *end = bytes + offsets[i + 1];
            int64_t place = places[places_size == 1 ? 0 : i], number = 0;
            state[i] = at < end && *at == '[' ? WRONG : LEFT;
            while (state[i] == WRONG && at + 1 < end && *at != ']' && at[1] != ']') {
                const uint8_t *value = at + 1;
                at = behind(value, end);
                if (++number == place) {
                    memcpy(out + used, value, (size_t)(at - value));
                    used += at - value;
                    state[i] = MADE;
                }
            }
        }
        ends[i] = used;
    }
    return 0;
}

/* The values within arrays (`opening` is '[') or objects ('{') one after the other, and the keys of objects with their
   quotes; how many each row has in `counts`, -1 for another kind of value. Without room for `ends` it only counts.
   The number of all. */
KERNEL sqlengine_variant_parts(
    const uint8_t *bytes, int64_t size, const int64_t *offsets, int64_t offsets_size, int64_t opening, int64_t *counts,
    int64_t rows, uint8_t *out, int64_t out_size, int64_t *ends, int64_t parts, uint8_t *keys, int64_t keys_size,
    int64_t *key_ends, int64_t key_parts)
{
    int named = opening == '{';
    if (offsets_size != rows + 1 || (parts && (out_size < size || (named && (keys_size < size || key_parts != parts)))))
        return MISFIT;
    int64_t used = 0, key_used = 0, number = 0, before = 0;
    for (int64_t i = 0; i < rows; i++) {
        if (!within(offsets[i], size + 1) || !within(offsets[i + 1], size + 1) || offsets[i] > offsets[i + 1]
            || offsets[i] < before)
            return OUTSIDE(i);
        before = offsets[i + 1];
        const uint8_t *at = bytes + offsets[i], *end = bytes + offsets[i + 1];
        int right = at < end && *at == opening;
        int64_t first = number;
        while (right && at + 1 < end && *at != opening + 2 && at[1] != opening + 2) {
            const uint8_t *value = at + 1;
            if (named) {
                const uint8_t *name = value;
                value = behind(name, end);
                if (parts) {
                    if (number >= parts)
                        return MISFIT;
                    memcpy(keys + key_used, name, (size_t)(value - name));
                    key_used += value - name;
                    key_ends[number] = key_used;
                }
                value += value < end;
            }
            at = behind(value, end);
            if (parts) {
                if (number >= parts)
                    return MISFIT;
                memcpy(out + used, value, (size_t)(at - value));
                used += at - value;
                ends[number] = used;
            }
            number++;
        }
        counts[i] = right ? number - first : -1;
    }
    return number;
}
