/* Planes of strided rows and elements, and of fills. Included once for each
 * instruction set, so it has no guard. */
/* Of rows of the source whose lines evict each other, elements are copied from a few at a time. */
#define ANYDML_ELEMENTS(e) static void K(elements##e)(const anydml_task *s, char *to, const char *from, int64_t n1, int64_t n0) { \
  const int64_t a = s->a0, b = s->b0; \
  if (n1 > 1 && n0 > 2 * ANYDML_WAYS && (b & -b) >= ANYDML_CROWDED_ROW && anydml_crosses(s)) { \
    for (; n0 > 0; n0 -= ANYDML_WAYS, to += ANYDML_WAYS * a, from += ANYDML_WAYS * b) \
      K(elements##e)(s, to, from, n1, n0 < ANYDML_WAYS ? n0 : ANYDML_WAYS); \
    return; \
  } \
  for (; n1 > 0; n1--, to += s->a1, from += s->b1) { \
    char *t = to; const char *f = from; int64_t i = n0; \
    for (; i >= 4; i -= 4, t += 4 * a, f += 4 * b) { \
      memcpy(t, f, e); memcpy(t + a, f + b, e); memcpy(t + 2 * a, f + 2 * b, e); memcpy(t + 3 * a, f + 3 * b, e); } \
    for (; i > 0; i--, t += a, f += b) memcpy(t, f, e); } }
ANYDML_ELEMENTS(1) ANYDML_ELEMENTS(2) ANYDML_ELEMENTS(3) ANYDML_ELEMENTS(4) ANYDML_ELEMENTS(6) ANYDML_ELEMENTS(8)
ANYDML_ELEMENTS(12) ANYDML_ELEMENTS(16) ANYDML_ELEMENTS(24) ANYDML_ELEMENTS(32) ANYDML_ELEMENTS(64) ANYDML_ELEMENTS(128)

static void K(rows)(const anydml_task *s, char *to, const char *from, int64_t n1, int64_t n0) {
  const int64_t e = s->element;
  for (; n1 > 0; n1--, to += s->a1, from += s->b1) {
    char *t = to;
    const char *f = from;
    if (s->streamed) for (int64_t i = n0; i > 0; i--, t += s->a0, f += s->b0) K(stream)(t, f, e, i > 1 ? f + s->b0 : from + s->b1);
    else for (int64_t i = n0; i > 0; i--, t += s->a0, f += s->b0) K(copy)(t, f, e);
  }
}

/* Open a sink at `to`, unless it has reached that address, as lines may be contiguous. */
static inline void K(sink_from)(K(sink) *s, char *to, const char *end) {
  if (to == end) return;
  if (end) K(sink_close)(s);
  K(sink_open)(s, to);
}

/* Rows that are contiguous at the destination, with non-temporal stores. The first rows of the next line, and of the next
 * block after the last one, are prefetched by the last rows of a line. */
static void K(rows_packed)(const anydml_task *s, char *to, const char *from, int64_t n1, int64_t n0) {
  const int64_t e = s->element, most = e < ANYDML_AHEAD ? ANYDML_AHEAD / e : 1, ahead = most < n0 ? most : n0;
  const char *end = NULL, *block = from + n0 * s->b0;
  K(sink) sink;
  for (; n1 > 0; n1--, end = to + n0 * e, to += s->a1, from += s->b1) {
    const char *f = from, *soon = from + ahead * s->b0;
    K(sink_from)(&sink, to, end);
    for (int64_t i = n0; i > 0; i--, f += s->b0, soon += s->b0) {
      if (i == ahead) soon = n1 > 1 ? from + s->b1 : block;
      K(sink_put)(&sink, f, e, soon);
    }
  }
  if (end) K(sink_close)(&sink);
}

