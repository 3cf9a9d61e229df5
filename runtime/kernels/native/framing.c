/* Rows as messages: a head, and the values of each column behind their lengths, or before a delimiter.

   Columns are written one after the other: `at` says where the next value of each row goes, and is moved on. */

#include <string.h>

#include "kernel.h"

static inline void put_int32(uint8_t *out, int64_t value)
{
    out[0] = (uint8_t)(value >> 24);
    out[1] = (uint8_t)(value >> 16);
    out[2] = (uint8_t)(value >> 8);
    out[3] = (uint8_t)value;
}

/* The head of each row: its type, its length without the type, and what is the same in all. */
KERNEL sqlengine_frame_heads(
    const int64_t *starts, int64_t starts_size, int64_t type, const uint8_t *same, int64_t same_size, uint8_t *out,
    int64_t out_size)
{
    for (int64_t i = 0; i + 1 < starts_size; i++) {
        if (!within(starts[i], out_size) || !within(starts[i + 1], out_size + 1) ||
            starts[i + 1] - starts[i] < 5 + same_size)
            return OUTSIDE(i);
        uint8_t *head = out + starts[i];
        head[0] = (uint8_t)type;
        put_int32(head + 1, starts[i + 1] - starts[i] - 1);
        memcpy(head + 5, same, (size_t)same_size);
    }
    return 0;
}

/* Whether a value lies in its bytes, and `room` bytes and it at its place. */
static inline int fits(const int64_t *offsets, int64_t i, int64_t size, int64_t at, int64_t room, int64_t out_size)
{
    int64_t from = offsets[i], to = offsets[i + 1];
    return (uint64_t)from <= (uint64_t)to && (uint64_t)to <= (uint64_t)size && within(at, out_size + 1) &&
           out_size - at >= room && out_size - at - room >= to - from;
}

/* Each value behind its length in four bytes; one that is not valid is the length -1. No `valid`: all are. */
KERNEL sqlengine_frame_values(
    const int64_t *offsets, int64_t offsets_size, const uint8_t *bytes, int64_t size, const uint8_t *valid, int64_t valid_size,
    int64_t *at, int64_t at_size, uint8_t *out, int64_t out_size)
{
    if (offsets_size != at_size + 1 || (valid_size != 0 && valid_size != at_size))
        return MISFIT;
    for (int64_t i = 0; i < at_size; i++) {
        if (valid_size != 0 && !valid[i]) {
            if (!within(at[i], out_size + 1) || out_size - at[i] < 4)
                return OUTSIDE(i);
            put_int32(out + at[i], -1);
            at[i] += 4;
            continue;
        }
        if (!fits(offsets, i, size, at[i], 4, out_size))
            return OUTSIDE(i);
        int64_t length = offsets[i + 1] - offsets[i];
        put_int32(out + at[i], length);
        memcpy(out + at[i] + 4, bytes + offsets[i], (size_t)length);
        at[i] += 4 + length;
    }
    return 0;
}

/* Each value before a delimiter of one byte. */
KERNEL sqlengine_delimit_values(
    const int64_t *offsets, int64_t offsets_size, const uint8_t *bytes, int64_t size, int64_t delimiter, int64_t *at,
    int64_t at_size, uint8_t *out, int64_t out_size)
{
    if (offsets_size != at_size + 1)
        return MISFIT;
    for (int64_t i = 0; i < at_size; i++) {
        if (!fits(offsets, i, size, at[i], 1, out_size))
            return OUTSIDE(i);
        int64_t length = offsets[i + 1] - offsets[i];
        memcpy(out + at[i], bytes + offsets[i], (size_t)length);
        out[at[i] + length] = (uint8_t)delimiter;
        at[i] += length + 1;
    }
    return 0;
}
