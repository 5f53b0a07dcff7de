/* Search for nonzero elements in two passes: count them by piece, then write their coordinates or items. */
#ifndef ANYDML_FINDING_H
#define ANYDML_FINDING_H
#include <stdint.h>
#include <string.h>

enum {
  ANYDML_PIECE = 4096,   /* elements that are tested at a time */
  ANYDML_CHUNK = 64,     /* elements that are skipped if all are zero, or copied at once if none is */
};

typedef struct {
  const char *from;      /* packed elements */
  int64_t total;         /* number of elements */
  int64_t size;          /* bytes of each: 1, 2, 4 or 8 */
  uint64_t mask;         /* mask of the bits that make an element nonzero */
  int64_t pieces, *rows; /* number of pieces; by piece: number found in it, then in all before it; last: in all */
  int rank;
  const int64_t *n;      /* sizes by dimension */
  char *to;              /* a row for each element found: coordinates, or an item */
  int64_t width;         /* bytes of a coordinate, 4 or 8, or of an item */
  const char *items;     /* an item for each element: address of the first, */
  const int64_t *s;      /* and strides by dimension */
} anydml_search;

/* Write a flag for each element, and zeros up to a whole chunk; returns the number of elements. Plain loops, which
 * compilers vectorize. */
#define ANYDML_FLAGS(type)                                                       \
  for (int64_t k = 0; k < count; k++) {                                          \
    type x;                                                                      \
    memcpy(&x, from + k * (int64_t)sizeof x, sizeof x);                          \
    flags[k] = (x & (type)s->mask) != 0;                                         \
  }                                                                              \
  break
static int64_t anydml_flags(const anydml_search *s, int64_t piece, uint8_t *flags) {
  const char *from = s->from + piece * ANYDML_PIECE * s->size;
  const int64_t left = s->total - piece * ANYDML_PIECE, count = left < ANYDML_PIECE ? left : ANYDML_PIECE;
  switch (s->size) {
    case 1: ANYDML_FLAGS(uint8_t);
    case 2: ANYDML_FLAGS(uint16_t);
    case 4: ANYDML_FLAGS(uint32_t);
    default: ANYDML_FLAGS(uint64_t);
  }
  memset(flags + count, 0, (size_t)(-count & (ANYDML_CHUNK - 1)));
  return count;
}

/* Number of flags that are set in a chunk. */
static inline int64_t anydml_set(const uint8_t *flags) {
  uint64_t words[ANYDML_CHUNK / 8], sum = 0;
  memcpy(words, flags, ANYDML_CHUNK);
  for (int k = 0; k < ANYDML_CHUNK / 8; k++) sum += words[k];
  return (int64_t)(sum * 0x0101010101010101u >> 56);
}

static void anydml_count(const void *plan, int64_t first, int64_t last) {
  const anydml_search *s = (const anydml_search *)plan;
  uint8_t flags[ANYDML_PIECE];
  for (; first < last; first++) {
    const int64_t many = anydml_flags(s, first, flags);
    int64_t found = 0;
    for (int64_t k = 0; k < many; k += ANYDML_CHUNK) found += anydml_set(flags + k);
    s->rows[first] = found;
  }
}

/* Write the items whose flags are set, contiguously, at most `most`; returns their number. To avoid unpredictable
 * branches, every item is written, and overwritten by the next if its flag is not set; without room, to `aside` first. */
