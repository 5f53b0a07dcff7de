/* From moves to stages: which may run at once, what kernel does each, and what its units are. */

static int64_t anydml_bytes(const anydml_move *m) {
  int64_t bytes = m->element;
  for (int d = 0; d < m->rank; d++) bytes *= m->n[d];
  return bytes;
}

/* Bytes that moves write. */
static int64_t anydml_written(const anydml_move *m, int64_t count) {
  int64_t bytes = 0;
  for (int64_t k = 0; k < count; k++) bytes += anydml_bytes(m + k);
  return bytes;
}

static inline int64_t anydml_up(int64_t n, int64_t d) { return (n + d - 1) / d; }

/* The plane of a step: dimensions d1 and d0 of its move, −1 where there is none; the others are left outside. */
static void anydml_lay(anydml_step *s, const anydml_move *m, int d1, int d0) {
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
  s->streamed = 0;
}

/* Units of about ANYDML_UNIT bytes: several planes, or parts of p1 lines of p0 elements. */
static void anydml_cut(anydml_step *s, int64_t p1, int64_t p0) {
  const int64_t plane = s->n1 * s->n0 * s->element;
  s->each = 1;
  if (plane <= 2 * ANYDML_UNIT) {
    s->p1 = s->n1; s->p0 = s->n0;
    s->c1 = s->c0 = 1;
    if (plane < ANYDML_UNIT) s->each = ANYDML_UNIT / plane;
    s->units = s->each < s->planes ? anydml_up(s->planes, s->each) : 1;
    return;
  }
  s->p1 = p1 < s->n1 ? p1 : s->n1;
  s->p0 = p0 < s->n0 ? p0 : s->n0;
  s->c1 = anydml_up(s->n1, s->p1);
  s->c0 = anydml_up(s->n0, s->p0);
  s->units = s->planes * s->c1 * s->c0;
}

/* Whole lines of so many elements, or parts of one. */
static void anydml_cut_lines(anydml_step *s, int64_t unit) {
  const int64_t line = s->n0 * s->element;
  if (line <= unit) anydml_cut(s, unit / line, s->n0);
  else {
    int64_t p0 = unit / s->element;
    /* Parts that begin where lines of the caches do, if elements can. */
    while (p0 > 64 && p0 % 64) p0--;
    anydml_cut(s, 1, p0 > 0 ? p0 : 1);
  }
}

/* Long runs, or fills, in pieces: a step for the whole pieces, and one for what is left of each run. */
static int anydml_choose_long(anydml_step *s, const anydml_move *m, anydml_plane plane, int streamed) {
  const int64_t e = m->element, pattern = m->pattern, piece = pattern ? (pattern < ANYDML_UNIT ? ANYDML_UNIT / pattern * pattern : pattern) : ANYDML_UNIT;
  anydml_lay(s, m, m->rank - 1, -1);
  s->element = piece;
  s->n0 = e / piece;
  s->a0 = piece;
  s->b0 = pattern ? 0 : piece;
  s->plane = plane;
  s->streamed = streamed;
  anydml_cut(s, 1, 1);
  if (e % piece == 0) return 1;
  s[1] = s[0];
  s++;
  s->to += s->n0 * s->a0;
  s->from += s->n0 * s->b0;
  s->element = e % piece;
  s->n0 = 1;
  anydml_cut(s, s->n1, 1);
  return 2;
}

static int anydml_choose_fill(anydml_step *s, const anydml_move *source, int streamed) {
  anydml_move still = *source, *m = &still;
  const int r = m->rank;
  memset(m->b, 0, sizeof m->b);
  if (m->element >= 2 * ANYDML_UNIT) {
    int steps = anydml_choose_long(s, m, anydml_chosen->fill, streamed);
    for (int k = 0; k < steps; k++) s[k].move = source;
    return steps;
  }
  anydml_lay(s, m, r > 1 ? r - 2 : -1, r - 1);
  s->move = source;
  s->streamed = streamed;
  s->plane = anydml_chosen->fill;
  if (r && m->pattern == m->element && m->element <= ANYDML_ELEMENT && anydml_chosen->elements[m->element]) s->plane = anydml_chosen->elements[m->element];
  anydml_cut_lines(s, ANYDML_UNIT);
  return 1;
}

