/* Search for nonzero elements in two passes: count them block by block, then write their coordinates or items. */
#ifndef ANYDML_NONZERO_SEARCH_H
#define ANYDML_NONZERO_SEARCH_H
#include <stdint.h>
#include <string.h>

enum {
  ANYDML_SEARCH_BLOCK = 4096, /* elements that are tested at a time */
  ANYDML_FLAG_GROUP = 64,     /* elements that are skipped if all are zero, or copied at once if none is */
};

typedef struct {
  const char *elements;      /* packed */
  int64_t element_count;
  int64_t element_size;      /* bytes of an element: 1, 2, 4 or 8 */
  uint64_t mask;             /* the bits that make an element nonzero */
  int64_t block_count;
  int64_t *found_before;     /* by block: first the number found in it, then the number found in all blocks before it;
                              * the last entry is the number found in all blocks */
  int rank;
  const int64_t *sizes;      /* by dimension */
  char *output;              /* a row for each element found: its coordinates, or its item */
  int64_t output_size;       /* bytes of a coordinate, 4 or 8, or of an item */
  const char *items;         /* the item of the first element, */
  const int64_t *item_strides; /* and the strides to those of the others, by dimension */
} anydml_search;

/* Write a flag for each element of a block, and zeros up to a whole group; returns the number of elements. The loops are
 * plain, so that compilers vectorize them. */
#define ANYDML_FLAGS(type)                                                       \
  for (int64_t k = 0; k < count; k++) {                                          \
    type x;                                                                      \
    memcpy(&x, from + k * (int64_t)sizeof x, sizeof x);                          \
    flags[k] = (x & (type)search->mask) != 0;                                         \
  }                                                                              \
  break
static int64_t anydml_flags(const anydml_search *search, int64_t block, uint8_t *flags) {
  const char *from = search->elements + block * ANYDML_SEARCH_BLOCK * search->element_size;
  const int64_t left = search->element_count - block * ANYDML_SEARCH_BLOCK, count = left < ANYDML_SEARCH_BLOCK ? left : ANYDML_SEARCH_BLOCK;
  switch (search->element_size) {
    case 1: ANYDML_FLAGS(uint8_t);
    case 2: ANYDML_FLAGS(uint16_t);
    case 4: ANYDML_FLAGS(uint32_t);
    default: ANYDML_FLAGS(uint64_t);
  }
  memset(flags + count, 0, (size_t)(-count & (ANYDML_FLAG_GROUP - 1)));
  return count;
}

/* Return the number of flags that are set in a group. */
static inline int64_t anydml_count_set(const uint8_t *flags) {
  uint64_t words[ANYDML_FLAG_GROUP / 8], sum = 0;
  memcpy(words, flags, ANYDML_FLAG_GROUP);
  for (int k = 0; k < ANYDML_FLAG_GROUP / 8; k++) sum += words[k];
  return (int64_t)(sum * 0x0101010101010101u >> 56);
}

static void anydml_count(const void *plan, int64_t first, int64_t last) {
  const anydml_search *search = (const anydml_search *)plan;
  uint8_t flags[ANYDML_SEARCH_BLOCK];
  for (; first < last; first++) {
    const int64_t flag_count = anydml_flags(search, first, flags);
    int64_t found = 0;
    for (int64_t k = 0; k < flag_count; k += ANYDML_FLAG_GROUP) found += anydml_count_set(flags + k);
    search->found_before[first] = found;
  }
}

/* Write the items whose flags are set, contiguously, at most `max_found`; returns their number. To avoid unpredictable
 * branches, every item is written, and overwritten by the next if its flag is not set; without room, to `aside` first. */
