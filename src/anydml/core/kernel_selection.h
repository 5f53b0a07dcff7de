/* The choice of a move's kernel, and its division into units. */
#ifndef ANYDML_KERNEL_SELECTION_H
#define ANYDML_KERNEL_SELECTION_H

static int64_t anydml_bytes(const anydml_move *m) {
  int64_t bytes = m->element;
  for (int d = 0; d < m->rank; d++) bytes *= m->n[d];
  return bytes;
}

/* Number of bytes that moves write. */
static int64_t anydml_written(const anydml_move *m, int64_t count) {
  int64_t bytes = 0;
  for (int64_t k = 0; k < count; k++) bytes += anydml_bytes(m + k);
  return bytes;
}

static inline int64_t anydml_ceil_div(int64_t n, int64_t d) { return (n + d - 1) / d; }

/* The kernel of short elements of a size, or the other one if there is none. */
static anydml_plane anydml_elements(int64_t e, anydml_plane other) {
  return e <= ANYDML_ELEMENT && anydml_chosen->elements[e] ? anydml_chosen->elements[e] : other;
}

/* Set a task's plane to dimensions d1 and d0 of its move, negative for none; the others are outer dimensions. */
static void anydml_set_plane(anydml_task *s, const anydml_move *m, int d1, int d0) {
  s->move = m;
  s->count = 1;
  s->to = m->to;
  s->from = m->from;
  s->element = m->element;
  s->pattern = m->pattern;
  s->n1 = s->n0 = 1;
  s->a1 = s->b1 = s->a0 = s->b0 = 0;
  if (d1 >= 0) { s->n1 = m->n[d1]; s->a1 = m->a[d1]; s->b1 = m->b[d1]; }
  if (d0 >= 0) { s->n0 = m->n[d0]; s->a0 = m->a[d0]; s->b0 = m->b[d0]; }
  s->rank = 0;
  s->planes = 1;
  for (int d = 0; d < m->rank; d++)
    if (d != d1 && d != d0) {
      s->n[s->rank] = m->n[d]; s->a[s->rank] = m->a[d]; s->b[s->rank] = m->b[d];
      s->planes *= m->n[d];
      s->rank++;
    }
  s->work = anydml_planes;
  s->lookup_plane = NULL;
  s->streamed = 0;
}

/* Divide a task into units of about ANYDML_UNIT bytes: several planes, or parts of p1 lines of p0 elements. */
static void anydml_divide(anydml_task *s, int64_t p1, int64_t p0) {
  const int64_t plane = s->n1 * s->n0 * s->element;
  s->each = 1;
  if (plane <= 2 * ANYDML_UNIT) {
    s->p1 = s->n1; s->p0 = s->n0;
    s->c1 = s->c0 = 1;
    /* Avoid divisions, which take longer than most tasks. */
    if (plane * s->planes <= ANYDML_UNIT) s->each = s->planes;
    else if (plane < ANYDML_UNIT) s->each = ANYDML_UNIT / plane;
    s->units = s->each < s->planes ? anydml_ceil_div(s->planes, s->each) : 1;
    return;
  }
  s->p1 = p1 < s->n1 ? p1 : s->n1;
  s->p0 = p0 < s->n0 ? p0 : s->n0;
  s->c1 = anydml_ceil_div(s->n1, s->p1);
  s->c0 = anydml_ceil_div(s->n0, s->p0);
  s->units = s->planes * s->c1 * s->c0;
}

/* Divide a task into units of about `unit` bytes: whole lines, or parts of one. */
static void anydml_divide_lines(anydml_task *s, int64_t unit) {
  const int64_t line = s->n0 * s->element;
  if (line <= unit) anydml_divide(s, s->n1 * line <= unit ? s->n1 : unit / line, s->n0);
  else {
    int64_t p0 = unit / s->element;
    /* A multiple of 64 elements, so that parts can begin at cache lines. */
    while (p0 > 64 && p0 % 64) p0--;
    anydml_divide(s, 1, p0 > 0 ? p0 : 1);
  }
}