#define ANYDML_SELECT(name, size, room, put)                                     \
static int64_t anydml_select_##name(char *to, int64_t most, const uint8_t *flags, int64_t many, const char *items, int64_t stride, int64_t own) { \
  char aside[ANYDML_CHUNK * room] __attribute__((aligned(8)));                   \
  int64_t found = 0;                                                             \
  for (int64_t k = 0; k < many; k += ANYDML_CHUNK) {                             \
    const int64_t count = many - k < ANYDML_CHUNK ? many - k : ANYDML_CHUNK;     \
    if (count == ANYDML_CHUNK) {                                                 \
      const int64_t these = anydml_set(flags + k);                               \
      if (!these) continue;                                                      \
      if (these == ANYDML_CHUNK && stride == size && most - found >= these) {    \
        memcpy(to + found * size, items + k * size, ANYDML_CHUNK * size);        \
        found += these;                                                          \
        continue;                                                                \
      }                                                                          \
    }                                                                            \
    char *const start = most - found >= count ? to + found * size : aside;       \
    int64_t i = k, more = 0;                                                     \
    for (; i + 8 <= k + count; i += 8) {                                         \
      uint64_t before;                                                           \
      memcpy(&before, flags + i, 8);                                             \
      before *= 0x0101010101010101u;  /* prefix sums of flags, a byte each */    \
      char *const at = start + more * size;                                      \
      put(at, i, size, room);                                                    \
      _Pragma("GCC unroll 7") for (int j = 1; j < 8; j++) put(at + (before >> (8 * j - 8) & 255) * size, i + j, size, room); \
      more += (int64_t)(before >> 56);                                           \
    }                                                                            \
    for (; i < k + count; i++) {                                                 \
      put(start + more * size, i, size, room);                                   \
      more += flags[i];                                                          \
    }                                                                            \
    if (more > most - found) more = most - found;                                \
    if (start == aside) memcpy(to + found * size, aside, (size_t)(more * size)); \
    found += more;                                                               \
  }                                                                              \
  return found;                                                                  \
}
#define ANYDML_PUT_ITEM(at, i, size, room) memcpy(at, items + (i) * stride, size)
ANYDML_SELECT(1, 1, 1, ANYDML_PUT_ITEM)
ANYDML_SELECT(2, 2, 2, ANYDML_PUT_ITEM)
ANYDML_SELECT(4, 4, 4, ANYDML_PUT_ITEM)
ANYDML_SELECT(8, 8, 8, ANYDML_PUT_ITEM)
ANYDML_SELECT(16, 16, 16, ANYDML_PUT_ITEM)
/* Items of other sizes, `own`, at least half of `room`, are copied as two overlapping ends. */
#define ANYDML_PUT_ENDS(at, i, size, room) do { \
    char *const end = (at); \
    const char *const item = items + (i) * stride; \
    memcpy(end, item, room / 2); \
    memcpy(end + own - room / 2, item + own - room / 2, room / 2); } while (0)
ANYDML_SELECT(ends_4, own, 4, ANYDML_PUT_ENDS)
ANYDML_SELECT(ends_8, own, 8, ANYDML_PUT_ENDS)
ANYDML_SELECT(ends_16, own, 16, ANYDML_PUT_ENDS)
ANYDML_SELECT(ends_32, own, 32, ANYDML_PUT_ENDS)
#define ANYDML_PUT_PLACE(at, i, size, room) *(uint16_t *)(at) = (uint16_t)(i)
ANYDML_SELECT(places, 2, 2, ANYDML_PUT_PLACE)

/* As ANYDML_SELECT, for longer items. */
static int64_t anydml_select_long(char *to, int64_t most, const uint8_t *flags, int64_t many, const char *items, int64_t stride, int64_t size) {
  uint16_t places[ANYDML_PIECE];
  const int64_t found = anydml_select_places((char *)places, most, flags, many, NULL, 0, 2);
  for (int64_t k = 0, count; k < found; k += count) {
    count = 1;
    while (stride == size && k + count < found && places[k + count] == places[k] + count) count++;
    memcpy(to + k * size, items + places[k] * stride, (size_t)(count * size));
  }
  return found;
}

