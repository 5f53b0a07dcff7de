/* Columns interleaved by masks (see interleave_plan.h): each vector of a block is repeated along the rows. Included once for each
 * instruction set, so it has no guard. */
#define ANYDML_INTERLEAVE_OF(t) case t: { \
    ANYDML_LOAD_MASKS(t) \
    for (int64_t line = 0; line < r->lines; line++) { \
      /* If the last rows are not a whole block, interleave them with some rows before them. */ \
      for (int64_t n = r->blocks, more = r->rest;; n = 1, more = 0) { \
        do { \
          x = ANYDML_FIRST_OF(0); \
          _Pragma("GCC unroll 8") for (int k = 1; k < t; k++) x = ANYDML_TERM_OF(k); \
          _Pragma("GCC unroll 8") for (int k = 0; k < t; k++) p[k] += c->steps[k]; \
          ANYDML_STORE_VECTOR(to); \
          to += step; \
        } while (--n); \
        if (!more) break; \
        _Pragma("GCC unroll 8") for (int k = 0; k < t; k++) p[k] += c->backs[k]; \
        to += c->back; \
      } \
      _Pragma("GCC unroll 8") for (int k = 0; k < t; k++) p[k] += c->nexts[k]; \
      to += c->next; \
    } } break;
#define ANYDML_INTERLEAVE_VECTOR() (const anydml_interleave *w, const anydml_interleaved_vector *v, char *to, const anydml_vector_steps *c, const anydml_block_span *r) { \
  const int64_t step = c->step; \
  switch (v->terms) { ANYDML_INTERLEAVE_OF(1) ANYDML_INTERLEAVE_OF(2) ANYDML_INTERLEAVE_OF(3) ANYDML_INTERLEAVE_OF(4) ANYDML_INTERLEAVE_OF(5) ANYDML_INTERLEAVE_OF(6) ANYDML_INTERLEAVE_OF(7) ANYDML_INTERLEAVE_OF(8) } }

/* Reverse the order of lanes. */
static inline K(vec) K(reverse_lanes)(K(vec) v) {
#if ANYDML_LANES == 4
  return (K(vec))_mm512_shuffle_i64x2((__m512i)v, (__m512i)v, 0x1b);
#elif ANYDML_LANES == 2
  return (K(vec))_mm256_permute2x128_si256((__m256i)v, (__m256i)v, 1);
#else
  return v;
#endif
}

/* One vector of each of some blocks, from windows of 16 bytes, one per lane. */
#if ANYDML_LANES == 4
#define ANYDML_LOAD_WINDOWS(k) (K(vec))_mm512_inserti64x4(_mm512_castsi256_si512(_mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)(p[k] + o[k][0]))), \
    _mm_loadu_si128((const void *)(p[k] + o[k][1])), 1)), _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)(p[k] + o[k][2]))), \
    _mm_loadu_si128((const void *)(p[k] + o[k][3])), 1), 1)
#elif ANYDML_LANES == 2
#define ANYDML_LOAD_WINDOWS(k) (K(vec))_mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)(p[k] + o[k][0]))), _mm_loadu_si128((const void *)(p[k] + o[k][1])), 1)
#else
#define ANYDML_LOAD_WINDOWS(k) *(const anydml_v16 *)(p[k] + o[k][0])
#endif
#define ANYDML_TERM_OF(k) x | ANYDML_PICK(ANYDML_LOAD_WINDOWS(k), mask[k])
#define ANYDML_FIRST_OF(k) ANYDML_PICK(ANYDML_LOAD_WINDOWS(k), mask[k])
#define ANYDML_LOAD_MASKS(t) K(vec) mask[t]; const char *p[t]; int64_t o[t][ANYDML_LANES]; \
    _Pragma("GCC unroll 8") for (int k = 0; k < t; k++) { mask[k] = *(const K(vec) *)w->mask[v->first + k]; p[k] = c->from[k]; \
      _Pragma("GCC unroll 4") for (int l = 0; l < ANYDML_LANES; l++) o[k][l] = w->offset[v->first + k][l]; } \
    K(vec) x;
#define ANYDML_STORE_VECTOR(to) *(K(vec) *)(to) = x
static void K(interleave_vector) ANYDML_INTERLEAVE_VECTOR()

