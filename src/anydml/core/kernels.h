/* Running moves: the kernels of every instruction set, and their choice for each list of moves.
 *
 *     anydml_run_serially(moves, count)           run all in order, on this thread, without non-temporal stores
 *
 *     written = anydml_written(moves, count)
 *     done = anydml_plan_stage(&stage, moves, count, written)   plan the first `done` moves, which may run concurrently
 *     anydml_run_units(&stage, first, last)       run some of its `stage.units` units, on any thread
 *
 *     anydml_check_indices(&move)                 only check whether indices are out of range
 */
#ifndef ANYDML_KERNELS_H
#define ANYDML_KERNELS_H
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
#include "moves.h"
#include "processor.h"
#include "tasks.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

typedef uint8_t anydml_v16 __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint8_t anydml_v32 __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint8_t anydml_v64 __attribute__((vector_size(64), aligned(1), may_alias));
typedef uint16_t anydml_h16 __attribute__((vector_size(16), may_alias));
typedef uint32_t anydml_s16 __attribute__((vector_size(16), may_alias));
typedef uint64_t anydml_d16 __attribute__((vector_size(16), may_alias));
typedef uint16_t anydml_u16 __attribute__((aligned(1), may_alias));
typedef uint32_t anydml_u32 __attribute__((aligned(1), may_alias));
typedef uint64_t anydml_u64 __attribute__((aligned(1), may_alias));

/* Tuned: `python -m benchmarks.constants NAME=VALUE` tells what another value costs; likewise in tasks.h and interleave_plan.h. */
enum {
  ANYDML_LONG = 4096,      /* bytes from which the C library copies a run */
  ANYDML_AHEAD = 4096,     /* bytes that prefetches are ahead of non-temporal stores */
  ANYDML_SINK = 4096,      /* bytes that are assembled in the L1 cache */
  ANYDML_SHORT_SINK_RUN = 160, /* bytes of a run from which its whole lines are stored directly */
  ANYDML_BLOCK = 1024,     /* bytes of a repeated pattern */
  ANYDML_SHORT_RUN = 512,  /* bytes of a run from which an element is repeated by such a pattern */
  ANYDML_TRANSPOSE_BUFFER = 64 << 10, /* bytes of a buffer of transposed rows before non-temporal stores */
  ANYDML_CROWDED = 32 << 10, /* rows times the power of two in their distance, above which their lines evict each other */
  ANYDML_CROWDED_ROW = 2048, /* the power of two in the distance of rows of which only so many lines stay in the L1 cache: */
  ANYDML_WAYS = 8,
  ANYDML_CROSSED_BUFFER = 16 << 10, /* bytes of a buffer of lines whose elements are on several pages */
  ANYDML_ROWS_BLOCK = 8 << 10, /* bytes of a block of rows in either dimension if the source is transposed */
  ANYDML_LINES_ROW = 1024, /* bytes of a source row in a block whose tiles are stored as whole lines, */
  ANYDML_LINES = 128,      /* and of a destination row */
  ANYDML_STREAMED_ROW = 256,   /* bytes of both if tiles are buffered first */
  ANYDML_TRANSPOSED = 8 << 10, /* bytes of the destination rows of a block of few, which are longer */
  ANYDML_STREAMED_LINE = 1024, /* bytes of a destination row that is divided among blocks */
  ANYDML_STREAMED_LEAST = 512, /* least bytes of a row that is buffered */
  ANYDML_PREFETCHED = 1024,      /* bytes of a row to prefetch; the hardware prefetches the rest */
  ANYDML_FAR = 4 << 20,    /* bytes of an axis from which elements are prefetched by independent indices, */
  ANYDML_FORESEEN = 128,   /* so many at a time */
  ANYDML_COLUMN = 4 << 10,  /* elements of an axis whose lines of one column stay in the L2 cache */
  ANYDML_FAR_COLUMNS = 128, /* columns of such an axis that are looked up at a time */
  ANYDML_SEGMENT = 2048,   /* indices resolved at a time */
  ANYDML_NESTED = 128,     /* likewise if indices depend on others */
  ANYDML_SINGLE_FROM = 8,  /* elements of a line from which one index for all is resolved first */
  ANYDML_DIRECT = 2,       /* non-temporal stores directly from registers */
  ANYDML_LONG_LINE = 8 << 10, /* bytes of a line from which the rows before its first cache line are interleaved aside */
  ANYDML_ROWS_FROM = 128 << 10, /* bytes of a column from which rows are written one by one by plain stores */
  ANYDML_INTERLEAVED = 12 << 10, /* bytes of rows that are interleaved at a time, vector by vector */
  ANYDML_ELEMENT = 128,    /* bytes of the longest element with a specialized loop */
};

