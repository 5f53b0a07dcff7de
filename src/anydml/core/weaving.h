/* Columns woven: short elements that lie side by side at one end, and in other places or in another order at the other.
 *
 * A block is so many rows that what they write is whole vectors everywhere. Each vector that is written takes bytes of
 * a few windows of the source, by masks that are made here, for every list of moves anew.
 */
static inline int64_t anydml_abs(int64_t x) { return x < 0 ? -x : x; }

enum { ANYDML_COLUMNS = 8, ANYDML_TERMS = 64, ANYDML_WIDEST = 8 };   /* columns; terms of a block, and of a vector */
enum { ANYDML_WINDOWS = 6 };           /* windows, and vectors, of a block that is woven at once */
enum { ANYDML_DYE = 64 };              /* bytes of a fill's pattern, repeated: the widest window */

/* A run of each row. */
typedef struct {
  char *to;
  const char *from;
  const anydml_move *move;
  int64_t element, a, b;
  int32_t target, source;              /* the streams that it belongs to */
  int64_t into, of;                    /* where it begins in a row of either */
} anydml_column;

/* What is written, or read, along the rows: all that lies in the first column's period. */
typedef struct { int32_t column; int64_t step, low, high; } anydml_stream_of;

/* A vector that is written: of which stream, and its terms. */
typedef struct { int32_t stream, at, first, terms; } anydml_woven;

/* Lines of so many whole blocks, one at least, and `rest` rows more; and from one to the next of each target and source. */
typedef struct { int64_t lines, blocks, rest, to[ANYDML_COLUMNS], from[ANYDML_COLUMNS]; } anydml_span;

/* How one vector of each block goes along: bytes from block to block, back to the last rows of a line, and to the next
 * line, at the destination and of each term. */
typedef struct {
  int64_t step, back, next, steps[ANYDML_WIDEST], backs[ANYDML_WIDEST], nexts[ANYDML_WIDEST];
  const char *from[ANYDML_WIDEST];
} anydml_course;

typedef struct anydml_weave anydml_weave;
typedef void (*anydml_weave_vector)(const anydml_weave *, const anydml_woven *, char *to, const anydml_course *, const anydml_span *);
typedef void (*anydml_weave_block)(const anydml_weave *, char *const *to, const char *const *from, const anydml_span *, int past);

struct anydml_weave {
  anydml_weave_vector vector;
  anydml_weave_block block;
  int32_t columns, targets, sources, count, rows, rank;
  int32_t windows;                     /* of a block, where all vectors take bytes of all of them; else 0 */
  int64_t lines, n0, segment, row;     /* lines, rows of a line, bytes of the widest stream's row that are read or written, and of the widest target's */
  int32_t dimension[ANYDML_RANK];      /* of the moves, outside of rows */
  anydml_column column[ANYDML_COLUMNS];
  anydml_stream_of target[ANYDML_COLUMNS], source[ANYDML_COLUMNS];
  anydml_woven woven[ANYDML_TERMS];
  int32_t from[ANYDML_TERMS];          /* the stream of a term */
  int32_t offset[ANYDML_TERMS][4];     /* where its windows begin, one a lane or one in all */
  uint64_t keep[ANYDML_TERMS], third[ANYDML_WINDOWS];
  uint8_t mask[ANYDML_TERMS][64] __attribute__((aligned(64)));
  uint8_t dye[ANYDML_COLUMNS][ANYDML_DYE];   /* what columns that are filled read instead of a source */
};

static int anydml_alike(const int64_t *s, const int64_t *t, const anydml_weave *w) {
  for (int d = 0; d < w->rank; d++)
    if (s[w->dimension[d]] != t[w->dimension[d]]) return 0;
  return 1;
}