static void anydml_choose_look(anydml_step *s, const anydml_move *m, int streamed) {
  const int r = m->rank;
  int into = 0;
  for (int k = 0; k < m->lookups; k++) into |= m->lookup[k].into == -2;
  anydml_lay(s, m, r > 1 ? r - 2 : -1, r - 1);
  s->work = anydml_chosen->look;
  s->streamed = streamed && !into;
  if (into) {
    /* What may be written twice is written in order. */
    s->p1 = s->n1; s->p0 = s->n0;
    s->c1 = s->c0 = s->units = 1;
    s->each = s->planes;
  } else anydml_cut_lines(s, s->streamed ? 8 * ANYDML_UNIT : ANYDML_UNIT);
}

/* A step that weaves the columns of a table, where that is worth it. */
static int anydml_weave_step(anydml_stage *stage, anydml_step *s, anydml_weave *w, int64_t bytes, int streamed) {
  const anydml_kernels *k = anydml_chosen;
  const anydml_move *m = w->column->move;
  if (!anydml_streams(w) || !anydml_masks(w, (int)k->width, k->window)) return 0;
  stage->woven++;
  s->count = w->columns;
  w->vector = k->weave_vector;
  w->block = w->windows ? k->weave_whole : k->weave_blocks;
  s->work = k->weave;
  s->table = w;
  s->move = m;
  s->streamed = streamed;
  s->planes = w->lines;
  s->each = s->c0 = 1;
  s->p0 = w->n0;
  const int64_t line = bytes / w->lines;
  if (line <= 2 * ANYDML_UNIT) s->each = line < ANYDML_UNIT ? ANYDML_UNIT / line : 1;
  else {
    const int64_t rows = ANYDML_UNIT * w->n0 / line / w->rows * w->rows;
    s->p0 = rows > 0 ? rows : w->rows;
    s->c0 = anydml_up(w->n0, s->p0);
  }
  s->units = s->c0 > 1 ? w->lines * s->c0 : anydml_up(w->lines, s->each);
  return 1;
}

/* One move of short elements. */
static int anydml_choose_weave(anydml_stage *stage, anydml_step *s, const anydml_move *m, int near, int streamed) {
  const int last = m->rank - 1;
  const int64_t e = m->element, bytes = anydml_bytes(m);
  int apart = -1, along = last;
  if (stage->woven == ANYDML_WEAVES || bytes < ANYDML_WEAVE_FROM || e > 32) return 0;
  if (last && m->n[last] <= ANYDML_COLUMNS && m->a[last] == e && m->a[last - 1] == m->n[last] * e && m->n[last] * e <= 64) { apart = last; along = last - 1; }
  else if (m->a[last] != e) return 0;
  else if (near != last && m->n[near] <= ANYDML_COLUMNS) apart = near;
  if (!m->b[along] || anydml_abs(m->b[along]) > 128) return 0;
  anydml_columns_of(&stage->weave[stage->woven], m, apart, along);
  const int woven = anydml_weave_step(stage, s, &stage->weave[stage->woven], bytes, streamed);
  if (woven) s->count = 1;
  return woven;
}

