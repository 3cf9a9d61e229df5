/* Stable sorting by digits: runtime/kernels/radix.py. */

#include <stdlib.h>
#include <string.h>

#include "kernel.h"

#define DIGIT 11
#define BUCKETS (1 << DIGIT)

struct row {
    uint64_t word;
    int64_t row;
};

/* Puts `order`, a permutation of the rows, in the order of their words, equal ones as they are. */
KERNEL sqlengine_radix_sort(const uint64_t *words, int64_t words_size, int64_t *order, int64_t count)
{
    if (words_size != count)
        return MISFIT;
    for (int64_t i = 0; i < count; i++)
        if (!within(order[i], count))
            return OUTSIDE(i);
    if (count < 2)
        return 0;
    uint64_t varying = 0;
    for (int64_t i = 1; i < count; i++)
        varying |= words[i] ^ words[0];
    if (!varying)
        return 0;
    struct row *both = malloc(2 * (size_t)count * sizeof *both);
    if (!both)
        return NO_MEMORY;
    struct row *from = both, *to = both + count;
    for (int64_t i = 0; i < count; i++) {
        from[i].row = order[i];
        from[i].word = words[order[i]];
    }
    int shift = 0;
    while (!(varying >> shift & 1))
        shift++;
    for (; shift < 64 && varying >> shift; shift += DIGIT) {
        if (!((varying >> shift) & (BUCKETS - 1)))
            continue;
        int64_t starts[BUCKETS] = {0};
        for (int64_t i = 0; i < count; i++)
            starts[(from[i].word >> shift) & (BUCKETS - 1)]++;
        int64_t before = 0;
        for (int bucket = 0; bucket < BUCKETS; bucket++) {
            int64_t size = starts[bucket];
            starts[bucket] = before;
            before += size;
        }
        for (int64_t i = 0; i < count; i++)
            to[starts[(from[i].word >> shift) & (BUCKETS - 1)]++] = from[i];
        struct row *other = from;
        from = to;
        to = other;
    }
    for (int64_t i = 0; i < count; i++)
        order[i] = from[i].row;
    free(both);
    return 0;
}