/* Puts columns into streams; whether each row of each target is written whole. */
static int anydml_streams(anydml_weave *w) {
  w->targets = w->sources = 0;
  w->segment = w->row = 1;
  for (int k = 0; k < w->columns; k++) {
    anydml_column *c = w->column + k;
    int j;
    for (j = 0; j < w->targets; j++) {
      anydml_stream_of *t = w->target + j;
      const anydml_column *f = w->column + t->column;
      const int64_t at = c->to - f->to;
      if (f->a != c->a || at <= -c->a || at >= c->a || !anydml_alike(f->move->a, c->move->a, w)) continue;
      c->into = at;
      if (at < t->low) t->low = at;
      t->high += c->element;
      break;
    }
    c->target = j;
    if (j == w->targets) {
      w->target[w->targets++] = (anydml_stream_of){k, c->a, 0, c->element};
      c->into = 0;
    }
    for (j = 0; j < w->sources; j++) {
      anydml_stream_of *s = w->source + j;
      const anydml_column *f = w->column + s->column;
      const int64_t at = c->from - f->from, most = anydml_abs(c->b);
      if (f->b != c->b || at <= -most || at >= most || !anydml_alike(f->move->b, c->move->b, w)) continue;
      c->of = at;
      if (at < s->low) s->low = at;
      if (at + c->element > s->high) s->high = at + c->element;
      break;
    }
    c->source = j;
    if (j == w->sources) {
      w->source[w->sources++] = (anydml_stream_of){k, c->b, 0, c->move->pattern ? ANYDML_DYE : c->element};
      c->of = 0;
    }
  }
  for (int j = 0; j < w->targets; j++)
    if (w->target[j].high != w->target[j].step) return 0;
  for (int k = 0; k < w->columns; k++) {
    anydml_column *c = w->column + k;
    c->into -= w->target[c->target].low;
    if (c->into + c->element > c->a) return 0;
    if (c->a > w->row) w->row = c->a;
    if (c->a > w->segment) w->segment = c->a;
    /* Of rows that are further apart than lines of the caches, one or two lines are read. */
    const int64_t read = anydml_abs(c->b) < 128 ? anydml_abs(c->b) : 128;
    if (read > w->segment) w->segment = read;
  }
  return 1;
}

/* Which column each byte of a row of a target is of. */
static void anydml_owners(const anydml_weave *w, int j, uint8_t *owner) {
  for (int k = 0; k < w->columns; k++)
    if (w->column[k].target == j) memset(owner + w->column[k].into, k, (size_t)w->column[k].element);
}

/* The same for vectors of 64 bytes that all take bytes of a few windows: of two of them, and of two more by `keep`. */
static int anydml_block_masks(anydml_weave *w) {
  int count = 0, windows = 0, first[ANYDML_COLUMNS], final[ANYDML_COLUMNS];
  for (int j = 0; j < w->targets; j++) count += (int)(w->rows * w->target[j].step / 64);
  for (int j = 0; j < w->sources; j++) {
    const anydml_stream_of *s = w->source + j;
    const int64_t reach = (w->rows - 1) * anydml_abs(s->step) + s->high - s->low, low = s->low + (s->step < 0 ? (w->rows - 1) * s->step : 0);
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
    /* The last one once more: an odd number of pairs has no kernel. */
    w->from[5] = w->from[4];
    w->offset[5][0] = w->offset[4][0];
    windows = 6;
  }
  int start[ANYDML_COLUMNS], n = 0;
  for (int j = 0; j < w->targets; j++) {
    start[j] = 64 * n;
    for (int64_t at = 0; at < w->rows * w->target[j].step; at += 64) { w->third[n] = 0; w->woven[n++] = (anydml_woven){j, (int32_t)at, 0, 0}; }
  }
  /* Where bytes lie in the windows: of the first row, and then of as many more as there are. */
  uint16_t at[64 * ANYDML_WINDOWS], by[64 * ANYDML_WINDOWS];
  for (int k = 0; k < w->columns; k++) {
    const anydml_column *c = w->column + k;
    const int64_t to = start[c->target] + c->into, from = 64 * first[c->source] + c->of - w->offset[first[c->source]][0];
    for (int x = 0; x < c->element; x++) { at[to + x] = (uint16_t)(from + x); by[to + x] = (uint16_t)c->b; }
  }
  for (int j = 0; j < w->targets; j++)
    for (int64_t row = 1, done = w->target[j].step; row < w->rows; row *= 2, done *= 2) {
      uint16_t *restrict p = at + start[j], *restrict q = by + start[j], *restrict more = p + done, *restrict also = q + done;
      for (int64_t k = 0; k < done; k++) { more[k] = (uint16_t)(p[k] + row * q[k]); also[k] = q[k]; }
    }
  /* A stream's last window begins further back than where the one before it ends. */
  for (int j = 0; j < w->sources; j++) {
    const int last = 64 * final[j], back = last - 64 * first[j] - w->offset[final[j]][0] + w->offset[first[j]][0];
    for (int k = 0; k < 64 * n && back; k++) at[k] += at[k] >> 6 == final[j] ? back : 0;
  }
  /* Bytes without the highest bit of their places, which only six windows have. */
  uint8_t *mask = (uint8_t *)w->mask;
  for (int k = 0; k < 64 * n; k++) mask[k] = (uint8_t)at[k];
  for (int k = 0; k < 64 * n && windows > 4; k++) w->third[k / 64] |= (uint64_t)(at[k] >> 8) << k % 64;
  w->count = count;
  w->windows = windows;
  return 1;
}

