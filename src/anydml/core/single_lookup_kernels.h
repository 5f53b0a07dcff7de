/* Moves by one lookup with contiguous indices or masks, without intermediate offsets. Included once for each
 * instruction set, so it has no guard. */

/* Copy a line's elements from `from` where the mask is 0, from `base` elsewhere; strides at both are 0 or those of contiguous
 * elements, and `base` may be `to`. */
#define ANYDML_SELECT_BY_MASK(e, word) \
static void K(select##e)(char *to, const char *base, int64_t d, const char *from, int64_t b, const char *mask, int64_t n) { \
  enum { N = K(W) / e }; \
  typedef word vector __attribute__((vector_size(K(W)), aligned(1), may_alias)); \
  typedef int8_t bytes __attribute__((vector_size(N), aligned(1), may_alias)); \
  word one, other; memcpy(&one, from, e); memcpy(&other, base, e); \
  const vector all = one - (vector){0}, rest = other - (vector){0}; \
  int64_t i = 0; \
  for (; i + N <= n; i += N) { \
    bytes zero = (bytes)(*(const bytes *)(mask + i) == 0); \
    vector chosen = __builtin_convertvector(zero, vector), old = d ? *(const vector *)(base + i * e) : rest; \
    vector source = b ? *(const vector *)(from + i * e) : all; \
    *(vector *)(to + i * e) = (source & chosen) | (old & ~chosen); \
  } \
  for (; i < n; i++) { word x; memcpy(&x, mask[i] ? base + i * d : from + i * b, e); memcpy(to + i * e, &x, e); } \
}
ANYDML_SELECT_BY_MASK(1, int8_t) ANYDML_SELECT_BY_MASK(2, int16_t) ANYDML_SELECT_BY_MASK(4, int32_t) ANYDML_SELECT_BY_MASK(8, int64_t)

static void K(select16)(char *to, const char *base, int64_t d, const char *from, int64_t b, const char *mask, int64_t n) {
  for (int64_t i = 0; i < n; i++, to += 16, base += d, from += b) {
    const uint64_t chosen = (uint64_t)(mask[i] != 0) - 1;
    const anydml_d16 all = {chosen, chosen}, old = (anydml_d16)*(const anydml_v16 *)base;
    *(anydml_v16 *)to = (anydml_v16)(((anydml_d16)*(const anydml_v16 *)from & all) | (old & ~all));
  }
}

/* Elements chosen by a mask with stride `s`: those of `base` where it is not 0. */
static void K(select)(char *to, int64_t a, const char *base, int64_t d, const char *from, int64_t b, const char *mask, int64_t s, int64_t n, int64_t e) {
  if (a == e && s == 1 && (!d || d == e) && (!b || b == e)) switch (e) {
    case 1: K(select1)(to, base, d, from, b, mask, n); return;
    case 2: K(select2)(to, base, d, from, b, mask, n); return;
    case 4: K(select4)(to, base, d, from, b, mask, n); return;
    case 8: K(select8)(to, base, d, from, b, mask, n); return;
    case 16: K(select16)(to, base, d, from, b, mask, n); return;
  }
  for (; n > 0; n--, to += a, base += d, from += b, mask += s)
    if (!*mask || base != to) K(copy)(to, *mask ? base : from, e);
}

/* Lines of elements chosen by a mask. */
static void K(select_plane)(const anydml_task *s, const int64_t *c, int64_t i1, int64_t i0, char *to, const char *from, int64_t n1, int64_t n0) {
  const anydml_move *m = s->move;
  const anydml_lookup *l = m->lookup;
  const int64_t e = s->element, s0 = K(element_stride)(m, l), s1 = K(line_stride)(m, l), d0 = s->d[m->rank - 1], d1 = m->rank > 1 ? s->d[m->rank - 2] : 0;
  const int64_t ahead = 1 + ANYDML_AHEAD / e;
  const char *mask = K(index_at)(s, l, c, i1, i0), *base = s->base + i1 * d1 + i0 * d0, *end = NULL;
  for (int k = 0; k < s->rank; k++) base += c[k] * s->d[k];
  K(sink) sink;
  for (; n1 > 0; n1--, to += s->a1, from += s->b1, base += d1, mask += s1) {
    if (!s->streamed) { K(select)(to, s->a0, base, d0, from, s->b0, mask, s0, n0, e); continue; }
    K(sink_from)(&sink, to, end);
    for (int64_t i = 0, most; i < n0; i += most) {
      if (e > 64) {
        const int64_t next = i + ahead < n0 ? i + ahead : i;
        K(sink_put)(&sink, mask[i * s0] ? base + i * d0 : from + i * s->b0, e, mask[next * s0] ? base + next * d0 : from + next * s->b0);
        most = 1;
        continue;
      }
      most = (ANYDML_SINK - sink.fill) / e;
      if (most > n0 - i) most = n0 - i;
      K(select)(sink.data + sink.fill, e, base + i * d0, d0, from + i * s->b0, s->b0, mask + i * s0, s0, most, e);
      sink.fill += most * e;
      K(sink_flush)(&sink);
    }
    end = to + n0 * e;
  }
  if (end) K(sink_close)(&sink);
}

/* Copy the elements of lines, each by one independent index: from it in `pick`, to it in `put`. `run` is the elements'
 * stride at that end; they are contiguous at the other. */
#define ANYDML_INDEX_AT(i, type, wraps) \
  type v; memcpy(&v, at + (i) * sizeof(type), sizeof(type)); \
  int64_t x = (int64_t)v + (wraps ? (int64_t)v >> 63 & size : 0)
