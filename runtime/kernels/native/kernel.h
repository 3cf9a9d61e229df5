/* What every kernel needs of its compiler: GCC, Clang or MSVC.

   A kernel gets each array as an address and the number of its items (bytes for arrays of any type), looks at every
   index before it uses it, and gives a number from 0 up, or one of the failures below. */
#ifndef SQLENGINE_KERNEL_H
#define SQLENGINE_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(_MSC_VER)
#include <intrin.h>
#endif

#if defined(_WIN32)
#define KERNEL __declspec(dllexport) int64_t
#elif defined(__GNUC__)
#define KERNEL __attribute__((visibility("default"))) int64_t
#else
#define KERNEL int64_t
#endif

/* Failures: runtime/kernels/native/__init__.py makes errors of them. */
#define NO_MEMORY ((int64_t)-1)
/* The sizes of the arrays do not fit together. */
#define MISFIT INT64_MIN
/* An index is outside of its array, in this row. */
#define OUTSIDE(row) (-2 - (int64_t)(row))

/* Of addresses that are computed as numbers, because they may be anywhere. */
#define PLACE_OF(array, index) ((const void *)((uintptr_t)(array) + (uintptr_t)(index) * sizeof *(array)))

#if defined(__GNUC__)
#define PREFETCH(address) __builtin_prefetch(address)
#define PREFETCH_TO_WRITE(address) __builtin_prefetch(address, 1)
#else
#define PREFETCH(address) ((void)(address))
#define PREFETCH_TO_WRITE(address) ((void)(address))
#endif

/* The eight bytes from an address on, the first one lowest. */
static inline uint64_t word_at(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* The number of the lowest bit that is set; there must be one. */
static inline int lowest_bit(uint64_t word)
{
#if defined(__GNUC__)
    return __builtin_ctzll(word);
#else
    unsigned long bit;
    _BitScanForward64(&bit, word);
    return (int)bit;
#endif
}

static inline int within(int64_t index, int64_t size)
{
    return (uint64_t)index < (uint64_t)size;
}

/* Whether an array of `size` items is `rows` rows of `width`. */
static inline int is_matrix(int64_t size, int64_t rows, int64_t width)
{
    if (width <= 0)
        return width == 0 && size == 0;
    return size % width == 0 && size / width == rows;
}

/* The rows of an array of `size` items; no width is no limit, because nothing is read then. -1 where it has no whole rows. */
static inline int64_t rows_of(int64_t size, int64_t width)
{
    if (width <= 0)
        return width == 0 && size == 0 ? INT64_MAX : -1;
    return size % width == 0 ? size / width : -1;
}

#endif