/* The terms of a vector, from the term `first` on: each lane takes what it needs from as few windows as hold it. */
static int anydml_terms(anydml_weave *w, anydml_woven *v, int first, const uint8_t *owner, int width, int window) {
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
      /* A window begins at the first byte that no other has, or before it at a multiple of its size with the same bytes. */
      const anydml_stream_of *s = w->source + j;
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
      /* What is left where this began lies in a window further on. */
      if (source[next] >= 0) next--;
    }
  }
  /* Lanes that need fewer terms read what others do. */
  for (int t = first; t < first + v->terms; t++)
    for (int k = 0; k < width / window; k++)
      if (w->offset[t][k] == INT32_MIN) {
        const anydml_stream_of *s = w->source + w->from[t];
        w->offset[t][k] = (int32_t)(s->low + (s->step < 0 ? (w->rows - 1) * s->step : 0));
      }
  return 1;
}

/* Makes the masks, for vectors of `width` bytes of windows of `window`; whether it is worth it. */
static int anydml_masks(anydml_weave *w, int width, int window) {
  int rows = 1;
  w->windows = 0;
  for (int j = 0; j < w->targets; j++)
    if (w->target[j].step > 64 || w->target[j].step < 1) return 0;
  for (int j = 0; j < w->targets; j++)
    while (rows * w->target[j].step % width) if ((rows *= 2) > width) return 0;
  for (int j = 0; j < w->sources; j++) {
    const anydml_stream_of *s = w->source + j;
    while ((rows - 1) * anydml_abs(s->step) + s->high - s->low < window) if ((rows *= 2) > width) return 0;
  }
  if (w->n0 < rows) return 0;
  w->rows = rows;
  if (window == 64 && anydml_block_masks(w)) return 1;
  w->count = 0;
  int terms = 0;
  for (int j = 0; j < w->targets; j++) {
    uint8_t owner[64];
    anydml_owners(w, j, owner);
    for (int at = 0; at < rows * w->target[j].step; at += width) {
      if (w->count == ANYDML_TERMS) return 0;
      anydml_woven *v = w->woven + w->count++;
      *v = (anydml_woven){j, at, terms, 0};
      if (!anydml_terms(w, v, terms, owner, width, window)) return 0;
      terms += v->terms;
    }
  }
  /* Masks are worth it where a window has several elements, or where elements are not in order at one end. */
  return w->columns > 1 || window == 64 || terms * (width / window) < rows;
}

/* Columns of one move: of its dimension `apart`, or one where that is −1; its rows go along another one. */
static void anydml_columns_of(anydml_weave *w, const anydml_move *m, int apart, int along) {
  w->columns = apart < 0 ? 1 : (int32_t)m->n[apart];
  w->n0 = m->n[along];
  for (int k = 0; k < w->columns; k++) {
    anydml_column *c = w->column + k;
    c->to = m->to + (apart < 0 ? 0 : k * m->a[apart]);
    c->from = m->from + (apart < 0 ? 0 : k * m->b[apart]);
    c->move = m;
    c->element = m->element;
    c->a = m->a[along];
    c->b = m->b[along];
  }
  w->rank = 0;
  w->lines = 1;
  for (int d = 0; d < m->rank; d++)
    if (d != apart && d != along) { w->dimension[w->rank++] = d; w->lines *= m->n[d]; }
}

/* The address of a column's row 0 in a line. */
static inline void anydml_line_of(const anydml_weave *w, const anydml_column *c, const int64_t *at, char **to, const char **from) {
  *to = c->to;
  *from = c->from;
  for (int d = 0; d < w->rank; d++) {
    *to += at[d] * c->move->a[w->dimension[d]];
    *from += at[d] * c->move->b[w->dimension[d]];
  }
}
