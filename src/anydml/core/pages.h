/* Memory as the system gives it, and what shares it between threads and forks. */
#ifndef ANYDML_PAGES_H
#define ANYDML_PAGES_H
#include <stddef.h>
#include <stdint.h>

/* What stands in the 64 bytes before a block's own bytes. */
typedef struct anydml_block {
  struct anydml_block *older, *newer;   /* of all that wait */
  struct anydml_block *under, *over;    /* of those that wait on one shelf */
  size_t size;                          /* bytes after the header */
  int64_t since;                        /* nanoseconds */
  int64_t shelf;                        /* -1 where the bytes are malloc's */
  int64_t unused;
} anydml_block;

/* Blocks that wait. */
typedef struct {
  anydml_block *shelves[256];           /* the last one of each size */
  anydml_block *oldest, *newest;
  size_t bytes, limit;                  /* that they take, and may take */
  int is_watched;                       /* whether a thread looks at them from time to time */
} anydml_waiting;

#if defined(_WIN32)
/* There is no POSIX: no block is large enough, and memory is malloc's. */
#define ANYDML_MOST ((size_t)0)
static anydml_block *anydml_take_pages(size_t size) { return NULL; }
static void anydml_give_pages(anydml_block *block) {}
static int64_t anydml_now(void) { return 0; }
static void anydml_sleep(int64_t nanoseconds) {}
static void anydml_lock(void) {}
static void anydml_unlock(void) {}
static int anydml_watch_forks(void (*begin_child)(void)) { return 0; }
static int anydml_start(void *(*run)(void *)) { return -1; }
#else
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

enum { ANYDML_PAGE = 4096, ANYDML_HUGE = 2 << 20 };
#define ANYDML_MOST ((size_t)1 << 47) /* bytes that no system has */

/* New pages with their header, or NULL. Where huge pages pay, they begin where one does. */
static anydml_block *anydml_take_pages(size_t size) {
  size_t more = size >= 2 * ANYDML_HUGE ? ANYDML_HUGE : 0;
  char *all = mmap(NULL, ANYDML_PAGE + size + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return NULL;
  char *bytes = all + ANYDML_PAGE;
  if (more) {
    bytes = (char *)(((uintptr_t)bytes + ANYDML_HUGE - 1) & ~(uintptr_t)(ANYDML_HUGE - 1));
    size_t before = (size_t)(bytes - ANYDML_PAGE - all);
    if (before) munmap(all, before);
    if (before < more) munmap(bytes + size, more - before);
#ifdef MADV_HUGEPAGE
    madvise(bytes, size, MADV_HUGEPAGE);
#endif
  }
  anydml_block *block = (anydml_block *)bytes - 1;
  block->size = size;
  return block;
}

static void anydml_give_pages(anydml_block *block) {
  munmap((char *)(block + 1) - ANYDML_PAGE, ANYDML_PAGE + block->size);
}

static int64_t anydml_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void anydml_sleep(int64_t nanoseconds) {
  struct timespec time = {nanoseconds / 1000000000, nanoseconds % 1000000000};
  nanosleep(&time, NULL);
}

/* Held for some list operations at most, and never while Python or the system is called. */
static pthread_mutex_t anydml_mutex = PTHREAD_MUTEX_INITIALIZER;
static void anydml_lock(void) { pthread_mutex_lock(&anydml_mutex); }
static void anydml_unlock(void) { pthread_mutex_unlock(&anydml_mutex); }

/* A fork waits for the mutex, and the child begins by a function that unlocks it. */
static int anydml_watch_forks(void (*begin_child)(void)) {
  return pthread_atfork(anydml_lock, anydml_unlock, begin_child);
}

/* A thread that takes no signals, of which nobody hears again; 0, or an error. */
static int anydml_start(void *(*run)(void *)) {
  pthread_attr_t attributes;
  pthread_t thread;
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&thread, &attributes, run, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return error;
}
#endif
#endif
