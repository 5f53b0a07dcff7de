/* A pool of threads that share work, one job at a time. The caller takes claims from the beginning and workers from the
 * end until they meet, so that each is likely to find data of the last job in its caches.
 *
 * A caller that finds another job running works alone. It waits for claims that workers have begun, never for a worker
 * to join. Workers spin for some tens of microseconds before they sleep; only enough work wakes them. Waking takes as
 * long as copying a megabyte, so if such work recurs soon, they stay awake for it, unless another program wants their
 * core: a worker that is preempted while it spins would also be preempted in a claim, for which the caller waits.
 */
#ifndef ANYDML_POOL_H
#define ANYDML_POOL_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stddef.h>
#include <stdint.h>

/* Runs units of a plan, from `first` to before `last`, on any thread, without the GIL. */
typedef void (*anydml_work_t)(const void *plan, int64_t first, int64_t last);

typedef struct {
  anydml_work_t work;
  const void *plan;
  int64_t first, last, step, claims; /* units; units of a claim, except for the last one; number of claims */
  int64_t effort;                    /* bytes that a plain copy writes in the time that one thread takes */
  int core;                          /* that the caller runs on; −1 if unknown */
} anydml_job;

static void anydml_claim(const anydml_job *job, int64_t number) {
  int64_t first = job->first + number * job->step, last = first + job->step;
  job->work(job->plan, first, last < job->last ? last : job->last);
}

#if defined(_WIN32)
/* Without POSIX threads, the caller works alone. */
static void anydml_share(anydml_work_t work, const void *plan, int64_t first, int64_t last, int64_t step, int64_t effort) {
  work(plan, first, last);
}
static void anydml_set_threads(int threads) {}
static int64_t anydml_now(void) { return 0; }
static int anydml_start(void *(*run)(void *)) { return -1; }
static int anydml_register_pool_fork_handler(void) { return 0; }
static int anydml_threads(void) { return 1; }
static int anydml_workers(void) { return 0; }
static int anydml_sleepers(void) { return 0; }
#else
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include "cores.h"

enum { ANYDML_CALLER_SPINS = 4000 }; /* checks of a caller for the end of the last claim before it sleeps */
enum { ANYDML_SHORT_SPIN = 30000 };  /* nanoseconds for which a worker spins before it sleeps; */
enum { ANYDML_LONG_SPIN = 500000 };  /* likewise if jobs large enough to wake it come no further apart than this, */
enum { ANYDML_VAIN_SPINS = 3 };      /* until this was in vain this many times more than not */
enum { ANYDML_PAUSES = 8 };          /* between two checks for a job */
enum { ANYDML_PREEMPTED = 300000 };  /* nanoseconds between two checks that show that another program had the core, */
enum { ANYDML_BACKOFF_JOBS = 256 };  /* and number of jobs for which the worker then spins only briefly */
enum { ANYDML_WAKE_FANOUT = 2 };     /* sleepers that one thread wakes, each of which wakes as many */
enum { ANYDML_STACK = 1 << 20 };
enum { ANYDML_WAKE_FROM = 1 << 20 };  /* effort from which workers are woken; doubled for a while if none came in time, */
enum { ANYDML_LATE_SHARE = 4 };       /* workers came in time if they requested more than one over this of the claims */
enum { ANYDML_WAKE_MOST = 32 << 20 }; /* up to this effort */
enum { ANYDML_STREAK_GAP = 15000 };   /* nanoseconds between two jobs up to which their efforts are added */

/* Fields of the state: number of workers at the job; whether more may join; whether the caller sleeps until the last one
 * leaves; and above them the number of the job. */
#define ANYDML_ACTIVE UINT64_C(0xffff)
#define ANYDML_OPEN (UINT64_C(1) << 16)
#define ANYDML_CALLER_WAITS (UINT64_C(1) << 17)
#define ANYDML_JOB (UINT64_C(1) << 32)

/* A worker, which is in a list while it sleeps. */
typedef struct anydml_worker {
  struct anydml_worker *next;
  pthread_cond_t wakeup;
  int is_woken;
  anydml_affinity affinity;
} anydml_worker;