/* The kernels of an instruction set. */
typedef struct {
  const char *name;
  int64_t width;           /* bytes of a vector */
  anydml_plane elements[ANYDML_ELEMENT + 1], rows, rows_packed, elements_packed, fill, repeat_element, mirror, mirror_uneven, transpose[9];
  anydml_lookup_plane lookup_plane, select, check;
  void (*put_numbers)(const void *, int64_t, int64_t);
  void (*run)(char *, const char *, int64_t);
  void (*side_by_side)(const anydml_task *, int64_t, int64_t), (*interleave)(const anydml_task *, int64_t, int64_t), (*transpose_streamed)(const anydml_task *, int64_t, int64_t);
  anydml_interleave_vector interleave_vector;
  anydml_interleave_block interleave_blocks, interleave_whole; /* the second is NULL without VBMI */
  int window;              /* bytes that interleave_vector loads at a time */
} anydml_kernels;

/* Keep a number in a scalar register: gather instructions are slower than separate loads. */
#define ANYDML_SCALAR(x) __asm__("" : "+r"(x))

#define ANYDML_JOIN_(a, b) anydml_##a##_##b
#define ANYDML_JOIN(a, b) ANYDML_JOIN_(a, b)
#define K(name) ANYDML_JOIN(name, ANYDML_ISA)

/* Functions from ANYDML_FOR to ANYDML_END are for processors with a set of features. */
#define ANYDML_PRAGMA(text) _Pragma(#text)
#ifdef __clang__
#define ANYDML_FOR(features) ANYDML_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define ANYDML_END ANYDML_PRAGMA(clang attribute pop)
#else
#define ANYDML_FOR(features) ANYDML_PRAGMA(GCC push_options) ANYDML_PRAGMA(GCC target(features))
#define ANYDML_END ANYDML_PRAGMA(GCC pop_options)
#endif

#define ANYDML_ISA v2
#define ANYDML_LANES 1
#ifdef __x86_64__
#define ANYDML_NAME "x86-64-v2"
ANYDML_FOR("ssse3,sse4.1,sse4.2,popcnt")
#include "kernels_isa.h"
ANYDML_END
#define ANYDML_ISA v3
#define ANYDML_LANES 2
#define ANYDML_NAME "x86-64-v3"
ANYDML_FOR("avx2,bmi,bmi2,lzcnt,movbe,fma,f16c,popcnt")
#include "kernels_isa.h"
ANYDML_END
#define ANYDML_ISA v4
#define ANYDML_LANES 4
#define ANYDML_NAME "x86-64-v4"
ANYDML_FOR("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,bmi,bmi2,lzcnt,movbe,fma,f16c,popcnt")
#include "kernels_isa.h"
ANYDML_END
#else
#define ANYDML_NAME "plain"
#include "kernels_isa.h"
#endif

static anydml_kernels anydml_chosen_kernels;
static const anydml_kernels *anydml_chosen = &anydml_kernels_v2;
static int64_t anydml_stream_from = 8 << 20;   /* bytes written from which stores are non-temporal */

/* Choose the kernels of the highest instruction set available, but no higher than `limit` ("v2", "v3", "v4"). */
static void anydml_choose(const char *limit, int64_t stream_from) {
  anydml_stream_from = stream_from;
  anydml_chosen = &anydml_kernels_v2;
#if defined(__x86_64__)
  int most = limit && limit[0] == 'v' && limit[1] >= '2' && limit[1] <= '4' ? limit[1] - '0' : 4;
  static int has; /* read once: in virtual machines each CPUID takes microseconds */
  if (!has) has = anydml_processor();
  if (has >= 3 && most >= 3) anydml_chosen = &anydml_kernels_v3;
  if (has >= 4 && most >= 4) {
    anydml_chosen_kernels = anydml_kernels_v4;
    if (has >= 5) {
      anydml_chosen_kernels.interleave_vector = anydml_interleave_windows_v4;
      anydml_chosen_kernels.interleave_whole = anydml_interleave_whole_v4;
      anydml_chosen_kernels.window = 64;
    }
    anydml_chosen = &anydml_chosen_kernels;
  }
#endif
}

static const char *anydml_isa(void) { return anydml_chosen->name; }
static void anydml_put_numbers(const void *plan, int64_t first, int64_t last) { anydml_chosen->put_numbers(plan, first, last); }

#include "stages.h"

#undef K
#pragma GCC diagnostic pop
#endif
