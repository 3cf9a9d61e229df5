/* Lists by key in blocks of one arena: runtime/kernels/block_lists.py. */

#include "words.h"

/* Adds values[i] to the list of keys[i] where its block has room. Rows whose block has none are told in `left`, with all
   later rows of their keys: their number is what is returned. `place` may be NULL. */
int64_t sqlengine_append_to_lists(
    const int64_t *keys, const int64_t *values, int64_t count, int64_t *arena, const int64_t *start, int64_t *used,
    const int8_t *size_class, int64_t *place, int64_t *left)
{
    int64_t full = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t key = keys[i];
        int64_t room = size_class[key] < 0 ? 0 : (int64_t)1 << size_class[key];
        if (used[key] >= room) {
            left[full++] = i;
            continue;
        }
        int64_t at = start[key] + used[key]++;
        arena[at] = values[i];
        if (place)
            place[values[i]] = at;
    }
    return full;
}

/* The ranges [start, start + count) one after the other, and beside each element the number of its range. */
void sqlengine_expand_ranges(const int64_t *starts, const int64_t *counts, int64_t ranges, int64_t *owner, int64_t *element)
{
    int64_t at = 0;
    for (int64_t i = 0; i < ranges; i++)
        for (int64_t k = 0; k < counts[i]; k++, at++) {
            owner[at] = i;
            element[at] = starts[i] + k;
        }
}
