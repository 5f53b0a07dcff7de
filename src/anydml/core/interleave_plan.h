/* Weaving of columns: short elements that are adjacent at one end, and elsewhere or in another order at the other.
 *
 * A block has enough rows to write whole vectors to every target. Each vector takes bytes of a few windows of the source,
 * by masks that are computed here for each list of moves.
 */
#ifndef ANYDML_INTERLEAVE_PLAN_H
#define ANYDML_INTERLEAVE_PLAN_H
static inline int64_t anydml_abs(int64_t x) { return x < 0 ? -x : x; }

enum { ANYDML_COLUMNS = 8, ANYDML_TERMS = 64, ANYDML_WIDEST = 8 };   /* limits; terms of a block, and of a vector */
enum { ANYDML_WINDOWS = 6 };           /* limit of windows, and of vectors, of a block that is interleaved at once */
enum { ANYDML_INTERLEAVE_FROM = 2 << 10, ANYDML_MASKS_FROM = 96 };   /* bytes, and blocks, from which masks are worthwhile */
enum { ANYDML_SHORT_LINES = 2 << 10 };         /* bytes of a line up to which repeated ones are written together */
enum { ANYDML_FILL_WINDOW = 64 };              /* bytes of a fill's pattern, repeated: the widest window */

/* A column: one run of each row. */
typedef struct {
  char *to;
  const char *from;
  const anydml_move *move;
  int64_t element, a, b;
  int32_t target, source;              /* its streams */
  int64_t into, of;                    /* its offsets in a row of both */
} anydml_column;

/* A stream: the bytes written, or read, along the rows, of all columns within the first column's period. */
typedef struct { int32_t column; int64_t step, low, high; } anydml_byte_stream;

/* A vector to write: its stream, its offset there, and its terms. */
typedef struct { int32_t stream, at, first, terms; } anydml_interleaved_vector;

/* Lines of `blocks` whole blocks, at least one, and `rest` more rows; strides between lines of each target and source, and
 * the distance of prefetches, for which there are whole lines if there are several. */
typedef struct { int64_t lines, blocks, rest, to[ANYDML_COLUMNS], from[ANYDML_COLUMNS], ahead[ANYDML_COLUMNS]; } anydml_block_span;

/* Steps of one vector in bytes: from block to block, back to the last rows of a line, and to the next line, at the
 * destination and for each term. */
typedef struct {
  int64_t step, back, next, steps[ANYDML_WIDEST], backs[ANYDML_WIDEST], nexts[ANYDML_WIDEST];
  const char *from[ANYDML_WIDEST];
} anydml_vector_steps;

typedef struct anydml_interleave anydml_interleave;
typedef void (*anydml_interleave_vector)(const anydml_interleave *, const anydml_interleaved_vector *, char *to, const anydml_vector_steps *, const anydml_block_span *);
typedef void (*anydml_interleave_block)(const anydml_interleave *, char *const *to, const char *const *from, const anydml_block_span *, int streamed);

struct anydml_interleave {
  anydml_interleave_vector vector;
  anydml_interleave_block block;
  int32_t columns, targets, sources, count, rows, rank;
  int32_t windows;                     /* of a block, if all vectors share them; else 0 */
  int32_t is_part;                     /* whether a block is a whole line, whose vectors may be parts of one */
  int64_t lines, n0, segment, row;     /* lines; rows of a line; bytes accessed per row of the widest stream, and of the widest target */
  int32_t dimension[ANYDML_RANK];      /* outer dimensions of the moves */
  anydml_column column[ANYDML_COLUMNS];
  anydml_byte_stream target[ANYDML_COLUMNS], source[ANYDML_COLUMNS];
  anydml_interleaved_vector interleaved[ANYDML_TERMS];
  int32_t from[ANYDML_TERMS];          /* the stream of a term */
  int32_t offset[ANYDML_TERMS][4];     /* offsets of its windows, one per lane or one in all */
  uint64_t keep[ANYDML_TERMS], third[ANYDML_WINDOWS], stored[ANYDML_WINDOWS];
  uint8_t mask[ANYDML_TERMS][64] __attribute__((aligned(64)));
  uint8_t fills[ANYDML_COLUMNS][ANYDML_FILL_WINDOW];   /* sources of columns that are fills */
};

static int anydml_same_strides(const anydml_move *p, const anydml_move *q, int is_target, const anydml_interleave *w) {
  for (int k = 0; k < w->rank; k++) {
    const int d = w->dimension[k];
    if (is_target ? p->a[d] != q->a[d] : p->b[d] != q->b[d]) return 0;
  }
  return 1;
}