static int64_t anydml_select(char *to, int64_t most, const uint8_t *flags, int64_t many, const char *items, int64_t stride, int64_t size) {
  switch (size) {
    case 1: return anydml_select_1(to, most, flags, many, items, stride, size);
    case 2: return anydml_select_2(to, most, flags, many, items, stride, size);
    case 4: return anydml_select_4(to, most, flags, many, items, stride, size);
    case 8: return anydml_select_8(to, most, flags, many, items, stride, size);
    case 16: return anydml_select_16(to, most, flags, many, items, stride, size);
  }
  if (size < 4) return anydml_select_ends_4(to, most, flags, many, items, stride, size);
  if (size < 8) return anydml_select_ends_8(to, most, flags, many, items, stride, size);
  if (size < 16) return anydml_select_ends_16(to, most, flags, many, items, stride, size);
  if (size <= 32) return anydml_select_ends_32(to, most, flags, many, items, stride, size);
  return anydml_select_long(to, most, flags, many, items, stride, size);
}

/* Return the first place of the line that a place is in, and set the line's outer coordinates. */
static inline int64_t anydml_line(const anydml_search *s, int64_t place, int64_t *c) {
  const int line = s->rank - 1;
  int64_t rest = place / s->n[line];
  const int64_t begin = rest * s->n[line];
  for (int d = line - 1; d >= 0; d--) {
    c[d] = rest % s->n[d];
    rest /= s->n[d];
  }
  return begin;
}

static void anydml_items(const void *plan, int64_t first, int64_t last) {
  const anydml_search *s = (const anydml_search *)plan;
  uint8_t flags[ANYDML_PIECE];
  int64_t c[64], many, found;
  const int line = s->rank - 1;
  for (; first < last; first++) {
    const int64_t most = s->rows[first + 1] - s->rows[first], start = first * ANYDML_PIECE;
    char *const to = s->to + s->rows[first] * s->width;
    if (!most) continue;
    many = anydml_flags(s, first, flags);
    found = 0;
    for (int64_t k = 0, end; k < many; k = end) {
      const int64_t begin = anydml_line(s, start + k, c);
      const char *items = s->items + (start + k - begin) * s->s[line];
      for (int d = 0; d < line; d++) items += c[d] * s->s[d];
      end = begin + s->n[line] - start;
      if (end > many) end = many;
      found += anydml_select(to + found * s->width, most - found, flags + k, end - k, items, s->s[line], s->width);
    }
    /* Another thread may have written the elements since they were counted. */
    memset(to + found * s->width, 0, (size_t)((most - found) * s->width));
  }
}

static inline char *anydml_coordinate(char *to, int64_t width, int64_t value) {
  if (width == 8) memcpy(to, &value, 8);
  else {
    const uint32_t low = (uint32_t)value;
    memcpy(to, &low, 4);
  }
  return to + width;
}

static void anydml_coordinates(const void *plan, int64_t first, int64_t last) {
  const anydml_search *s = (const anydml_search *)plan;
  uint8_t flags[ANYDML_PIECE];
  uint16_t places[ANYDML_PIECE];
  int64_t c[64];
  const int line = s->rank - 1;
  for (; first < last; first++) {
    const int64_t row = s->rank * s->width, most = s->rows[first + 1] - s->rows[first], start = first * ANYDML_PIECE;
    char *to = s->to + s->rows[first] * row;
    if (!most) continue;
    const int64_t many = anydml_flags(s, first, flags);
    const int64_t found = anydml_select_places((char *)places, most, flags, many, NULL, 0, 2);
    memset(to + found * row, 0, (size_t)((most - found) * row));
    if (!line && s->width == 8) {
      for (int64_t k = 0; k < found; k++) ((int64_t *)to)[k] = start + places[k];
      continue;
    }
    int64_t begin = 0, end = 0;
    for (int64_t k = 0; k < found; k++) {
      const int64_t place = start + places[k];
      if (place >= end) {
        begin = anydml_line(s, place, c);
        end = begin + s->n[line];
      }
      for (int d = 0; d < line; d++) to = anydml_coordinate(to, s->width, c[d]);
      to = anydml_coordinate(to, s->width, place - begin);
    }
  }
}
#endif
