/* Groups of equal rows of one batch: runtime/kernels/grouping.py. */

#include <stdlib.h>
#include <string.h>

#include "words.h"

/* group[i]: the group of row i, numbered in order of first occurrence; first[g]: its first row. */
static int64_t group_rows(const uint64_t *words, int64_t count, int64_t width, int64_t *group, int64_t *first)
{
    int64_t size = 64;
    int shift = 58;
    while (size < 2 * count) {
        size *= 2;
        shift--;
    }
    /* The number of the group + 1 below, bits of the hash above. */
    uint64_t *table = calloc((size_t)size, sizeof(uint64_t));
    if (!table)
        return NO_MEMORY;
    uint64_t hashes[ROWS_AHEAD];
    int64_t groups = 0;
    for (int64_t start = 0; start < count; start += ROWS_AHEAD) {
        int64_t end = count - start < ROWS_AHEAD ? count : start + ROWS_AHEAD;
        for (int64_t i = start; i < end; i++) {
            hashes[i - start] = hash_row(words + i * width, width);
            PREFETCH_TO_WRITE(table + (hashes[i - start] >> shift));
        }
        for (int64_t i = start; i < end; i++) {
            const uint64_t *row = words + i * width;
            uint64_t tag = hashes[i - start] << 32;
            int64_t place = (int64_t)(hashes[i - start] >> shift);
            for (;; place = (place + 1) & (size - 1)) {
                uint64_t entry = table[place];
                if (entry == 0) {
                    table[place] = tag | (uint64_t)(groups + 1);
                    first[groups] = i;
                    group[i] = groups++;
                    break;
                }
                int64_t number = (int64_t)(entry & 0xFFFFFFFFULL) - 1;
                if ((entry & 0xFFFFFFFF00000000ULL) == tag && same_row(words + first[number] * width, row, width)) {
                    group[i] = number;
                    break;
                }
            }
        }
    }
    free(table);
    return groups;
}

/* Gives the number of groups. */
KERNEL sqlengine_group_rows(
    const uint64_t *words, int64_t words_size, int64_t width, int64_t *group, int64_t count, int64_t *first, int64_t first_size)
{
    /* Numbers of groups have 32 bits. */
    if (!is_matrix(words_size, count, width) || first_size < count || count >= 0xFFFFFFFFLL)
        return MISFIT;
    return group_rows(words, count, width, group, first);
}

/* The same by a bit for each of `span` slots from `low` on. */
static int64_t distinct_by_bits(const int64_t *slots, int64_t count, int64_t last, int64_t low, int64_t span, int64_t *rows)
{
    uint64_t *seen = calloc((size_t)(span / 64 + 1), sizeof(uint64_t));
    if (!seen)
        return NO_MEMORY;
    int64_t found = 0;
    for (int64_t k = 0; k < count; k++) {
        int64_t i = last ? count - 1 - k : k;
        uint64_t at = (uint64_t)slots[i] - (uint64_t)low, bit = 1ULL << (at & 63), word = seen[at >> 6];
        /* Written always, kept when it is new: a branch would be guessed wrong half of the time. */
        rows[last ? count - 1 - found : found] = i;
        found += !(word & bit);
        seen[at >> 6] = word | bit;
    }
    free(seen);
    if (last)
        memmove(rows, rows + (count - found), (size_t)found * sizeof(int64_t));
    return found;
}

/* The rows at which each distinct slot stands first (`last`: last), ascending. Gives their number. */
KERNEL sqlengine_distinct_rows(
    const int64_t *slots, int64_t count, int64_t last, int64_t *group, int64_t group_size, int64_t *rows, int64_t rows_size)
{
    if (group_size != count || rows_size != count || count >= 0xFFFFFFFFLL)
        return MISFIT;
    int64_t low = count ? slots[0] : 0, high = low;
    for (int64_t i = 0; i < count; i++) {
        low = slots[i] < low ? slots[i] : low;
        high = slots[i] > high ? slots[i] : high;
    }
    if ((uint64_t)high - (uint64_t)low < 64 * (uint64_t)count)
        return distinct_by_bits(slots, count, last, low, high - low, rows);
    int64_t groups = group_rows((const uint64_t *)slots, count, 1, group, rows);
    if (groups < 0 || !last || groups == count)
        return groups;
    for (int64_t i = 0; i < count; i++)
        rows[group[i]] = i;
    int64_t found = 0;
    int64_t *ends = rows;
    /* A row is written only after the group that had its place was compared: groups are numbered by first rows. */
    for (int64_t i = 0; i < count; i++)
        group[i] = ends[group[i]] == i;
    for (int64_t i = 0; i < count; i++)
        if (group[i])
            rows[found++] = i;
    return found;
}

/* The row of each group with the greatest value, of equal ones the last. */
KERNEL sqlengine_greatest_rows(
    const int64_t *group, int64_t count, const int64_t *values, int64_t values_size, int64_t *best, int64_t groups)
{
    if (values_size != count)
        return MISFIT;
    for (int64_t g = 0; g < groups; g++)
        best[g] = -1;
    for (int64_t i = 0; i < count; i++) {
        if (!within(group[i], groups))
            return OUTSIDE(i);
        int64_t *row = best + group[i];
        if (*row < 0 || values[i] >= values[*row])
            *row = i;
    }
    return 0;
}

/* Writes a field of a word of each row: the first field of a word in its place, others beside it. */
KERNEL sqlengine_pack_field(
    uint64_t *words, int64_t words_size, int64_t width, int64_t word, int64_t shift, const uint64_t *field, int64_t count)
{
    if (!within(word, width) || !within(shift, 64) || !is_matrix(words_size, count, width))
        return MISFIT;
    words += word;
    if (shift)
        for (int64_t i = 0; i < count; i++)
            words[i * width] |= field[i] << shift;
    else
        for (int64_t i = 0; i < count; i++)
            words[i * width] = field[i];
    return 0;
}
