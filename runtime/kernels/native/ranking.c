/* Rows that may be among the best of their partition: runtime/kernels/ranking.py. */

#include "kernel.h"

/* The rows whose words come before those of the last of the best `depth` of their partition, or whose partition has fewer:
   ascending. `best` holds `depth` slots for each partition, below 0 for none, and `kept` the words by slot. */
KERNEL sqlengine_contenders(
    const int64_t *partitions, int64_t count, const uint64_t *words, int64_t words_size, int64_t width, const int64_t *best,
    int64_t best_size, int64_t depth, const uint64_t *kept, int64_t kept_size, int64_t *rows, int64_t rows_size)
{
    int64_t known = depth > 0 ? rows_of(best_size, depth) : -1, slots = rows_of(kept_size, width);
    if (known < 0 || slots < 0 || !is_matrix(words_size, count, width) || rows_size != count)
        return MISFIT;
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        if (i + 16 < count && within(partitions[i + 16], known))
            PREFETCH(best + (partitions[i + 16] + 1) * depth - 1);
        if (!within(partitions[i], known))
            return OUTSIDE(i);
        int64_t worst = best[(partitions[i] + 1) * depth - 1];
        int before = worst < 0;
        if (!before) {
            if (worst >= slots)
                return OUTSIDE(i);
            const uint64_t *mine = words + i * width, *theirs = kept + worst * width;
            for (int64_t k = 0; k < width; k++)
                if (mine[k] != theirs[k]) {
                    before = mine[k] < theirs[k];
                    break;
                }
        }
        if (before)
            rows[found++] = i;
    }
    return found;
}
