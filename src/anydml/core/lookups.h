/* Moves with lookups: for a segment of coordinates at a time, resolve the offsets, then copy the elements. Included once for each
 * instruction set, so it has no guard. */

/* Copy elements by arrays of offsets; without `tos`, the destination has stride `a`. */
static void K(copies)(char *to, int64_t a, const int64_t *tos, const char *from, const int64_t *froms, int64_t n, int64_t e) {
#define ANYDML_COPIES(size) case size: \
    if (tos) for (int64_t i = 0; i < n; i++) { int64_t x = froms[i]; ANYDML_SCALAR(x); memcpy(to + tos[i], from + x, size); } \
    else if (a == size) _Pragma("GCC unroll 4") for (int64_t i = 0; i < n; i++) { int64_t x = froms[i]; ANYDML_SCALAR(x); memcpy(to + i * size, from + x, size); } \
    else for (int64_t i = 0; i < n; i++, to += a) { int64_t x = froms[i]; ANYDML_SCALAR(x); memcpy(to, from + x, size); } \
    return;
  switch (e) {
    ANYDML_COPIES(1) ANYDML_COPIES(2) ANYDML_COPIES(3) ANYDML_COPIES(4) ANYDML_COPIES(6) ANYDML_COPIES(8) ANYDML_COPIES(12)
    ANYDML_COPIES(16) ANYDML_COPIES(32) ANYDML_COPIES(64)
  }
  const int64_t ahead = e >= ANYDML_PREFETCHED ? 2 : ANYDML_PREFETCHED * 4 / e < 24 ? ANYDML_PREFETCHED * 4 / e : 24;
  for (int64_t i = 0; i < n; i++) {
    if (i + ahead < n) {
      const char *soon = from + froms[i + ahead];
      for (int64_t k = 0; k < e - 1 && k < ANYDML_PREFETCHED; k += 64) __builtin_prefetch(soon + k, 0, 3);
      if (e < ANYDML_PREFETCHED) __builtin_prefetch(soon + e - 1, 0, 3);
    }
    K(copy)(tos ? to + tos[i] : to + i * a, from + froms[i], e);
  }
}

/* As `copies`, but some elements are skipped, or each is a pattern that is repeated, as `froms` are then 0. */
static void K(copies_one_by_one)(const anydml_task *s, char *to, const int64_t *tos, const char *from, const int64_t *froms, const uint8_t *skipped, int64_t n) {
  const int64_t e = s->element, run = s->pattern ? s->pattern : e;
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < e && !(skipped && skipped[i]); k += run)
      K(copy)(to + tos[i] + k, from + froms[i], e - k < run ? e - k : run);
}

/* Whether contiguous indices are in range; signed ones count from either end. Without branches: unsigned indices that are
 * far out of range are negative here, and so are sums that are too large. */
static int K(in_range)(const char *at, int type, int64_t n, int64_t size) {
  const uint64_t low = type < 0 ? (uint64_t)size : 0, most = (uint64_t)size - 1;
  uint64_t wrong = 0;
#define ANYDML_INSIDE(type) for (int64_t i = 0; i < n; i++) { \
    type v; memcpy(&v, at + i * (int64_t)sizeof v, sizeof v); \
    wrong |= ((uint64_t)v + low) | (most - (uint64_t)v); }
  if (type == 4) ANYDML_INSIDE(uint32_t)
  else if (type == -4) ANYDML_INSIDE(int32_t)
  else ANYDML_INSIDE(uint64_t)
  return (int64_t)wrong >= 0;
}

