/* Lists by key in blocks of one arena: runtime/kernels/block_lists.py. */

#include <string.h>

#include "words.h"

/* Adds values[i] to the list of keys[i]. A list without a block, or with a full one, moves to a block of twice the size: a
   freed one (`stacks`, by size), or a new one at the end of the arena. Rows of lists that have holes are told in `left`, and
   from the first one on for whose block there is no room, those of all lists that are full: their number is what is returned.
   `place` may be NULL. */
int64_t sqlengine_append_to_lists(
    const int64_t *keys, const int64_t *values, int64_t count, int64_t *arena, int64_t arena_size, int64_t *arena_used,
    int64_t *start, int64_t *used, const int64_t *dead, int8_t *size_class, int64_t *place, int64_t *const *stacks,
    const int64_t *capacities, int64_t *heights, int64_t *left)
{
    int64_t full = 0, stopped = 0;
    for (int64_t first = 0; first < count; first += ROWS_AHEAD) {
        int64_t end = count - first < ROWS_AHEAD ? count : first + ROWS_AHEAD;
        for (int64_t i = first; i < end; i++) {
            __builtin_prefetch(used + keys[i], 1);
            __builtin_prefetch(start + keys[i], 1);
            __builtin_prefetch(size_class + keys[i], 1);
        }
        for (int64_t i = first; i < end; i++)
            __builtin_prefetch(arena + start[keys[i]] + used[keys[i]], 1);
        for (int64_t i = first; i < end; i++) {
            int64_t key = keys[i], length = used[key], class = size_class[key];
            if (class < 0 || length >> class) {
                int64_t larger = class + 1, size = (int64_t)1 << larger;
                int64_t reused = heights[larger] > 0;
                stopped |= !reused && *arena_used + size > arena_size;
                stopped |= class >= 0 && heights[class] >= capacities[class];
                if (stopped || dead[key]) {
                    left[full++] = i;
                    continue;
                }
                int64_t to = reused ? stacks[larger][--heights[larger]] : *arena_used;
                *arena_used += reused ? 0 : size;
                if (class >= 0) {
                    memcpy(arena + to, arena + start[key], (size_t)length * sizeof *arena);
                    stacks[class][heights[class]++] = start[key];
                }
                for (int64_t k = 0; place && k < length; k++)
                    place[arena[to + k]] = to + k;
                start[key] = to;
                size_class[key] = (int8_t)larger;
            }
            int64_t at = start[key] + length;
            used[key] = length + 1;
            arena[at] = values[i];
            if (place)
                place[values[i]] = at;
        }
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
