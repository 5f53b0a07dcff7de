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

static void K(select16)(char *to, const char *from, int64_t b, const char *mask, int64_t n) {
  for (int64_t i = 0; i < n; i++, to += 16, from += b) {
    const uint64_t chosen = (uint64_t)(mask[i] != 0) - 1;
    const anydml_d16 all = {chosen, chosen}, old = (anydml_d16)*(anydml_v16 *)to;
    *(anydml_v16 *)to = (anydml_v16)(((anydml_d16)*(const anydml_v16 *)from & all) | (old & ~all));
  }
}

static int K(try_select)(const anydml_task *s, const int64_t *c, int64_t i1, int64_t i0, char *to, const char *from, int64_t n1, int64_t n0) {
  const anydml_move *m = s->move;
  const anydml_lookup *l = m->lookup;
  const int64_t e = s->element;
  if (m->lookups != 1 || l->type != 1 || l->outside != ANYDML_SKIP || l->size != 1 || l->into != -1 || !m->rank) return 0;
  if (s->a0 != e || (s->b0 != e && s->b0) || K(element_stride)(m, l) != 1 || (e != 1 && e != 2 && e != 4 && e != 8 && e != 16)) return 0;
  const char *mask = K(index_at)(s, l, c, i1, i0);
  for (; n1 > 0; n1--, to += s->a1, from += s->b1, mask += K(line_stride)(m, l)) switch (e) {
    case 1: K(select1)(to, from, s->b0, mask, n0); break;
    case 2: K(select2)(to, from, s->b0, mask, n0); break;
    case 4: K(select4)(to, from, s->b0, mask, n0); break;
    case 8: K(select8)(to, from, s->b0, mask, n0); break;
    default: K(select16)(to, from, s->b0, mask, n0); break;
  }
  return 1;
}

/* Copy the elements of lines, each by one independent index: from it in `pick`, to it in `put`. `run` is the elements'
 * stride at that end; they are contiguous at the other. */
#define ANYDML_MOVE_BY(type, wraps, size_of, to_at, from_at) \
  for (; n1 > 0; n1--, to += a1, from += b1, at += s1) { \
    _Pragma("GCC unroll 4") for (int64_t i = 0; i < n0; i++) { \
      type v; memcpy(&v, at + i * sizeof(type), sizeof(type)); \
      int64_t x = (int64_t)v + (wraps ? (int64_t)v >> 63 & size : 0); \
      if (__builtin_expect((uint64_t)x >= (uint64_t)size, 0)) { \
        if (l->outside == ANYDML_SKIP) continue; \
        x = wraps && x < 0 ? 0 : size - 1; \
        if (l->refused) __atomic_store_n(l->refused, 1, __ATOMIC_RELAXED); \
      } \
      ANYDML_SCALAR(x); \
      memcpy(to_at, from_at, size_of); \
    } \
  } \
  return
#define ANYDML_PICK_BY(type, wraps, size_of) \
  if (size_of <= 8 && stride == size_of && !run) { ANYDML_MOVE_BY(type, wraps, size_of, to + i * size_of, from + x * size_of); } \
  ANYDML_MOVE_BY(type, wraps, size_of, to + i * size_of, from + i * run + x * stride)
#define ANYDML_PUT_BY(type, wraps, size_of) ANYDML_MOVE_BY(type, wraps, size_of, to + i * run + x * stride, from + i * size_of)
#define ANYDML_BY_INDEX(name, e, by) static void K(name##e)(char *to, int64_t a1, const char *from, int64_t b1, const anydml_lookup *l, const char *at, int64_t s1, int64_t n1, int64_t n0, int64_t run) { \
  const int64_t size = l->size, stride = l->stride; \
  switch (l->type) { \
    case -4: by(int32_t, 1, e); \
    case 4: by(uint32_t, 0, e); \
    case 8: by(uint64_t, 0, e); \
    default: by(int64_t, 1, e); \
  } }
#define ANYDML_BY(e) ANYDML_BY_INDEX(pick, e, ANYDML_PICK_BY) ANYDML_BY_INDEX(put, e, ANYDML_PUT_BY)
ANYDML_BY(1) ANYDML_BY(2) ANYDML_BY(3) ANYDML_BY(4) ANYDML_BY(6) ANYDML_BY(8)
ANYDML_BY(12) ANYDML_BY(16) ANYDML_BY(24) ANYDML_BY(32) ANYDML_BY(48) ANYDML_BY(64)
ANYDML_BY(128) ANYDML_BY(256)
#undef ANYDML_BY
#undef ANYDML_BY_INDEX
#undef ANYDML_PUT_BY
#undef ANYDML_PICK_BY
#undef ANYDML_MOVE_BY

typedef void (*K(by_index))(char *to, int64_t a1, const char *from, int64_t b1, const anydml_lookup *l, const char *at, int64_t s1, int64_t n1, int64_t n0, int64_t run);
#define ANYDML_EVERY(name) { \
  [1] = K(name##1), [2] = K(name##2), [3] = K(name##3), [4] = K(name##4), [6] = K(name##6), [8] = K(name##8), [12] = K(name##12), \
  [16] = K(name##16), [24] = K(name##24), [32] = K(name##32), [48] = K(name##48), [64] = K(name##64), [128] = K(name##128), [256] = K(name##256)}
static const K(by_index) K(picks)[257] = ANYDML_EVERY(pick), K(puts)[257] = ANYDML_EVERY(put);
#undef ANYDML_EVERY

static int K(try_by_index)(const anydml_task *s, const int64_t *c, int64_t i1, int64_t i0, char *to, const char *from, int64_t n1, int64_t n0) {
  const anydml_move *m = s->move;
  const anydml_lookup *l = m->lookup;
  const int64_t e = s->element;
  const int is_put = l->into == -2;
  if (m->lookups != 1 || s->pattern || l->outside == ANYDML_REFUSE || l->type == 1 || !m->rank || e > 256 || !K(picks)[e]) return 0;
  if (is_put ? s->b0 != e : (s->b0 && n0 >= ANYDML_SHORT_PICK) || s->a0 != e || l->outside == ANYDML_SKIP) return 0;
  if (K(element_stride)(m, l) != (l->type < 0 ? -l->type : l->type)) return 0;
  const int64_t s1 = K(line_stride)(m, l);
  /* Indices that lines share are resolved once, by the general kernel. */
  if (n1 > 1 && !s1 && !is_put) return 0;
  (is_put ? K(puts) : K(picks))[e](to, s->a1, from, s->b1, l, K(index_at)(s, l, c, i1, i0), s1, n1, n0, is_put ? s->a0 : s->b0);
  return 1;
}