/* Add `stride · index` to offsets; `inner`, if not NULL, has an additional offset of each index's address. */
#define ANYDML_RESOLVE(name, type, wraps) \
static void K(resolve_##name)(const anydml_lookup *l, const char *at, int64_t b1, int64_t n1, int64_t b0, int64_t n0, \
                              const int64_t *inner, int64_t *sum, uint8_t *skipped) { \
  const int64_t size = l->size, stride = l->stride; \
  int outside = 0; \
  for (int64_t i1 = 0; i1 < n1; i1++, at += b1) { \
    if (!inner && l->outside == ANYDML_CLAMP && b0 == (int64_t)sizeof(type)) { \
      for (int64_t i = 0; i < n0; i++) { \
        type v; memcpy(&v, at + i * sizeof(type), sizeof(type)); \
        int64_t x = ANYDML_INDEX_##wraps(v, size); \
        x = x < 0 ? 0 : x >= size ? size - 1 : x; \
        sum[i] += x * stride; \
      } \
      if (l->refused && !K(in_range)(at, wraps ? -(int)sizeof(type) : (int)sizeof(type), n0, size)) outside = 1; \
    } else for (int64_t i = 0; i < n0; i++) { \
      type v; memcpy(&v, at + i * b0 + (inner ? inner[i] : 0), sizeof(type)); \
      int64_t x = ANYDML_INDEX_##wraps(v, size); \
      if (x < 0 || x >= size) { \
        if (l->outside == ANYDML_SKIP) { skipped[i] = 1; x = 0; } else outside |= !(l->outside == ANYDML_REFUSE && skipped && skipped[i]); \
        x = x < 0 ? 0 : x >= size ? size - 1 : x; \
      } \
      sum[i] += x * stride; \
    } \
    sum += n0; \
    if (inner) inner += n0; \
    if (skipped) skipped += n0; \
  } \
  if (outside && l->refused) __atomic_store_n(l->refused, 1, __ATOMIC_RELAXED); \
}
#define ANYDML_INDEX_1(v, size) ((int64_t)(v) + ((v) < 0 ? size : 0))
#define ANYDML_INDEX_0(v, size) ((uint64_t)(v) >= (uint64_t)size ? size : (int64_t)(v))
ANYDML_RESOLVE(i4, int32_t, 1) ANYDML_RESOLVE(i8, int64_t, 1) ANYDML_RESOLVE(u4, uint32_t, 0) ANYDML_RESOLVE(u8, uint64_t, 0) ANYDML_RESOLVE(u1, uint8_t, 0)

typedef struct {
  int64_t to[ANYDML_SEGMENT], from[ANYDML_SEGMENT];
  int64_t at[ANYDML_LOOKUPS][ANYDML_NESTED];
  uint8_t skipped[ANYDML_SEGMENT];
} K(offsets);

static inline void K(stride_offsets)(int64_t *sum, int64_t b1, int64_t n1, int64_t b0, int64_t n0) {
  for (int64_t i1 = 0; i1 < n1; i1++, sum += n0)
    for (int64_t i = 0; i < n0; i++) sum[i] = i1 * b1 + i * b0;
}

/* Strides of a lookup's indices between lines of a plane, and along a line. */
static inline int64_t K(line_stride)(const anydml_move *m, const anydml_lookup *l) { return m->rank > 1 ? l->b[m->rank - 2] : 0; }
static inline int64_t K(element_stride)(const anydml_move *m, const anydml_lookup *l) { return m->rank ? l->b[m->rank - 1] : 0; }

/* The address of the index for line i1 and element i0 of the plane at coordinates c. */
static inline const char *K(index_at)(const anydml_task *s, const anydml_lookup *l, const int64_t *c, int64_t i1, int64_t i0) {
  const char *at = l->at + i1 * K(line_stride)(s->move, l) + i0 * K(element_stride)(s->move, l);
  for (int d = 0; d < s->rank; d++) at += c[d] * l->b[d];
  return at;
}