/* Lines of elements that are contiguous at the destination, and in reverse order at the source. */
static void K(mirror)(const anydml_task *s, char *to, const char *from, int64_t n1, int64_t n0) {
  const int64_t e = s->element, n = n0 * e, w = K(W);
  union { uint8_t byte[K(W)]; K(vec) all; } mask;
  for (int k = 0; k < K(W); k++) mask.byte[k] = (uint8_t)(16 - e - (k & 15 & -(int)e) + (k & ((int)e - 1)));
  if (n < w) {
    const anydml_v16 lane = *(const anydml_v16 *)mask.byte;
    for (; n1 > 0; n1--, to += s->a1, from += s->b1) {
      const char *end = from + e;
      int64_t i = 0;
      for (; i + 16 <= n; i += 16) *(anydml_v16 *)(to + i) = ANYDML_PICK16(*(const anydml_v16 *)(end - i - 16), lane);
      if (i == n) continue;
      if (i) *(anydml_v16 *)(to + n - 16) = ANYDML_PICK16(*(const anydml_v16 *)(end - n), lane);
      else for (; i < n; i += e) K(copy_few)(to + i, end - i - e, e);
    }
    return;
  }
  /* Of long lines, prefetch what follows; of others, later lines. */
  const int64_t ahead = n > 2 * ANYDML_AHEAD ? -ANYDML_AHEAD : s->b1 * (1 + ANYDML_AHEAD / n);
  for (; n1 > 0; n1--, to += s->a1, from += s->b1) {
    const char *end = from + e;
    int64_t i = 0;
    if (s->streamed && !((uintptr_t)to & (uintptr_t)(e - 1))) {
      for (; i < (int64_t)(-(uintptr_t)to & 63); i += w) *(K(vec) *)(to + i) = K(reverse_lanes)(ANYDML_PICK(*(const K(vec) *)(end - i - w), mask.all));
      for (i = -(uintptr_t)to & 63; i + 64 <= n; i += 64) {
        K(vec) v[64 / K(W)];
        for (int k = 0; k < 64 / K(W); k++) v[k] = K(reverse_lanes)(ANYDML_PICK(*(const K(vec) *)(end - i - (k + 1) * w), mask.all));
        __builtin_prefetch(end - i - 64 + ahead, 0, 3);
        K(put_line)(to + i, (const char *)v);
      }
    } else if (n >= 4 * w && !((uintptr_t)to & (uintptr_t)(e - 1))) {
      /* Stores that cross cache lines take twice as long. */
      *(K(vec) *)to = K(reverse_lanes)(ANYDML_PICK(*(const K(vec) *)(end - w), mask.all));
      i = -(uintptr_t)to & (w - 1);
    }
    for (; i + w <= n; i += w) *(K(vec) *)(to + i) = K(reverse_lanes)(ANYDML_PICK(*(const K(vec) *)(end - i - w), mask.all));
    if (i == n) continue;
    *(K(vec) *)(to + n - w) = K(reverse_lanes)(ANYDML_PICK(*(const K(vec) *)(end - n), mask.all));
  }
}

/* As `mirror`, for elements of 3, 5, 6 or 7 bytes, as many as fit in 16: vectors overlap, and the next one overwrites
 * the bytes without an element. */
