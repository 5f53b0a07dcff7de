/* DLPack's table of C functions for a library's arrays, as its specification has it (dlpack.h, version 1). */
#ifndef ANYDML_DLPACK_H
#define ANYDML_DLPACK_H
#include <stdint.h>

typedef struct { uint8_t code, bits; uint16_t lanes; } anydml_dl_type;
typedef struct {
  void *data;
  int32_t device, number;
  int32_t ndim;
  anydml_dl_type dtype;
  int64_t *shape, *strides; /* in elements */
  uint64_t byte_offset;
} anydml_dl_tensor;
typedef struct {
  uint32_t major, minor;
  void *previous;
  void *allocate, *take, *give;
  int (*look)(void *, anydml_dl_tensor *);
  int (*stream)(int32_t, int32_t, void **);
} anydml_dl_api;

#endif