#define ANYDML_DEFINE_SELECT(name, size, room, put)                                     \
static int64_t anydml_select_##name(char *to, int64_t max_found, const uint8_t *flags, int64_t flag_count, const char *items, int64_t stride, int64_t item_size) { \
  char aside[ANYDML_FLAG_GROUP * room] __attribute__((aligned(8)));                   \
  int64_t found = 0;                                                             \
  for (int64_t k = 0; k < flag_count; k += ANYDML_FLAG_GROUP) {                             \
    const int64_t count = flag_count - k < ANYDML_FLAG_GROUP ? flag_count - k : ANYDML_FLAG_GROUP;     \
    if (count == ANYDML_FLAG_GROUP) {                                                 \
      const int64_t these = anydml_count_set(flags + k);                               \
      if (!these) continue;                                                      \
      if (these == ANYDML_FLAG_GROUP && stride == size && max_found - found >= these) {    \
        memcpy(to + found * size, items + k * size, ANYDML_FLAG_GROUP * size);        \
        found += these;                                                          \
        continue;                                                                \
      }                                                                          \
    }                                                                            \
    char *const start = max_found - found >= count ? to + found * size : aside;       \
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
    if (more > max_found - found) more = max_found - found;                                \
    if (start == aside) memcpy(to + found * size, aside, (size_t)(more * size)); \
    found += more;                                                               \
  }                                                                              \
  return found;                                                                  \
}
#define ANYDML_PUT_ITEM(at, i, size, room) memcpy(at, items + (i) * stride, size)
ANYDML_DEFINE_SELECT(1, 1, 1, ANYDML_PUT_ITEM)
ANYDML_DEFINE_SELECT(2, 2, 2, ANYDML_PUT_ITEM)
ANYDML_DEFINE_SELECT(4, 4, 4, ANYDML_PUT_ITEM)
ANYDML_DEFINE_SELECT(8, 8, 8, ANYDML_PUT_ITEM)
ANYDML_DEFINE_SELECT(16, 16, 16, ANYDML_PUT_ITEM)
/* Items of other sizes, at least half of `room`, are copied as two overlapping halves of `room`. */
#define ANYDML_PUT_ENDS(at, i, size, room) do { \
    char *const end = (at); \
    const char *const item = items + (i) * stride; \
    memcpy(end, item, room / 2); \
    memcpy(end + item_size - room / 2, item + item_size - room / 2, room / 2); } while (0)
ANYDML_DEFINE_SELECT(ends_4, item_size, 4, ANYDML_PUT_ENDS)
ANYDML_DEFINE_SELECT(ends_8, item_size, 8, ANYDML_PUT_ENDS)
ANYDML_DEFINE_SELECT(ends_16, item_size, 16, ANYDML_PUT_ENDS)
ANYDML_DEFINE_SELECT(ends_32, item_size, 32, ANYDML_PUT_ENDS)
#define ANYDML_PUT_POSITION(at, i, size, room) *(uint16_t *)(at) = (uint16_t)(i)
ANYDML_DEFINE_SELECT(positions, 2, 2, ANYDML_PUT_POSITION)

/* As ANYDML_DEFINE_SELECT, for longer items. */
static int64_t anydml_select_long(char *to, int64_t max_found, const uint8_t *flags, int64_t flag_count, const char *items, int64_t stride, int64_t size) {
  uint16_t positions[ANYDML_SEARCH_BLOCK];
  const int64_t found = anydml_select_positions((char *)positions, max_found, flags, flag_count, NULL, 0, 2);
  for (int64_t k = 0, count; k < found; k += count) {
    count = 1;
    while (stride == size && k + count < found && positions[k + count] == positions[k] + count) count++;
    memcpy(to + k * size, items + positions[k] * stride, (size_t)(count * size));
  }
  return found;
}

