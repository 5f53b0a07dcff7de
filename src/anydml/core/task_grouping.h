/* Tasks for the first of some moves: one task for several, if that is worthwhile. */
#ifndef ANYDML_TASK_GROUPING_H
#define ANYDML_TASK_GROUPING_H

static inline int anydml_is_plain(const anydml_move *m) { return !m->lookups && !m->pattern; }

static inline int anydml_is_short_fill(const anydml_move *m) { return !m->lookups && m->pattern && m->element <= ANYDML_FILL_WINDOW; }

/* Number of columns of a move's rows: the size of a short last dimension, or 1. */
static inline int anydml_column_count(const anydml_move *m) {
  return m->rank > 1 && m->n[m->rank - 1] <= ANYDML_COLUMNS ? (int)m->n[m->rank - 1] : 1;
}

/* Make a task that interleaves the first moves as columns of one table; returns their number: 0, or at least 2. */
static int64_t anydml_task_of_columns(anydml_stage *stage, anydml_task *s, const anydml_move *m, int64_t count, int streamed) {
  const int r = m->rank - (anydml_column_count(m) > 1);
  int64_t grouped = 0, bytes = 0, row = 0;
  int columns = 0;
  if (stage->interleaved == ANYDML_INTERLEAVES || !r || m->n[r - 1] < 16) return 0;
  for (int64_t j = 0; j < count; j++) {
    const anydml_move *q = m + j;
    const int own_columns = anydml_column_count(q);
    if (q->rank - (own_columns > 1) != r || !(anydml_is_plain(q) || anydml_is_short_fill(q)) || q->element > 32 || memcmp(q->n, m->n, (size_t)r * 8) || columns + own_columns > ANYDML_COLUMNS) break;
    /* Reading rows that are far apart at the source is worthwhile only for whole rows of the destination. */
    if (!q->pattern && (own_columns > 1 || q->a[r - 1] == q->element) && (!q->b[r - 1] || anydml_abs(q->b[r - 1]) > 128)) break;
    columns += own_columns;
    /* The last column shares rows of the source or the destination with another one. */
    for (const anydml_move *p = m; p < q; p++)
      if (anydml_abs(q->to - p->to) < anydml_abs(p->a[r - 1]) || anydml_abs(q->from - p->from) < anydml_abs(p->b[r - 1])) grouped = j + 1;
  }
  columns = 0;
  for (int64_t j = 0; j < grouped; j++) {
    const int own_columns = anydml_column_count(m + j);
    columns += own_columns;
    row += own_columns * m[j].element;
    bytes += anydml_bytes(m + j);
  }
  /* Moves of several columns each are faster separately, unless they write the same rows. */
  if (grouped < 2 || bytes < ANYDML_INTERLEAVE_FROM || (columns > grouped && row != m->a[r - 1])) return 0;
  anydml_interleave *w = &stage->interleave[stage->interleaved];
  anydml_begin_interleave(w, m, anydml_column_count(m) > 1 ? r : -1, r - 1);
  anydml_move column[ANYDML_COLUMNS];
  for (int64_t j = 0; j < grouped; j++) {
    const int before = w->columns;
    anydml_add_columns(w, m + j, anydml_column_count(m + j) > 1 ? r : -1, r - 1);
    for (int k = before; k < w->columns; k++) {
      anydml_column *c = w->column + k;
      column[k] = m[j];
      column[k].rank = r; column[k].to = c->to; column[k].from = c->from;
      for (int other = 0; other < before; other++)
        if (!anydml_independent(column + other, column + k)) return 0;
      if (!m[j].pattern) continue;
      for (int x = 0; x < ANYDML_FILL_WINDOW; x++) w->fills[k][x] = (uint8_t)c->from[x % m[j].pattern];
      c->from = (const char *)w->fills[k];
    }
  }
  return anydml_interleave_task(stage, s, w, bytes, 1, 0, streamed) ? grouped : 0;
}

/* Copy or fill one run, without non-temporal stores. */
static inline void anydml_copy_or_fill_run(const anydml_move *m) {
  if (m->pattern) {
    anydml_task s;
    s.element = m->element; s.pattern = m->pattern;
    s.a1 = s.a0 = s.streamed = 0;
    anydml_chosen->fill(&s, m->to, m->from, 1, 1);
  } else anydml_chosen->run(m->to, m->from, m->element);
}

/* Copy or fill runs, which are in order at the destination. */
static void anydml_copy_or_fill_runs(const anydml_task *s, int64_t first, int64_t last) {
  last = last * s->each < s->count ? last * s->each : s->count;
  for (int64_t k = first * s->each; k < last; k++) anydml_copy_or_fill_run(s->move + k);
}

/* Make a task of the first moves that are short, independent runs; returns their number: 0, or at least 2. */
static int64_t anydml_task_of_runs(anydml_task *s, const anydml_move *m, int64_t count) {
  anydml_range written = {m->to, m->to}, read = {m->from, m->from};
  int64_t grouped = 0;
  for (; grouped < count; grouped++) {
    const anydml_move *q = m + grouped;
    if (q->rank || q->lookups || q->element > 2 * ANYDML_UNIT || q->to < written.high) break;
    const anydml_range all_read = q->pattern ? read : anydml_union_range(read, (anydml_range){q->from, q->from + q->element});
    if (!anydml_disjoint((anydml_range){written.low, q->to + q->element}, all_read)) break;
    written.high = q->to + q->element;
    read = all_read;
  }
  if (grouped < 2) return 0;
  s->work = anydml_copy_or_fill_runs;
  s->move = m;
  s->count = grouped;
  s->streamed = 0;
  s->each = ANYDML_UNIT * grouped / (anydml_written(m, grouped) + 1) + 1;
  s->units = anydml_ceil_div(grouped, s->each);
  return grouped;
}