static void K(mirror_uneven)(const anydml_task *s, char *to, const char *from, int64_t n1, int64_t n0) {
  const int64_t e = s->element, n = n0 * e, w = 16 / e * e;
  uint8_t mask[16], last[16];
  for (int k = 0; k < 16; k++) {
    mask[k] = (uint8_t)(16 - e - k / e * e + k % e);
    last[k] = (uint8_t)(mask[k] - (16 - w));
  }
  const anydml_v16 m = *(const anydml_v16 *)mask;
  const int64_t ahead = n > 2 * ANYDML_AHEAD ? -ANYDML_AHEAD : s->b1 * (1 + ANYDML_AHEAD / n);
  for (; n1 > 0; n1--, to += s->a1, from += s->b1) {
    const char *end = from + e;
    int64_t i = 0;
    for (; i + w + 16 <= n; i += 2 * w) {
      __builtin_prefetch(end - i - 2 * w + ahead, 0, 3);
      const anydml_v16 v = *(const anydml_v16 *)(end - i - 16), u = *(const anydml_v16 *)(end - i - w - 16);
      *(anydml_v16 *)(to + i) = ANYDML_PICK16(v, m);
      *(anydml_v16 *)(to + i + w) = ANYDML_PICK16(u, m);
    }
    if (i + 16 <= n) { *(anydml_v16 *)(to + i) = ANYDML_PICK16(*(const anydml_v16 *)(end - i - 16), m); i += w; }
    if (i && i < n) {
      const anydml_v16 v = ANYDML_PICK16(*(const anydml_v16 *)(end - n), *(const anydml_v16 *)last);
      ANYDML_ENDS(anydml_u64, to + n - w, (const char *)&v, w);
    } else for (; i < n; i += e) K(copy_few)(to + i, end - i - e, e);
  }
}
#undef ANYDML_LOAD_WINDOWS
#undef ANYDML_TERM_OF
#undef ANYDML_FIRST_OF
#undef ANYDML_LOAD_MASKS
#undef ANYDML_STORE_VECTOR

/* As `interleave_vector`, from windows of 64 bytes, whose bytes may cross lanes. */
#if ANYDML_LANES == 4
#define ANYDML_TERM_OF(k) _mm512_mask_permutexvar_epi8(x, keep[k], mask[k], _mm512_loadu_si512(p[k]))
#define ANYDML_FIRST_OF(k) _mm512_maskz_permutexvar_epi8(keep[k], mask[k], _mm512_loadu_si512(p[k]))
#define ANYDML_LOAD_MASKS(t) __m512i mask[t]; __mmask64 keep[t]; const char *p[t]; \
    _Pragma("GCC unroll 8") for (int k = 0; k < t; k++) { \
      const int term = v->first + k; \
      mask[k] = _mm512_loadu_si512(w->mask[term]); keep[k] = w->keep[term]; p[k] = c->from[k] + w->offset[term][0]; } \
    __m512i x;
#define ANYDML_STORE_VECTOR(to) _mm512_storeu_si512(to, x)
static __attribute__((target("avx512vbmi"))) void K(interleave_windows) ANYDML_INTERLEAVE_VECTOR()
#undef ANYDML_TERM_OF
#undef ANYDML_FIRST_OF
#undef ANYDML_LOAD_MASKS
#undef ANYDML_STORE_VECTOR

/* All vectors of each block, from windows that the vectors share. V, N, is_part, and whether `streamed` is 0 are constants of
 * the compiler. */