/* A turned plane past the caches, where its rows, or several planes' together, are long enough. */
static int anydml_turn_past(anydml_step *s, const anydml_move *m, int near) {
  const int64_t e = s->element, row = s->n0 * e;
  const int next = m->rank - 2;
  s->n2 = s->p2 = s->c2 = 1;
  s->a2 = s->b2 = 0;
  if (row < ANYDML_PAST_LINE && next >= 0 && next != near && m->a[next] == row) {
    /* That dimension is the last one outside of the plane. */
    s->rank--;
    s->planes /= m->n[next];
    s->n2 = m->n[next]; s->a2 = m->a[next]; s->b2 = m->b[next];
    s->p2 = s->n2 * row < 2 * ANYDML_PAST_LINE ? s->n2 : anydml_up(ANYDML_PAST_LINE, row);
    s->c2 = anydml_up(s->n2, s->p2);
  }
  const int64_t run = row * s->p2;
  const int lines = !(((uintptr_t)s->to | s->a1 | s->a2) & 63);
  if (run < ANYDML_PAST_LEAST && s->a1 != run && !(lines && run >= 64)) {
    s->rank = m->rank - 2;
    s->planes *= s->n2;
    return 0;
  }
  s->streamed = 1;
  s->work = anydml_chosen->turn_past;
  s->p0 = row < ANYDML_PAST_LINE ? s->n0 : (lines ? 128 : ANYDML_PAST_LINE) / e;
  s->c0 = anydml_up(s->n0, s->p0);
  s->p1 = (lines ? ANYDML_LINES_ROW : ANYDML_PAST_ROW) / e;
  s->c1 = anydml_up(s->n1, s->p1);
  s->units = s->planes * s->c2 * s->c1 * s->c0;
  return 1;
}

/* Steps for one move; how many. */
static int anydml_choose_plain(anydml_stage *stage, anydml_step *s, const anydml_move *m, int streamed) {
  const anydml_kernels *k = anydml_chosen;
  const int r = m->rank, last = r - 1;
  const int64_t e = m->element;
  if (e >= 2 * ANYDML_UNIT) return anydml_choose_long(s, m, streamed ? k->rows_streamed : k->rows, streamed);
  if (!r) {
    anydml_lay(s, m, -1, -1);
    s->plane = streamed ? k->rows_streamed : k->rows;
    s->streamed = streamed;
    anydml_cut(s, 1, 1);
    return 1;
  }
  const int packed = m->a[last] == e;
  if (packed && !m->b[last] && 64 % e == 0 && m->n[last] * e >= 64) {
    anydml_lay(s, m, r > 1 ? r - 2 : -1, last);
    s->plane = k->spread;
    s->streamed = streamed;
    anydml_cut_lines(s, ANYDML_UNIT);
    return 1;
  }
  if (e > 64) {
    anydml_lay(s, m, r > 1 ? r - 2 : -1, last);
    s->streamed = streamed && (packed || e >= 512);
    s->plane = s->streamed ? packed ? k->rows_packed : k->rows_streamed : e <= ANYDML_ELEMENT && k->elements[e] ? k->elements[e] : k->rows;
    anydml_cut_lines(s, ANYDML_UNIT);
    return 1;
  }
  /* Elements: the dimension that is nearest in the source is the other one of a plane where it is not the last. */
  int near = last;
  for (int d = 0; d < last; d++)
    if (m->b[d] && (!m->b[near] || anydml_abs(m->b[d]) < anydml_abs(m->b[near]))) near = d;
  if (near != last && packed && e <= 8 && k->turn[e] && anydml_abs(m->b[near]) == e && m->n[near] * e >= 16 && m->n[last] * e >= 16) {
    anydml_lay(s, m, near, last);
    if (s->b1 < 0) {
      s->to += s->a1 * (s->n1 - 1);
      s->from += s->b1 * (s->n1 - 1);
      s->a1 = -s->a1;
      s->b1 = e;
    }
    if (streamed && anydml_turn_past(s, m, near)) return 1;
    s->plane = k->turn[e];
    /* Blocks of several lines both ways. */
    anydml_cut(s, 256 / e, 256 / e);
    return 1;
  }
  if (anydml_choose_weave(stage, s, m, near, streamed)) return 1;
  anydml_lay(s, m, near != last ? near : r > 1 ? r - 2 : -1, last);
  s->plane = k->elements[e] ? k->elements[e] : k->rows;
  if (streamed && packed) {
    s->table = (const void *)s->plane;
    s->plane = k->elements_packed;
    s->streamed = 1;
  }
  /* Blocks of several lines both ways, where the source lies the other way round. */
  if (near != last) anydml_cut(s, 64, 1024 / e > 64 ? 1024 / e : 64);
  else anydml_cut_lines(s, ANYDML_UNIT);
  return 1;
}