/* Compute the offsets of n1 lines of n0 elements from line i1 and element i0 on; returns whether some may be skipped. */
static int K(offsets_of)(const anydml_task *s, K(offsets) *o, const int64_t *c, int64_t i1, int64_t i0, int64_t n1, int64_t n0, int has_tos) {
  const anydml_move *m = s->move;
  const int64_t n = n1 * n0;
  int skips = 0, nested = 0;
  for (int k = 0; k < m->lookups; k++) {
    skips |= m->lookup[k].outside == ANYDML_SKIP;
    if (m->lookup[k].into >= 0) { K(stride_offsets)(o->at[(int)m->lookup[k].into], 0, 1, 0, n); nested |= 1 << m->lookup[k].into; }
  }
  if (has_tos) K(stride_offsets)(o->to, s->a1, n1, s->a0, n0);
  K(stride_offsets)(o->from, s->b1, n1, s->b0, n0);
  for (int64_t i = 0; skips && i < n; i++) o->skipped[i] = 0;
  for (int k = 0; k < m->lookups; k++) {
    const anydml_lookup *l = m->lookup + k;
    const int64_t b1 = K(line_stride)(m, l), b0 = K(element_stride)(m, l);
    const char *at = K(index_at)(s, l, c, i1, i0);
    int64_t *sum = l->into == -1 ? o->from : l->into == -2 ? o->to : o->at[(int)l->into];
    const int64_t *inner = nested >> k & 1 ? o->at[k] : NULL;
    uint8_t *skipped = skips ? o->skipped : NULL;
    switch (l->type) {
      case 1: K(resolve_u1)(l, at, b1, n1, b0, n0, inner, sum, skipped); break;
      case 4: K(resolve_u4)(l, at, b1, n1, b0, n0, inner, sum, skipped); break;
      case -4: K(resolve_i4)(l, at, b1, n1, b0, n0, inner, sum, skipped); break;
      case 8: K(resolve_u8)(l, at, b1, n1, b0, n0, inner, sum, skipped); break;
      default: K(resolve_i8)(l, at, b1, n1, b0, n0, inner, sum, skipped); break;
    }
  }
  return skips;
}

/* Copy elements to a packed destination, with non-temporal stores. */
static void K(copies_streamed)(K(sink) *sink, const char *from, const int64_t *froms, int64_t n, int64_t e) {
  if (e > 64) {
    int64_t ahead = ANYDML_AHEAD / e + 1;
    for (int64_t i = 0; i < n; i++) {
      const char *soon = from + froms[i + ahead < n ? i + ahead : n - 1];
      K(sink_put)(sink, from + froms[i], e, soon);
    }
    return;
  }
  for (int64_t i = 0; i < n;) {
    int64_t more = (ANYDML_SINK - sink->fill) / e;
    if (more > n - i) more = n - i;
    K(copies)(sink->data + sink->fill, e, NULL, from, froms + i, more, e);
    sink->fill += more * e;
    i += more;
    if (i < n) K(sink_flush)(sink);
  }
}

#include "single_lookup_kernels.h"

