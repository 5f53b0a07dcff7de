/* Vectors of one instruction set, and the copies that all kernels are built on. Included once for each set, with
 * ANYDML_ISA, its name, and ANYDML_LANES, the number of 16-byte lanes of its vectors. */
enum { K(W) = 16 * ANYDML_LANES };

#if ANYDML_LANES == 4
typedef anydml_v64 K(vec);
#elif ANYDML_LANES == 2
typedef anydml_v32 K(vec);
#else
typedef anydml_v16 K(vec);
#endif

#define ANYDML_PUT(type, to, from) do { type v_ = *(const type *)(from); *(type *)(to) = v_; } while (0)
#define ANYDML_ENDS(type, to, from, n) do { type v_ = *(const type *)(from), w_ = *(const type *)((from) + (n) - sizeof(type)); \
    *(type *)(to) = v_; *(type *)((to) + (n) - sizeof(type)) = w_; } while (0)

/* Copy at most as many bytes as two vectors have. */
static inline void K(copy_few)(char *to, const char *from, int64_t n) {
#if ANYDML_LANES == 4
  if (n >= 64) { ANYDML_ENDS(anydml_v64, to, from, n); return; }
#endif
#if ANYDML_LANES >= 2
  if (n >= 32) { ANYDML_ENDS(anydml_v32, to, from, n); return; }
#endif
  if (n >= 16) ANYDML_ENDS(anydml_v16, to, from, n);
  else if (n >= 8) ANYDML_ENDS(anydml_u64, to, from, n);
  else if (n >= 4) ANYDML_ENDS(anydml_u32, to, from, n);
  else if (n >= 2) ANYDML_ENDS(anydml_u16, to, from, n);
  else if (n) *to = *from;
}

/* Copy a run of at least two vectors; the last one may overlap the one before it. */
static __attribute__((noinline)) void K(copy_more)(char *to, const char *from, int64_t n) {
  const int64_t w = K(W);
  if (n >= ANYDML_LONG) { memcpy(to, from, (size_t)n); return; }
  int64_t i = 0;
  for (; i + 4 * w <= n; i += 4 * w) {
    K(vec) p = *(const K(vec) *)(from + i), q = *(const K(vec) *)(from + i + w);
    K(vec) r = *(const K(vec) *)(from + i + 2 * w), s = *(const K(vec) *)(from + i + 3 * w);
    *(K(vec) *)(to + i) = p; *(K(vec) *)(to + i + w) = q; *(K(vec) *)(to + i + 2 * w) = r; *(K(vec) *)(to + i + 3 * w) = s;
  }
  for (; i + w <= n; i += w) ANYDML_PUT(K(vec), to + i, from + i);
  if (i < n) ANYDML_PUT(K(vec), to + n - w, from + n - w);
}

static inline void K(copy)(char *to, const char *from, int64_t n) {
  if (n <= 2 * K(W)) K(copy_few)(to, from, n);
  else K(copy_more)(to, from, n);
}

/* Non-temporal store; the other vectors of the line follow at once. */
static inline void K(store_streamed)(char *to, K(vec) v) {
#if ANYDML_LANES == 4
  _mm512_stream_si512((void *)to, (__m512i)v);
#elif ANYDML_LANES == 2
  _mm256_stream_si256((void *)to, (__m256i)v);
#elif defined(__x86_64__)
  _mm_stream_si128((void *)to, (__m128i)v);
#else
  *(anydml_v16 *)to = v;
#endif
}

/* Non-temporal store of a line of 64 bytes, to which `to` is aligned. */
static inline void K(put_line)(char *to, const char *from) {
  enum { V = 64 / K(W) };
  K(vec) v[V];
  for (int k = 0; k < V; k++) v[k] = *(const K(vec) *)(from + k * K(W));
  for (int k = 0; k < V; k++) K(store_streamed)(to + k * K(W), v[k]);
}

/* Non-temporal stores of whole lines; prefetches as many from `soon`: a core that waits for lines does not store. */
static inline void K(put_lines)(char *to, const char *from, int64_t n, const char *soon) {
  int64_t i = 0;
  for (; i + 256 <= n; i += 256) {
    for (int k = 0; k < 4; k++) __builtin_prefetch(soon + i + 64 * k, 0, 3);
    for (int k = 0; k < 4; k++) K(put_line)(to + i + 64 * k, from + i + 64 * k);
  }
  for (; i < n; i += 64) { __builtin_prefetch(soon + i, 0, 3); K(put_line)(to + i, from + i); }
}