/* The bytes that an end of a move may touch: at strides, and by the lookups that are added to it (see `into`). */
typedef struct { const char *low, *high; } anydml_reach;

static anydml_reach anydml_reach_of(const anydml_move *m, const char *at, const int64_t *strides, int64_t size, int into) {
  anydml_reach r = {at, at + size};
  for (int d = 0; d < m->rank; d++) {
    const int64_t far = strides[d] * (m->n[d] - 1);
    if (far < 0) r.low += far; else r.high += far;
  }
  for (int k = 0; k < m->lookups; k++) {
    if (m->lookup[k].into != into) continue;
    const int64_t far = m->lookup[k].stride * (m->lookup[k].size - 1);
    if (far < 0) r.low += far; else r.high += far;
  }
  return r;
}

static inline int anydml_apart(anydml_reach p, anydml_reach q) { return p.high <= q.low || q.high <= p.low; }

static inline anydml_reach anydml_writes(const anydml_move *m) { return anydml_reach_of(m, m->to, m->a, m->element, -2); }

/* Whether nothing that the second move reads may be written by the first. */
static int anydml_reads_apart(anydml_reach written, const anydml_move *m) {
  if (!m->pattern && !anydml_apart(written, anydml_reach_of(m, m->from, m->b, m->element, -1))) return 0;
  for (int k = 0; k < m->lookups; k++)
    if (!anydml_apart(written, anydml_reach_of(m, m->lookup[k].at, m->lookup[k].b, 8, k))) return 0;
  return 1;
}

/* Whether elements at a distance, each of its own box of strides from dimension d on, never meet. */
static int anydml_combs_apart(const anydml_move *p, const anydml_move *q, int64_t distance, int d) {
  int64_t reach_p = p->element, reach_q = q->element;
  for (int k = d; k < p->rank; k++) { reach_p += p->a[k] * (p->n[k] - 1); reach_q += q->a[k] * (q->n[k] - 1); }
  if (distance >= reach_p || -distance >= reach_q) return 1;
  if (d == p->rank || p->a[d] != q->a[d]) return 0;
  const int64_t step = p->a[d];
  reach_p -= step * (p->n[d] - 1);
  reach_q -= step * (q->n[d] - 1);
  if (reach_p > step || reach_q > step || step <= 0) return 0;
  int64_t rest = distance % step;
  if (rest < 0) rest += step;
  if (rest < reach_p && !anydml_combs_apart(p, q, rest, d + 1)) return 0;
  return rest - step + reach_q <= 0 || anydml_combs_apart(p, q, rest - step, d + 1);
}

/* Whether two moves may be run in any order, and at once. */
static int anydml_free(const anydml_move *p, const anydml_move *q) {
  const anydml_reach written = anydml_writes(p), also = anydml_writes(q);
  if (!anydml_reads_apart(written, q) || !anydml_reads_apart(also, p)) return 0;
  if (anydml_apart(written, also)) return 1;
  int lookups = 0;
  for (int k = 0; k < p->lookups; k++) lookups |= p->lookup[k].into == -2;
  for (int k = 0; k < q->lookups; k++) lookups |= q->lookup[k].into == -2;
  return !lookups && p->rank == q->rank && anydml_combs_apart(p, q, q->to - p->to, 0);
}

static inline int anydml_is_plain(const anydml_move *m) { return !m->lookups && !m->pattern; }

/* Columns of a move's rows: those of a short last dimension, or one. */
static inline int anydml_columns_in(const anydml_move *m) {
  return m->rank > 1 && m->n[m->rank - 1] <= ANYDML_COLUMNS ? (int)m->n[m->rank - 1] : 1;
}