/* Long runs, or fills, in pieces: one task for whole pieces, and one for the rest of each run. */
static int anydml_choose_long_runs(anydml_task *s, const anydml_move *m, anydml_plane plane, int streamed) {
  const int64_t e = m->element, pattern = m->pattern, piece = pattern ? (pattern < ANYDML_UNIT ? ANYDML_UNIT / pattern * pattern : pattern) : ANYDML_UNIT;
  anydml_set_plane(s, m, m->rank - 1, -1);
  s->element = piece;
  s->n0 = e / piece;
  s->a0 = piece;
  s->b0 = pattern ? 0 : piece;
  s->plane = plane;
  s->streamed = streamed;
  anydml_divide(s, 1, 1);
  if (e % piece == 0) return 1;
  s[1] = s[0];
  s++;
  s->to += s->n0 * s->a0;
  s->from += s->n0 * s->b0;
  s->element = e % piece;
  s->n0 = 1;
  anydml_divide(s, s->n1, 1);
  return 2;
}

static int anydml_choose_fill(anydml_task *s, const anydml_move *m, int streamed) {
  const int r = m->rank;
  if (m->element >= 2 * ANYDML_UNIT) return anydml_choose_long_runs(s, m, anydml_chosen->fill, streamed);
  anydml_set_plane(s, m, r - 2, r - 1);
  s->streamed = streamed;
  s->plane = anydml_elements(r && m->pattern == m->element ? m->element : 0, anydml_chosen->fill);
  anydml_divide_lines(s, ANYDML_UNIT);
  return 1;
}

/* Whether coordinates that differ in a dimension with a stride at the destination never write the same bytes: all strides
 * there, of dimensions and lookups, are larger than what the smaller ones span. */
static int anydml_writes_apart(const anydml_move *m) {
  int64_t stride[ANYDML_RANK + ANYDML_LOOKUPS], size[ANYDML_RANK + ANYDML_LOOKUPS], span = m->element;
  int count = 0;
  for (int k = 0; k < m->rank + m->lookups; k++) {
    const anydml_lookup *l = k < m->rank ? NULL : m->lookup + (k - m->rank);
    const int64_t a = anydml_abs(!l ? m->a[k] : l->into == -2 ? l->stride : 0), n = l ? l->size : m->n[k];
    int j = count;
    if (!a || n < 2) continue;
    for (; j > 0 && stride[j - 1] > a; j--) { stride[j] = stride[j - 1]; size[j] = size[j - 1]; }
    stride[j] = a; size[j] = n;
    count++;
  }
  for (int j = 0; j < count; span += (size[j] - 1) * stride[j], j++)
    if (stride[j] < span) return 0;
  return 1;
}

/* Whether a mask selects which elements of a move are written, each at most once. */
static int anydml_is_masked(const anydml_move *m) {
  const anydml_lookup *l = m->lookup;
  if (m->lookups != 1 || l->type != 1 || l->outside != ANYDML_SKIP || l->size != 1 || l->into >= 0 || !m->rank || (m->pattern && m->pattern != m->element)) return 0;
  for (int d = 0; d < m->rank; d++) if (m->a[d] <= 0) return 0;
  return 1;
}

