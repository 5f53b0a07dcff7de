/* Moves by one lookup with contiguous indices or masks, without intermediate offsets. */

/* Copy the elements of a line where the mask is 0; others are written back unchanged. */
#define ANYDML_SELECT_BY_MASK(e, word) \
static void K(select##e)(char *to, const char *from, int64_t b, const char *mask, int64_t n) { \
  enum { N = K(W) / e }; \
  typedef word vector __attribute__((vector_size(K(W)), aligned(1), may_alias)); \
  typedef int8_t bytes __attribute__((vector_size(N), aligned(1), may_alias)); \
  word still; memcpy(&still, from, e); \
  const vector all = still - (vector){0}; \
  int64_t i = 0; \
  for (; i + N <= n; i += N) { \
    bytes zero = (bytes)(*(const bytes *)(mask + i) == 0); \
    vector chosen = __builtin_convertvector(zero, vector), old = *(vector *)(to + i * e); \
    vector source = b ? *(const vector *)(from + i * e) : all; \
    *(vector *)(to + i * e) = (source & chosen) | (old & ~chosen); \
  } \
  for (; i < n; i++) if (!mask[i]) memcpy(to + i * e, from + i * b, e); \
}
ANYDML_SELECT_BY_MASK(1, int8_t) ANYDML_SELECT_BY_MASK(2, int16_t) ANYDML_SELECT_BY_MASK(4, int32_t) ANYDML_SELECT_BY_MASK(8, int64_t)
#undef ANYDML_SELECT_BY_MASK

static int K(try_select)(const anydml_task *s, const int64_t *c, int64_t i1, int64_t i0, char *to, const char *from, int64_t n1, int64_t n0) {
  const anydml_move *m = s->move;
  const anydml_lookup *l = m->lookup;
  const int64_t e = s->element;
  if (m->lookups != 1 || l->type != 1 || l->outside != ANYDML_SKIP || l->size != 1 || l->into != -1 || !m->rank) return 0;
  if (s->a0 != e || (s->b0 != e && s->b0) || K(element_stride)(m, l) != 1 || (e != 1 && e != 2 && e != 4 && e != 8)) return 0;
  const char *mask = K(index_at)(s, l, c, i1, i0);
  for (; n1 > 0; n1--, to += s->a1, from += s->b1, mask += K(line_stride)(m, l)) switch (e) {
    case 1: K(select1)(to, from, s->b0, mask, n0); break;
    case 2: K(select2)(to, from, s->b0, mask, n0); break;
    case 4: K(select4)(to, from, s->b0, mask, n0); break;
    default: K(select8)(to, from, s->b0, mask, n0); break;
  }
  return 1;
}

/* Copy the elements of a line, each by one independent index. */
#define ANYDML_PICK_BY(type, wraps, size_of, step) { _Pragma("GCC unroll 4") for (int64_t i = 0; i < n; i++) { \
    type v; memcpy(&v, at + i * sizeof(type), sizeof(type)); \
    int64_t x = (int64_t)v + (wraps ? (int64_t)v >> 63 & size : 0); \
    if (__builtin_expect((uint64_t)x >= (uint64_t)size, 0)) { \
      x = wraps && x < 0 ? 0 : size - 1; \
      if (l->refused) __atomic_store_n(l->refused, 1, __ATOMIC_RELAXED); \
    } \
    ANYDML_SCALAR(x); \
    memcpy(to + i * size_of, from + x * (step), size_of); } }
#define ANYDML_PICK_OF(type, wraps, size_of) if (size_of <= 8 && stride == size_of) ANYDML_PICK_BY(type, wraps, size_of, size_of) else ANYDML_PICK_BY(type, wraps, size_of, stride)
#define ANYDML_PICKS(e) static void K(pick##e)(char *to, const char *from, const anydml_lookup *l, const char *at, int64_t n) { \
  const int64_t size = l->size, stride = l->stride; \
  switch (l->type) { \
    case -4: ANYDML_PICK_OF(int32_t, 1, e) break; \
    case 4: ANYDML_PICK_OF(uint32_t, 0, e) break; \
    case 8: ANYDML_PICK_OF(uint64_t, 0, e) break; \
    default: ANYDML_PICK_OF(int64_t, 1, e) \
  } }
ANYDML_PICKS(1) ANYDML_PICKS(2) ANYDML_PICKS(3) ANYDML_PICKS(4) ANYDML_PICKS(6) ANYDML_PICKS(8)
ANYDML_PICKS(12) ANYDML_PICKS(16) ANYDML_PICKS(24) ANYDML_PICKS(32) ANYDML_PICKS(48) ANYDML_PICKS(64)
ANYDML_PICKS(128) ANYDML_PICKS(256)
#undef ANYDML_PICKS
#undef ANYDML_PICK_OF
#undef ANYDML_PICK_BY

static void (*const K(picks)[257])(char *, const char *, const anydml_lookup *, const char *, int64_t) = {
  [1] = K(pick1), [2] = K(pick2), [3] = K(pick3), [4] = K(pick4), [6] = K(pick6), [8] = K(pick8),
  [12] = K(pick12), [16] = K(pick16), [24] = K(pick24), [32] = K(pick32), [48] = K(pick48), [64] = K(pick64), [128] = K(pick128), [256] = K(pick256)};

static int K(try_pick)(const anydml_task *s, const int64_t *c, int64_t i1, int64_t i0, char *to, const char *from, int64_t n1, int64_t n0) {
  const anydml_move *m = s->move;
  const anydml_lookup *l = m->lookup;
  const int64_t e = s->element;
  if (m->lookups != 1 || s->pattern || l->outside != ANYDML_CLAMP || l->into != -1 || !m->rank || s->b0 || s->a0 != e || l->type == 1) return 0;
  if (K(element_stride)(m, l) != (l->type < 0 ? -l->type : l->type) || n0 < 4 || e > 256 || !K(picks)[e]) return 0;
  const int64_t b1 = K(line_stride)(m, l);
  /* Indices that lines share are resolved once, by the general kernel. */
  if (n1 > 1 && !b1) return 0;
  const char *at = K(index_at)(s, l, c, i1, i0);
  for (; n1 > 0; n1--, to += s->a1, from += s->b1, at += b1) K(picks)[e](to, from, l, at, n0);
  return 1;
}