/* How many of the first moves are columns that one table weaves; 0 or 2 at least. */
static int64_t anydml_take_columns(anydml_stage *stage, anydml_step *s, const anydml_move *m, int64_t count, int streamed) {
  const int r = m->rank - (anydml_columns_in(m) > 1);
  int64_t many = 0, bytes = 0;
  int columns = 0;
  if (stage->woven == ANYDML_WEAVES || !r || m->n[r - 1] < 16) return 0;
  for (; many < count; many++) {
    const anydml_move *q = m + many;
    const int inside = anydml_columns_in(q);
    if (q->rank - (inside > 1) != r || !anydml_is_plain(q) || q->element > 32 || memcmp(q->n, m->n, (size_t)r * 8) || columns + inside > ANYDML_COLUMNS) break;
    columns += inside;
    bytes += anydml_bytes(q);
  }
  if (many < 2 || bytes < ANYDML_WEAVE_FROM) return 0;
  anydml_weave *w = &stage->weave[stage->woven];
  w->columns = 0;
  w->n0 = m->n[r - 1];
  w->rank = r - 1;
  w->lines = 1;
  for (int d = 0; d < r - 1; d++) { w->dimension[d] = d; w->lines *= m->n[d]; }
  anydml_move column[ANYDML_COLUMNS];
  for (int64_t j = 0; j < many; j++)
    for (int k = 0, inside = anydml_columns_in(m + j), before = w->columns; k < inside; k++) {
      anydml_move *q = column + w->columns;
      *q = m[j];
      q->rank = r;
      q->to += inside > 1 ? k * m[j].a[r] : 0;
      q->from += inside > 1 ? k * m[j].b[r] : 0;
      for (int other = 0; other < before; other++)
        if (!anydml_free(column + other, q)) return 0;
      w->column[w->columns++] = (anydml_column){q->to, q->from, m + j, q->element, q->a[r - 1], q->b[r - 1], 0, 0, 0, 0};
    }
  return anydml_weave_step(stage, s, w, bytes, streamed) ? many : 0;
}

/* Runs one after the other at the destination. */
static void anydml_runs(const anydml_step *s, int64_t first, int64_t last) {
  last = last * s->each < s->count ? last * s->each : s->count;
  for (int64_t k = first * s->each; k < last; k++) anydml_chosen->run(s->move[k].to, s->move[k].from, s->move[k].element);
}

/* How many of the first moves are short runs that may be done at once; 0 or 2 at least. */
static int64_t anydml_take_runs(anydml_step *s, const anydml_move *m, int64_t count) {
  anydml_reach written = {m->to, m->to}, read = {m->from, m->from};
  int64_t many = 0;
  for (; many < count; many++) {
    const anydml_move *q = m + many;
    if (q->rank || !anydml_is_plain(q) || q->element > ANYDML_UNIT || q->to < written.high) break;
    anydml_reach more = read;
    if (q->from < more.low) more.low = q->from;
    if (q->from + q->element > more.high) more.high = q->from + q->element;
    if (!anydml_apart((anydml_reach){written.low, q->to + q->element}, more)) break;
    written.high = q->to + q->element;
    read = more;
  }
  if (many < 2) return 0;
  s->work = anydml_runs;
  s->move = m;
  s->count = many;
  s->streamed = 0;
  s->each = ANYDML_UNIT * many / (anydml_written(m, many) + 1) + 1;
  s->units = anydml_up(many, s->each);
  return many;
}

/* How many of the first moves are the columns of a table of rows, past the caches; 0 or 2 at least. Row after row is
 * read, or written, as it lies: what is apart would be fetched in pieces. */
