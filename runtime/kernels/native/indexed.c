/* Reads and writes at slots: runtime/kernels/indexed.py. A slot outside of the array ends a kernel, which then gives the
   row of that slot; else it gives -1. */

#include <math.h>
#include <string.h>

#include "words.h"

#define FOR_EACH_SLOT(BODY)                                     \
    for (int64_t i = 0; i < count; i++) {                       \
        if ((uint64_t)slots[i] >= (uint64_t)size)               \
            return i;                                           \
        BODY;                                                   \
    }                                                           \
    return -1;

/* target[slots[i]] = values[i], the last one of equal slots stays; items of `width` bytes. */
int64_t sqlengine_put_at(char *target, int64_t size, const int64_t *slots, int64_t count, const char *values, int64_t width)
{
    switch (width) {
    case 1:
        FOR_EACH_SLOT(target[slots[i]] = values[i])
    case 2:
        FOR_EACH_SLOT(((uint16_t *)target)[slots[i]] = ((const uint16_t *)values)[i])
    case 4:
        FOR_EACH_SLOT(((uint32_t *)target)[slots[i]] = ((const uint32_t *)values)[i])
    case 8:
        FOR_EACH_SLOT(((uint64_t *)target)[slots[i]] = ((const uint64_t *)values)[i])
    default:
        FOR_EACH_SLOT(memcpy(target + slots[i] * width, values + i * width, (size_t)width))
    }
}

/* target[slots[i]] = value, of one item. */
int64_t sqlengine_fill_at(char *target, int64_t size, const int64_t *slots, int64_t count, const char *value, int64_t width)
{
    switch (width) {
    case 1:
        FOR_EACH_SLOT(target[slots[i]] = *value)
    case 4:
        FOR_EACH_SLOT(((uint32_t *)target)[slots[i]] = *(const uint32_t *)value)
    case 8:
        FOR_EACH_SLOT(((uint64_t *)target)[slots[i]] = *(const uint64_t *)value)
    default:
        FOR_EACH_SLOT(memcpy(target + slots[i] * width, value, (size_t)width))
    }
}

/* Integers wrap: their sums are computed without a sign. */
int64_t sqlengine_add_integers_at(uint64_t *target, int64_t size, const int64_t *slots, int64_t count, const uint64_t *values)
{
    FOR_EACH_SLOT(target[slots[i]] += values[i])
}

int64_t sqlengine_add_signs_at(uint64_t *target, int64_t size, const int64_t *slots, int64_t count, const int8_t *values)
{
    FOR_EACH_SLOT(target[slots[i]] += (uint64_t)(int64_t)values[i])
}

int64_t sqlengine_count_at(uint64_t *target, int64_t size, const int64_t *slots, int64_t count)
{
    FOR_EACH_SLOT(target[slots[i]] += 1)
}

int64_t sqlengine_add_floats_at(double *target, int64_t size, const int64_t *slots, int64_t count, const double *values)
{
    FOR_EACH_SLOT(target[slots[i]] += values[i])
}

int64_t sqlengine_least_at(int64_t *target, int64_t size, const int64_t *slots, int64_t count, const int64_t *values)
{
    FOR_EACH_SLOT(if (values[i] < target[slots[i]]) target[slots[i]] = values[i])
}

int64_t sqlengine_greatest_at(int64_t *target, int64_t size, const int64_t *slots, int64_t count, const int64_t *values)
{
    FOR_EACH_SLOT(if (values[i] > target[slots[i]]) target[slots[i]] = values[i])
}

/* out[i] = values[slots[i]]; zero at slots outside. */
void sqlengine_take_at(const char *values, int64_t size, const int64_t *slots, int64_t count, char *out, int64_t width)
{
#define TAKE(TYPE)                                                                                          \
    for (int64_t i = 0; i < count; i++)                                                                     \
        ((TYPE *)out)[i] = (uint64_t)slots[i] < (uint64_t)size ? ((const TYPE *)values)[slots[i]] : 0;      \
    return;
    switch (width) {
    case 1:
        TAKE(uint8_t)
    case 2:
        TAKE(uint16_t)
    case 4:
        TAKE(uint32_t)
    case 8:
        TAKE(uint64_t)
    default:
        for (int64_t i = 0; i < count; i++) {
            if ((uint64_t)slots[i] < (uint64_t)size)
                memcpy(out + i * width, values + slots[i] * width, (size_t)width);
            else
                memset(out + i * width, 0, (size_t)width);
        }
    }
}

/* Sets flags[slots[i]] for the chosen rows, and notes those that found it not set. Gives their number, or -1 when a slot
   is outside. */
int64_t sqlengine_mark_at(
    uint8_t *flags, int64_t size, const int64_t *slots, int64_t count, const uint8_t *chosen, int64_t *rows)
{
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        if ((uint64_t)slots[i] >= (uint64_t)size)
            return -1;
        if (i + 16 < count && (uint64_t)slots[i + 16] < (uint64_t)size)
            __builtin_prefetch(flags + slots[i + 16], 1);
        if (chosen[i] && !flags[slots[i]]) {
            flags[slots[i]] = 1;
            rows[found++] = i;
        }
    }
    return found;
}
