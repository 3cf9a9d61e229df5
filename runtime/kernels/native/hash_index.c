/* The probes of runtime/kernels/hash_index.py: see there for what an entry of the table is. */

#include "words.h"

#define HIGH 0xFFFFFFFF00000000ULL
#define LOW 0x00000000FFFFFFFFULL
/* Entries of keys that have no slot yet: their number, from here up. Slots end below. */
#define CLAIMED 0x80000000ULL

void sqlengine_hash_words(const uint64_t *words, int64_t count, int64_t width, uint64_t *out)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = hash_row(words + i * width, width);
}

/* slots[i]: the slot of the key in row i, or -1; places[i] (unless NULL): where its probe ended. */
void sqlengine_index_find(
    const uint64_t *table, int64_t mask, int64_t shift, const uint64_t *keys, int64_t width,
    const uint64_t *words, int64_t count, int64_t *slots, int64_t *places)
{
    uint64_t hashes[ROWS_AHEAD];
    for (int64_t start = 0; start < count; start += ROWS_AHEAD) {
        int64_t block = count - start < ROWS_AHEAD ? count - start : ROWS_AHEAD;
        for (int64_t i = 0; i < block; i++) {
            hashes[i] = hash_row(words + (start + i) * width, width);
            __builtin_prefetch(table + (hashes[i] >> shift));
        }
        for (int64_t i = 0; i < block; i++) {
            uint64_t entry = table[hashes[i] >> shift];
            if ((entry & HIGH) == (hashes[i] & HIGH) && (entry & LOW) > 1)
                __builtin_prefetch(keys + ((entry & LOW) - 2) * width);
        }
        for (int64_t i = 0; i < block; i++) {
            const uint64_t *row = words + (start + i) * width;
            int64_t place = (int64_t)(hashes[i] >> shift);
            int64_t slot = -1;
            for (;; place = (place + 1) & mask) {
                uint64_t entry = table[place];
                if (entry == 0)
                    break;
                if ((entry & HIGH) == (hashes[i] & HIGH) && (entry & LOW) > 1
                    && same_row(keys + ((entry & LOW) - 2) * width, row, width)) {
                    slot = (int64_t)(entry & LOW) - 2;
                    break;
                }
            }
            slots[start + i] = slot;
            if (places)
                places[start + i] = place;
        }
    }
}

/* Finds keys, and claims a place for each that is absent. slots[i]: the slot, or -2 - j for the j-th new key, whose first
   row is first[j] and whose place is places[j]. Gives the number of new keys. The table has room for all rows. */
int64_t sqlengine_index_claim(
    uint64_t *table, int64_t mask, int64_t shift, const uint64_t *keys, int64_t width,
    const uint64_t *words, int64_t count, int64_t *slots, int64_t *first, int64_t *places)
{
    uint64_t hashes[ROWS_AHEAD];
    int64_t fresh = 0;
    for (int64_t start = 0; start < count; start += ROWS_AHEAD) {
        int64_t block = count - start < ROWS_AHEAD ? count - start : ROWS_AHEAD;
        for (int64_t i = 0; i < block; i++) {
            hashes[i] = hash_row(words + (start + i) * width, width);
            __builtin_prefetch(table + (hashes[i] >> shift), 1);
        }
        for (int64_t i = 0; i < block; i++) {
            uint64_t entry = table[hashes[i] >> shift];
            if ((entry & HIGH) == (hashes[i] & HIGH) && (entry & LOW) > 1 && (entry & LOW) < CLAIMED)
                __builtin_prefetch(keys + ((entry & LOW) - 2) * width);
        }
        for (int64_t i = 0; i < block; i++) {
            const uint64_t *row = words + (start + i) * width;
            uint64_t tag = hashes[i] & HIGH;
            int64_t place = (int64_t)(hashes[i] >> shift);
            for (;; place = (place + 1) & mask) {
                uint64_t entry = table[place];
                if (entry == 0) {
                    table[place] = tag | (CLAIMED + (uint64_t)fresh);
                    first[fresh] = start + i;
                    places[fresh] = place;
                    slots[start + i] = -2 - fresh;
                    fresh++;
                    break;
                }
                if ((entry & HIGH) != tag || (entry & LOW) <= 1)
                    continue;
                uint64_t low = entry & LOW;
                if (low >= CLAIMED) {
                    int64_t number = (int64_t)(low - CLAIMED);
                    if (same_row(words + first[number] * width, row, width)) {
                        slots[start + i] = -2 - number;
                        break;
                    }
                } else if (same_row(keys + (low - 2) * width, row, width)) {
                    slots[start + i] = (int64_t)low - 2;
                    break;
                }
            }
        }
    }
    return fresh;
}

/* Gives the new keys of sqlengine_index_claim their slots: `given[j]` for the j-th. */
void sqlengine_index_settle(
    uint64_t *table, uint64_t *keys, uint8_t *live, int64_t width, const uint64_t *words, int64_t count,
    int64_t *slots, const int64_t *first, const int64_t *places, const int64_t *given, int64_t fresh)
{
    for (int64_t j = 0; j < fresh; j++) {
        uint64_t slot = (uint64_t)given[j];
        table[places[j]] = (table[places[j]] & HIGH) | (slot + 2);
        live[slot] = 1;
        for (int64_t k = 0; k < width; k++)
            keys[slot * width + k] = words[first[j] * width + k];
    }
    for (int64_t i = 0; i < count; i++)
        if (slots[i] < 0)
            slots[i] = given[-2 - slots[i]];
}

/* Puts the entries of a table, tombstones left out, into an empty one. */
void sqlengine_index_refill(const uint64_t *old, int64_t size, uint64_t *table, int64_t mask, int64_t shift)
{
    for (int64_t i = 0; i < size; i++) {
        uint64_t entry = old[i];
        if (entry <= 1)
            continue;
        int64_t place = (int64_t)(entry >> shift);
        while (table[place])
            place = (place + 1) & mask;
        table[place] = entry;
    }
}