static int64_t anydml_take_rows(anydml_step *s, const anydml_move *m, int64_t count) {
  if (m->rank != 1 || !anydml_is_plain(m)) return 0;
  const int64_t n0 = m->n[0];
  anydml_reach written = anydml_writes(m), read = anydml_reach_of(m, m->from, m->b, m->element, -1);
  int64_t many = 1, row = m->element;
  int joined = 1, lines = !(((uintptr_t)m->to | m->a[0] | m->element) & 63), apart = 1;
  int64_t least = m->element;
  for (; many < count; many++) {
    const anydml_move *p = m + many - 1, *q = m + many;
    if (q->rank != 1 || !anydml_is_plain(q) || q->n[0] != n0) break;
    const anydml_reach to = anydml_writes(q), from = anydml_reach_of(q, q->from, q->b, q->element, -1);
    const int follows = q->to == p->to + p->element && q->a[0] == m->a[0], is_apart = to.low >= written.high;
    anydml_reach all = {read.low < from.low ? read.low : from.low, read.high > from.high ? read.high : from.high};
    anydml_reach put = {written.low, to.high > written.high ? to.high : written.high};
    if (to.low < written.low || !anydml_apart(put, all)) break;
    /* Either all follow each other in one row, or all lie apart. */
    if (!(joined && follows && row + q->element <= m->a[0]) && !(apart && is_apart)) break;
    joined &= follows;
    apart &= is_apart;
    lines &= !(((uintptr_t)q->to | q->a[0] | q->element) & 63);
    if (q->element < least) least = q->element;
    written = put;
    read = all;
    row += q->element;
  }
  if (many < 2 || least < (joined ? 33 : lines ? 256 : 1024)) return 0;
  s->work = anydml_chosen->beside;
  s->move = m;
  s->count = many;
  s->n0 = n0;
  s->pattern = joined;
  s->streamed = 1;
  s->each = ANYDML_UNIT / row + 1;
  s->units = anydml_up(n0, s->each);
  return many;
}

/* Chooses steps for the first moves: adds them to a stage, and gives how many moves they do. */
static int64_t anydml_take(anydml_stage *stage, const anydml_move *m, int64_t count, int streamed) {
  anydml_step *s = stage->step + stage->steps;
  int64_t done = 1;
  int steps = 1;
  if (m->lookups) anydml_choose_look(s, m, streamed);
  else if (m->pattern) steps = anydml_choose_fill(s, m, streamed);
  else if (count > 1 && (done = anydml_take_columns(stage, s, m, count, streamed))) {}
  else if (count > 1 && streamed && (done = anydml_take_rows(s, m, count))) {}
  else if (count > 1 && !streamed && !m->rank && (done = anydml_take_runs(s, m, count))) {}
  else { steps = anydml_choose_plain(stage, s, m, streamed); done = 1; }
  stage->steps += steps;
  for (int k = 0; k < steps; k++) stage->units += s[k].units;
  return done;
}

/* Steps of as many units each, such as parts of rows, are done unit by unit: what lies together is read together. */
static void anydml_together(anydml_stage *stage) {
  const int many = stage->steps;
  if (many < 2) return;
  for (int k = 0; k < many; k++) {
    const anydml_step *s = stage->step + k;
    if (s->work != anydml_planes || s->units != stage->step->units || s->n0 != stage->step->n0 || s->n1 != stage->step->n1) return;
  }
  for (int k = 0; k < many; k++) {
    anydml_step *s = stage->step + k;
    if (s->c1 * s->c0 == 1) {
      s->each = anydml_up(s->each, many);
      s->units = anydml_up(s->planes, s->each);
    } else if (s->c0 == 1) {
      s->p1 = anydml_up(s->p1, many);
      s->c1 = anydml_up(s->n1, s->p1);
      s->units = s->planes * s->c1;
    } else if (s->element > 64 || s->p0 >= 64 * many) {
      /* Rows in turns of a page: what lies beside them is read before it leaves the caches. */
      const int64_t rows = anydml_up(s->p0, many), least = anydml_up(4096, s->element);
      s->p0 = s->element <= 64 ? s->p0 / many / 64 * 64 : rows > least ? rows : least < s->p0 ? least : s->p0;
      s->c0 = anydml_up(s->n0, s->p0);
      s->units = s->planes * s->c1 * s->c0;
    }
  }
  stage->units = stage->step->units;
  for (int k = 0; k < many; k++) if (stage->step[k].units != stage->units) {
    stage->units = 0;
    for (k = 0; k < many; k++) stage->units += stage->step[k].units;
    return;
  }
  stage->together = 1;
}

