/* A block of 64 pages goes to near memory and back, while its address stays.
 *
 *   cc -I crates/capi/include -o tiers crates/capi/examples/tiers.c -L target/release -ltombolo_c
 *   LD_LIBRARY_PATH=target/release ./tiers
 */
#include <stdio.h>
#include <string.h>

#include <tombolo.h>

#define BYTES (64 * 4096)

/* Says what a call has to say that failed, and ends with 1. */
#define TRY(call)                                                                                  \
  do {                                                                                             \
    TomboloError error = (call);                                                                   \
    if (error != TOMBOLO_ERROR_OK) {                                                               \
      fprintf(stderr, "%s\n  error %d: %s\n", #call, (int)error, tombolo_error_message());         \
      return 1;                                                                                    \
    }                                                                                              \
  } while (0)

int main(void) {
  if (tombolo_abi_version() != TOMBOLO_ABI_VERSION) {
    fprintf(stderr, "the header and the library are of different versions\n");
    return 1;
  }
  if (tombolo_tiers_probe() != TOMBOLO_ERROR_OK) {
    printf("pages do not move here: %s\n", tombolo_error_message());
    return 0;
  }
  TomboloHeapOptions options;
  TRY(tombolo_heap_options_init(&options));
  options.near_bytes = 1 << 30;

  TomboloHeap *heap;
  TomboloBlock *block;
  TRY(tombolo_heap_reserve(1 << 20, &options, &heap));
  TRY(tombolo_heap_allocate(heap, BYTES, TOMBOLO_HINT_FAR, &block));
  char *bytes = tombolo_block_address(block);
  memset(bytes, 'x', BYTES);

  TomboloReport report;
  TRY(tombolo_block_relocate(block, 0, BYTES, TOMBOLO_PLACE_NEAR_WITH_SHADOW, &report));
  printf("%zu pages moved, and a touch of one waited for %llu ns\n", report.moved,
         (unsigned long long)(report.gap_nanoseconds / (report.moved ? report.moved : 1)));
  bytes[0] = 'y'; /* This page's shadow is worthless now. */
  TRY(tombolo_block_relocate(block, 0, BYTES, TOMBOLO_PLACE_FAR, NULL));
  if (bytes[0] != 'y' || bytes[BYTES - 1] != 'x' || bytes != tombolo_block_address(block)) {
    fprintf(stderr, "bytes are lost\n");
    return 1;
  }

  uint64_t numbers[64];
  TRY(tombolo_heap_stats(heap, numbers, 64));
  for (size_t at = 0; at < tombolo_stat_count() && at < 64; at++)
    if (numbers[at] > 0) printf("%-32s %llu\n", tombolo_stat_name(at), (unsigned long long)numbers[at]);

  /* What is wrong is said, and nothing happens. */
  if (tombolo_block_relocate(block, 0, BYTES + 1, TOMBOLO_PLACE_FAR, NULL) != TOMBOLO_ERROR_OUTSIDE)
    return 1;
  TomboloBlock *none;
  if (tombolo_heap_allocate(NULL, 1, TOMBOLO_HINT_AUTO, &none) != TOMBOLO_ERROR_ARGUMENT) return 1;
  printf("as it should be: %s\n", tombolo_error_message());

  tombolo_block_free(block);
  tombolo_heap_free(heap);
  return 0;
}
