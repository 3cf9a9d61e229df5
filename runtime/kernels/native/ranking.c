/* Rows that may be among the best of their partition: runtime/kernels/ranking.py. */

#include "words.h"

/* The rows whose words come before those of the last of the best `depth` of their partition, or whose partition has fewer:
   ascending. `best` holds `depth` slots for each partition, -1 for none, and `kept` the words by slot. */
int64_t sqlengine_contenders(
    const int64_t *partitions, const uint64_t *words, int64_t count, int64_t width, const int64_t *best, int64_t depth,
    const uint64_t *kept, int64_t *rows)
{
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        if (i + 16 < count)
            __builtin_prefetch(best + (partitions[i + 16] + 1) * depth - 1);
        int64_t worst = best[(partitions[i] + 1) * depth - 1];
        int before = worst < 0;
        if (!before) {
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
