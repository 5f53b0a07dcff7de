/* Elements transposed in registers: a tile has as many rows of the source as a vector has elements, and 16 bytes of each.
 *
 * Each lane of a vector takes 16 bytes of a row from another group of rows. Within lanes, neighbours are interleaved
 * until each vector holds one column of all rows, which is stored as a whole. Included once for each
 * instruction set, so it has no guard. */
#if ANYDML_LANES == 4
static inline anydml_v64 K(lanes)(const char *p, int64_t step) {
  __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)p)), _mm_loadu_si128((const void *)(p + step)), 1);
  p += 2 * step;
  __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)p)), _mm_loadu_si128((const void *)(p + step)), 1);
  return (anydml_v64)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
#define ANYDML_ZIP(side, bits) _mm512_unpack##side##_epi##bits
typedef __m512i K(raw);
#elif ANYDML_LANES == 2
static inline anydml_v32 K(lanes)(const char *p, int64_t step) {
  return (anydml_v32)_mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)p)), _mm_loadu_si128((const void *)(p + step)), 1);
}
#define ANYDML_ZIP(side, bits) _mm256_unpack##side##_epi##bits
typedef __m256i K(raw);
#endif

#if ANYDML_LANES > 1
#define ANYDML_LOW(bits, p, q) ((K(vec))ANYDML_ZIP(lo, bits)((K(raw))(p), (K(raw))(q)))
#define ANYDML_HIGH(bits, p, q) ((K(vec))ANYDML_ZIP(hi, bits)((K(raw))(p), (K(raw))(q)))
#define ANYDML_TILE(e, width) ANYDML_TILE_OF(e, width, K(tile##e), K(vec), K(lanes), ANYDML_LOW, ANYDML_HIGH, ANYDML_STORE) \
  ANYDML_TILE_OF(e, width, K(streamed_tile##e), K(vec), K(lanes), ANYDML_LOW, ANYDML_HIGH, K(store_streamed))
#endif

#define ANYDML_LOW16(bits, p, q) ANYDML_LOW16_##bits(p, q)
#define ANYDML_HIGH16(bits, p, q) ANYDML_HIGH16_##bits(p, q)
#define ANYDML_AS(type, p, q, ...) ((anydml_v16)__builtin_shufflevector((type)(p), (type)(q), __VA_ARGS__))
#define ANYDML_LOW16_8(p, q) ANYDML_AS(anydml_v16, p, q, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define ANYDML_HIGH16_8(p, q) ANYDML_AS(anydml_v16, p, q, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define ANYDML_LOW16_16(p, q) ANYDML_AS(anydml_h16, p, q, 0, 8, 1, 9, 2, 10, 3, 11)
#define ANYDML_HIGH16_16(p, q) ANYDML_AS(anydml_h16, p, q, 4, 12, 5, 13, 6, 14, 7, 15)
#define ANYDML_LOW16_32(p, q) ANYDML_AS(anydml_s16, p, q, 0, 4, 1, 5)
#define ANYDML_HIGH16_32(p, q) ANYDML_AS(anydml_s16, p, q, 2, 6, 3, 7)
#define ANYDML_LOW16_64(p, q) ANYDML_AS(anydml_d16, p, q, 0, 2)
#define ANYDML_HIGH16_64(p, q) ANYDML_AS(anydml_d16, p, q, 1, 3)

static inline anydml_v16 K(lane)(const char *p, int64_t step) { (void)step; return *(const anydml_v16 *)p; }
#if ANYDML_LANES == 1
static inline anydml_v16 K(lanes)(const char *p, int64_t step) { return K(lane)(p, step); }
#define ANYDML_LOW ANYDML_LOW16
#define ANYDML_HIGH ANYDML_HIGH16
#endif

/* Row j begins at `from + j * row`; column k goes to `to + k * column`. */
#define ANYDML_TILE_OF(e, width, name, type, load, low, high, store) \
static inline void name(char *to, int64_t column, const char *from, int64_t row) { \
  enum { G = 16 / e }; \
  type r[G], t[G]; \
  _Pragma("GCC unroll 16") for (int k = 0; k < G; k++) r[k] = load(from + k * row, G * row); \
  _Pragma("GCC unroll 4") for (int s = 1; s < G; s *= 2) { \
    _Pragma("GCC unroll 8") for (int k = 0; k < G / 2; k++) { t[2 * k] = low(width, r[k], r[k + G / 2]); t[2 * k + 1] = high(width, r[k], r[k + G / 2]); } \
    _Pragma("GCC unroll 16") for (int k = 0; k < G; k++) r[k] = t[k]; \
  } \
  _Pragma("GCC unroll 16") for (int k = 0; k < G; k++) store(to + k * column, r[k]); \
}
#define ANYDML_STORE(to, v) (*(K(vec) *)(to) = (v))
#define ANYDML_STORE16(to, v) (*(anydml_v16 *)(to) = (v))
#if ANYDML_LANES > 1
ANYDML_TILE(1, 8) ANYDML_TILE(2, 16) ANYDML_TILE(4, 32) ANYDML_TILE(8, 64)
#endif
ANYDML_TILE_OF(1, 8, K(small_tile1), anydml_v16, K(lane), ANYDML_LOW16, ANYDML_HIGH16, ANYDML_STORE16)
ANYDML_TILE_OF(2, 16, K(small_tile2), anydml_v16, K(lane), ANYDML_LOW16, ANYDML_HIGH16, ANYDML_STORE16)
ANYDML_TILE_OF(4, 32, K(small_tile4), anydml_v16, K(lane), ANYDML_LOW16, ANYDML_HIGH16, ANYDML_STORE16)
ANYDML_TILE_OF(8, 64, K(small_tile8), anydml_v16, K(lane), ANYDML_LOW16, ANYDML_HIGH16, ANYDML_STORE16)
#if ANYDML_LANES == 1
ANYDML_TILE_OF(1, 8, K(streamed_tile1), anydml_v16, K(lane), ANYDML_LOW16, ANYDML_HIGH16, K(store_streamed))
ANYDML_TILE_OF(2, 16, K(streamed_tile2), anydml_v16, K(lane), ANYDML_LOW16, ANYDML_HIGH16, K(store_streamed))
ANYDML_TILE_OF(4, 32, K(streamed_tile4), anydml_v16, K(lane), ANYDML_LOW16, ANYDML_HIGH16, K(store_streamed))
ANYDML_TILE_OF(8, 64, K(streamed_tile8), anydml_v16, K(lane), ANYDML_LOW16, ANYDML_HIGH16, K(store_streamed))
#define ANYDML_LARGE(e) K(small_tile##e)
#else
#define ANYDML_LARGE(e) K(tile##e)
#endif

/* Transpose a block: rows of the source along n0, columns along n1. Tiles at the ends overlap those before them. Another
 * block, which is so many bytes `ahead`, is prefetched unless that is 0. */
#define ANYDML_TRANSPOSE(e) \
static void K(transpose_block##e)(char *to, int64_t a1, const char *from, int64_t b0, int64_t n1, int64_t n0, int64_t ahead) { \
  enum { G = 16 / e, R = ANYDML_LANES * G }; \
  /* Of many rows whose lines evict each other, small tiles read fewer at a time. */ \
  const int crowded = e < 4 && n1 * e > 64 && R * (b0 & -b0) > 2 * ANYDML_CROWDED; \
  const int64_t wide = n1 - n1 % G, side = n0 >= R && !crowded ? R : G; \
  if (n1 < G || n0 < G) { \
    for (int64_t i = 0; i < n1; i++) for (int64_t k = 0; k < n0; k++) memcpy(to + i * a1 + k * e, from + i * e + k * b0, e); \
    return; \
  } \
  for (int64_t j = 0; j < n0; j += side) { \
    const int64_t at = n0 - j >= side ? j : n0 - side; \
    char *t = to + at * e; const char *f = from + at * b0; \
    if (side == R) { \
      if (!ahead) for (int64_t i = 0; i < wide; i += G) ANYDML_LARGE(e)(t + i * a1, a1, f + i * e, b0); \
      else for (int64_t i = 0; i < wide; i += G) { \
        if (!(i * e & 63)) for (int64_t k = 0; k < R; k++) __builtin_prefetch(f + i * e + k * b0 + ahead, 0, 3); \
        ANYDML_LARGE(e)(t + i * a1, a1, f + i * e, b0); \
      } \
      if (wide < n1) ANYDML_LARGE(e)(t + (n1 - G) * a1, a1, f + (n1 - G) * e, b0); \
    } else { \
      for (int64_t i = 0; i < wide; i += G) K(small_tile##e)(t + i * a1, a1, f + i * e, b0); \
      if (wide < n1) K(small_tile##e)(t + (n1 - G) * a1, a1, f + (n1 - G) * e, b0); \
    } \
  } \
} \
/* Non-temporal stores of whole lines, adjacent pairs soon after each other: each row of the destination begins on one. */ \
static void K(transpose_lines##e)(char *to, int64_t a1, const char *from, int64_t b0, int64_t n1, int64_t n0, int64_t ahead) { \
  enum { G = 16 / e, R = ANYDML_LANES * G, L = 64 / e }; \
  const int64_t wide = n1 - n1 % G, lines = n0 - n0 % L; \
  for (int64_t j = 0; j < lines; j += 2 * L) \
    for (int64_t i = 0; i < wide; i += L) \
      for (int64_t line = j; line < j + 2 * L && line < lines; line += L) { \
        if (ahead) for (int64_t k = line; k < line + L; k++) __builtin_prefetch(from + i * e + k * b0 + ahead, 0, 2); \
        for (int64_t c = i; c < i + L && c < wide; c += G) \
          for (int64_t k = line; k < line + L; k += R) K(streamed_tile##e)(to + c * a1 + k * e, a1, from + c * e + k * b0, b0); \
      } \
  if (wide < n1) K(transpose_block##e)(to + wide * a1, a1, from + wide * e, b0, n1 - wide, n0, ahead); \
  if (lines < n0) K(transpose_block##e)(to + lines * e, a1, from + lines * b0, b0, wide, n0 - lines, ahead); \
}
ANYDML_TRANSPOSE(1) ANYDML_TRANSPOSE(2) ANYDML_TRANSPOSE(4) ANYDML_TRANSPOSE(8)

/* Elements of three bytes are transposed as four, the last of which is not stored. */
static inline void K(store3)(char *to, K(vec) v) {
#if ANYDML_LANES == 4
  _mm512_mask_storeu_epi32((void *)to, 0xfff, _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 0, 0, 0, 0), (__m512i)v));
#elif ANYDML_LANES == 2
  const __m256i all = _mm256_permutevar8x32_epi32((__m256i)v, _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 0, 0));
  _mm_storeu_si128((void *)to, _mm256_castsi256_si128(all));
  _mm_storel_epi64((void *)(to + 16), _mm256_extracti128_si256(all, 1));
#else
  memcpy(to, &v, 12);
#endif
}

/* A tile of four columns; `wide` spreads three bytes to four, `narrow` packs them again. */
static inline void K(tile3)(char *to, int64_t column, const char *from, int64_t row, K(vec) wide, K(vec) narrow) {
  K(vec) r[4], t[4];
  _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++) r[k] = ANYDML_PICK(K(lanes)(from + k * row, 4 * row), wide);
  _Pragma("GCC unroll 2") for (int s = 0; s < 2; s++) {
    _Pragma("GCC unroll 2") for (int k = 0; k < 2; k++) { t[2 * k] = ANYDML_LOW(32, r[k], r[k + 2]); t[2 * k + 1] = ANYDML_HIGH(32, r[k], r[k + 2]); }
    _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++) r[k] = t[k];
  }
  _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++) K(store3)(to + k * column, ANYDML_PICK(r[k], narrow));
}

/* As `transpose_block1`. Loads begin four bytes before a tile, except for the first. */
static void K(transpose_block3)(char *to, int64_t a1, const char *from, int64_t b0, int64_t n1, int64_t n0, int64_t ahead) {
  enum { R = 4 * ANYDML_LANES };
  /* The last part of a plane may be smaller than the vectors of a tile. */
  if (n1 < 6 || n0 < R) {
    for (int64_t i = 0; i < n1; i++) for (int64_t k = 0; k < n0; k++) memcpy(to + i * a1 + k * 3, from + i * 3 + k * b0, 3);
    return;
  }
  union { uint8_t byte[K(W)]; K(vec) all; } first, wide, narrow;
  for (int k = 0; k < K(W); k++) {
    const int i = k & 15;
    first.byte[k] = (uint8_t)(i % 4 == 3 ? 128 : i / 4 * 3 + i % 4);
    wide.byte[k] = (uint8_t)(first.byte[k] + 4);
    narrow.byte[k] = (uint8_t)(i < 12 ? i / 3 * 4 + i % 3 : 128);
  }
  for (int64_t j = 0; j < n0; j += R) {
    const int64_t at = n0 - j >= R ? j : n0 - R;
    char *t = to + at * 3; const char *f = from + at * b0 - 4;
    K(tile3)(t, a1, f + 4, b0, first.all, narrow.all);
    for (int64_t i = 4; i < n1; i += 4) {
      const int64_t k = n1 - i >= 4 ? i : n1 - 4;
      if (ahead && !(i & 15)) for (int64_t row = 0; row < R; row++) __builtin_prefetch(f + i * 3 + row * b0 + ahead, 0, 3);
      K(tile3)(t + k * a1, a1, f + k * 3, b0, wide.all, narrow.all);
    }
  }
}

static void K(transpose_part)(char *to, int64_t a1, const char *from, int64_t b0, int64_t n1, int64_t n0, int64_t e, int64_t ahead, int lines) {
  switch (e) {
    case 1: (lines ? K(transpose_lines1) : K(transpose_block1))(to, a1, from, b0, n1, n0, ahead); break;
    case 2: (lines ? K(transpose_lines2) : K(transpose_block2))(to, a1, from, b0, n1, n0, ahead); break;
    case 3: K(transpose_block3)(to, a1, from, b0, n1, n0, ahead); break;
    case 4: (lines ? K(transpose_lines4) : K(transpose_block4))(to, a1, from, b0, n1, n0, ahead); break;
    default: (lines ? K(transpose_lines8) : K(transpose_block8))(to, a1, from, b0, n1, n0, ahead); break;
  }
}

/* Lines of rows whose distance has a large power of two evict each other: so few rows that their lines stay in half of the
 * L1 cache, or in all of it for blocks of larger planes, are transposed at a time. If they were less than a line of the
 * source, blocks are transposed in a buffer, and copied from there. Parts at the ends overlap those before them. */
static void K(transpose)(const anydml_task *s, char *to, const char *from, int64_t n1, int64_t n0) {
  enum { ROWS = 32, SIZE = 512 };
  const int64_t e = s->element, a1 = s->a1, b0 = s->b0, rows = n1 < ROWS ? n1 : ROWS, wide = n0 < SIZE / e ? n0 : SIZE / e;
  const int64_t fit = ANYDML_CROWDED / (a1 & -a1), half = n0 * e <= 256 || fit * e < 128 ? fit : fit / 2, few = n1 < half ? n1 : half;
  if (n1 <= fit || (fit > ANYDML_WAYS && fit * e >= 64)) {
    for (int64_t i = 0; i < n1; i += few) {
      const int64_t row = n1 - i < few ? n1 - few : i;
      K(transpose_part)(to + row * a1, a1, from + row * e, b0, few, n0, e, 0, 0);
    }
    return;
  }
  char data[ROWS * (SIZE + 64)] __attribute__((aligned(64)));
  for (int64_t i = 0; i < n1; i += rows)
    for (int64_t j = 0; j < n0; j += wide) {
      const int64_t row = n1 - i < rows ? n1 - rows : i, at = n0 - j < wide ? n0 - wide : j;
      K(transpose_part)(data, SIZE + 64, from + row * e + at * b0, b0, rows, wide, e, 0, 0);
      for (int64_t k = 0; k < rows; k++) K(copy)(to + (row + k) * a1 + at * e, data + k * (SIZE + 64), wide * e);
    }
}

/* The part of a plane that a unit is: its first line, element and plane, and their addresses. */
typedef struct { int64_t i1, i0, i2; char *to; const char *from; } K(part);

static K(part) K(part_of)(const anydml_task *s, int64_t unit) {
  const int64_t parts = s->c1 * s->c0 * s->c2, number = unit / parts, rest = unit - number * parts, other = rest / s->c1;
  int64_t c[ANYDML_RANK];
  K(part) p = {.i1 = (rest - other * s->c1) * s->p1, .i0 = s->c2 > 1 ? 0 : other * s->p0, .i2 = s->c2 > 1 ? other * s->p2 : 0};
  p.to = s->to + p.i1 * s->a1 + p.i0 * s->element + p.i2 * s->a2;
  p.from = s->from + p.i1 * s->element + p.i0 * s->b0 + p.i2 * s->b2;
  anydml_seek(s, number, c, &p.to, &p.from);
  return p;
}

/* Parts of a plane with non-temporal stores, along the source first: p1 rows of the destination by p0 elements, or by p2
 * contiguous runs of all n0 elements. Each prefetches the source of the next one. */
static void K(transpose_streamed)(const anydml_task *s, int64_t first, int64_t last) {
  const int64_t e = s->element, line = 64 / e;
  char data[ANYDML_TRANSPOSE_BUFFER] __attribute__((aligned(64)));
  K(part) next = K(part_of)(s, first);
  for (int64_t unit = first; unit < last; unit++) {
    const K(part) part = next;
    /* After the last part comes the first one of all. */
    next = K(part_of)(s, unit + 1);
    const int64_t i1 = part.i1, i0 = part.i0, i2 = part.i2, ahead = next.from - part.from;
    char *to = part.to;
    const char *from = part.from;
    const int64_t n1 = s->n1 - i1 < s->p1 ? s->n1 - i1 : s->p1, n2 = s->n2 - i2 < s->p2 ? s->n2 - i2 : s->p2;
    const int64_t n0 = s->n0 - i0 < s->p0 ? s->n0 - i0 : s->p0;
    if (anydml_has_lines(s, to)) {
      /* Parts begin with lines; the first one has the elements before them, too. */
      const int64_t head = (-(uintptr_t)to & 63) / e, begin = i0 ? head : 0, end = s->n0 - i0 < n0 + head ? s->n0 - i0 : n0 + head;
      for (int64_t k = 0; k < n2; k++) {
        char *t = to + k * s->a2; const char *f = from + k * s->b2;
        if (begin < head) K(transpose_part)(t, s->a1, f, s->b0, n1, head, e, 0, 0);
        if (head < end) K(transpose_part)(t + head * e, s->a1, f + head * s->b0, s->b0, n1, end - head, e, ahead, 1);
      }
      continue;
    }
    /* Transpose a line more than the part: each line that begins in it is stored whole, unless the row ends in it. */
    const int is_first = !i0, is_last = i0 + n0 == s->n0;
    const int64_t more = is_last ? 0 : s->n0 - i0 - n0 < line ? s->n0 - i0 - n0 : line, size = n2 * n0 * e;
    const int64_t pitch = s->a1 == size ? size : (size + 64 + 127) & ~(int64_t)63, most = ANYDML_TRANSPOSE_BUFFER / pitch;
    for (int64_t i = 0; i < n1; i += most) {
      const int64_t rows = n1 - i < most ? n1 - i : most;
      for (int64_t k = 0; k < n2; k++)
        K(transpose_part)(data + k * n0 * e, pitch, from + i * e + k * s->b2, s->b0, rows, n0 + more, e, ahead, 0);
      if (pitch == size) {
        K(stream)(to + i * s->a1, data, rows * size, data);
        continue;
      }
      for (int64_t k = 0; k < rows; k++) {
        char *t = to + (i + k) * s->a1;
        const char *f = data + k * pitch;
        int64_t head = -(uintptr_t)t & 63, tail = (size + more * e - head) & ~(int64_t)63;
        if (!is_last && tail + head - 64 >= size) tail -= 64;
        if ((e != 3 && head % e) || tail <= 0) { K(copy)(t, f, size); continue; }
        if (is_first) K(copy)(t, f, head);
        K(put_lines)(t + head, f + head, tail, f + head);
        if (head + tail < size) K(copy)(t + head + tail, f + head + tail, size - head - tail);
      }
    }
  }
}