/* Move a part of a plane. */
static void K(lookup_plane)(const anydml_task *s, const int64_t *c, int64_t i1, int64_t i0, char *to, const char *from, int64_t n1, int64_t n0) {
  const anydml_move *m = s->move;
  const int64_t e = s->element;
  int nested = 0, has_tos = 0, is_shared = m->rank > 1, is_single = !s->pattern && !s->streamed && n0 >= ANYDML_SINGLE_FROM;
  if (K(try_by_index)(s, c, i1, i0, to, from, n1, n0)) return;
  for (int k = 0; k < m->lookups; k++) {
    const anydml_lookup *l = m->lookup + k;
    nested |= l->into >= 0;
    has_tos |= l->into == -2 || l->outside == ANYDML_SKIP;
    is_shared &= !K(line_stride)(m, l);
    is_single &= !K(element_stride)(m, l);
  }
  /* Lines of a destination without lookups follow each other, or are processed one by one. */
  const int follows = n1 == 1 || (s->a1 == s->a0 * s->n0 && n0 == s->n0);
  is_shared &= !has_tos && !s->pattern && n1 > 1;
  has_tos |= s->pattern != 0;
  const int64_t most = nested ? ANYDML_NESTED : ANYDML_SEGMENT;
  K(offsets) o;
  if (is_single) {
    /* One index for each line. */
    for (int64_t i = 0; i < n1; i += most) {
      const int64_t lines = n1 - i < most ? n1 - i : most;
      const int skips = K(offsets_of)(s, &o, c, i1 + i, i0, lines, 1, 1);
      for (int64_t k = 0; k < lines; k++)
        if (!skips || !o.skipped[k]) s->plane(s, to + i * s->a1 + o.to[k], from + i * s->b1 + o.from[k], 1, n0);
    }
    return;
  }
  const int64_t p0 = n0 < most ? n0 : most;
  const int64_t p1 = p0 < n0 || is_shared || (!follows && !has_tos) ? 1 : most / p0 < n1 ? most / p0 : n1;
  const int is_streamed = s->streamed && !has_tos && s->a0 == e;
  K(sink) sink;
  char *end = NULL;
  if (is_shared) {
    for (int64_t j = 0; j < n0; j += p0) {
      int64_t count = n0 - j < p0 ? n0 - j : p0;
      K(offsets_of)(s, &o, c, i1, i0 + j, 1, count, 0);
      for (int64_t i = 0; i < n1; i++) {
        char *t = to + i * s->a1 + j * s->a0;
        const char *f = from + i * s->b1 + j * s->b0;
        if (is_streamed) {
          K(sink_from)(&sink, t, end);
          K(copies_streamed)(&sink, f, o.from, count, e);
          end = t + count * e;
        } else K(copies)(t, s->a0, NULL, f, o.from, count, e);
      }
    }
    if (end) K(sink_close)(&sink);
    return;
  }
  for (int64_t i = 0; i < n1; i += p1) {
    int64_t lines = n1 - i < p1 ? n1 - i : p1;
    for (int64_t j = 0; j < n0; j += p0) {
      int64_t count = n0 - j < p0 ? n0 - j : p0;
      char *t = to + i * s->a1 + j * s->a0;
      const char *f = from + i * s->b1 + j * s->b0;
      int skips = K(offsets_of)(s, &o, c, i1 + i, i0 + j, lines, count, has_tos);
      if (s->pattern || skips) K(copies_one_by_one)(s, t, o.to, f, o.from, skips ? o.skipped : NULL, lines * count);
      else if (is_streamed) {
        K(sink_from)(&sink, t, end);
        K(copies_streamed)(&sink, f, o.from, lines * count, e);
        end = t + lines * count * e;
      } else K(copies)(t, s->a0, has_tos ? o.to : NULL, f, o.from, lines * count, e);
    }
  }
  if (end) K(sink_close)(&sink);
}

/* Check the indices that must be in range; nothing is moved. */
static void K(check)(const anydml_task *s, const int64_t *c, int64_t i1, int64_t i0, char *to, const char *from, int64_t n1, int64_t n0) {
  const anydml_move *m = s->move;
  int nested = 0, are_left = 0;
  for (int k = 0; k < m->lookups; k++) {
    const anydml_lookup *l = m->lookup + k;
    if (l->into >= 0) nested |= 1 << l->into;
    if (!l->refused) continue;
    if (nested >> k & 1 || l->type == 1 || K(element_stride)(m, l) != (l->type < 0 ? -l->type : l->type)) { are_left = 1; continue; }
    const char *at = K(index_at)(s, l, c, i1, i0);
    for (int64_t i = 0; i < n1; i++, at += K(line_stride)(m, l))
      if (!K(in_range)(at, l->type, n0, l->size)) *l->refused = 1;
  }
  K(offsets) o;
  for (int64_t i = 0; i < n1 && are_left; i++)
    for (int64_t j = 0; j < n0; j += ANYDML_NESTED) K(offsets_of)(s, &o, c, i1 + i, i0 + j, 1, n0 - j < ANYDML_NESTED ? n0 - j : ANYDML_NESTED, 0);
}