/* Copy a run with non-temporal stores, except for partial lines at its ends; `next` is the source of the next run. */
static inline void K(stream)(char *to, const char *from, int64_t n, const char *next) {
  int64_t head = -(uintptr_t)to & 63;
  if (n < 192) { K(copy)(to, from, n); return; }
  if (head) K(copy)(to, from, head);
  int64_t whole = (n - head) & ~(int64_t)63, own = whole > ANYDML_AHEAD ? whole - ANYDML_AHEAD : 0;
  K(put_lines)(to + head, from + head, own, from + head + ANYDML_AHEAD);
  K(put_lines)(to + head + own, from + head + own, whole - own, next);
  if (head + whole < n) K(copy)(to + head + whole, from + head + whole, n - head - whole);
}

/* Runs that are contiguous at the destination, assembled in the L1 cache so that lines are stored whole. */
typedef struct {
  char *to;              /* address of the first line of data */
  int64_t fill, low;     /* bytes in data; those before its own ones */
  char data[ANYDML_SINK + 128] __attribute__((aligned(64)));
} K(sink);

static inline void K(sink_open)(K(sink) *s, char *to) {
  s->low = s->fill = (uintptr_t)to & 63;
  s->to = to - s->low;
}

/* Store whole lines. */
static inline void K(sink_flush)(K(sink) *s) {
  int64_t whole = s->fill & ~(int64_t)63, i = 0;
  if (!whole) return;
  if (s->low) { K(copy)(s->to + s->low, s->data + s->low, 64 - s->low); i = 64; s->low = 0; }
  for (; i < whole; i += 64) K(put_line)(s->to + i, s->data + i);
  for (int k = 0; k < 4; k++) ANYDML_PUT(anydml_v16, s->data + 16 * k, s->data + whole + 16 * k);
  s->to += whole;
  s->fill -= whole;
}

static inline void K(sink_close)(K(sink) *s) {
  K(sink_flush)(s);
  if (s->fill > s->low) K(copy)(s->to + s->low, s->data + s->low, s->fill - s->low);
  s->fill = s->low;
}

/* Append a run; `next` is the source of the next one. */
static inline void K(sink_put)(K(sink) *s, const char *from, int64_t n, const char *next) {
  if (!s->fill && !(n & 63)) {
    K(put_lines)(s->to, from, n, n <= 2 * ANYDML_AHEAD ? next : from + ANYDML_AHEAD);
    s->to += n;
    return;
  }
  if (n < ANYDML_SHORT_SINK_RUN) {
    for (int64_t k = 0; k < n - 1; k += 64) __builtin_prefetch(next + k, 0, 3);
    __builtin_prefetch(next + n - 1, 0, 3);
    if (s->fill + n > ANYDML_SINK) K(sink_flush)(s);
    K(copy)(s->data + s->fill, from, n);
    s->fill += n;
    return;
  }
  if (s->fill >= 64) K(sink_flush)(s);
  int64_t head = 0;
  if (n <= 2 * ANYDML_AHEAD) { __builtin_prefetch(next, 0, 3); __builtin_prefetch(next + n - 1, 0, 3); }
  if (s->fill) {
    head = 64 - s->fill;
    for (int k = 0; k < 64; k += K(W)) ANYDML_PUT(K(vec), s->data + s->fill + k, from + k);
    if (s->low) K(copy)(s->to + s->low, s->data + s->low, 64 - s->low);
    else K(put_line)(s->to, s->data);
    s->to += 64;
    s->low = 0;
  }
  int64_t whole = (n - head) & ~(int64_t)63;
  K(put_lines)(s->to, from + head, whole, n <= 2 * ANYDML_AHEAD ? next + head : from + head + ANYDML_AHEAD);
  s->to += whole;
  s->fill = n - head - whole;
  if (s->fill) K(copy)(s->data, from + head + whole, s->fill);
}

/* Select the bytes of each lane by a mask; 0 where it is 128. */
#if defined(__x86_64__)
#define ANYDML_PICK16(v, m) ((anydml_v16)_mm_shuffle_epi8((__m128i)(v), (__m128i)(m)))
#elif defined(__aarch64__)
#define ANYDML_PICK16(v, m) ((anydml_v16)vqtbl1q_u8((uint8x16_t)(v), (uint8x16_t)(m)))
#else
static inline anydml_v16 K(pick)(anydml_v16 v, anydml_v16 m) {
  anydml_v16 r;
  for (int k = 0; k < 16; k++) r[k] = m[k] & 0x80 ? 0 : v[m[k] & 15];
  return r;
}
#define ANYDML_PICK16(v, m) K(pick)(v, m)
#endif
#if ANYDML_LANES == 4
#define ANYDML_PICK(v, m) ((K(vec))_mm512_shuffle_epi8((__m512i)(v), (__m512i)(m)))
#elif ANYDML_LANES == 2
#define ANYDML_PICK(v, m) ((K(vec))_mm256_shuffle_epi8((__m256i)(v), (__m256i)(m)))
#else
#define ANYDML_PICK(v, m) ANYDML_PICK16(v, m)
#endif
