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
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
#endif
        total += mix(word * factor);
    }
    return mix(total);
}

/* Whether the string at a place, which is one of `offsets`, lies within `size` bytes. */
static inline int is_string(const int64_t *offsets, int64_t place, int64_t size)
{
    return (uint64_t)offsets[place] <= (uint64_t)offsets[place + 1] && (uint64_t)offsets[place + 1] <= (uint64_t)size;
}

/* As runtime/kernels/hashing.py defines it. */
KERNEL sqlengine_hash_strings(
    const int64_t *offsets, int64_t offsets_size, const uint8_t *bytes, int64_t size, uint64_t *out, int64_t count)
{
    if (offsets_size != count + 1)
        return MISFIT;
    for (int64_t i = 0; i < count; i++) {
        if (!is_string(offsets, i, size))
            return OUTSIDE(i);
        out[i] = hash_bytes(bytes + offsets[i], offsets[i + 1] - offsets[i]);
    }
    return 0;
}

/* same[i]: whether string i of the right is the string at places[i] of the left. Gives the number of those that are not. */
KERNEL sqlengine_same_strings(
    const int64_t *left_offsets, int64_t left_offsets_size, const uint8_t *left, int64_t left_size, const int64_t *places,
    int64_t count, const int64_t *right_offsets, int64_t right_offsets_size, const uint8_t *right, int64_t right_size,
    uint8_t *same, int64_t same_size)
{
    int64_t known = left_offsets_size - 1;
    if (known < 0 || right_offsets_size != count + 1 || same_size != count)
        return MISFIT;
    int64_t different = 0;
    for (int64_t i = 0; i < count; i++) {
        if (i + 2 * AHEAD < count && within(places[i + 2 * AHEAD], known))
            PREFETCH(left_offsets + places[i + 2 * AHEAD]);
        if (i + AHEAD < count && within(places[i + AHEAD], known))
            PREFETCH(PLACE_OF(left, left_offsets[places[i + AHEAD]]));
        int64_t place = places[i], at = right_offsets[i];
        if (!within(place, known) || !is_string(left_offsets, place, left_size) || !is_string(right_offsets, i, right_size))
            return OUTSIDE(i);
        int64_t from = left_offsets[place], length = left_offsets[place + 1] - from;
        same[i] = length == right_offsets[i + 1] - at && memcmp(left + from, right + at, (size_t)length) == 0;
        different += !same[i];
    }
    return different;
}

/* The offsets of the strings at places put together, none at places below 0. Gives their bytes. */
KERNEL sqlengine_string_offsets(
    const int64_t *offsets, int64_t offsets_size, const int64_t *places, int64_t count, int64_t *out, int64_t out_size)
{
    int64_t known = offsets_size - 1, end = 0, signs = 0;
    if (known < 0 || out_size != count + 1)
        return MISFIT;
    for (int64_t i = 0; i < count; i++) {
        int64_t place = places[i];
        if (place >= known)
            return OUTSIDE(i);
        if (i + AHEAD < count && within(places[i + AHEAD], known))
            PREFETCH(offsets + places[i + AHEAD]);
        out[i] = end;
        if (place >= 0) {
            int64_t length = (int64_t)((uint64_t)offsets[place + 1] - (uint64_t)offsets[place]);
            end = (int64_t)((uint64_t)end + (uint64_t)length);
            signs |= length | end;
        }
    }
    out[count] = end;
    /* A length or a sum below 0. */
    return signs < 0 ? MISFIT : end;
}

/* Copies these strings to where `to` says, which is what sqlengine_string_offsets gave. */
KERNEL sqlengine_copy_strings(
    const int64_t *offsets, int64_t offsets_size, const uint8_t *bytes, int64_t size, const int64_t *places, int64_t count,
    const int64_t *to, int64_t to_size, uint8_t *out, int64_t out_size)
{
    int64_t known = offsets_size - 1;
    if (known < 0 || to_size != count + 1)
        return MISFIT;
    for (int64_t i = 0; i < count; i++) {
        int64_t place = places[i];
        if (i + 2 * AHEAD < count && within(places[i + 2 * AHEAD], known))
            PREFETCH(offsets + places[i + 2 * AHEAD]);
        if (i + AHEAD < count && within(places[i + AHEAD], known))
            PREFETCH(PLACE_OF(bytes, offsets[places[i + AHEAD]]));
        if (place < 0)
            continue;
        if (place >= known || !is_string(offsets, place, size))
            return OUTSIDE(i);
        int64_t from = offsets[place], length = offsets[place + 1] - from;
        if (!within(to[i], out_size + 1) || length > out_size - to[i])
            return OUTSIDE(i);
        memcpy(out + to[i], bytes + from, (size_t)length);
    }
    return 0;
}