#define ANYDML_OWN_LINE __attribute__((aligned(128)))
static struct {
  ANYDML_OWN_LINE int is_busy;      /* whether a caller shares its work */
  ANYDML_OWN_LINE uint64_t claimed; /* claims taken from the beginning, and in the upper half from the end */
  ANYDML_OWN_LINE uint64_t state;
  anydml_job job;
  ANYDML_OWN_LINE int sleepers;
  int64_t last_end, recent_effort;   /* end of the last job with sleepers; total effort of jobs in a row */
  int64_t wake_threshold;            /* effort from which sleepers are woken */
  ANYDML_OWN_LINE int wanted, alive; /* number of workers requested, and running */
  pthread_mutex_t lock;              /* held briefly, to go to sleep or to wake sleepers */
  anydml_worker *sleeping;           /* workers that sleep, or are about to */
  pthread_cond_t all_left;
} anydml_pool = {.wake_threshold = ANYDML_WAKE_FROM, .lock = PTHREAD_MUTEX_INITIALIZER, .all_left = PTHREAD_COND_INITIALIZER};

/* All are sequentially consistent on every processor. A worker that goes to sleep announces it and then checks for a job;
 * a caller announces a job and then checks for sleepers: one of them must see the other. Other shared data belongs to one
 * thread at a time: the job to its caller until `state` is open, and again once no worker is at it; recent_effort,
 * wake_threshold and last_end to the thread that has set `is_busy`. Every run is thus equivalent to some interleaving of
 * the threads (tests/core/pool_stress.c searches for data races). */
#define ANYDML_LOAD(word) __atomic_load_n(&anydml_pool.word, __ATOMIC_SEQ_CST)
#define ANYDML_ADD(word, by) __atomic_add_fetch(&anydml_pool.word, by, __ATOMIC_SEQ_CST)
#define ANYDML_REPLACE(word, old, new) __atomic_compare_exchange_n(&anydml_pool.word, old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

static int64_t anydml_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Run claims from one end until none is left. */
static void anydml_claims(const anydml_job *job, int is_worker) {
  for (;;) {
    uint64_t before = __atomic_fetch_add(&anydml_pool.claimed, is_worker ? UINT64_C(1) << 32 : 1, __ATOMIC_SEQ_CST);
    int64_t ahead = (int64_t)(before & UINT32_MAX), behind = (int64_t)(before >> 32);
    if (ahead + behind >= job->claims) return;
    anydml_claim(job, is_worker ? job->claims - 1 - behind : ahead);
  }
}

static int anydml_is_new(uint64_t state, uint64_t done) { return (state & ANYDML_OPEN) && state / ANYDML_JOB != done; }

/* Wake workers, off the caller's core: there they would only alternate with it, and the system, to which an idle core
 * of a virtual machine looks busy, would move them away much later. */
static void anydml_wake(int most, int core) {
  pthread_mutex_lock(&anydml_pool.lock);
  for (; most && anydml_pool.sleeping; most--) {
    anydml_worker *worker = anydml_pool.sleeping;
    anydml_pool.sleeping = worker->next;
    ANYDML_ADD(sleepers, -1);
    anydml_avoid_core(&worker->affinity, core);
    worker->is_woken = 1;
    pthread_cond_signal(&worker->wakeup);
  }
  pthread_mutex_unlock(&anydml_pool.lock);
}

/* Sleep until woken, unless there is a new job, or a worker too many. */
static void anydml_sleep_until_woken(anydml_worker *worker, uint64_t done) {
  pthread_mutex_lock(&anydml_pool.lock);
  worker->is_woken = 0;
  worker->next = anydml_pool.sleeping;
  anydml_pool.sleeping = worker;
  ANYDML_ADD(sleepers, 1);
  if (anydml_is_new(ANYDML_LOAD(state), done) || ANYDML_LOAD(alive) > ANYDML_LOAD(wanted)) {
    anydml_pool.sleeping = worker->next;
    ANYDML_ADD(sleepers, -1);
  } else {
    while (!worker->is_woken) pthread_cond_wait(&worker->wakeup, &anydml_pool.lock);
  }
  pthread_mutex_unlock(&anydml_pool.lock);
  anydml_restore_affinity(&worker->affinity);
}