/* Rows of a table whose columns are moves; `pattern` states whether columns are contiguous at the destination. */
static void K(side_by_side)(const anydml_task *s, int64_t first, int64_t last) {
  const anydml_move *m = s->move;
  const int64_t end = last * s->each < s->n0 ? last * s->each : s->n0;
  int64_t i = first * s->each;
  if (!s->streamed) {
    for (; i < end; i++)
      for (int64_t k = 0; k < s->count; k++) K(copy)(m[k].to + i * m[k].a[0], m[k].from + i * m[k].b[0], m[k].element);
    return;
  }
  K(sink) sink;
  const char *at = NULL;
  for (; i < end; i++) {
    char *to = m->to + i * m->a[0];
    if (s->pattern) K(sink_from)(&sink, to, at);
    for (int64_t k = 0; k < s->count; to += m[k].element, k++) {
      const char *from = m[k].from + i * m[k].b[0], *next = from + m[k].b[0];
      if (s->pattern) K(sink_put)(&sink, from, m[k].element, next);
      else K(stream)(m[k].to + i * m[k].a[0], from, m[k].element, next);
    }
    at = to;
  }
  if (s->pattern && at) K(sink_close)(&sink);
}

/* Elements that cross rows of the source on other pages, several lines at a time, which are apart at the destination. */
static void K(elements_crossed)(const anydml_task *s, char *to, const char *from, int64_t n1, int64_t n0) {
  char data[ANYDML_CROSSED_BUFFER] __attribute__((aligned(64)));
  const int64_t line = n0 * s->element, most = ANYDML_CROSSED_BUFFER / line;
  anydml_task packed = *s;
  packed.a1 = line;
  for (int64_t lines; n1 > 0; n1 -= lines, to += lines * s->a1, from += lines * s->b1) {
    lines = n1 < most ? n1 : most;
    ((anydml_plane)s->table)(&packed, data, from, lines, n0);
    for (int64_t k = 0; k < lines; k++) K(stream)(to + k * s->a1, data + k * line, line, data + k * line);
  }
}

/* Elements that are contiguous at the destination, with non-temporal stores: as many lines at a time as fit in a sink. */
static void K(elements_packed)(const anydml_task *s, char *to, const char *from, int64_t n1, int64_t n0) {
  const int64_t e = s->element, line = n0 * e, follows = s->a1 == line;
  const char *end = NULL;
  anydml_plane plane = (anydml_plane)s->table;
  K(sink) sink;
  if (!follows && e <= 32 && anydml_crosses(s) && anydml_abs(s->b0) >= 4096 && 2 * line <= ANYDML_CROSSED_BUFFER) {
    K(elements_crossed)(s, to, from, n1, n0);
    return;
  }
  for (int64_t lines; n1 > 0; n1 -= lines, end = to + (lines - 1) * s->a1 + line, to += lines * s->a1, from += lines * s->b1) {
    K(sink_from)(&sink, to, end);
    if (sink.fill + line > ANYDML_SINK) K(sink_flush)(&sink);
    lines = (ANYDML_SINK - sink.fill) / line;
    if (lines) {
      lines = !follows ? 1 : lines < n1 ? lines : n1;
      plane(s, sink.data + sink.fill, from, lines, n0);
      sink.fill += lines * line;
      continue;
    }
    lines = 1;
    for (int64_t i = 0; i < n0;) {
      const int64_t room = (ANYDML_SINK - sink.fill) / e, more = room < n0 - i ? room : n0 - i;
      plane(s, sink.data + sink.fill, from + i * s->b0, 1, more);
      sink.fill += more * e;
      i += more;
      K(sink_flush)(&sink);
    }
  }
  if (end) K(sink_close)(&sink);
}

