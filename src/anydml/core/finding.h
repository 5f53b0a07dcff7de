/* Where elements are not zero, in two passes: how many each piece has, then the coordinates of each. */
#ifndef ANYDML_FINDING_H
#define ANYDML_FINDING_H
#include <stdint.h>
#include <string.h>

enum { ANYDML_PIECE = 4096 };  /* elements that are looked at together */

typedef struct {
  const char *from;      /* packed elements */
  int64_t total;         /* how many */
  int64_t size;          /* bytes of each: 1, 2, 4 or 8 */
  uint64_t kept;         /* the bits of an element that count */
  int64_t *rows;         /* by piece: how many are found in it, then in all before it; and one more: in all */
  int rank;
  const int64_t *n;      /* sizes by dimension */
  char *to;              /* coordinates, a row for each element found */
  int width;             /* bytes of each: 4 or 8 */
} anydml_search;

/* A flag for each element; gives how many are set. Plain loops, which compilers make vectors of. */
#define ANYDML_FLAGS(type)                                                       \
  for (int64_t k = 0; k < count; k++) {                                          \
    type x;                                                                      \
    memcpy(&x, from + k * (int64_t)sizeof x, sizeof x);                          \
    flags[k] = (x & (type)s->kept) != 0;                                         \
  }                                                                              \
  break
static int64_t anydml_flags(const anydml_search *s, int64_t piece, uint8_t *flags, int64_t *many) {
  const char *from = s->from + piece * ANYDML_PIECE * s->size;
  const int64_t left = s->total - piece * ANYDML_PIECE, count = left < ANYDML_PIECE ? left : ANYDML_PIECE;
  int64_t found = 0;
  switch (s->size) {
    case 1: ANYDML_FLAGS(uint8_t);
    case 2: ANYDML_FLAGS(uint16_t);
    case 4: ANYDML_FLAGS(uint32_t);
    default: ANYDML_FLAGS(uint64_t);
  }
  for (int64_t k = 0; k < count; k += 128) {
    uint8_t part = 0;
    for (int64_t j = k; j < count && j < k + 128; j++) part += flags[j];
    found += part;
  }
  *many = count;
  return found;
}
#undef ANYDML_FLAGS

static void anydml_count(const void *plan, int64_t first, int64_t last) {
  const anydml_search *s = (const anydml_search *)plan;
  uint8_t flags[ANYDML_PIECE + 8];
  int64_t many;
  for (; first < last; first++) s->rows[first] = anydml_flags(s, first, flags, &many);
}

/* The places in a piece whose flags are set, without a branch that nobody could foresee. */
static int64_t anydml_places(uint8_t *flags, int64_t many, int32_t *places) {
  int64_t found = 0;
  memset(flags + many, 0, 8);
  for (int64_t k = 0; k < many; k += 8) {
    uint64_t word;
    memcpy(&word, flags + k, 8);
    if (!word) continue;
    for (int j = 0; j < 8; j++) {
      places[found] = (int32_t)(k + j);
      found += flags[k + j];
    }
  }
  return found;
}

static inline char *anydml_coordinate(char *to, int width, int64_t value) {
  if (width == 8) memcpy(to, &value, 8);
  else {
    const uint32_t low = (uint32_t)value;
    memcpy(to, &low, 4);
  }
  return to + width;
}

static void anydml_coordinates(const void *plan, int64_t first, int64_t last) {
  const anydml_search *s = (const anydml_search *)plan;
  uint8_t flags[ANYDML_PIECE + 8];
  int32_t places[ANYDML_PIECE + 8];
  int64_t c[64], many;
  const int line = s->rank - 1;
  for (; first < last; first++) {
    const int64_t row = s->rank * s->width, most = s->rows[first + 1] - s->rows[first], start = first * ANYDML_PIECE;
    char *to = s->to + s->rows[first] * row;
    if (!most) continue;
    anydml_flags(s, first, flags, &many);
    int64_t found = anydml_places(flags, many, places);
    /* Somebody may have written elements since they were counted. */
    if (found > most) found = most;
    else if (found < most) memset(to + found * row, 0, (size_t)((most - found) * row));
    int64_t begin = 0, end = 0;
    for (int64_t k = 0; k < found; k++) {
      const int64_t place = start + places[k];
      if (place >= end) {
        int64_t rest = place / s->n[line];
        begin = rest * s->n[line];
        end = begin + s->n[line];
        for (int d = line - 1; d >= 0; d--) {
          c[d] = rest % s->n[d];
          rest /= s->n[d];
        }
      }
      for (int d = 0; d < line; d++) to = anydml_coordinate(to, s->width, c[d]);
      to = anydml_coordinate(to, s->width, place - begin);
    }
  }
}
#endif