static void *anydml_worker_loop(void *unused) {
  uint64_t done = ~UINT64_C(0);
  int64_t seen = anydml_now(), last_wanted = seen - ANYDML_LONG_SPIN, until = seen + ANYDML_SHORT_SPIN;
  int woken = 0, credit = 0;
  anydml_worker self = {.wakeup = PTHREAD_COND_INITIALIZER, .affinity = anydml_own_affinity()};
  for (;;) {
    uint64_t state = ANYDML_LOAD(state);
    int alive = ANYDML_LOAD(alive), is_wanted = woken, is_late = woken;
    if (anydml_is_new(state, done)) {
      if (!ANYDML_REPLACE(state, &state, state + 1)) continue;
      const int core = anydml_pool.job.core;
      is_wanted |= anydml_pool.job.effort >= ANYDML_WAKE_FROM;
      is_late = 0;
      if (woken && ANYDML_LOAD(sleepers)) anydml_wake(ANYDML_WAKE_FANOUT, core);
      if (core < 0 || core != anydml_core() || anydml_pool.job.effort >= ANYDML_WAKE_MOST) anydml_claims(&anydml_pool.job, 1);
      uint64_t left = ANYDML_ADD(state, -1);
      if ((left & ANYDML_CALLER_WAITS) && !(left & ANYDML_ACTIVE)) {
        pthread_mutex_lock(&anydml_pool.lock);
        pthread_cond_signal(&anydml_pool.all_left);
        pthread_mutex_unlock(&anydml_pool.lock);
      }
      done = state / ANYDML_JOB;
    } else if (alive > ANYDML_LOAD(wanted)) {
      if (ANYDML_REPLACE(alive, &alive, alive - 1)) return NULL;
      continue;
    } else if (!woken && seen < until) {
      for (int k = 0; k < ANYDML_PAUSES; k++) anydml_pause();
      const int64_t now = anydml_now();
      if (now - seen > ANYDML_PREEMPTED) {
        credit = -ANYDML_BACKOFF_JOBS;
        until = now;
      }
      seen = now;
      continue;
    } else if (!woken) {
      credit -= credit > 0;
      anydml_sleep_until_woken(&self, done);
      woken = 1;
      continue;
    }
    seen = anydml_now();
    if (is_wanted) {
      if (credit < 0 || (seen - last_wanted < ANYDML_LONG_SPIN && credit < ANYDML_VAIN_SPINS)) credit++;
      last_wanted = seen;
    }
    const int64_t awake = credit > 0 || (is_late && !credit) ? ANYDML_LONG_SPIN : ANYDML_SHORT_SPIN;
    if (seen + awake > until) until = seen + awake;
    woken = 0;
  }
}

/* After a fork, the child has no workers, whatever they were doing. */
static void anydml_reset_pool_in_child(void) {
  anydml_pool.is_busy = anydml_pool.sleepers = anydml_pool.alive = 0;
  anydml_pool.sleeping = NULL;
  anydml_pool.state &= ~(ANYDML_JOB - 1);
  pthread_mutex_init(&anydml_pool.lock, NULL);
  pthread_cond_init(&anydml_pool.all_left, NULL);
}

/* Start a detached thread that blocks all signals, which are for the program's own threads; returns 0, or an error
 * number. */
static int anydml_start(void *(*run)(void *)) {
  sigset_t all, before;
  pthread_attr_t attributes;
  pthread_t thread;
  sigfillset(&all);
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, ANYDML_STACK);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&thread, &attributes, run, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return error;
}

/* Start missing workers; if the system allows no more, only those that run are wanted. */
static void anydml_start_workers(void) {
  while (ANYDML_LOAD(alive) < ANYDML_LOAD(wanted)) {
    ANYDML_ADD(alive, 1);
    if (anydml_start(anydml_worker_loop)) {
      int alive = ANYDML_ADD(alive, -1);
      __atomic_store_n(&anydml_pool.wanted, alive, __ATOMIC_SEQ_CST);
    }
  }
}