static inline __attribute__((always_inline, target("avx512vbmi"))) void K(interleave_of)(const anydml_interleave *w, char *const *to, const char *const *from, const anydml_block_span *r, const int streamed, const int is_part, const int V, const int N) {
  const int64_t again = r->rest ? r->rest - w->rows : 0, moved = r->blocks * w->rows + r->rest;
  __m512i mask[ANYDML_WINDOWS], in[ANYDML_WINDOWS];
  __mmask64 keep[ANYDML_WINDOWS], third[ANYDML_WINDOWS], stored[ANYDML_WINDOWS];
  char *t[ANYDML_WINDOWS];
  const char *f[ANYDML_WINDOWS];
  int64_t up[ANYDML_WINDOWS], step[ANYDML_WINDOWS], ahead[ANYDML_WINDOWS];
  _Pragma("GCC unroll 6") for (int k = 0; k < V; k++) {
    const anydml_interleaved_vector *v = w->interleaved + k;
    mask[k] = _mm512_loadu_si512(w->mask[k]); keep[k] = _mm512_movepi8_mask(mask[k]); third[k] = w->third[k]; stored[k] = w->stored[k];
    t[k] = to[v->stream] + v->at; up[k] = w->target[v->stream].step * w->rows;
  }
  _Pragma("GCC unroll 6") for (int k = 0; k < N; k++) { f[k] = from[w->from[k]] + w->offset[k][0]; step[k] = w->source[w->from[k]].step * w->rows; ahead[k] = r->ahead[w->from[k]]; }
  for (int64_t line = 0; line < r->lines; line++) {
    for (int64_t n = r->blocks, more = again;; n = 1, more = 0) {
      for (; n > 0; n--) {
        _Pragma("GCC unroll 6") for (int k = 0; k < N; k++) {
          in[k] = _mm512_loadu_si512(f[k]);
          if (streamed) __builtin_prefetch(f[k] + ahead[k], 0, 3);
          f[k] += step[k];
        }
        _Pragma("GCC unroll 6") for (int k = 0; k < V; k++) {
          __m512i v = N == 1 ? _mm512_permutexvar_epi8(mask[k], in[0]) : _mm512_permutex2var_epi8(in[0], mask[k], in[1]);
          if (N == 3) v = _mm512_mask_permutexvar_epi8(v, keep[k], mask[k], in[2]);
          if (N >= 4) v = _mm512_mask_blend_epi8(keep[k], v, _mm512_permutex2var_epi8(in[2], mask[k], in[3]));
          if (N >= 5) v = _mm512_mask_blend_epi8(third[k], v, _mm512_permutex2var_epi8(in[4], mask[k], in[5]));
          if (is_part) _mm512_mask_storeu_epi8(t[k], stored[k], v);
          else if (streamed == ANYDML_DIRECT) _mm512_stream_si512((void *)t[k], v); else _mm512_storeu_si512(t[k], v);
          t[k] += up[k];
        }
      }
      if (!more) break;
      for (int k = 0; k < N; k++) f[k] += again * w->source[w->from[k]].step;
      for (int k = 0; k < V; k++) t[k] += again * w->target[w->interleaved[k].stream].step;
    }
    for (int k = 0; k < N; k++) f[k] += r->from[w->from[k]] - moved * w->source[w->from[k]].step;
    for (int k = 0; k < V; k++) t[k] += r->to[w->interleaved[k].stream] - moved * w->target[w->interleaved[k].stream].step;
  }
}
#define ANYDML_BLOCKS_OF(V, N) case 10 * V + N: \
  if (w->is_part) K(interleave_of)(w, to, from, r, streamed, 1, V, N); \
  else if (streamed) K(interleave_of)(w, to, from, r, streamed, 0, V, N); \
  else K(interleave_of)(w, to, from, r, 0, 0, V, N); \
  break;
#define ANYDML_BLOCKS_BY(V) ANYDML_BLOCKS_OF(V, 1) ANYDML_BLOCKS_OF(V, 2) ANYDML_BLOCKS_OF(V, 3) ANYDML_BLOCKS_OF(V, 4) ANYDML_BLOCKS_OF(V, 6)
static __attribute__((target("avx512vbmi"))) void K(interleave_whole)(const anydml_interleave *w, char *const *to, const char *const *from, const anydml_block_span *r, int streamed) {
  switch (10 * w->count + w->windows) { ANYDML_BLOCKS_BY(1) ANYDML_BLOCKS_BY(2) ANYDML_BLOCKS_BY(3) ANYDML_BLOCKS_BY(4) ANYDML_BLOCKS_BY(6) }
}
#endif

/* Interleave some blocks of rows, vector by vector. */
static void K(interleave_blocks)(const anydml_interleave *w, char *const *to, const char *const *from, const anydml_block_span *r, int streamed) {
  const int64_t rows = w->rows, again = r->rest ? r->rest - rows : 0, moved = r->blocks * rows + r->rest;
  (void)streamed;
  for (int k = 0; k < w->count; k++) {
    const anydml_interleaved_vector *v = w->interleaved + k;
    const int64_t row = w->target[v->stream].step;
    anydml_vector_steps c = {.step = rows * row, .back = again * row, .next = r->to[v->stream] - moved * row};
    for (int t = 0; t < v->terms; t++) {
      const int s = w->from[v->first + t];
      const int64_t step = w->source[s].step;
      c.from[t] = from[s];
      c.steps[t] = rows * step;
      c.backs[t] = again * step;
      c.nexts[t] = r->from[s] - moved * step;
    }
    w->vector(w, v, to[v->stream] + v->at, &c, r);
  }
}