static void anydml_choose_lookups(anydml_task *s, const anydml_move *m, int streamed) {
  anydml_set_plane(s, m, m->rank - 2, m->rank - 1);
  if (anydml_is_masked(m)) {
    s->lookup_plane = anydml_chosen->select;
    s->base = m->to;
    memcpy(s->d, m->a, sizeof m->a);
    anydml_divide_lines(s, streamed ? 8 * ANYDML_UNIT : ANYDML_UNIT);
    return;
  }
  int into = 0, apart = 1;
  for (int k = 0; k < m->lookups; k++) into |= m->lookup[k].into == -2;
  s->lookup_plane = anydml_chosen->lookup_plane;
  s->plane = anydml_elements(m->element, anydml_chosen->rows);
  s->streamed = streamed && !into;
  const anydml_lookup *l = m->lookup;
  if (m->lookups == 1 && !into && s->b0 && l->size <= ANYDML_COLUMN && l->size * anydml_abs(l->stride) >= ANYDML_FAR) {
    /* Columns of the source stay in the caches. */
    s->streamed = 0;
    anydml_divide(s, s->n1, ANYDML_FAR_COLUMNS);
    return;
  }
  if (!into) { anydml_divide_lines(s, s->streamed ? 8 * ANYDML_UNIT : ANYDML_UNIT); return; }
  /* Units share coordinates that never write the same element; one unit writes all others in order. */
  for (int d = 0; d < s->rank; d++) apart &= s->a[d] != 0;
  if (apart && anydml_writes_apart(m)) {
    const int64_t line = s->n0 * s->element, lines = s->a1 ? 1 : s->n1, most = ANYDML_UNIT / (lines * s->element);
    const int64_t p0 = !s->a0 || s->n0 <= most ? s->n0 : most > 64 ? most : 64;
    anydml_divide(s, !s->a1 ? s->n1 : line < ANYDML_UNIT ? ANYDML_UNIT / line : 1, p0);
    return;
  }
  s->p1 = s->n1; s->p0 = s->n0;
  s->c1 = s->c0 = s->units = 1;
  s->each = s->planes;
}

/* Make a task that interleaves the columns of a table, of `bytes` bytes, and of `many` moves from its own one on; returns 0 if
 * that is not worthwhile, or blocks cannot be interleaved `whole`. */
static int anydml_interleave_task(anydml_stage *stage, anydml_task *s, anydml_interleave *w, int64_t bytes, int64_t many, int whole, int streamed) {
  const anydml_kernels *k = anydml_chosen;
  const anydml_move *m = w->column->move;
  if (!anydml_streams(w) || !anydml_masks(w, (int)k->width, k->window, whole ? 0 : many * bytes)) return 0;
  stage->interleaved++;
  s->count = w->columns;
  w->vector = k->interleave_vector;
  w->block = w->windows ? k->interleave_whole : k->interleave_blocks;
  s->work = k->interleave;
  s->table = w;
  s->move = m;
  s->streamed = streamed;
  s->planes = many * w->lines;
  s->each = s->c0 = 1;
  s->p0 = w->n0;
  const int64_t line = bytes / w->lines;
  if (line <= 2 * ANYDML_UNIT) s->each = line < ANYDML_UNIT ? ANYDML_UNIT / line : 1;
  else {
    const int64_t rows = ANYDML_UNIT * w->n0 / line / w->rows * w->rows;
    s->p0 = rows > 0 ? rows : w->rows;
    s->c0 = anydml_ceil_div(w->n0, s->p0);
  }
  s->units = s->c0 > 1 ? s->planes * s->c0 : anydml_ceil_div(s->planes, s->each);
  return 1;
}

/* Number of the first moves that one table can interleave, with other addresses and strides of outer dimensions at the source:
 * they are written one behind the other, and none of them reads what they write. */
static int64_t anydml_alike(const anydml_move *m, int64_t count, int apart, int along) {
  anydml_range written = anydml_write_range(m);
  const size_t size = (size_t)m->rank * sizeof m->n[0];
  int64_t many = 1;
  for (; many < count; many++) {
    const anydml_move *q = m + many;
    if (q->lookups || q->pattern || q->rank != m->rank || q->element != m->element || memcmp(q->n, m->n, size) || memcmp(q->a, m->a, size)) break;
    if (q->b[along] != m->b[along] || (apart >= 0 && q->b[apart] != m->b[apart])) break;
    int is_alike = 1;
    for (int d = 0; d < m->rank; d++) is_alike &= !q->b[d] == !m->b[d];
    const anydml_range to = anydml_write_range(q);
    if (!is_alike || to.low < written.high) break;
    written.high = to.high;
  }
  for (int64_t k = 0; k < many; k++)
    if (!anydml_disjoint(written, anydml_access_range(m + k, m[k].from, m[k].b, m->element, -1))) return k ? k : 1;
  return many;
}

