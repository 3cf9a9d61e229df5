/* CRC-32 of zlib by carry-less multiplication: runtime/kernels/checksum.py. After Gopal and others, "Fast CRC Computation
   for Generic Polynomials Using PCLMULQDQ Instruction" (Intel, 2009): the message is folded 64 bytes at a time, by
   constants that are powers of x modulo the polynomial, bit-reflected. */

#include "kernel.h"

#if (defined(__x86_64__) && defined(__GNUC__)) || defined(_M_X64)
#define FOLDS
#include <smmintrin.h>
#include <wmmintrin.h>
/* The functions below may use what the processor is asked for first. */
#if defined(__GNUC__) || defined(__clang__)
#define FOLDING __attribute__((target("pclmul,sse4.1")))
#else
#define FOLDING
#endif

#if defined(__GNUC__)
static int can_fold(void)
{
    return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}
#else
#include <intrin.h>

static int can_fold(void)
{
    int registers[4];
    __cpuid(registers, 1);
    /* ECX: bit 1 is PCLMULQDQ, bit 19 is SSE4.1. */
    return (registers[2] >> 1 & 1) && (registers[2] >> 19 & 1);
}
#endif
#endif

#ifdef FOLDS

FOLDING static inline __m128i fold(__m128i value, __m128i constants, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(value, constants, 0x00);
    __m128i high = _mm_clmulepi64_si128(value, constants, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

FOLDING static uint32_t folded(const uint8_t *data, int64_t size, uint32_t state)
{
    const __m128i by_512 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
    const __m128i by_128 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
    const __m128i by_64 = _mm_set_epi64x(0, 0x0163cd6124);
    const __m128i polynomial = _mm_set_epi64x(0x01f7011641, 0x01db710641);
    const __m128i words = _mm_setr_epi32(~0, 0, ~0, 0);
    const __m128i *at = (const __m128i *)data, *end = (const __m128i *)(data + size);
    __m128i a = _mm_xor_si128(_mm_loadu_si128(at), _mm_cvtsi32_si128((int)state));
    __m128i b = _mm_loadu_si128(at + 1), c = _mm_loadu_si128(at + 2), d = _mm_loadu_si128(at + 3);
    for (at += 4; end - at >= 4; at += 4) {
        a = fold(a, by_512, _mm_loadu_si128(at));
        b = fold(b, by_512, _mm_loadu_si128(at + 1));
        c = fold(c, by_512, _mm_loadu_si128(at + 2));
        d = fold(d, by_512, _mm_loadu_si128(at + 3));
    }
    a = fold(fold(fold(a, by_128, b), by_128, c), by_128, d);
    for (; at < end; at++)
        a = fold(a, by_128, _mm_loadu_si128(at));
    a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by_128, 0x10));
    a = _mm_xor_si128(_mm_srli_si128(a, 4), _mm_clmulepi64_si128(_mm_and_si128(a, words), by_64, 0x00));
    /* What is left is reduced after Barrett. */
    __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(a, words), polynomial, 0x10);
    quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, words), polynomial, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(a, quotient), 1);
}

#else

static int can_fold(void)
{
    return 0;
}

static uint32_t folded(const uint8_t *data, int64_t size, uint32_t state)
{
    (void)data, (void)size;
    return state;
}

#endif

/* Whether the processor can do it. */
KERNEL sqlengine_has_crc32(void)
{
    return can_fold();
}

/* The CRC-32 of what had the CRC-32 `crc` and `size` bytes more, 64 or a larger multiple of 16. */
KERNEL sqlengine_crc32(const uint8_t *data, int64_t size, int64_t crc)
{
    if (size < 64 || size % 16 || !can_fold())
        return MISFIT;
    return (int64_t)(uint32_t)~folded(data, size, ~(uint32_t)crc);
}
