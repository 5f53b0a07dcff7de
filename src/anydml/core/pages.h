/* Memory from the system, and a mutex that guards it across threads and forks. */
#ifndef ANYDML_PAGES_H
#define ANYDML_PAGES_H
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
/* Without POSIX there are no blocks, as no size is allowed for them; memory comes from malloc. */
#define ANYDML_MAX_SIZE ((size_t)0)
static char *anydml_map_pages(size_t size) { return NULL; }
static void anydml_unmap_pages(char *pages, size_t size) {}
static void anydml_advise_huge(char *at, size_t size) {}
static void anydml_sleep(int64_t nanoseconds) {}
static void anydml_lock(void) {}
static void anydml_unlock(void) {}
static int anydml_register_fork_handlers(void (*reset_in_child)(void)) { return 0; }
#else
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

enum { ANYDML_PAGE = 4096, ANYDML_HUGE = 2 << 20 };
#define ANYDML_MAX_SIZE ((size_t)1 << 47) /* more bytes than any system has */

/* Request huge pages for memory that has not been touched, if the system has them: the first touch costs less. */
static void anydml_advise_huge(char *at, size_t size) {
#ifdef MADV_HUGEPAGE
  const uintptr_t first = ((uintptr_t)at + ANYDML_PAGE - 1) & ~(uintptr_t)(ANYDML_PAGE - 1), end = ((uintptr_t)at + size) & ~(uintptr_t)(ANYDML_PAGE - 1);
  if (end > first) madvise((void *)first, end - first, MADV_HUGEPAGE);
#else
  (void)at; (void)size;
#endif
}

/* Map new pages, and one more before them for a block's header; NULL on failure. If huge pages pay off, the pages are
 * aligned to one. */
static char *anydml_map_pages(size_t size) {
  size_t more = size >= 2 * ANYDML_HUGE ? ANYDML_HUGE : 0;
  char *all = mmap(NULL, ANYDML_PAGE + size + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return NULL;
  char *pages = all + ANYDML_PAGE;
  if (more) {
    pages = (char *)(((uintptr_t)pages + ANYDML_HUGE - 1) & ~(uintptr_t)(ANYDML_HUGE - 1));
    size_t before = (size_t)(pages - ANYDML_PAGE - all);
    if (before) munmap(all, before);
    if (before < more) munmap(pages + size, more - before);
    anydml_advise_huge(pages, size);
  }
  return pages;
}

static void anydml_unmap_pages(char *pages, size_t size) { munmap(pages - ANYDML_PAGE, ANYDML_PAGE + size); }

static void anydml_sleep(int64_t nanoseconds) {
  struct timespec time = {nanoseconds / 1000000000, nanoseconds % 1000000000};
  nanosleep(&time, NULL);
}

/* Held for a few list operations at most, and never during calls of Python or the system. */
static pthread_mutex_t anydml_mutex = PTHREAD_MUTEX_INITIALIZER;
static void anydml_lock(void) { pthread_mutex_lock(&anydml_mutex); }
static void anydml_unlock(void) { pthread_mutex_unlock(&anydml_mutex); }

/* A fork waits for the mutex; the child begins with a function that unlocks it. */
static int anydml_register_fork_handlers(void (*reset_in_child)(void)) {
  return pthread_atfork(anydml_lock, anydml_unlock, reset_in_child);
}
#endif
#endif
