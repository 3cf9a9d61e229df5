/* Columns that kernels write as messages, within one block of bytes: runtime/kernels/written_columns.py. */
#ifndef SQLENGINE_WRITTEN_H
#define SQLENGINE_WRITTEN_H

#include <string.h>

#include "kernel.h"

#define COLUMN 6
/* The words of a column: bytes of a value (0: none, -1: offsets), where its flags (-1: none), values and bytes are, and how many. */
enum { WIDTH, VALID_AT, VALUES_AT, COUNT, DATA_AT, DATA_SIZE };

static inline int64_t number_at(const uint8_t *from, int64_t width)
{
    int8_t one;
    int16_t two;
    int32_t four;
    int64_t eight;
    switch (width) {
    case 1: memcpy(&one, from, 1); return one;
    case 2: memcpy(&two, from, 2); return two;
    case 4: memcpy(&four, from, 4); return four;
    default: memcpy(&eight, from, 8); return eight;
    }
}

/* Whether the columns lie within the block. */
static inline int are_columns(const int64_t *columns, int64_t count, int64_t size)
{
    for (const int64_t *c = columns; c < columns + count * COLUMN; c += COLUMN) {
        int64_t width = c[WIDTH], each = width < 0 ? 8 : width;
        if (width != 0 && width != -1 && width != 1 && width != 2 && width != 4 && width != 8 && width != 16)
            return 0;
        if (c[COUNT] < 0 || c[COUNT] == INT64_MAX || (c[VALID_AT] >= 0 && (!within(c[VALID_AT], size + 1) || c[COUNT] > size - c[VALID_AT])))
            return 0;
        if (each && (!within(c[VALUES_AT], size + 1) || c[COUNT] + (width < 0) > (size - c[VALUES_AT]) / each))
            return 0;
        if (!within(c[DATA_SIZE], size + 1) || !within(c[DATA_AT], size - c[DATA_SIZE] + 1))
            return 0;
    }
    return 1;
}

#endif
