/* From moves to stages, whose tasks may run concurrently, and from stages to work. */
#ifndef ANYDML_STAGES_H
#define ANYDML_STAGES_H
#include "ranges.h"
#include "kernel_selection.h"
#include "task_grouping.h"

/* Tasks with equal numbers of units, such as parts of rows, run unit by unit, so that adjacent data is read together. */
static void anydml_set_lockstep(anydml_stage *stage) {
  const int many = stage->tasks;
  if (many < 2) return;
  for (int k = 0; k < many; k++) {
    const anydml_task *s = stage->task + k;
    if (s->work != anydml_planes || s->lookup_plane || s->units != stage->task->units || s->n0 != stage->task->n0 || s->n1 != stage->task->n1) return;
  }
  for (int k = 0; k < many; k++) {
    anydml_task *s = stage->task + k;
    if (s->c1 * s->c0 == 1) {
      const int64_t fit = ANYDML_UNIT / (s->n1 * s->n0 * s->element);
      s->each = anydml_ceil_div(fit > 1 ? fit : 1, many);
      s->units = anydml_ceil_div(s->planes, s->each);
    } else if (s->c0 == 1) {
      s->p1 = anydml_ceil_div(s->p1, many);
      s->c1 = anydml_ceil_div(s->n1, s->p1);
      s->units = s->planes * s->c1;
    } else if (s->element > 64 || s->p0 >= 64 * many) {
      /* Rows alternate by about a page: adjacent data is read before it leaves the caches. */
      const int64_t rows = anydml_ceil_div(s->p0, many), least = anydml_ceil_div(4096, s->element);
      s->p0 = s->element <= 64 ? s->p0 / many / 64 * 64 : rows > least ? rows : least < s->p0 ? least : s->p0;
      s->c0 = anydml_ceil_div(s->n0, s->p0);
      s->units = s->planes * s->c1 * s->c0;
    }
  }
  stage->units = stage->task->units;
  for (int k = 0; k < many; k++) if (stage->task[k].units != stage->units) {
    stage->units = 0;
    for (k = 0; k < many; k++) stage->units += stage->task[k].units;
    return;
  }
  stage->lockstep = 1;
}

/* Put the first moves, which may run concurrently, into a stage; returns their number. */
static int64_t anydml_plan_stage(anydml_stage *stage, const anydml_move *m, int64_t count, int64_t written) {
  const int streamed = written >= anydml_stream_from;
  int64_t done = 0;
  stage->tasks = stage->interleaved = 0;
  stage->units = stage->lockstep = 0;
  while (done < count && stage->tasks + 2 <= ANYDML_TASKS && stage->interleaved < ANYDML_INTERLEAVES) {
    const int64_t before = done;
    const int tasks = stage->tasks, interleaved = stage->interleaved;
    const int64_t units = stage->units;
    done += anydml_add_tasks(stage, m + done, count - done, streamed);
    /* All pairs of a new and an earlier move must be independent. */
    int free = before == 0 || (done - before) * before <= ANYDML_PAIRS;
    for (int64_t j = before; j < done && free; j++)
      for (int64_t k = 0; k < before && free; k++) free = anydml_independent(m + k, m + j);
    if (!free) {
      stage->tasks = tasks; stage->interleaved = interleaved; stage->units = units;
      done = before;
      break;
    }
  }
  anydml_set_lockstep(stage);
  return done;
}

/* Run some units of a stage. */
static void anydml_run_units(const void *plan, int64_t first, int64_t last) {
  const anydml_stage *stage = (const anydml_stage *)plan;
  int streamed = 0;
  for (int64_t unit = first; stage->lockstep && unit < last; unit++)
    for (int k = 0; k < stage->tasks; k++) stage->task[k].work(stage->task + k, unit, unit + 1);
  for (int k = 0; k < stage->tasks; k++) {
    const anydml_task *s = stage->task + k;
    streamed |= s->streamed;
    if (stage->lockstep) continue;
    if (first < s->units && last > 0) s->work(s, first > 0 ? first : 0, last < s->units ? last : s->units);
    first -= s->units;
    last -= s->units;
  }
#ifdef __x86_64__
  /* Non-temporal stores must be visible to other threads before later stores. */
  if (streamed) _mm_sfence();
#else
  (void)streamed;
#endif
}

/* Run moves one after the other, without non-temporal stores. */
static void anydml_run_serially(const anydml_move *m, int64_t count) {
  anydml_stage stage;
  /* Weaving is not worthwhile for a few bytes. */
  int interleaved = -1;
  while (count > 0) {
    if (!m->rank && !m->lookups && m->element <= ANYDML_UNIT) {
      anydml_copy_or_fill_run(m++);
      count--;
      continue;
    }
    if (interleaved < 0) interleaved = anydml_written(m, count) < ANYDML_INTERLEAVE_FROM ? ANYDML_INTERLEAVES : 0;
    stage.interleaved = interleaved;
    stage.tasks = stage.units = stage.lockstep = 0;
    const int64_t done = anydml_add_tasks(&stage, m, count, 0);
    anydml_run_units(&stage, 0, stage.units);
    m += done; count -= done;
  }
}

/* Have a move's lookups that refuse indices check for any, and set `refused`. */
static void anydml_check_indices(const anydml_move *m) {
  anydml_task s;
  anydml_choose_lookups(&s, m, 0);
  s.lookup_plane = anydml_chosen->check;
  anydml_planes(&s, 0, s.units);
}

/* The name of a task's kernel. */
static const char *anydml_task_name(const anydml_task *s) {
  const anydml_kernels *k = anydml_chosen;
  if (s->work == anydml_planes && s->lookup_plane == k->select) return "select";
  if (s->work == anydml_planes && s->lookup_plane) return s->move->pattern ? "scattered fill" : "look-up";
  if (s->work == k->interleave) return "interleave";
  if (s->work == k->transpose_streamed) return "transpose";
  if (s->work == anydml_copy_or_fill_runs) return "runs";
  if (s->work == k->side_by_side) return "rows";
  if (s->plane == k->fill) return "fill";
  if (s->plane == k->repeat_element) return "repeat";
  if (s->plane == k->mirror || s->plane == k->mirror_uneven) return "mirror";
  if (s->plane == k->rows || s->plane == k->rows_packed) return "rows";
  for (int e = 1; e <= 8; e++)
    if (k->transpose[e] && s->plane == k->transpose[e]) return "transpose";
  return "elements";
}
#endif
