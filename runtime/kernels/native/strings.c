/* Strings of Arrow's large layout: offsets of 64 bits, and bytes. */

#include <string.h>

#include "words.h"

#define AHEAD 16

static uint64_t hash_bytes(const uint8_t *bytes, int64_t length)
{
    uint64_t total = (uint64_t)length * GOLDEN;
    uint64_t factor = GOLDEN;
    for (; length > 0; length -= 8, bytes += 8, factor += 2 * GOLDEN) {
        uint64_t word = 0;
        memcpy(&word, bytes, length < 8 ? (size_t)length : 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
#endif
        total += mix(word * factor);
    }
    return mix(total);
}

/* As runtime/kernels/hashing.py defines it. */
void sqlengine_hash_strings(const int64_t *offsets, const uint8_t *bytes, int64_t count, uint64_t *out)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = hash_bytes(bytes + offsets[i], offsets[i + 1] - offsets[i]);
}

/* same[i]: whether string i of the right is the string at places[i] of the left. Gives the number of those that are not. */
int64_t sqlengine_same_strings(
    const int64_t *left_offsets, const uint8_t *left, const int64_t *places,
    const int64_t *right_offsets, const uint8_t *right, int64_t count, uint8_t *same)
{
    int64_t different = 0;
    for (int64_t i = 0; i < count; i++) {
        if (i + 2 * AHEAD < count)
            __builtin_prefetch(left_offsets + places[i + 2 * AHEAD]);
        if (i + AHEAD < count)
            __builtin_prefetch(left + left_offsets[places[i + AHEAD]]);
        int64_t from = left_offsets[places[i]], length = left_offsets[places[i] + 1] - from;
        same[i] = length == right_offsets[i + 1] - right_offsets[i]
            && memcmp(left + from, right + right_offsets[i], (size_t)length) == 0;
        different += !same[i];
    }
    return different;
}

/* The offsets of the strings at places (none below 0) put together, count + 1 of them. Gives their bytes, or -1 when a
   place is not below `size`. */
int64_t sqlengine_string_offsets(const int64_t *offsets, int64_t size, const int64_t *places, int64_t count, int64_t *out)
{
    int64_t end = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t place = places[i];
        if (place >= size)
            return -1;
        if (i + AHEAD < count && places[i + AHEAD] >= 0)
            __builtin_prefetch(offsets + places[i + AHEAD]);
        out[i] = end;
        if (place >= 0)
            end += offsets[place + 1] - offsets[place];
    }
    out[count] = end;
    return end;
}

/* Copies these strings to where `to` says, which is what sqlengine_string_offsets gave. */
void sqlengine_copy_strings(
    const int64_t *offsets, const uint8_t *bytes, const int64_t *places, int64_t count, const int64_t *to, uint8_t *out)
{
    for (int64_t i = 0; i < count; i++) {
        if (i + 2 * AHEAD < count && places[i + 2 * AHEAD] >= 0)
            __builtin_prefetch(offsets + places[i + 2 * AHEAD]);
        if (i + AHEAD < count && places[i + AHEAD] >= 0)
            __builtin_prefetch(bytes + offsets[places[i + AHEAD]]);
        if (places[i] >= 0)
            memcpy(out + to[i], bytes + offsets[places[i]], (size_t)(to[i + 1] - to[i]));
    }
}
