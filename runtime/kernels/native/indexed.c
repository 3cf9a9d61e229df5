/* Reads and writes at slots: runtime/kernels/indexed.py. */

#include <string.h>

#include "kernel.h"

#define FOR_EACH_SLOT(BODY)                  \
    for (int64_t i = 0; i < count; i++) {    \
        int64_t slot = slots[i];             \
        if (!within(slot, size))             \
            return OUTSIDE(i);               \
        BODY;                                \
    }                                        \
    return 0;

/* Copies of a width that the compiler knows are one instruction, wherever the items lie. */
#define BY_WIDTH(COPY)       \
    switch (width) {         \
    case 1:                  \
        COPY(1)              \
    case 2:                  \
        COPY(2)              \
    case 4:                  \
        COPY(4)              \
    case 8:                  \
        COPY(8)              \
    default:                 \
        COPY((size_t)width)  \
    }

/* target[slots[i]] = values[i], the last one of equal slots stays; items of `width` bytes. */
KERNEL sqlengine_put_at(
    uint8_t *target, int64_t target_size, const int64_t *slots, int64_t count, const uint8_t *values, int64_t values_size,
    int64_t width)
{
    int64_t size = width > 0 ? rows_of(target_size, width) : -1;
    if (size < 0 || !is_matrix(values_size, count, width))
        return MISFIT;
#define PUT(WIDTH) FOR_EACH_SLOT(memcpy(target + slot * width, values + i * width, WIDTH))
    BY_WIDTH(PUT)
}

/* target[slots[i]] = value, of one item. */
KERNEL sqlengine_fill_at(
    uint8_t *target, int64_t target_size, const int64_t *slots, int64_t count, const uint8_t *value, int64_t width)
{
    int64_t size = width > 0 ? rows_of(target_size, width) : -1;
    if (size < 0)
        return MISFIT;
/* A copy of the value is known not to change while the target is written. */
#define FILL(WIDTH)                  \
    {                                \
        uint8_t item[WIDTH];         \
        memcpy(item, value, WIDTH);  \
        FOR_EACH_SLOT(memcpy(target + slot * width, item, WIDTH))  \
    }
    switch (width) {
    case 1:
        FILL(1)
    case 2:
        FILL(2)
    case 4:
        FILL(4)
    case 8:
        FILL(8)
    default:
        FOR_EACH_SLOT(memcpy(target + slot * width, value, (size_t)width))
    }
}

/* out[i] = values[slots[i]]; zero at slots outside. */
KERNEL sqlengine_take_at(
    const uint8_t *values, int64_t values_size, const int64_t *slots, int64_t count, uint8_t *out, int64_t out_size,
    int64_t width)
{
    int64_t size = width > 0 ? rows_of(values_size, width) : -1;
    if (size < 0 || !is_matrix(out_size, count, width))
        return MISFIT;
#define TAKE(WIDTH)                                                     \
    for (int64_t i = 0; i < count; i++)                                 \
        if (within(slots[i], size))                                     \
            memcpy(out + i * width, values + slots[i] * width, WIDTH);  \
        else                                                            \
            memset(out + i * width, 0, WIDTH);                          \
    return 0;
    BY_WIDTH(TAKE)
}

/* Integers wrap: their sums are computed without a sign. */
KERNEL sqlengine_add_integers_at(
    uint64_t *target, int64_t size, const int64_t *slots, int64_t count, const uint64_t *values, int64_t values_size)
{
    if (values_size != count)
        return MISFIT;
    FOR_EACH_SLOT(target[slot] += values[i])
}

KERNEL sqlengine_add_signs_at(
    uint64_t *target, int64_t size, const int64_t *slots, int64_t count, const int8_t *values, int64_t values_size)
{
    if (values_size != count)
        return MISFIT;
    FOR_EACH_SLOT(target[slot] += (uint64_t)(int64_t)values[i])
}

KERNEL sqlengine_count_at(uint64_t *target, int64_t size, const int64_t *slots, int64_t count)
{
    FOR_EACH_SLOT(target[slot] += 1)
}

KERNEL sqlengine_add_floats_at(
    double *target, int64_t size, const int64_t *slots, int64_t count, const double *values, int64_t values_size)
{
    if (values_size != count)
        return MISFIT;
    FOR_EACH_SLOT(target[slot] += values[i])
}

KERNEL sqlengine_least_at(
    int64_t *target, int64_t size, const int64_t *slots, int64_t count, const int64_t *values, int64_t values_size)
{
    if (values_size != count)
        return MISFIT;
    FOR_EACH_SLOT(if (values[i] < target[slot]) target[slot] = values[i])
}

KERNEL sqlengine_greatest_at(
    int64_t *target, int64_t size, const int64_t *slots, int64_t count, const int64_t *values, int64_t values_size)
{
    if (values_size != count)
        return MISFIT;
    FOR_EACH_SLOT(if (values[i] > target[slot]) target[slot] = values[i])
}

/* Sets flags[slots[i]] for the chosen rows, and notes those that found it not set. Gives their number. */
KERNEL sqlengine_mark_at(
    uint8_t *flags, int64_t size, const int64_t *slots, int64_t count, const uint8_t *chosen, int64_t chosen_size,
    int64_t *rows, int64_t rows_size)
{
    int64_t found = 0;
    if (chosen_size != count || rows_size != count)
        return MISFIT;
    for (int64_t i = 0; i < count; i++) {
        if (!within(slots[i], size))
            return OUTSIDE(i);
        if (i + 16 < count && within(slots[i + 16], size))
            PREFETCH_TO_WRITE(flags + slots[i + 16]);
        if (chosen[i] && !flags[slots[i]]) {
            flags[slots[i]] = 1;
            rows[found++] = i;
        }
    }
    return found;
}