/* Close the job, and wait for the claims that workers have begun. */
static void anydml_close(void) {
  uint64_t state = __atomic_and_fetch(&anydml_pool.state, ~ANYDML_OPEN, __ATOMIC_SEQ_CST);
  for (int spins = 0; (state & ANYDML_ACTIVE) && spins < ANYDML_CALLER_SPINS; spins++) {
    anydml_pause();
    state = ANYDML_LOAD(state);
  }
  if (!(state & ANYDML_ACTIVE)) return;
  pthread_mutex_lock(&anydml_pool.lock);
  state = __atomic_or_fetch(&anydml_pool.state, ANYDML_CALLER_WAITS, __ATOMIC_SEQ_CST);
  for (; state & ANYDML_ACTIVE; state = ANYDML_LOAD(state)) pthread_cond_wait(&anydml_pool.all_left, &anydml_pool.lock);
  __atomic_and_fetch(&anydml_pool.state, ~ANYDML_CALLER_WAITS, __ATOMIC_SEQ_CST);
  pthread_mutex_unlock(&anydml_pool.lock);
}

/* Run units of a plan on every free thread (see `share` in pool.py). */
static void anydml_share(anydml_work_t work, const void *plan, int64_t first, int64_t last, int64_t step, int64_t effort) {
  int idle = 0;
  if (!ANYDML_LOAD(wanted) || step >= last - first || !ANYDML_REPLACE(is_busy, &idle, 1)) {
    work(plan, first, last);
    return;
  }
  anydml_start_workers();
  anydml_pool.job = (anydml_job){work, plan, first, last, step, (last - first + step - 1) / step, effort, anydml_core()};
  __atomic_store_n(&anydml_pool.claimed, 0, __ATOMIC_SEQ_CST);
  ANYDML_ADD(state, ANYDML_JOB | ANYDML_OPEN);
  int sleepers = ANYDML_LOAD(sleepers), wakes = 0;
  if (sleepers) {
    anydml_pool.recent_effort = effort + (anydml_now() - anydml_pool.last_end < ANYDML_STREAK_GAP ? anydml_pool.recent_effort : 0);
    wakes = anydml_pool.recent_effort >= anydml_pool.wake_threshold;
    if (wakes) anydml_wake(ANYDML_WAKE_FANOUT, anydml_pool.job.core);
  }
  anydml_claims(&anydml_pool.job, 0);
  anydml_close();
  if (wakes) anydml_pool.recent_effort = 0;
  /* Claims that workers requested, including those that they did not get. */
  const int64_t helped = (int64_t)(ANYDML_LOAD(claimed) >> 32);
  if (helped > anydml_pool.job.claims / ANYDML_LATE_SHARE) anydml_pool.wake_threshold = ANYDML_WAKE_FROM;
  else if (wakes) anydml_pool.wake_threshold = anydml_pool.wake_threshold < ANYDML_WAKE_MOST / 2 ? 2 * anydml_pool.wake_threshold : ANYDML_WAKE_MOST;
  /* Workers may be available again: lower the threshold, so that they are woken some jobs later. */
  else if (sleepers && anydml_pool.wake_threshold > ANYDML_WAKE_FROM) anydml_pool.wake_threshold -= anydml_pool.wake_threshold / 16;
  if (sleepers) anydml_pool.last_end = anydml_now();
  __atomic_store_n(&anydml_pool.is_busy, 0, __ATOMIC_SEQ_CST);
}

/* Set the number of threads from the next job on; excess workers exit. */
static void anydml_set_threads(int threads) {
  __atomic_store_n(&anydml_pool.wanted, threads - 1, __ATOMIC_SEQ_CST);
  anydml_wake(-1, -1);
}

static int anydml_threads(void) { return ANYDML_LOAD(wanted) + 1; }
static int anydml_workers(void) { return ANYDML_LOAD(alive); }
static int anydml_sleepers(void) { return ANYDML_LOAD(sleepers); }
static int anydml_register_pool_fork_handler(void) { return pthread_atfork(NULL, NULL, anydml_reset_pool_in_child); }
#endif
#endif