/* Elements of an axis beyond the caches are prefetched; prefetches by invalid indices do no harm. */
#define ANYDML_MOVE_BY(type, wraps, size_of, foreseen, to_at, from_at) \
  const int64_t most = foreseen && size * (stride < 0 ? -stride : stride) >= ANYDML_FAR ? ANYDML_FORESEEN : n0; \
  for (; n1 > 0; n1--, to += a1, from += b1, at += s1) { \
    for (int64_t first = 0, last = most; first < n0; first = last, last += most) { \
      if (last > n0) last = n0; \
      for (int64_t i = last; i < n0 && i < last + most; i++) { \
        ANYDML_INDEX_AT(i, type, wraps); \
        const uintptr_t soon = (uintptr_t)from + (uint64_t)i * (uint64_t)run + (uint64_t)x * (uint64_t)stride; \
        for (int k = 0; k < size_of; k += 64) __builtin_prefetch((const char *)(soon + k), 0, 3); \
        if (size_of > 16) __builtin_prefetch((const char *)(soon + size_of - 1), 0, 3); \
      } \
      _Pragma("GCC unroll 4") for (int64_t i = first; i < last; i++) { \
        ANYDML_INDEX_AT(i, type, wraps); \
        if (__builtin_expect((uint64_t)x >= (uint64_t)size, 0)) { \
          if (l->outside == ANYDML_SKIP) continue; \
          x = wraps && x < 0 ? 0 : size - 1; \
          if (l->refused) __atomic_store_n(l->refused, 1, __ATOMIC_RELAXED); \
        } \
        ANYDML_SCALAR(x); \
        memcpy(to_at, from_at, size_of); \
      } \
    } \
  } \
  return
#define ANYDML_PICK_BY(type, wraps, size_of) \
  if (size_of <= 8 && stride == size_of && !run) { ANYDML_MOVE_BY(type, wraps, size_of, 1, to + i * size_of, from + x * size_of); } \
  ANYDML_MOVE_BY(type, wraps, size_of, 1, to + i * size_of, from + i * run + x * stride)
#define ANYDML_PUT_BY(type, wraps, size_of) ANYDML_MOVE_BY(type, wraps, size_of, 0, to + i * run + x * stride, from + i * size_of)
#define ANYDML_BY_INDEX(name, e, by) static void K(name##e)(char *to, int64_t a1, const char *from, int64_t b1, const anydml_lookup *l, const char *at, int64_t s1, int64_t n1, int64_t n0, int64_t run) { \
  const int64_t size = l->size, stride = l->stride; \
  switch (l->type) { \
    case -4: { by(int32_t, 1, e); } \
    case 4: { by(uint32_t, 0, e); } \
    case 8: { by(uint64_t, 0, e); } \
    default: { by(int64_t, 1, e); } \
  } }
#define ANYDML_BY(e) ANYDML_BY_INDEX(pick, e, ANYDML_PICK_BY) ANYDML_BY_INDEX(put, e, ANYDML_PUT_BY)
ANYDML_BY(1) ANYDML_BY(2) ANYDML_BY(3) ANYDML_BY(4) ANYDML_BY(6) ANYDML_BY(8)
ANYDML_BY(12) ANYDML_BY(16) ANYDML_BY(24) ANYDML_BY(32) ANYDML_BY(48) ANYDML_BY(64)
ANYDML_BY(128) ANYDML_BY(256)

typedef void (*K(by_index))(char *to, int64_t a1, const char *from, int64_t b1, const anydml_lookup *l, const char *at, int64_t s1, int64_t n1, int64_t n0, int64_t run);
#define ANYDML_EVERY(name) { \
  [1] = K(name##1), [2] = K(name##2), [3] = K(name##3), [4] = K(name##4), [6] = K(name##6), [8] = K(name##8), [12] = K(name##12), \
  [16] = K(name##16), [24] = K(name##24), [32] = K(name##32), [48] = K(name##48), [64] = K(name##64), [128] = K(name##128), [256] = K(name##256)}
static const K(by_index) K(picks)[257] = ANYDML_EVERY(pick), K(puts)[257] = ANYDML_EVERY(put);

static int K(try_by_index)(const anydml_task *s, const int64_t *c, int64_t i1, int64_t i0, char *to, const char *from, int64_t n1, int64_t n0) {
  const anydml_move *m = s->move;
  const anydml_lookup *l = m->lookup;
  const int64_t e = s->element;
  const int is_put = l->into == -2;
  if (m->lookups != 1 || s->pattern || l->outside == ANYDML_REFUSE || l->type == 1 || !m->rank || e > 256 || !K(picks)[e] || (s->streamed && e > 64)) return 0;
  if (is_put ? s->b0 != e : (s->b0 && l->size > ANYDML_COLUMN) || s->a0 != e || l->outside == ANYDML_SKIP) return 0;
  if (K(element_stride)(m, l) != (l->type < 0 ? -l->type : l->type)) return 0;
  const int64_t s1 = K(line_stride)(m, l);
  /* Indices that lines share are resolved once, by the general kernel. */
  if (n1 > 1 && !s1 && !is_put) return 0;
  (is_put ? K(puts) : K(picks))[e](to, s->a1, from, s->b1, l, K(index_at)(s, l, c, i1, i0), s1, n1, n0, is_put ? s->a0 : s->b0);
  return 1;
}