/* Assign one end of a column to a stream whose rows have the same strides and are at least as far apart, or to a new one. */
static inline __attribute__((always_inline)) int32_t anydml_stream_of(const anydml_interleave *w, int k, int is_target, anydml_byte_stream *streams, int32_t *count, int64_t *offset) {
  const anydml_column *c = w->column + k;
  const int64_t step = is_target ? c->a : c->b, most = anydml_abs(step);
  for (int j = 0; j < *count; j++) {
    anydml_byte_stream *s = streams + j;
    const anydml_column *f = w->column + s->column;
    const int64_t at = is_target ? c->to - f->to : c->from - f->from;
    if (s->step != step || at <= -most || at >= most || !anydml_same_strides(f->move, c->move, is_target, w)) continue;
    *offset = at;
    if (at < s->low) s->low = at;
    if (at + c->element > s->high) s->high = at + c->element;
    return j;
  }
  streams[*count] = (anydml_byte_stream){k, step, 0, !is_target && c->move->pattern ? ANYDML_FILL_WINDOW : c->element};
  *offset = 0;
  return (*count)++;
}

/* Assign columns to streams; returns whether each row of each target is written completely. */
static int anydml_streams(anydml_interleave *w) {
  int64_t written[ANYDML_COLUMNS] = {0};
  w->targets = w->sources = 0;
  w->segment = w->row = 1;
  for (int k = 0; k < w->columns; k++) {
    anydml_column *c = w->column + k;
    c->target = anydml_stream_of(w, k, 1, w->target, &w->targets, &c->into);
    c->source = anydml_stream_of(w, k, 0, w->source, &w->sources, &c->of);
    written[c->target] += c->element;
  }
  for (int j = 0; j < w->targets; j++)
    if (written[j] != w->target[j].step) return 0;
  for (int k = 0; k < w->columns; k++) {
    anydml_column *c = w->column + k;
    c->into -= w->target[c->target].low;
    if (c->into + c->element > c->a) return 0;
    if (c->a > w->row) w->row = c->a;
    if (c->a > w->segment) w->segment = c->a;
    /* Of rows that are further apart than cache lines, only one or two lines are read. */
    const int64_t read = anydml_abs(c->b) < 128 ? anydml_abs(c->b) : 128;
    if (read > w->segment) w->segment = read;
  }
  return 1;
}

/* Masks of 64-byte vectors that share the windows of a block: bit 7 selects the second pair, `third` the third one. */
static int anydml_block_masks(anydml_interleave *w) {
  int count = 0, windows = 0, first[ANYDML_COLUMNS], final[ANYDML_COLUMNS];
  for (int j = 0; j < w->targets; j++) count += (int)((w->rows * w->target[j].step + 63) / 64);
  for (int j = 0; j < w->sources; j++) {
    const anydml_byte_stream *s = w->source + j;
    const int64_t reach = (w->rows - 1) * anydml_abs(s->step) + s->high - s->low, low = s->low + (s->step < 0 ? (w->rows - 1) * s->step : 0);
    if (reach < 64) return 0;
    first[j] = windows;
    for (int64_t at = 0; at < reach; at += 64) {
      if (windows == ANYDML_WINDOWS) return 0;
      w->from[windows] = j;
      w->offset[windows++][0] = (int32_t)(low + (at < reach - 64 ? at : reach - 64));
    }
    final[j] = windows - 1;
  }
  if (count > ANYDML_WINDOWS || count == 5) return 0;
  if (windows == 5) {
    /* No kernel has five windows: the last one is repeated. */
    w->from[5] = w->from[4];
    w->offset[5][0] = w->offset[4][0];
    windows = 6;
  }
  int start[ANYDML_COLUMNS], n = 0;
  for (int j = 0; j < w->targets; j++) {
    start[j] = 64 * n;
    for (int64_t at = 0, size = w->rows * w->target[j].step; at < size; at += 64) {
      w->third[n] = 0;
      w->stored[n] = UINT64_MAX >> (size - at < 64 ? 64 - (size - at) : 0);
      w->interleaved[n++] = (anydml_interleaved_vector){j, (int32_t)at, 0, 0};
    }
  }
  /* Places of bytes in the windows: of the first row, then doubling the number of rows. */
  uint16_t at[64 * ANYDML_WINDOWS] = {0}, by[64 * ANYDML_WINDOWS];
  for (int k = 0; k < w->columns; k++) {
    const anydml_column *c = w->column + k;
    const int64_t to = start[c->target] + c->into, from = 64 * first[c->source] + c->of - w->offset[first[c->source]][0];
    for (int x = 0; x < c->element; x++) { at[to + x] = (uint16_t)(from + x); by[to + x] = (uint16_t)c->b; }
  }
  for (int j = 0; j < w->targets; j++)
    for (int64_t row = 1, done = w->target[j].step, left; row < w->rows; row *= 2, done *= 2) {
      uint16_t *restrict p = at + start[j], *restrict q = by + start[j], *restrict more = p + done, *restrict also = q + done;
      left = row < w->rows - row ? done : (w->rows - row) * w->target[j].step;
      for (int64_t k = 0; k < left; k++) { more[k] = (uint16_t)(p[k] + row * q[k]); also[k] = q[k]; }
    }
  /* A stream's last window may begin before the end of the one before it. */
  for (int j = 0; j < w->sources; j++) {
    const int last = 64 * final[j], back = last - 64 * first[j] - w->offset[final[j]][0] + w->offset[first[j]][0];
    for (int k = 0; k < 64 * n && back; k++) at[k] += at[k] >> 6 == final[j] ? back : 0;
  }
  /* Masks are the low bytes of places; the highest bit, which only six windows need, goes to `third`. */
  uint8_t *mask = (uint8_t *)w->mask;
  for (int k = 0; k < 64 * n; k++) mask[k] = (uint8_t)at[k];
  for (int k = 0; k < 64 * n && windows > 4; k++) w->third[k / 64] |= (uint64_t)(at[k] >> 8) << k % 64;
  w->count = count;
  w->windows = windows;
  return 1;
}