/* Repeat a pattern: `block` has `size` bytes of whole periods, and 64 bytes more. */
static void K(repeat)(char *to, int64_t n, const char *block, int64_t size, int streamed) {
  const int64_t w = K(W);
  if (size == 64 && n >= 2 * w && (!streamed || n < 256)) {
    /* All cache lines have the same vectors. */
    enum { V = 64 / K(W) };
    int64_t i = -(uintptr_t)to & (w - 1);
    K(vec) v[V];
    for (int k = 0; k < V; k++) v[k] = *(const K(vec) *)(block + i + k * w);
    ANYDML_PUT(K(vec), to, block);
    for (; i + 64 <= n; i += 64)
      for (int k = 0; k < V; k++) *(K(vec) *)(to + i + k * w) = v[k];
    for (; i + w <= n; i += w) ANYDML_PUT(K(vec), to + i, block + (i & 63));
    ANYDML_PUT(K(vec), to + n - w, block + ((n - w) & 63));
    return;
  }
  if (!streamed || n < 256) {
    for (; n > size; n -= size, to += size) K(copy)(to, block, size);
    if (n > 0) K(copy)(to, block, n);
    return;
  }
  int64_t phase = 0, head = -(uintptr_t)to & 63;
  K(copy)(to, block, head);
  to += head; n -= head; phase = head % size;
  /* The 64 bytes after the periods let each line be read as a whole. */
  for (; n >= 64; n -= 64, to += 64) {
    K(put_line)(to, block + phase);
    phase += 64;
    if (phase >= size) phase -= size;
  }
  for (int64_t i = 0; i < n; i++) to[i] = block[phase + i];
}

/* Fill a block with whole periods of a pattern, and 64 bytes more; returns the number of bytes of whole periods, which
 * is 64 if that is a multiple of the period. */
static int64_t K(block_of)(char *block, const char *pattern, int64_t period, int64_t most) {
  if (most > ANYDML_BLOCK) most = ANYDML_BLOCK;
  if (most < 64) most = 64;
  if (!memcmp(pattern, pattern + 1, (size_t)period - 1)) {
    memset(block, *pattern, 128);
    return 64;
  }
  int64_t size = 64 % period ? ANYDML_BLOCK / period * period : 64, done = period;
  if (most < size) size = (most + period - 1) / period * period;
  K(copy)(block, pattern, period);
  while (done < size + 64) {
    int64_t more = done < size + 64 - done ? done : size + 64 - done;
    K(copy)(block + done, block, more);
    done += more;
  }
  return size;
}

/* Fills: runs of one pattern. */
static void K(fill)(const anydml_task *s, char *to, const char *from, int64_t n1, int64_t n0) {
  const int64_t e = s->element;
  if (s->pattern > ANYDML_BLOCK / 4) {
    for (; n1 > 0; n1--, to += s->a1)
      for (int64_t i = 0; i < n0; i++)
        for (int64_t k = 0; k < e; k += s->pattern)
          K(copy)(to + i * s->a0 + k, from, e - k < s->pattern ? e - k : s->pattern);
    return;
  }
  char block[ANYDML_BLOCK + 64 + 64] __attribute__((aligned(64)));
  int64_t size = K(block_of)(block, from, s->pattern, e);
  for (; n1 > 0; n1--, to += s->a1)
    for (int64_t i = 0; i < n0; i++) K(repeat)(to + i * s->a0, e, block, size, s->streamed);
}

/* Repeat an element of 1, 2, 4 or 8 bytes in a run of at least 16. */
static inline void K(repeat_short)(char *to, int64_t run, const char *from, int64_t e) {
  const uint64_t x = e == 8 ? *(const anydml_u64 *)from : e == 4 ? *(const anydml_u32 *)from * 0x0000000100000001u
                   : e == 2 ? *(const anydml_u16 *)from * 0x0001000100010001u : *(const uint8_t *)from * 0x0101010101010101u;
  const anydml_v16 v = (anydml_v16)(anydml_d16){x, x};
  for (int64_t i = 0; i + 16 < run; i += 16) *(anydml_v16 *)(to + i) = v;
  *(anydml_v16 *)(to + run - 16) = v;
}

/* Lines that each repeat one element. */
static void K(repeat_element)(const anydml_task *s, char *to, const char *from, int64_t n1, int64_t n0) {
  char block[ANYDML_BLOCK + 64 + 64] __attribute__((aligned(64)));
  const char *made = NULL;
  int64_t size = 0, run = n0 * s->element;
  for (; n1 > 0; n1--, to += s->a1, from += s->b1) {
    if (run >= 16 && run < ANYDML_SHORT_RUN && s->element < 16) { K(repeat_short)(to, run, from, s->element); continue; }
    if (from != made) size = K(block_of)(block, made = from, s->element, run);
    K(repeat)(to, run, block, size, s->streamed);
  }
}
