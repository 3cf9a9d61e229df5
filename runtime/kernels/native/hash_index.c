/* The probes of runtime/kernels/hash_index.py: see there for what an entry of the table is. */

#include "words.h"

#define HIGH 0xFFFFFFFF00000000ULL
#define LOW 0x00000000FFFFFFFFULL
/* Entries of keys that have no slot yet: their number, from here up. Slots end below. */
#define CLAIMED 0x80000000ULL

/* The bits by which a hash is shifted to a place of a table of `size` entries; 0 where that is no size of a table. */
static int shift_of(int64_t size)
{
    int shift = 64;
    if (size < 2 || size & (size - 1))
        return 0;
    for (; size > 1; size >>= 1)
        shift--;
    return shift;
}

KERNEL sqlengine_hash_words(const uint64_t *words, int64_t words_size, int64_t width, uint64_t *out, int64_t count)
{
    if (!is_matrix(words_size, count, width))
        return MISFIT;
    for (int64_t i = 0; i < count; i++)
        out[i] = hash_row(words + i * width, width);
    return 0;
}

/* slots[i]: the slot of the key in row i, or -1; places[i]: where its probe ended. */
KERNEL sqlengine_index_find(
    const uint64_t *table, int64_t table_size, const uint64_t *keys, int64_t keys_size, int64_t width,
    const uint64_t *words, int64_t words_size, int64_t *slots, int64_t count, int64_t *places, int64_t places_size)
{
    int shift = shift_of(table_size);
    int64_t mask = table_size - 1, kept = rows_of(keys_size, width);
    if (!shift || kept < 0 || !is_matrix(words_size, count, width) || places_size != count)
        return MISFIT;
    uint64_t hashes[ROWS_AHEAD];
    for (int64_t start = 0; start < count; start += ROWS_AHEAD) {
        int64_t block = count - start < ROWS_AHEAD ? count - start : ROWS_AHEAD;
        for (int64_t i = 0; i < block; i++) {
            hashes[i] = hash_row(words + (start + i) * width, width);
            PREFETCH(table + (hashes[i] >> shift));
        }
        for (int64_t i = 0; i < block; i++) {
            uint64_t entry = table[hashes[i] >> shift];
            if ((entry & HIGH) == (hashes[i] & HIGH) && within((int64_t)(entry & LOW) - 2, kept))
                PREFETCH(keys + ((entry & LOW) - 2) * (uint64_t)width);
        }
        for (int64_t i = 0; i < block; i++) {
            const uint64_t *row = words + (start + i) * width;
            int64_t home = (int64_t)(hashes[i] >> shift), place = home;
            int64_t slot = -1;
            for (;;) {
                uint64_t entry = table[place];
                if (entry == 0)
                    break;
                if ((entry & HIGH) == (hashes[i] & HIGH) && (entry & LOW) > 1) {
                    int64_t held = (int64_t)(entry & LOW) - 2;
                    if (!within(held, kept))
                        return OUTSIDE(start + i);
                    if (same_row(keys + held * width, row, width)) {
                        slot = held;
                        break;
                    }
                }
                place = (place + 1) & mask;
                /* A table without an empty place. */
                if (place == home)
                    return OUTSIDE(start + i);
            }
            slots[start + i] = slot;
            places[start + i] = place;
        }
    }
    return 0;
}

/* Finds keys, and claims a place for each that is absent. slots[i]: the slot, or -2 - j for the j-th new key, whose first
   row is first[j] and whose place is places[j]. Gives the number of new keys. */