/* Compute the terms of a vector, from `first` on: each lane reads as few windows as possible; returns 0 if too many. */
static int anydml_terms(anydml_interleave *w, anydml_interleaved_vector *v, int first, const uint8_t *owner, int width, int window) {
  const int64_t step = w->target[v->stream].step;
  int64_t row = v->at / step, place = v->at % step, from[64];
  int source[64];
  for (int lane = 0; lane < width / window; lane++) {
    const int begin = lane * window, end = begin + window;
    for (int byte = begin; byte < end; byte++) {
      const anydml_column *c = w->column + owner[place];
      source[byte] = c->source;
      from[byte] = row * w->source[c->source].step + c->of + place - c->into;
      if (++place == step) { place = 0; row++; }
    }
    for (int next = begin; next < end; next++) {
      const int j = source[next];
      if (j < 0) continue;
      /* A window begins at the first byte not covered yet, or at the multiple of its size before if that covers the same. */
      const anydml_byte_stream *s = w->source + j;
      const int64_t low = s->low + (s->step < 0 ? (w->rows - 1) * s->step : 0), last = s->high + (s->step > 0 ? (w->rows - 1) * s->step : 0) - window;
      int64_t start = last, most = low;
      for (int byte = next; byte < end; byte++)
        if (source[byte] == j && from[byte] < start) start = from[byte];
      for (int byte = next; byte < end; byte++)
        if (source[byte] == j && from[byte] < start + window && from[byte] > most) most = from[byte];
      const int64_t even = start - (start - low) % window;
      if (even + window > most) start = even;
      int t = first;
      while (t < first + v->terms && (w->from[t] != j || w->offset[t][lane] != INT32_MIN)) t++;
      if (t == first + v->terms) {
        if (v->terms == ANYDML_WIDEST || t == ANYDML_TERMS) return 0;
        v->terms++;
        w->keep[t] = 0;
        w->from[t] = j;
        memset(w->mask[t], 0x80, 64);
        for (int k = 0; k < 4; k++) w->offset[t][k] = INT32_MIN;
      }
      w->offset[t][lane] = (int32_t)start;
      for (int byte = next; byte < end; byte++)
        if (source[byte] == j && from[byte] < start + window) {
          w->mask[t][byte] = (uint8_t)(from[byte] - start);
          w->keep[t] |= (uint64_t)1 << byte;
          source[byte] = -1;
        }
      /* If the window does not cover this byte, another one must. */
      if (source[next] >= 0) next--;
    }
  }
  /* Lanes that need fewer terms read a valid window, of which their masks select nothing. */
  for (int t = first; t < first + v->terms; t++)
    for (int k = 0; k < width / window; k++)
      if (w->offset[t][k] == INT32_MIN) {
        const anydml_byte_stream *s = w->source + w->from[t];
        w->offset[t][k] = (int32_t)(s->low + (s->step < 0 ? (w->rows - 1) * s->step : 0));
      }
  return 1;
}