static int64_t anydml_select(char *to, int64_t max_found, const uint8_t *flags, int64_t flag_count, const char *items, int64_t stride, int64_t size) {
  switch (size) {
    case 1: return anydml_select_1(to, max_found, flags, flag_count, items, stride, size);
    case 2: return anydml_select_2(to, max_found, flags, flag_count, items, stride, size);
    case 4: return anydml_select_4(to, max_found, flags, flag_count, items, stride, size);
    case 8: return anydml_select_8(to, max_found, flags, flag_count, items, stride, size);
    case 16: return anydml_select_16(to, max_found, flags, flag_count, items, stride, size);
  }
  if (size < 4) return anydml_select_ends_4(to, max_found, flags, flag_count, items, stride, size);
  if (size < 8) return anydml_select_ends_8(to, max_found, flags, flag_count, items, stride, size);
  if (size < 16) return anydml_select_ends_16(to, max_found, flags, flag_count, items, stride, size);
  if (size <= 32) return anydml_select_ends_32(to, max_found, flags, flag_count, items, stride, size);
  return anydml_select_long(to, max_found, flags, flag_count, items, stride, size);
}

/* Return the number of the first element of an element's line, and set the line's outer coordinates. */
static inline int64_t anydml_locate_line(const anydml_search *search, int64_t number, int64_t *c) {
  const int line = search->rank - 1;
  int64_t rest = number / search->sizes[line];
  const int64_t begin = rest * search->sizes[line];
  for (int d = line - 1; d >= 0; d--) {
    c[d] = rest % search->sizes[d];
    rest /= search->sizes[d];
  }
  return begin;
}

static void anydml_items(const void *plan, int64_t first, int64_t last) {
  const anydml_search *search = (const anydml_search *)plan;
  uint8_t flags[ANYDML_SEARCH_BLOCK];
  int64_t c[64], flag_count, found;
  const int line = search->rank - 1;
  for (; first < last; first++) {
    const int64_t max_found = search->found_before[first + 1] - search->found_before[first], start = first * ANYDML_SEARCH_BLOCK;
    char *const to = search->output + search->found_before[first] * search->output_size;
    if (!max_found) continue;
    flag_count = anydml_flags(search, first, flags);
    found = 0;
    for (int64_t k = 0, end; k < flag_count; k = end) {
      const int64_t begin = anydml_locate_line(search, start + k, c);
      const char *items = search->items + (start + k - begin) * search->item_strides[line];
      for (int d = 0; d < line; d++) items += c[d] * search->item_strides[d];
      end = begin + search->sizes[line] - start;
      if (end > flag_count) end = flag_count;
      found += anydml_select(to + found * search->output_size, max_found - found, flags + k, end - k, items, search->item_strides[line], search->output_size);
    }
    /* Another thread may have written the elements since they were counted. */
    memset(to + found * search->output_size, 0, (size_t)((max_found - found) * search->output_size));
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
  const anydml_search *search = (const anydml_search *)plan;
  uint8_t flags[ANYDML_SEARCH_BLOCK];
  uint16_t positions[ANYDML_SEARCH_BLOCK];
  int64_t c[64];
  const int line = search->rank - 1;
  for (; first < last; first++) {
    const int64_t row = search->rank * search->output_size, max_found = search->found_before[first + 1] - search->found_before[first], start = first * ANYDML_SEARCH_BLOCK;
    char *to = search->output + search->found_before[first] * row;
    if (!max_found) continue;
    const int64_t flag_count = anydml_flags(search, first, flags);
    const int64_t found = anydml_select_positions((char *)positions, max_found, flags, flag_count, NULL, 0, 2);
    memset(to + found * row, 0, (size_t)((max_found - found) * row));
    if (!line && search->output_size == 8) {
      for (int64_t k = 0; k < found; k++) ((int64_t *)to)[k] = start + positions[k];
      continue;
    }
    int64_t begin = 0, end = 0;
    for (int64_t k = 0; k < found; k++) {
      const int64_t place = start + positions[k];
      if (place >= end) {
        begin = anydml_locate_line(search, place, c);
        end = begin + search->sizes[line];
      }
      for (int d = 0; d < line; d++) to = anydml_coordinate(to, search->output_size, c[d]);
      to = anydml_coordinate(to, search->output_size, place - begin);
    }
  }
}
#endif
