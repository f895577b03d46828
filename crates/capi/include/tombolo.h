/* Tombolo: heaps whose pages move between two tiers of memory, at unchanged addresses.
 *
 * Link with libtombolo_c. Each function but those that return a value says by TomboloError whether
 * it did what it is for; tombolo_error_message has the sentence. Handles may be used by several
 * threads at once, but for the call that frees them. In a child of fork() blocks are ordinary
 * memory.
 *
 * This file is generated: WRITE_HEADER=1 cargo test -p tombolo-capi writes it.
 */

#ifndef TOMBOLO_H
#define TOMBOLO_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define TOMBOLO_ABI_VERSION 1

/*
 How a call ended.
 */
typedef enum {
  /*
   It did what it is for.
   */
  TOMBOLO_ERROR_OK = 0,
  /*
   An argument is wrong: a null pointer, or a value that is not of its list.
   */
  TOMBOLO_ERROR_ARGUMENT = 1,
  /*
   The kernel, or the rights of the process, do not let pages move.
   */
  TOMBOLO_ERROR_UNAVAILABLE = 2,
  /*
   The heap has no free range as large.
   */
  TOMBOLO_ERROR_FULL = 3,
  /*
   The bytes are not all in their block.
   */
  TOMBOLO_ERROR_OUTSIDE = 4,
  /*
   This process is a child of the one that made the heap.
   */
  TOMBOLO_ERROR_FORKED = 5,
  /*
   The heap's threads have ended; its blocks are ordinary memory.
   */
  TOMBOLO_ERROR_STOPPED = 6,
  /*
   The system refused something.
   */
  TOMBOLO_ERROR_SYSTEM = 7,
  /*
   A fault of this library.
   */
  TOMBOLO_ERROR_FAULT = 8,
} TomboloError;

/*
 Where a block's pages are to be.
 */
enum TomboloHint
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /*
   Near while there is room; then as the policy says.
   */
  TOMBOLO_HINT_AUTO = 0,
  /*
   Near, and not demoted.
   */
  TOMBOLO_HINT_NEAR = 1,
  /*
   Far, and not promoted.
   */
  TOMBOLO_HINT_FAR = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum TomboloHint TomboloHint;
#else
typedef uint32_t TomboloHint;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/*
 Where pages are.
 */
enum TomboloPlace
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /*
   Far.
   */
  TOMBOLO_PLACE_FAR = 0,
  /*
   Near, with a shadow: while the page is not written, it goes down without a copy.
   */
  TOMBOLO_PLACE_NEAR_WITH_SHADOW = 1,
  /*
   Near, without a shadow.
   */
  TOMBOLO_PLACE_NEAR = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum TomboloPlace TomboloPlace;
#else
typedef uint32_t TomboloPlace;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/*
 Which pages move without being asked to.
 */
enum TomboloPolicy
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /*
   None: the program says where pages are to be.
   */
  TOMBOLO_POLICY_NONE = 0,
  /*
   As TPP: at the second hint fault, while the program waits.
   */
  TOMBOLO_POLICY_TPP = 1,
  /*
   As NOMAD: at the second hint fault, in the background, with a shadow.
   */
  TOMBOLO_POLICY_NOMAD = 2,
  /*
   As NOMAD, for pages whose touches pay for the move.
   */
  TOMBOLO_POLICY_BREAK_EVEN = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum TomboloPolicy TomboloPolicy;
#else
typedef uint32_t TomboloPolicy;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/*
 Pages of a heap. Threads and system calls may use them at any time.
 */
typedef struct TomboloBlock TomboloBlock;

/*
 A heap of pages in two tiers. Its blocks stay valid when it is freed.
 */
typedef struct TomboloHeap TomboloHeap;

/*
 How a heap is set up. tombolo_heap_options_init fills it.
 */
typedef struct {
  /*
   The size of this structure, in bytes.
   */
  size_t size;
  /*
   The NUMA node of near memory.
   */
  uint32_t near_node;
  /*
   The NUMA node of far memory; the near one, where the machine has only one.
   */
  uint32_t far_node;
  /*
   Bytes of near memory that filled pages may take.
   */
  size_t near_bytes;
  /*
   Shadows at most, in bytes.
   */
  size_t shadow_bytes;
  /*
   A value of TomboloPolicy.
   */
  uint32_t policy;
  /*
   Far pages that a policy looks at in a second; each costs its next touch a hint fault.
   */
  uint32_t parked_per_second;
} TomboloHeapOptions;

/*
 How the pages of a range ended up.
 */
