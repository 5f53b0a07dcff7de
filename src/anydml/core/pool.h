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
static int anydml_watch_forks(void) { return 0; }
static int anydml_threads(void) { return 1; }
static int anydml_workers(void) { return 0; }
static int anydml_sleepers(void) { return 0; }
#else
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include "cores.h"

enum { ANYDML_LOOKS = 4000 };    /* checks of a caller for the end of the last claim before it sleeps */
enum { ANYDML_BRIEFLY = 30000 }; /* nanoseconds for which a worker spins before it sleeps; */
enum { ANYDML_AWAKE = 500000 };  /* likewise if jobs large enough to wake it come no further apart than this, */
enum { ANYDML_TRIALS = 3 };      /* until this was in vain this many times more than not */
enum { ANYDML_PAUSES = 8 };      /* between two checks for a job */
enum { ANYDML_TAKEN = 300000 };  /* nanoseconds between two checks that show that another program had the core, */
enum { ANYDML_CALM = 256 };      /* and number of jobs for which the worker then spins only briefly */
enum { ANYDML_WOKEN = 2 };     /* sleepers that one thread wakes, each of which wakes as many */
enum { ANYDML_STACK = 1 << 20 };
enum { ANYDML_WAKING = 1 << 20 }; /* effort from which workers are woken; doubled for a while if none came in time, */
enum { ANYDML_LATE = 4 };      /* workers came in time if they requested more than one over this of the claims */
enum { ANYDML_LARGE = 32 << 20 }; /* up to this effort */
enum { ANYDML_SOON = 15000 };  /* nanoseconds between two jobs up to which their efforts are added */

/* Fields of the state: number of workers at the job; whether more may join; whether the caller sleeps until the last one
 * leaves; and above them the number of the job. */
#define ANYDML_AT_WORK UINT64_C(0xffff)
#define ANYDML_OPEN (UINT64_C(1) << 16)
#define ANYDML_AWAITED (UINT64_C(1) << 17)
#define ANYDML_JOB (UINT64_C(1) << 32)

/* A worker, which is in a list while it sleeps. */
typedef struct anydml_worker {
  struct anydml_worker *under;
  pthread_cond_t called;
  int is_called;
  anydml_place place;
} anydml_worker;

#define ANYDML_LINE_APART __attribute__((aligned(128)))
static struct {
  ANYDML_LINE_APART int owned;            /* whether a caller shares its work */
  ANYDML_LINE_APART uint64_t claimed;     /* claims taken from the beginning, and in the upper half from the end */
  ANYDML_LINE_APART uint64_t state;
  anydml_job job;
  ANYDML_LINE_APART int sleepers;
  int64_t ended, streak;                  /* end of the last job with sleepers; total effort of jobs in a row */
  int64_t worth;                          /* effort from which sleepers are woken */
  ANYDML_LINE_APART int wanted, alive;    /* number of workers requested, and running */
  pthread_mutex_t lock;                   /* held briefly, to go to sleep or to wake sleepers */
  anydml_worker *asleep;                  /* workers that sleep, or are about to */
  pthread_cond_t quiet;
} anydml_crew = {.worth = ANYDML_WAKING, .lock = PTHREAD_MUTEX_INITIALIZER, .quiet = PTHREAD_COND_INITIALIZER};

/* All are sequentially consistent on every processor. A worker that goes to sleep announces it and then checks for a job;
 * a caller announces a job and then checks for sleepers: one of them must see the other. Other shared data belongs to one
 * thread at a time: the job to its caller until `state` is open, and again once no worker is at it; streak, worth and
 * ended to the thread that has set `owned`. Every run is thus equivalent to some interleaving of the threads
 * (tests/core/pool_stress.c searches for data races). */
#define ANYDML_LOAD(word) __atomic_load_n(&anydml_crew.word, __ATOMIC_SEQ_CST)
#define ANYDML_ADD(word, by) __atomic_add_fetch(&anydml_crew.word, by, __ATOMIC_SEQ_CST)
#define ANYDML_REPLACE(word, old, new) __atomic_compare_exchange_n(&anydml_crew.word, old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

static int64_t anydml_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Run claims from one end until none is left. */
static void anydml_claims(const anydml_job *job, int is_worker) {
  for (;;) {
    uint64_t before = __atomic_fetch_add(&anydml_crew.claimed, is_worker ? UINT64_C(1) << 32 : 1, __ATOMIC_SEQ_CST);
    int64_t ahead = (int64_t)(before & UINT32_MAX), behind = (int64_t)(before >> 32);
    if (ahead + behind >= job->claims) return;
    anydml_claim(job, is_worker ? job->claims - 1 - behind : ahead);
  }
}