/* Make a task of the first moves that are columns of a table; returns their number: 0, or at least 2. Row after row is
 * read or written contiguously, instead of in pieces. Without non-temporal stores that matters only for large columns. */
static int64_t anydml_task_of_rows(anydml_task *s, const anydml_move *m, int64_t count, int streamed) {
  if (m->rank != 1 || !anydml_is_plain(m) || (!streamed && anydml_bytes(m) < ANYDML_ROWS_FROM)) return 0;
  const int64_t n0 = m->n[0];
  anydml_range written = anydml_write_range(m), read = anydml_access_range(m, m->from, m->b, m->element, -1);
  int64_t grouped = 1, row = m->element;
  int are_adjacent = 1, are_whole_lines = !(((uintptr_t)m->to | m->a[0] | m->element) & 63), are_apart = 1;
  int64_t shortest = m->element;
  int is_table = 0;
  for (; grouped < count; grouped++) {
    const anydml_move *p = m + grouped - 1, *q = m + grouped;
    if (q->rank != 1 || !anydml_is_plain(q) || q->n[0] != n0) break;
    const anydml_range to = anydml_write_range(q), from = anydml_access_range(q, q->from, q->b, q->element, -1);
    const int follows = q->to == p->to + p->element && q->a[0] == m->a[0], is_apart = to.low >= written.high;
    const anydml_range all_read = anydml_union_range(read, from), all_written = anydml_union_range(written, to);
    if (to.low < written.low || !anydml_disjoint(all_written, all_read)) break;
    /* All are contiguous in one row, or all are apart; and the columns are long enough for that. */
    are_adjacent &= follows && row + q->element <= m->a[0];
    are_apart &= is_apart;
    are_whole_lines &= !(((uintptr_t)q->to | q->a[0] | q->element) & 63);
    if (q->element < shortest) shortest = q->element;
    if (!(are_adjacent || (are_apart && streamed)) || shortest < (are_adjacent ? 33 : are_whole_lines ? 256 : 1024)) break;
    is_table = are_adjacent;
    written = all_written;
    read = all_read;
    row += q->element;
  }
  if (grouped < 2) return 0;
  s->work = anydml_chosen->side_by_side;
  s->move = m;
  s->count = grouped;
  s->n0 = n0;
  s->pattern = is_table;
  s->streamed = streamed;
  s->each = ANYDML_UNIT / row + 1;
  s->units = anydml_ceil_div(n0, s->each);
  return grouped;
}

/* Make one task of a move and of one that a mask selects, which writes the same elements once more; returns 0 if they are
 * different. */
static int anydml_task_of_masked_pair(anydml_task *s, const anydml_move *m, int streamed) {
  const anydml_move *q = m + 1;
  if (m->to != q->to || m->lookups || !anydml_is_masked(q) || anydml_bytes(m) != anydml_bytes(q) || q->element > m->element || (m->pattern && m->pattern != q->element)) return 0;
  int64_t d[ANYDML_RANK], reach[ANYDML_RANK + 1] = {0};
  for (int k = 0; k < q->rank; k++) {
    /* A dimension must lie within one dimension of the first move, or within its element. */
    int j = m->rank;
    while (j && q->a[k] * q->n[k] > (j < m->rank ? m->a[j] * m->n[j] : m->element)) j--;
    const int64_t step = j < m->rank ? m->a[j] : 1, end = j < m->rank ? step * m->n[j] : m->element - q->element + 1;
    reach[j] += q->a[k] * (q->n[k] - 1);
    if (q->a[k] % step || reach[j] >= end) return 0;
    d[k] = m->pattern ? 0 : q->a[k] / step * (j < m->rank ? m->b[j] : 1);
  }
  if (!anydml_writes_apart(q) || !anydml_no_read_conflict(m, q)) return 0;
  anydml_choose_lookups(s, q, streamed);
  s->base = m->from;
  memcpy(s->d, d, sizeof d);
  s->streamed = streamed && s->a0 == s->element;
  return 1;
}

/* Choose tasks for the first moves and add them to a stage; returns the number of moves. */
static int64_t anydml_add_tasks(anydml_stage *stage, const anydml_move *m, int64_t count, int streamed) {
  anydml_task *s = stage->task + stage->tasks;
  int64_t done = 1;
  int tasks = 1;
  if (m->lookups) anydml_choose_lookups(s, m, streamed);
  else if (count > 1 && m[1].lookups && anydml_task_of_masked_pair(s, m, streamed)) done = 2;
  else if (count > 1 && !streamed && !m->rank && (done = anydml_task_of_runs(s, m, count))) {}
  else if (m->pattern) { tasks = anydml_choose_fill(s, m, streamed); done = 1; }
  else if (count > 1 && (done = anydml_task_of_columns(stage, s, m, count, streamed))) {}
  else if (count > 1 && (done = anydml_task_of_rows(s, m, count, streamed))) {}
  else { tasks = anydml_choose_plain(stage, s, m, count, streamed); done = s->count; }
  stage->tasks += tasks;
  for (int k = 0; k < tasks; k++) stage->units += s[k].units;
  return done;
}
#endif
