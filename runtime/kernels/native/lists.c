/* Lists by key in blocks of one arena: runtime/kernels/block_lists.py. */

#include <string.h>

#include "words.h"

/* Sizes of blocks beyond this are no sizes. */
#define MOST_CLASSES 62

/* Adds values[i] to the list of keys[i]. A list without a block, or with a full one, moves to a block of twice the size: a
   freed one (`freed`, by size), or a new one at the end of the arena. Rows of lists that have holes are told in `left`, and
   from the first one on for whose block there is no room, those of all lists that are full: their number is what is returned.
   An empty `place` is not kept. */
KERNEL sqlengine_append_to_lists(
    const int64_t *keys, int64_t count, const int64_t *values, int64_t values_size, int64_t *arena, int64_t arena_size,
    int64_t *arena_used, int64_t arena_used_size, int64_t *start, int64_t lists, int64_t *used, int64_t used_size,
    const int64_t *dead, int64_t dead_size, int8_t *size_class, int64_t size_class_size, int64_t *place, int64_t place_size,
    int64_t *freed, int64_t freed_size, const int64_t *freed_at, int64_t classes, const int64_t *capacities,
    int64_t capacities_size, int64_t *heights, int64_t heights_size, int64_t *left, int64_t left_size)
{
    if (values_size != count || left_size != count || arena_used_size != 1 || !within(arena_used[0], arena_size + 1)
        || used_size != lists || dead_size != lists || size_class_size != lists
        || capacities_size != classes || heights_size != classes || classes > MOST_CLASSES)
        return MISFIT;
    for (int64_t i = 0; i < classes; i++)
        if (!within(freed_at[i], freed_size + 1) || !within(capacities[i], freed_size - freed_at[i] + 1)
            || !within(heights[i], capacities[i] + 1))
            return MISFIT;
    int64_t full = 0, stopped = 0;
    for (int64_t first = 0; first < count; first += ROWS_AHEAD) {
        int64_t end = count - first < ROWS_AHEAD ? count : first + ROWS_AHEAD;
        for (int64_t i = first; i < end; i++) {
            if (!within(keys[i], lists) || (place_size ? !within(values[i], place_size) : values[i] < 0))
                return OUTSIDE(i);
            PREFETCH_TO_WRITE(used + keys[i]);
            PREFETCH_TO_WRITE(start + keys[i]);
            PREFETCH_TO_WRITE(size_class + keys[i]);
        }
        for (int64_t i = first; i < end; i++)
            PREFETCH_TO_WRITE(PLACE_OF(arena, (uint64_t)start[keys[i]] + (uint64_t)used[keys[i]]));
        for (int64_t i = first; i < end; i++) {
            int64_t key = keys[i], length = used[key], class = size_class[key];
            int64_t room = class < 0 ? 0 : class < classes ? (int64_t)1 << class : -1;
            if (!within(length, room + 1) || !within(start[key], arena_size + 1) || length > arena_size - start[key])
                return OUTSIDE(i);
            if (length == room) {
                int64_t larger = class < 0 ? 0 : class + 1, size = (int64_t)1 << larger;
                if (larger >= classes)
                    return OUTSIDE(i);
                int64_t reused = heights[larger] > 0;
                stopped |= !reused && size > arena_size - arena_used[0];
                stopped |= class >= 0 && heights[class] >= capacities[class];
                if (stopped || dead[key]) {
                    left[full++] = i;
                    continue;
                }
                int64_t to = reused ? freed[freed_at[larger] + --heights[larger]] : arena_used[0];
                if (to < 0 || to > arena_size - size)
                    return OUTSIDE(i);
                arena_used[0] += reused ? 0 : size;
                if (class >= 0) {
                    memmove(arena + to, arena + start[key], (size_t)length * sizeof *arena);
                    freed[freed_at[class] + heights[class]++] = start[key];
                }
                for (int64_t k = 0; place_size && k < length; k++) {
                    if (!within(arena[to + k], place_size))
                        return OUTSIDE(i);
                    place[arena[to + k]] = to + k;
                }
                start[key] = to;
                size_class[key] = (int8_t)larger;
            }
            int64_t at = start[key] + length;
            if (at >= arena_size)
                return OUTSIDE(i);
            used[key] = length + 1;
            arena[at] = values[i];
            if (place_size)
                place[values[i]] = at;
        }
    }
    return full;
}

/* The ranges [start, start + count) one after the other, and beside each element the number of its range. */
KERNEL sqlengine_expand_ranges(
    const int64_t *starts, int64_t ranges, const int64_t *counts, int64_t counts_size, int64_t *owner, int64_t owner_size,
    int64_t *element, int64_t total)
{
    int64_t at = 0;
    if (counts_size != ranges || owner_size != total)
        return MISFIT;
    for (int64_t i = 0; i < ranges; i++) {
        if (!within(counts[i], total - at + 1))
            return OUTSIDE(i);
        for (int64_t k = 0; k < counts[i]; k++, at++) {
            owner[at] = i;
            element[at] = (int64_t)((uint64_t)starts[i] + (uint64_t)k);
        }
    }
    return at == total ? 0 : MISFIT;
}