static int anydml_is_new(uint64_t state, uint64_t done) { return (state & ANYDML_OPEN) && state / ANYDML_JOB != done; }

/* Wake workers, off the caller's core: there they would only alternate with it, and the system, to which an idle core
 * of a virtual machine looks busy, would move them away much later. */
static void anydml_wake(int most, int core) {
  pthread_mutex_lock(&anydml_crew.lock);
  for (; most && anydml_crew.asleep; most--) {
    anydml_worker *worker = anydml_crew.asleep;
    anydml_crew.asleep = worker->under;
    ANYDML_ADD(sleepers, -1);
    anydml_keep_off(&worker->place, core);
    worker->is_called = 1;
    pthread_cond_signal(&worker->called);
  }
  pthread_mutex_unlock(&anydml_crew.lock);
}

/* Sleep until called, unless there is a new job, or a worker too many. */
static void anydml_sleep_until_called(anydml_worker *worker, uint64_t done) {
  pthread_mutex_lock(&anydml_crew.lock);
  worker->is_called = 0;
  worker->under = anydml_crew.asleep;
  anydml_crew.asleep = worker;
  ANYDML_ADD(sleepers, 1);
  if (anydml_is_new(ANYDML_LOAD(state), done) || ANYDML_LOAD(alive) > ANYDML_LOAD(wanted)) {
    anydml_crew.asleep = worker->under;
    ANYDML_ADD(sleepers, -1);
  } else {
    while (!worker->is_called) pthread_cond_wait(&worker->called, &anydml_crew.lock);
  }
  pthread_mutex_unlock(&anydml_crew.lock);
  anydml_let_go(&worker->place);
}

static void anydml_tell_caller(void) {
  pthread_mutex_lock(&anydml_crew.lock);
  pthread_cond_signal(&anydml_crew.quiet);
  pthread_mutex_unlock(&anydml_crew.lock);
}

static void *anydml_serve(void *unused) {
  uint64_t done = ~UINT64_C(0);
  int64_t seen = anydml_now(), asked = seen - ANYDML_AWAKE, until = seen + ANYDML_BRIEFLY;
  int woken = 0, hope = 0;
  anydml_worker self = {.called = PTHREAD_COND_INITIALIZER, .place = anydml_own_place()};
  for (;;) {
    uint64_t state = ANYDML_LOAD(state);
    int alive = ANYDML_LOAD(alive), is_asked = woken, is_late = woken;
    if (anydml_is_new(state, done)) {
      if (!ANYDML_REPLACE(state, &state, state + 1)) continue;
      const int core = anydml_crew.job.core;
      is_asked |= anydml_crew.job.effort >= ANYDML_WAKING;
      is_late = 0;
      if (woken && ANYDML_LOAD(sleepers)) anydml_wake(ANYDML_WOKEN, core);
      if (core < 0 || core != anydml_core() || anydml_crew.job.effort >= ANYDML_LARGE) anydml_claims(&anydml_crew.job, 1);
      uint64_t left = ANYDML_ADD(state, -1);
      if ((left & ANYDML_AWAITED) && !(left & ANYDML_AT_WORK)) anydml_tell_caller();
      done = state / ANYDML_JOB;
    } else if (alive > ANYDML_LOAD(wanted)) {
      if (ANYDML_REPLACE(alive, &alive, alive - 1)) return NULL;
      continue;
    } else if (!woken && seen < until) {
      for (int k = 0; k < ANYDML_PAUSES; k++) anydml_pause();
      const int64_t now = anydml_now();
      if (now - seen > ANYDML_TAKEN) {
        hope = -ANYDML_CALM;
        until = now;
      }
      seen = now;
      continue;
    } else if (!woken) {
      hope -= hope > 0;
      anydml_sleep_until_called(&self, done);
      woken = 1;
      continue;
    }
    seen = anydml_now();
    if (is_asked) {
      if (hope < 0 || (seen - asked < ANYDML_AWAKE && hope < ANYDML_TRIALS)) hope++;
      asked = seen;
    }
    const int64_t awake = hope > 0 || (is_late && !hope) ? ANYDML_AWAKE : ANYDML_BRIEFLY;
    if (seen + awake > until) until = seen + awake;
    woken = 0;
  }
}