/* Compute the masks of vectors of `width` bytes from windows of `window` bytes; returns whether that is possible, and
 * interleaving `bytes` bytes is worthwhile. */
static int anydml_masks(anydml_interleave *w, int width, int window, int64_t bytes) {
  int rows = 1;
  w->windows = w->is_part = 0;
  for (int j = 0; j < w->targets; j++)
    if (w->target[j].step > 64 || w->target[j].step < 1) return 0;
  for (int j = 0; j < w->targets; j++)
    while (rows * w->target[j].step % width) if ((rows *= 2) > width) return 0;
  for (int j = 0; j < w->sources; j++) {
    const anydml_byte_stream *s = w->source + j;
    while ((rows - 1) * anydml_abs(s->step) + s->high - s->low < window) if ((rows *= 2) > width) return 0;
  }
  if (w->n0 < rows) {
    w->rows = (int32_t)w->n0;
    return w->is_part = window == 64 && anydml_block_masks(w);
  }
  w->rows = rows;
  if (window == 64 && anydml_block_masks(w)) return 1;
  /* Other masks take as long as plain copies of many vectors, and save nothing for longer elements. */
  for (int j = 0; j < w->targets; j++) bytes -= rows * w->target[j].step * ANYDML_MASKS_FROM;
  for (int k = 0; k < w->columns; k++) if (w->column[k].element > 4) return 0;
  if (bytes < 0) return 0;
  w->count = 0;
  int terms = 0;
  for (int j = 0; j < w->targets; j++) {
    uint8_t owner[64];   /* the column of each byte of a row */
    for (int k = 0; k < w->columns; k++)
      if (w->column[k].target == j) memset(owner + w->column[k].into, k, (size_t)w->column[k].element);
    for (int at = 0; at < rows * w->target[j].step; at += width) {
      if (w->count == ANYDML_TERMS) return 0;
      anydml_interleaved_vector *v = w->interleaved + w->count++;
      *v = (anydml_interleaved_vector){j, at, terms, 0};
      if (!anydml_terms(w, v, terms, owner, width, window)) return 0;
      terms += v->terms;
    }
  }
  /* Masks are worthwhile if a window has several elements, or if elements are not in order at one end. */
  return w->columns > 1 || window == 64 || terms * (width / window) < rows;
}

/* Begin a table with the lines of a move; rows are along dimension `along`, columns along `apart`, or −1 if it has one. */
static void anydml_begin_interleave(anydml_interleave *w, const anydml_move *m, int apart, int along) {
  w->columns = w->rank = 0;
  w->lines = 1;
  w->n0 = m->n[along];
  for (int d = 0; d < m->rank; d++)
    if (d != apart && d != along) { w->dimension[w->rank++] = d; w->lines *= m->n[d]; }
}

/* Add the columns of a move. */
static void anydml_add_columns(anydml_interleave *w, const anydml_move *m, int apart, int along) {
  const int64_t count = apart < 0 ? 1 : m->n[apart], a = apart < 0 ? 0 : m->a[apart], b = apart < 0 ? 0 : m->b[apart];
  for (int64_t k = 0; k < count; k++)
    w->column[w->columns++] = (anydml_column){m->to + k * a, m->from + k * b, m, m->element, m->a[along], m->b[along], 0, 0, 0, 0};
}

/* If the innermost lines of one move repeat, write all of them together: they read the same; returns whether they do. */
static int anydml_repeat_columns(anydml_interleave *w, const anydml_move *m) {
  const int columns = w->columns, d = w->rank > 1 ? w->dimension[w->rank - 1] : -1;
  if (d < 0 || m->b[d] || m->n[d] * columns > ANYDML_COLUMNS) return 0;
  w->rank--;
  w->lines /= m->n[d];
  w->columns *= (int32_t)m->n[d];
  for (int k = columns; k < w->columns; k++) {
    w->column[k] = w->column[k - columns];
    w->column[k].to += m->a[d];
  }
  return 1;
}

/* Set the addresses of a column's first row in a line, for its own move, or for another move of the same columns. */
static inline void anydml_line_start(const anydml_interleave *w, const anydml_column *c, const anydml_move *other, const int64_t *at, char **to, const char **from) {
  const anydml_move *m = other ? other : c->move, *own = w->column->move;
  *to = c->to + (other ? other->to - own->to : 0);
  *from = c->from + (other ? other->from - own->from : 0);
  for (int d = 0; d < w->rank; d++) {
    *to += at[d] * m->a[w->dimension[d]];
    *from += at[d] * m->b[w->dimension[d]];
  }
}
#endif