typedef struct {
  /*
   Pages that moved.
   */
  size_t moved;
  /*
   Pages that were there.
   */
  size_t already;
  /*
   Pages that were never filled: they will be there once they are.
   */
  size_t untouched;
  /*
   Pages left because the program writes them all the time.
   */
  size_t left_written;
  /*
   Pages left because they are shared with a child of fork(), or pinned for a device.
   */
  size_t left_shared;
  /*
   Pages left because they are locked, or not writable.
   */
  size_t left_unmovable;
  /*
   Pages left because the tier has no room.
   */
  size_t left_no_room;
  /*
   Pages left because the program gave them up or changed its mappings meanwhile.
   */
  size_t left_busy;
  /*
   For how long touches of a page had to wait, in nanoseconds, over all pages.
   */
  uint64_t gap_nanoseconds;
} TomboloReport;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Returns the version of the interface that the library has: programs compare it with
 `TOMBOLO_ABI_VERSION`.
 */
uint32_t tombolo_abi_version(void);

/*
 Returns what the last call of this thread that failed has to say: what happened, and what to do.
 An empty string if none failed. It is valid until the thread's next call fails.
 */
const char *tombolo_error_message(void);

/*
 Asks the kernel whether pages can move here at all. Returns TOMBOLO_ERROR_UNAVAILABLE if not,
 and the message says what to do.
 */
TomboloError tombolo_tiers_probe(void);

/*
 Reserves addresses for so many bytes, and starts the heap's threads. No memory is taken before
 it is touched. `options` may be null: then they are as tombolo_heap_options_init has them.
 Errors: TOMBOLO_ERROR_ARGUMENT, TOMBOLO_ERROR_UNAVAILABLE, TOMBOLO_ERROR_SYSTEM.
 */
TomboloError tombolo_heap_reserve(size_t bytes,
                                  const TomboloHeapOptions *options,
                                  TomboloHeap **heap);

/*
 Frees a heap; its memory goes with its last block. A null pointer is none.
 */
void tombolo_heap_free(TomboloHeap *heap);

/*
 Takes a block of at least so many bytes, of zeros, in whole pages. `hint` is a TomboloHint.
 Errors: TOMBOLO_ERROR_ARGUMENT, TOMBOLO_ERROR_FULL, TOMBOLO_ERROR_SYSTEM.
 */
TomboloError tombolo_heap_allocate(const TomboloHeap *heap,
                                   size_t bytes,
                                   uint32_t hint,
                                   TomboloBlock **block);

/*
 Gives a block back. A null pointer is none.
 */
void tombolo_block_free(TomboloBlock *block);

/*
 Returns the first byte of a block. It does not change while the block is there. NULL for a null
 pointer.
 */
void *tombolo_block_address(const TomboloBlock *block);

/*
 Returns how many bytes a block has; 0 for a null pointer.
 */
size_t tombolo_block_bytes(const TomboloBlock *block);

/*
 Moves the pages of a range to a place, while threads use them. `place` is a TomboloPlace.
 `report` says what became of the pages; it may be null. It waits for the thread that moves
 pages, for some microseconds a page.
 Errors: TOMBOLO_ERROR_ARGUMENT, TOMBOLO_ERROR_OUTSIDE, TOMBOLO_ERROR_FORKED,
 TOMBOLO_ERROR_STOPPED. Pages that are left where they were are no error.
 */
TomboloError tombolo_block_relocate(const TomboloBlock *block,
                                    size_t offset,
                                    size_t bytes,
                                    uint32_t place,
                                    TomboloReport *report);

/*
 Says where the pages of a range are to be from here on. They move in the background. `hint` is a
 TomboloHint.
 Errors: as tombolo_block_relocate.
 */
TomboloError tombolo_block_advise(const TomboloBlock *block,
                                  size_t offset,
                                  size_t bytes,
                                  uint32_t hint);

/*
 Gives up to so many bytes of shadows up. `given` says how many bytes that were; it may be null.
 Errors: TOMBOLO_ERROR_ARGUMENT, TOMBOLO_ERROR_FORKED, TOMBOLO_ERROR_STOPPED.
 */
TomboloError tombolo_heap_reclaim(const TomboloHeap *heap, size_t bytes, size_t *given);

/*
 Returns how many numbers tombolo_heap_stats has.
 */
size_t tombolo_stat_count(void);

/*
 Returns the name of a number, such as "promotions"; NULL behind the last one. It stays valid.
 */
const char *tombolo_stat_name(size_t number);

/*
 Stores the heap's numbers, up to `capacity` of them, in the order of their names. It does not
 block.
 Errors: TOMBOLO_ERROR_ARGUMENT.
 */
TomboloError tombolo_heap_stats(const TomboloHeap *heap, uint64_t *numbers, size_t capacity);

/*
 Fills options with what is usual: one node, no limits, no policy. Returns
 TOMBOLO_ERROR_ARGUMENT for a null pointer.
 */
TomboloError tombolo_heap_options_init(TomboloHeapOptions *options);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TOMBOLO_H */