/* After a fork, the child has no workers, whatever they were doing. */
static void anydml_in_child(void) {
  anydml_crew.owned = anydml_crew.sleepers = anydml_crew.alive = 0;
  anydml_crew.asleep = NULL;
  anydml_crew.state &= ~(ANYDML_JOB - 1);
  pthread_mutex_init(&anydml_crew.lock, NULL);
  pthread_cond_init(&anydml_crew.quiet, NULL);
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
    if (anydml_start(anydml_serve)) {
      int alive = ANYDML_ADD(alive, -1);
      __atomic_store_n(&anydml_crew.wanted, alive, __ATOMIC_SEQ_CST);
    }
  }
}

/* Close the job, and wait for the claims that workers have begun. */
static void anydml_close(void) {
  uint64_t state = __atomic_and_fetch(&anydml_crew.state, ~ANYDML_OPEN, __ATOMIC_SEQ_CST);
  for (int looks = 0; (state & ANYDML_AT_WORK) && looks < ANYDML_LOOKS; looks++) {
    anydml_pause();
    state = ANYDML_LOAD(state);
  }
  if (!(state & ANYDML_AT_WORK)) return;
  pthread_mutex_lock(&anydml_crew.lock);
  state = __atomic_or_fetch(&anydml_crew.state, ANYDML_AWAITED, __ATOMIC_SEQ_CST);
  for (; state & ANYDML_AT_WORK; state = ANYDML_LOAD(state)) pthread_cond_wait(&anydml_crew.quiet, &anydml_crew.lock);
  __atomic_and_fetch(&anydml_crew.state, ~ANYDML_AWAITED, __ATOMIC_SEQ_CST);
  pthread_mutex_unlock(&anydml_crew.lock);
}

/* Run units of a plan on every free thread, `step` at a time. `effort` is the number of bytes that a plain copy writes in
 * the time that one thread takes. When this returns, all units are finished. */
static void anydml_share(anydml_work_t work, const void *plan, int64_t first, int64_t last, int64_t step, int64_t effort) {
  int nobody = 0;
  if (!ANYDML_LOAD(wanted) || step >= last - first || !ANYDML_REPLACE(owned, &nobody, 1)) {
    work(plan, first, last);
    return;
  }
  anydml_start_workers();
  anydml_crew.job = (anydml_job){work, plan, first, last, step, (last - first + step - 1) / step, effort, anydml_core()};
  __atomic_store_n(&anydml_crew.claimed, 0, __ATOMIC_SEQ_CST);
  ANYDML_ADD(state, ANYDML_JOB | ANYDML_OPEN);
  int sleepers = ANYDML_LOAD(sleepers), wakes = 0;
  if (sleepers) {
    anydml_crew.streak = effort + (anydml_now() - anydml_crew.ended < ANYDML_SOON ? anydml_crew.streak : 0);
    wakes = anydml_crew.streak >= anydml_crew.worth;
    if (wakes) anydml_wake(ANYDML_WOKEN, anydml_crew.job.core);
  }
  anydml_claims(&anydml_crew.job, 0);
  anydml_close();
  if (wakes) anydml_crew.streak = 0;
  /* Claims that workers requested, including those that they did not get. */
  const int64_t helped = (int64_t)(ANYDML_LOAD(claimed) >> 32);
  if (helped > anydml_crew.job.claims / ANYDML_LATE) anydml_crew.worth = ANYDML_WAKING;
  else if (wakes) anydml_crew.worth = anydml_crew.worth < ANYDML_LARGE / 2 ? 2 * anydml_crew.worth : ANYDML_LARGE;
  /* Workers may be available again: lower the threshold, so that they are woken some jobs later. */
  else if (sleepers && anydml_crew.worth > ANYDML_WAKING) anydml_crew.worth -= anydml_crew.worth / 16;
  if (sleepers) anydml_crew.ended = anydml_now();
  __atomic_store_n(&anydml_crew.owned, 0, __ATOMIC_SEQ_CST);
}

/* Set the number of threads from the next job on; excess workers exit. */
static void anydml_set_threads(int threads) {
  __atomic_store_n(&anydml_crew.wanted, threads - 1, __ATOMIC_SEQ_CST);
  anydml_wake(-1, -1);
}

static int anydml_threads(void) { return ANYDML_LOAD(wanted) + 1; }
static int anydml_workers(void) { return ANYDML_LOAD(alive); }
static int anydml_sleepers(void) { return ANYDML_LOAD(sleepers); }
static int anydml_watch_forks(void) { return pthread_atfork(NULL, NULL, anydml_in_child); }
#endif
#endif