/* Interleave the first moves of short elements, as many as `count` of the task then says; returns as `anydml_interleave_task`. */
static int anydml_choose_interleave(anydml_stage *stage, anydml_task *s, const anydml_move *m, int64_t count, int near, int whole, int streamed) {
  const int last = m->rank - 1;
  const int64_t e = m->element, bytes = anydml_bytes(m);
  int apart = -1, along = last;
  if (stage->interleaved == ANYDML_INTERLEAVES || (count == 1 && bytes < ANYDML_INTERLEAVE_FROM) || e > 32) return 0;
  if (last && m->n[last] <= ANYDML_COLUMNS && m->a[last] == e && m->a[last - 1] == m->n[last] * e && m->n[last] * e <= 64) { apart = last; along = last - 1; }
  else if (m->a[last] != e) return 0;
  else if (near != last && m->n[near] <= ANYDML_COLUMNS) apart = near;
  if (!m->b[along] || anydml_abs(m->b[along]) > 128) return 0;
  if (m->n[along] * m->a[along] < anydml_kernels_v2.width) return 0;
  const int64_t many = anydml_alike(m, count < ANYDML_ALIKE ? count : ANYDML_ALIKE, apart, along);
  if (many * bytes < ANYDML_INTERLEAVE_FROM) return 0;
  anydml_interleave *w = &stage->interleave[stage->interleaved];
  for (int repeats = 1;; repeats = 0) {
    anydml_begin_interleave(w, m, apart, along);
    anydml_add_columns(w, m, apart, along);
    repeats = repeats && w->n0 * m->a[along] <= ANYDML_SHORT_LINES && anydml_repeat_columns(w, m);
    if (anydml_interleave_task(stage, s, w, bytes, many, whole, streamed)) {
      s->count = many;
      return 1;
    }
    if (!repeats) return 0;
  }
}

/* Transpose a plane with non-temporal stores; returns 0 if its rows, or those of adjacent planes, are too short. */
static int anydml_choose_streamed_transpose(anydml_task *s, const anydml_move *m, int near) {
  const int64_t e = s->element, row = s->n0 * e;
  const int next = m->rank - 2;
  s->n2 = s->p2 = s->c2 = 1;
  s->a2 = s->b2 = 0;
  if (row < ANYDML_STREAMED_LINE && next >= 0 && next != near && m->a[next] == row) {
    /* Dimension `next` is the last outer one of the task. */
    s->rank--;
    s->planes /= m->n[next];
    s->n2 = m->n[next]; s->a2 = m->a[next]; s->b2 = m->b[next];
    s->p2 = s->n2 * row < 2 * ANYDML_STREAMED_LINE ? s->n2 : anydml_ceil_div(ANYDML_STREAMED_LINE, row);
    s->c2 = anydml_ceil_div(s->n2, s->p2);
  }
  const int64_t run = row * s->p2;
  const int lines = anydml_has_lines(s, s->to);
  if (run < ANYDML_STREAMED_LEAST && s->a1 != run && !(lines && run >= 64)) {
    s->rank = m->rank - 2;
    s->planes *= s->n2;
    return 0;
  }
  s->streamed = 1;
  s->work = anydml_chosen->transpose_streamed;
  const int64_t least = lines ? ANYDML_LINES : ANYDML_STREAMED_ROW, p0 = ANYDML_TRANSPOSED / s->n1 & ~(int64_t)127;
  s->p0 = row < ANYDML_STREAMED_LINE ? s->n0 : (p0 > least ? p0 : least) / e;
  s->c0 = anydml_ceil_div(s->n0, s->p0);
  /* Equal parts, of whole lines, and of at least 64 elements. */
  const int64_t most = lines ? ANYDML_LINES_ROW / e : e < 8 ? ANYDML_STREAMED_ROW / e : 64, line = 64 / e;
  s->p1 = anydml_ceil_div(anydml_ceil_div(s->n1, anydml_ceil_div(s->n1, most)), line) * line;
  s->c1 = anydml_ceil_div(s->n1, s->p1);
  s->units = s->planes * s->c2 * s->c1 * s->c0;
  return 1;
}

