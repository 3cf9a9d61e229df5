/* What the kernels share: hashes of key words, as runtime/kernels/hashing.py defines them. */
#ifndef SQLENGINE_WORDS_H
#define SQLENGINE_WORDS_H

#include "kernel.h"

#define GOLDEN 0x9E3779B97F4A7C15ULL
/* So many rows are on their way to memory at once. */
#define ROWS_AHEAD 32

static inline uint64_t mix(uint64_t v)
{
    v ^= v >> 32;
    v *= 0xFF51AFD7ED558CCDULL;
    v ^= v >> 29;
    v *= 0xC4CEB9FE1A85EC53ULL;
    return v ^ (v >> 32);
}

static inline uint64_t hash_row(const uint64_t *row, int64_t width)
{
    if (width == 0)
        return mix(GOLDEN);
    uint64_t hashed = mix(row[0] + GOLDEN);
    for (int64_t i = 1; i < width; i++)
        hashed = mix((hashed ^ row[i]) + GOLDEN * (uint64_t)(i + 1));
    return hashed;
}

static inline int same_row(const uint64_t *left, const uint64_t *right, int64_t width)
{
    for (int64_t i = 0; i < width; i++)
        if (left[i] != right[i])
            return 0;
    return 1;
}

#endif