/* Puts the first of some moves into a stage, all of which may run at once; how many. */
static int64_t anydml_plan(anydml_stage *stage, const anydml_move *m, int64_t count, int64_t written) {
  const int streamed = written >= anydml_stream_from;
  int64_t done = 0;
  stage->steps = stage->woven = 0;
  stage->units = stage->together = 0;
  while (done < count && stage->steps + 2 <= ANYDML_STEPS) {
    const int64_t before = done;
    const int steps = stage->steps, woven = stage->woven;
    const int64_t units = stage->units;
    done += anydml_take(stage, m + done, count - done, streamed);
    /* All pairs of what is new and what was there before must be free. */
    int free = before == 0 || (done - before) * before <= ANYDML_PAIRS;
    for (int64_t j = before; j < done && free; j++)
      for (int64_t k = 0; k < before && free; k++) free = anydml_free(m + k, m + j);
    if (!free) {
      stage->steps = steps; stage->woven = woven; stage->units = units;
      done = before;
      break;
    }
  }
  anydml_together(stage);
  return done;
}

/* Does some units of a stage. */
static void anydml_work(const anydml_stage *stage, int64_t first, int64_t last) {
  int streamed = 0;
  for (int64_t unit = first; stage->together && unit < last; unit++)
    for (int k = 0; k < stage->steps; k++) stage->step[k].work(stage->step + k, unit, unit + 1);
  for (int k = 0; k < stage->steps; k++) {
    const anydml_step *s = stage->step + k;
    streamed |= s->streamed;
    if (stage->together) continue;
    if (first < s->units && last > 0) s->work(s, first > 0 ? first : 0, last < s->units ? last : s->units);
    first -= s->units;
    last -= s->units;
  }
#ifdef __x86_64__
  /* Stores past the caches are seen by others before what comes next. */
  if (streamed) _mm_sfence();
#else
  (void)streamed;
#endif
}

/* Moves one after the other. */
static void anydml_run(const anydml_move *m, int64_t count) {
  anydml_stage stage;
  const int streamed = anydml_written(m, count) >= anydml_stream_from;
  while (count > 0) {
    if (!m->rank && anydml_is_plain(m) && m->element <= ANYDML_UNIT && !streamed) {
      anydml_chosen->run(m->to, m->from, m->element);
      m++; count--;
      continue;
    }
    int64_t done;
    if (streamed) done = anydml_plan(&stage, m, count, anydml_stream_from);
    else {
      stage.steps = stage.woven = 0;
      stage.units = stage.together = 0;
      done = anydml_take(&stage, m, count, 0);
    }
    anydml_work(&stage, 0, stage.units);
    m += done; count -= done;
  }
}

/* What a step's kernel is called. */
static const char *anydml_step_name(const anydml_step *s) {
  const anydml_kernels *k = anydml_chosen;
  if (s->work == k->look) return s->move->pattern ? "scattered fill" : "look-up";
  if (s->work == k->weave) return "weave";
  if (s->work == k->turn_past) return "turn";
  if (s->work == anydml_runs) return "runs";
  if (s->work == k->beside) return "rows";
  if (s->plane == k->fill) return "fill";
  if (s->plane == k->spread) return "repeat";
  if (s->plane == k->rows || s->plane == k->rows_streamed || s->plane == k->rows_packed) return "rows";
  for (int e = 1; e <= 8; e++)
    if (k->turn[e] && s->plane == k->turn[e]) return "turn";
  return "elements";
}