KERNEL sqlengine_index_claim(
    uint64_t *table, int64_t table_size, const uint64_t *keys, int64_t keys_size, int64_t width,
    const uint64_t *words, int64_t words_size, int64_t *slots, int64_t count, int64_t *first, int64_t first_size,
    int64_t *places, int64_t places_size)
{
    int shift = shift_of(table_size);
    int64_t mask = table_size - 1, kept = rows_of(keys_size, width);
    if (!shift || kept < 0 || !is_matrix(words_size, count, width) || first_size != count || places_size != count)
        return MISFIT;
    uint64_t hashes[ROWS_AHEAD];
    int64_t fresh = 0;
    for (int64_t start = 0; start < count; start += ROWS_AHEAD) {
        int64_t block = count - start < ROWS_AHEAD ? count - start : ROWS_AHEAD;
        for (int64_t i = 0; i < block; i++) {
            hashes[i] = hash_row(words + (start + i) * width, width);
            PREFETCH_TO_WRITE(table + (hashes[i] >> shift));
        }
        for (int64_t i = 0; i < block; i++) {
            uint64_t entry = table[hashes[i] >> shift];
            if ((entry & HIGH) == (hashes[i] & HIGH) && within((int64_t)(entry & LOW) - 2, kept))
                PREFETCH(keys + ((entry & LOW) - 2) * (uint64_t)width);
        }
        for (int64_t i = 0; i < block; i++) {
            const uint64_t *row = words + (start + i) * width;
            uint64_t tag = hashes[i] & HIGH;
            int64_t home = (int64_t)(hashes[i] >> shift), place = home;
            for (;;) {
                uint64_t entry = table[place];
                if (entry == 0) {
                    table[place] = tag | (CLAIMED + (uint64_t)fresh);
                    first[fresh] = start + i;
                    places[fresh] = place;
                    slots[start + i] = -2 - fresh;
                    fresh++;
                    break;
                }
                if ((entry & HIGH) == tag && (entry & LOW) > 1) {
                    uint64_t low = entry & LOW;
                    if (low >= CLAIMED) {
                        int64_t number = (int64_t)(low - CLAIMED);
                        if (number >= fresh)
                            return OUTSIDE(start + i);
                        if (same_row(words + first[number] * width, row, width)) {
                            slots[start + i] = -2 - number;
                            break;
                        }
                    } else {
                        int64_t held = (int64_t)low - 2;
                        if (held >= kept)
                            return OUTSIDE(start + i);
                        if (same_row(keys + held * width, row, width)) {
                            slots[start + i] = held;
                            break;
                        }
                    }
                }
                place = (place + 1) & mask;
                if (place == home)
                    return OUTSIDE(start + i);
            }
        }
    }
    return fresh;
}

/* Gives the new keys of sqlengine_index_claim their slots: `given[j]` for the j-th. */
KERNEL sqlengine_index_settle(
    uint64_t *table, int64_t table_size, uint64_t *keys, int64_t keys_size, uint8_t *live, int64_t live_size, int64_t width,
    const uint64_t *words, int64_t words_size, int64_t *slots, int64_t count, const int64_t *first, int64_t first_size,
    const int64_t *places, int64_t places_size, const int64_t *given, int64_t fresh)
{
    int64_t kept = rows_of(keys_size, width);
    kept = live_size < kept ? live_size : kept;
    if (kept < 0 || !is_matrix(words_size, count, width) || first_size < fresh || places_size < fresh)
        return MISFIT;
    for (int64_t j = 0; j < fresh; j++) {
        int64_t slot = given[j], row = first[j], place = places[j];
        if (!within(slot, kept) || !within(row, count) || !within(place, table_size))
            return OUTSIDE(j);
        table[place] = (table[place] & HIGH) | ((uint64_t)slot + 2);
        live[slot] = 1;
        for (int64_t k = 0; k < width; k++)
            keys[slot * width + k] = words[row * width + k];
    }
    for (int64_t i = 0; i < count; i++)
        if (slots[i] < 0) {
            if (!within(-2 - slots[i], fresh))
                return OUTSIDE(i);
            slots[i] = given[-2 - slots[i]];
        }
    return 0;
}

/* Puts the entries of a table, tombstones left out, into an empty one. */
KERNEL sqlengine_index_refill(const uint64_t *old, int64_t old_size, uint64_t *table, int64_t table_size)
{
    int shift = shift_of(table_size);
    int64_t mask = table_size - 1;
    if (!shift)
        return MISFIT;
    for (int64_t i = 0; i < old_size; i++) {
        uint64_t entry = old[i];
        if (entry <= 1)
            continue;
        int64_t home = (int64_t)(entry >> shift), place = home;
        while (table[place]) {
            place = (place + 1) & mask;
            if (place == home)
                return OUTSIDE(i);
        }
        table[place] = entry;
    }
    return 0;
}
