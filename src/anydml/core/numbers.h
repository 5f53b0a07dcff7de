/* Numbers at equal distances. */
#ifndef ANYDML_NUMBERS_H
#define ANYDML_NUMBERS_H
#include <stdint.h>
#include <string.h>

typedef struct {
  char *to;
  const char *start, *delta;
  int type;                /* bytes of a number; negative if it is a float */
} anydml_numbers;
#endif

#ifdef K
/* Integers wrap; floats are computed in 64 bits, and rounded once. Plain loops, which compilers vectorize. */
static void K(put_numbers)(const void *plan, int64_t first, int64_t last) {
  const anydml_numbers *s = (const anydml_numbers *)plan;
#define ANYDML_NUMBERS(type, value) { \
    typedef type number __attribute__((aligned(1), may_alias)); \
    number *const to = (number *)s->to; /* not read again after each store, which could change *s */ \
    const type start = *(const number *)s->start, delta = *(const number *)s->delta; \
    for (; first < last; first += 1024) \
      for (int32_t k = 0, n = last - first < 1024 ? (int32_t)(last - first) : 1024; k < n; k++) \
        to[first + k] = (type)(value); \
    break; \
  }
/* Without 1u, numbers of 16 bits would be multiplied as ints, which may overflow. */
#define ANYDML_INTEGER(type) ANYDML_NUMBERS(type, start + 1u * (type)(first + k) * delta)
#define ANYDML_FLOAT(type) ANYDML_NUMBERS(type, start + ((double)first + k) * delta)
  switch (s->type) {
    case 1: ANYDML_INTEGER(uint8_t)
    case 2: ANYDML_INTEGER(uint16_t)
    case 4: ANYDML_INTEGER(uint32_t)
    case 8: ANYDML_INTEGER(uint64_t)
    case -4: ANYDML_FLOAT(float)
    default: ANYDML_FLOAT(double)
  }
#undef ANYDML_FLOAT
#undef ANYDML_INTEGER
#undef ANYDML_NUMBERS
}
#endif