/* Make the tasks of one move, or one task of as many as its `count` then says; returns the number of tasks. */
static int anydml_choose_plain(anydml_stage *stage, anydml_task *s, const anydml_move *m, int64_t count, int streamed) {
  const anydml_kernels *k = anydml_chosen;
  const int r = m->rank, last = r - 1;
  const int64_t e = m->element;
  if (e >= 2 * ANYDML_UNIT) return anydml_choose_long_runs(s, m, k->rows, streamed);
  const int packed = r && m->a[last] == e;
  const int repeats = packed && !m->b[last] && 64 % e == 0 && m->n[last] * e >= (e < 16 ? 64 : ANYDML_SHORT_RUN);
  /* The plane has the dimension of the smallest source stride, if that is not the last one. */
  int near = last;
  for (int d = 0; d < last; d++)
    if (m->b[d] && (!m->b[near] || anydml_abs(m->b[d]) < anydml_abs(m->b[near]))) near = d;
  const int crosses = near != last && !repeats;
  if (!r || repeats || e > 64) {
    anydml_set_plane(s, m, crosses ? near : r - 2, last);
    s->streamed = streamed && (packed || e >= 512);
    s->plane = repeats ? k->repeat_element : !s->streamed ? anydml_elements(e, k->rows) : packed ? k->rows_packed : k->rows;
    /* Blocks of several rows in both dimensions, if the source is transposed. */
    if (crosses) anydml_divide(s, anydml_ceil_div(ANYDML_ROWS_BLOCK, e), anydml_ceil_div(ANYDML_ROWS_BLOCK, e));
    else anydml_divide_lines(s, ANYDML_UNIT);
    return 1;
  }
  if (near != last && packed && e <= 8 && k->transpose[e] && anydml_abs(m->b[near]) == e && m->n[near] * e >= 16 && m->n[last] * e >= (e == 3 ? 48 : 16)) {
    if (m->n[last] <= ANYDML_COLUMNS && anydml_choose_interleave(stage, s, m, count, near, 1, streamed)) return 1;
    anydml_set_plane(s, m, near, last);
    if (s->b1 < 0) {
      s->to += s->a1 * (s->n1 - 1);
      s->from += s->b1 * (s->n1 - 1);
      s->a1 = -s->a1;
      s->b1 = e;
    }
    if (streamed && anydml_choose_streamed_transpose(s, m, near)) return 1;
    s->plane = k->transpose[e];
    /* Blocks of several cache lines in both dimensions. */
    anydml_divide(s, 256 / e & ~15, 256 / e & ~15);
    return 1;
  }
  const int uneven = 16 % e != 0;
  const int mirrored = near == last && packed && m->b[last] == -e && (uneven ? e < 8 : e <= 16) && m->n[last] * e >= 16;
  if (!mirrored && anydml_choose_interleave(stage, s, m, count, near, 0, streamed)) return 1;
  anydml_set_plane(s, m, near != last ? near : r - 2, last);
  s->plane = mirrored ? uneven ? k->mirror_uneven : k->mirror : anydml_elements(e, k->rows);
  /* Short lines that are not contiguous would be stored as partial cache lines. */
  if (streamed && mirrored && !uneven) s->streamed = s->n0 * e >= 256;
  else if (streamed && packed && (s->a1 == s->n0 * e || s->n0 * e >= ANYDML_STREAMED_LEAST)) {
    s->table = (const void *)s->plane;
    s->plane = k->elements_packed;
    s->streamed = 1;
  }
  /* Blocks of several cache lines in both dimensions, if the source is transposed. */
  if (near != last) anydml_divide(s, 64, 1024 / e > 64 ? 1024 / e : 64);
  else anydml_divide_lines(s, ANYDML_UNIT);
  return 1;
}
#endif