/* Copy rows of a line one by one. */
static void K(interleave_rows)(const anydml_interleave *w, char *const *to, const char *const *from, int64_t first, int64_t last) {
  for (int k = 0; k < w->columns && first < last; k++) {
    const anydml_column *c = w->column + k;
    char *t = to[k] + first * c->a;
    const char *f = from[k] + first * c->b;
    for (int64_t i = first; i < last; i++, t += c->a, f += c->b) K(copy)(t, f, c->element);
  }
}

/* The distance of prefetches from a source: of long lines, what follows; of others, a later line. */
static int64_t K(interleave_ahead)(const anydml_interleave *w, const anydml_move *other, int j) {
  const anydml_move *m = other ? other : w->column[w->source[j].column].move;
  const int64_t step = w->source[j].step, line = w->n0 * anydml_abs(step);
  if (!w->rank || line > 2 * ANYDML_AHEAD) return step < 0 ? -ANYDML_AHEAD : ANYDML_AHEAD;
  int64_t lines = 1 + ANYDML_AHEAD / (line + 1);
  int k = w->rank - 1;
  for (; k && m->n[w->dimension[k]] <= lines; k--) lines = 1 + lines / m->n[w->dimension[k]];
  return lines * m->b[w->dimension[k]];
}

/* Interleave one block aside, and copy `n` of its rows from `skip` on: streamed lines are not written again. */
static void K(interleave_part)(const anydml_interleave *w, char *const *to, const char *const *from, anydml_block_span *span, K(sink) *aside, int64_t skip, int64_t n) {
  char *targets[ANYDML_COLUMNS];
  for (int j = 0; j < w->targets; j++) targets[j] = aside[j].data;
  span->blocks = 1;
  w->block(w, targets, from, span, 0);
  for (int j = 0; j < w->targets; j++) K(copy)(to[j] + skip * w->target[j].step, targets[j] + skip * w->target[j].step, n * w->target[j].step);
}

/* Interleave rows from `first` to before `last` of a line, or so many whole `lines` along the last outer dimension, of the
 * table's own moves, or of another one. */
