/* Columns that kernels fill within one arena: runtime/kernels/column_filling.py. */
#ifndef SQLENGINE_COLUMNS_H
#define SQLENGINE_COLUMNS_H

#include <string.h>

#include "kernel.h"

#define COLUMN 12
/* The words of a column, and its kinds that are no width in bytes. */
enum { KIND, VALID_AT, VALUES_AT, ROOM, DATA_AT, DATA_ROOM, COUNT, DATA_USED, NULLS, WANTED, DATA_WANTED };
enum { STRUCT = 0, STRINGS = -1, LISTS = -2 };
/* What adding to a column gives: it is done, a string is larger than a column may be, or there is no room. */
#define ADDED 0
#define TOO_LARGE 12
#define FULL (-1)

static inline int is_text(const uint8_t *at, const uint8_t *end)
{
    while (at < end) {
        while (end - at >= 32) {
            uint64_t words[4];
            memcpy(words, at, 32);
            if ((words[0] | words[1] | words[2] | words[3]) & 0x8080808080808080U)
                break;
            at += 32;
        }
        while (end - at >= 8) {
            uint64_t word;
            memcpy(&word, at, 8);
            if (word & 0x8080808080808080U)
                break;
            at += 8;
        }
        if (at == end)
            return 1;
        uint8_t byte = *at++;
        if (byte < 128)
            continue;
        int more = byte >= 0xC2 && byte < 0xE0 ? 1 : byte >= 0xE0 && byte < 0xF0 ? 2 : byte >= 0xF0 && byte < 0xF5 ? 3 : 0;
        if (!more || end - at < more)
            return 0;
        /* No form that is longer than needed, no half of a pair, nothing beyond U+10FFFF. */
        uint8_t least = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80, most = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
        if (*at < least || *at > most)
            return 0;
        for (int i = 1; i < more; i++)
            if ((at[i] & 0xC0) != 0x80)
                return 0;
        at += more;
    }
    return 1;
}

/* One more item of a column of values: `width` bytes, or zeros for NULL. It reads the column once, because what is written to
   the arena may be anything to the compiler. */
static inline int add_wide(uint8_t *arena, int64_t *column, int valid, const void *value, size_t width)
{
    int64_t count = column[COUNT];
    if (count >= column[ROOM]) {
        column[WANTED] = count + 1;
        return FULL;
    }
    uint8_t *flag = arena + column[VALID_AT] + count, *to = arena + column[VALUES_AT] + count * (int64_t)width;
    column[NULLS] += !valid;
    column[COUNT] = count + 1;
    *flag = (uint8_t)valid;
    if (value)
        memcpy(to, value, width);
    else
        memset(to, 0, width);
    return ADDED;
}

/* One more item of a column: a value, or NULL, which takes the room of a value of zeros. */
static inline int add(uint8_t *arena, int64_t *column, int valid, const void *value)
{
    switch (column[KIND]) {
    case 1: return add_wide(arena, column, valid, value, 1);
    case 2: return add_wide(arena, column, valid, value, 2);
    case 4: return add_wide(arena, column, valid, value, 4);
    case 8: return add_wide(arena, column, valid, value, 8);
    default: break;
    }
    if (column[KIND] > 0)
        return add_wide(arena, column, valid, value, (size_t)column[KIND]);
    int64_t count = column[COUNT];
    if (count >= column[ROOM]) {
        column[WANTED] = count + 1;
        return FULL;
    }
    uint8_t *flag = arena + column[VALID_AT] + count, *to = arena + column[VALUES_AT] + 4 * (count + 1);
    int32_t end = (int32_t)column[DATA_USED];
    int has_ends = column[KIND] != STRUCT;
    column[NULLS] += !valid;
    column[COUNT] = count + 1;
    *flag = (uint8_t)valid;
    if (has_ends)
        memcpy(to, &end, 4);
    return ADDED;
}

/* Of a number the lowest bytes, as many as the column has. */
static inline int add_number(uint8_t *arena, int64_t *column, int64_t number)
{
    int8_t small = (int8_t)number;
    int16_t two = (int16_t)number;
    int32_t four = (int32_t)number;
    switch (column[KIND]) {
    case 1: return add_wide(arena, column, 1, &small, 1);
    case 2: return add_wide(arena, column, 1, &two, 2);
    case 4: return add_wide(arena, column, 1, &four, 4);
    case 8: return add_wide(arena, column, 1, &number, 8);
    default: return add(arena, column, 1, &number);
    }
}

static inline int add_float(uint8_t *arena, int64_t *column, double number)
{
    float narrow = (float)number;
    return column[KIND] == 4 ? add_wide(arena, column, 1, &narrow, 4) : add(arena, column, 1, &number);
}

static inline int add_bytes(uint8_t *arena, int64_t *column, const uint8_t *from, int64_t length)
{
    int64_t used = column[DATA_USED];
    if (used + length > INT32_MAX)
        return TOO_LARGE;
    if (length > column[DATA_ROOM] - used) {
        column[DATA_WANTED] = used + length;
        return FULL;
    }
    if (column[COUNT] >= column[ROOM]) {
        column[WANTED] = column[COUNT] + 1;
        return FULL;
    }
    if (length)
        memcpy(arena + column[DATA_AT] + used, from, (size_t)length);
    column[DATA_USED] = used + length;
    return add(arena, column, 1, NULL);
}

/* Whether the columns lie within the arena, and what they have within their room. */
static inline int are_columns(const int64_t *columns, int64_t count, int64_t arena_size)
{
    for (const int64_t *c = columns; c < columns + count * COLUMN; c += COLUMN) {
        int64_t kind = c[KIND], width = kind > 0 ? kind : 4;
        if (kind != STRUCT && kind != STRINGS && kind != LISTS && kind != 1 && kind != 2 && kind != 4 && kind != 8 && kind != 16)
            return 0;
        if (!within(c[ROOM], arena_size + 1) || !within(c[COUNT], c[ROOM] + 1) || !within(c[VALID_AT], arena_size - c[ROOM] + 1))
            return 0;
        if (kind != STRUCT && (c[ROOM] >= arena_size / width || !within(c[VALUES_AT], arena_size - (c[ROOM] + 1) * width + 1)))
            return 0;
        if (!within(c[DATA_ROOM], arena_size + 1) || !within(c[DATA_AT], arena_size - c[DATA_ROOM] + 1))
            return 0;
        if (!within(c[DATA_USED], kind == STRINGS ? c[DATA_ROOM] + 1 : (int64_t)INT32_MAX + 1))
            return 0;
    }
    return 1;
}

#endif