static void K(interleave_lines)(const anydml_interleave *w, const anydml_move *other, const int64_t *at, int64_t lines, int64_t first, int64_t last, int streamed) {
  char *to[ANYDML_COLUMNS], *targets[ANYDML_COLUMNS];
  const char *from[ANYDML_COLUMNS], *sources[ANYDML_COLUMNS];
  const int64_t rows = w->rows;
  const int d = lines ? w->dimension[w->rank - 1] : 0;
  for (int k = 0; k < w->columns; k++) anydml_line_start(w, w->column + k, other, at, to + k, from + k);
  if (last - first < rows) {
    if (first < rows || streamed) { K(interleave_rows)(w, to, from, first, last); return; }
    first = last - rows;
  }
  /* Steps from one block, or line, to the next. Sinks need lines that are contiguous in all targets, or room for more rows. */
  int64_t up[ANYDML_COLUMNS], down[ANYDML_COLUMNS];
  anydml_block_span span = {.lines = 1, .blocks = w->n0 / rows, .rest = lines ? w->n0 % rows : 0};
  for (int j = 0; j < w->targets; j++) {
    targets[j] = to[w->target[j].column] + w->target[j].low + first * w->target[j].step;
    up[j] = span.to[j] = lines ? (other ? other : w->column[w->target[j].column].move)->a[d] : rows * w->target[j].step;
    streamed &= lines ? up[j] == w->n0 * w->target[j].step : up[j] <= ANYDML_SINK / 2;
  }
  for (int j = 0; j < w->sources; j++) {
    sources[j] = from[w->source[j].column] + first * w->source[j].step;
    down[j] = span.from[j] = lines ? (other ? other : w->column[w->source[j].column].move)->b[d] : rows * w->source[j].step;
    span.ahead[j] = K(interleave_ahead)(w, other, j);
  }
  /* Vectors that are whole lines need no sinks; the rows of a line before the first such block are interleaved aside. */
  int64_t lead = 0, many = 1;
  int direct = 0;
  const int64_t starts = lines ? !span.rest : (last - first) * w->segment < ANYDML_LONG_LINE ? 0 : last - first - rows < rows ? last - first - rows + 1 : rows;
  for (; streamed && w->windows && lead < starts; lead++) {
    uintptr_t off = 0;
    for (int j = 0; j < w->targets; j++) off |= (uintptr_t)(targets[j] + lead * w->target[j].step) | (lines ? (uintptr_t)up[j] : 0);
    direct = !(off & 63);
    if (direct) break;
  }
  if (direct) streamed = 0;
  else lead = 0;
  K(sink) sinks[ANYDML_COLUMNS];
  for (int j = 0; streamed && j < w->targets; j++) K(sink_open)(sinks + j, targets[j]);
  if (lead) {
    K(interleave_part)(w, targets, sources, &span, sinks, 0, lead);
    for (int j = 0; j < w->targets; j++) targets[j] += lead * w->target[j].step;
    for (int j = 0; j < w->sources; j++) sources[j] += lead * w->source[j].step;
  }
  int64_t left = lines ? lines : (last - first - lead) / rows;
  const int64_t rest = lines ? 0 : (last - first - lead) % rows;
  const int64_t fit = (streamed ? ANYDML_SINK / w->row - rest : ANYDML_INTERLEAVED / w->segment) / (lines ? w->n0 : rows), most = fit > 0 ? fit : 1;
  for (; left > 0; left -= many) {
    many = left < most ? left : most;
    *(lines ? &span.lines : &span.blocks) = many;
    if (streamed && many == left && !lines) span.rest = rest;
    for (int j = 0; streamed && j < w->targets; j++) targets[j] = sinks[j].data + sinks[j].fill;
    w->block(w, targets, sources, &span, direct ? ANYDML_DIRECT : streamed);
    for (int j = 0; j < w->sources; j++) sources[j] += many * down[j];
    for (int j = 0; j < w->targets; j++) {
      targets[j] += many * up[j];
      if (!streamed) continue;
      sinks[j].fill += many * up[j] + (lines ? 0 : span.rest * w->target[j].step);
      K(sink_flush)(sinks + j);
    }
  }
  for (int j = 0; streamed && j < w->targets; j++) K(sink_close)(sinks + j);
  if (!rest || streamed) return;
  /* Some rows once more, with the same values. */
  for (int j = 0; j < w->targets; j++) targets[j] += (rest - rows) * w->target[j].step;
  for (int j = 0; j < w->sources; j++) sources[j] += (rest - rows) * w->source[j].step;
  if (direct) { K(interleave_part)(w, targets, sources, &span, sinks, rows - rest, rest); return; }
  span.blocks = 1;
  w->block(w, targets, sources, &span, 0);
}

static void K(interleave)(const anydml_task *s, int64_t first, int64_t last) {
  const anydml_interleave *w = (const anydml_interleave *)s->table;
  const anydml_move *m = w->column->move;
  const int64_t parts = s->c0;
  const int several = w->rank && w->n0 <= (s->streamed ? ANYDML_SINK / w->row : ANYDML_INTERLEAVED / w->segment / 2);
  int64_t at[ANYDML_RANK], begin = first * s->each, end = last * s->each < s->planes ? last * s->each : s->planes, done = 1;
  if (parts > 1) { begin = first / parts; end = (last - 1) / parts + 1; }
  for (int64_t line = begin; line < end; line += done) {
    const int64_t number = line / w->lines;
    const anydml_move *other = number ? s->move + number : NULL;
    int64_t rest = line - number * w->lines;
    for (int d = w->rank - 1; d >= 0; d--) { at[d] = rest % m->n[w->dimension[d]]; rest /= m->n[w->dimension[d]]; }
    if (parts > 1) {
      int64_t from = line == begin ? first - line * parts : 0, to = line == end - 1 ? last - line * parts : parts;
      K(interleave_lines)(w, other, at, 0, from * s->p0, to * s->p0 < w->n0 ? to * s->p0 : w->n0, s->streamed);
    } else if (several) {
      done = m->n[w->dimension[w->rank - 1]] - at[w->rank - 1];
      if (done > end - line) done = end - line;
      K(interleave_lines)(w, other, at, done, 0, w->n0, s->streamed);
    } else K(interleave_lines)(w, other, at, 0, 0, w->n0, s->streamed);
  }
}
