/* Tombolo: values in pods that hosts share, and heaps whose pages move between two tiers of memory.
 *
 * Link with libtombolo. Each function but those that return a value says by TomboloError whether
 * it did what it is for; tombolo_error_message has the sentence. Handles may be used by several
 * threads at once, unless it says otherwise, but for the call that frees them. In a child of fork()
 * a pod refuses, and blocks are ordinary memory.
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
   The heap has no free range as large, or the pod no room.
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
  /*
   The key has no value, or a walk is at its end.
   */
  TOMBOLO_ERROR_ABSENT = 9,
  /*
   The key has a value already, or another one than was expected.
   */
  TOMBOLO_ERROR_EXISTS = 10,
  /*
   The value is longer than the buffer, which is as it was.
   */
  TOMBOLO_ERROR_SHORT = 11,
  /*
   The pod cannot be created, opened or joined, or is damaged.
   */
  TOMBOLO_ERROR_POD = 12,
  /*
   The other hosts go on without this one: join again.
   */
  TOMBOLO_ERROR_FENCED = 13,
  /*
   The value is gone, with the memory in which it lay or with a host.
   */
  TOMBOLO_ERROR_LOST = 14,
  /*
   A host hangs, or the value stayed in use.
   */
  TOMBOLO_ERROR_BUSY = 15,
  /*
   This host has as many views or rooms as it may.
   */
  TOMBOLO_ERROR_TOO_MANY = 16,
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
 A walk through the keys of a pod.
 */
typedef struct TomboloKeys TomboloKeys;

/*
 This process' place in a pod: a host, and the store of keys and values.
 */
typedef struct TomboloPod TomboloPod;

/*
 Room in the pod for the value of a key, which no host sees before it is published. One thread
 may use it at a time. If the process dies, the other hosts free it.
 */
typedef struct TomboloRoom TomboloRoom;

/*
 A value where it lies in the pod. It stays as it is, whatever is put or deleted meanwhile.
 */
typedef struct TomboloView TomboloView;

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

/*
 How a pod is laid out. tombolo_pod_options_init fills it; 0 leaves a choice to the library.
 */
typedef struct {
  /*
   Bytes of this structure, as the caller knows it.
   */
  size_t struct_bytes;
  /*
   Bytes of coherent memory (SCR).
   */
  uint64_t scr_bytes;
  /*
   Hosts that can be in the pod at once, up to 64.
   */
  uint32_t hosts;
  /*
   Whether what is there is overwritten.
   */
  bool force;
  /*
   Bytes of a chunk, a power of two. Values up to about that lie in one piece.
   */
  uint64_t chunk_bytes;
  /*
   Rooms that a host can have reserved at once, up to 2,048.
   */
  uint64_t rooms;
} TomboloPodOptions;

/*
 Bytes of the caller that the library reads.
 */
typedef struct {
  /*
   The first byte.
   */
  const uint8_t *data;
  /*
   How many.
   */
  size_t bytes;
} TomboloBytes;

/*
 Room of the caller into which the library copies a value.
 */
typedef struct {
  /*
   The first byte.
   */
  uint8_t *data;
  /*
   How many bytes there is room for.
   */
  size_t capacity;
  /*
   Set by the library: the length of the value; more than `capacity` if it was not copied.
   */
  size_t bytes;
  /*
   Set by the library: TOMBOLO_ERROR_OK, TOMBOLO_ERROR_ABSENT or TOMBOLO_ERROR_SHORT.
   */
  TomboloError error;
} TomboloBuffer;

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

/*
 Fills options with what the library chooses.
 Errors: TOMBOLO_ERROR_ARGUMENT.
 */
TomboloError tombolo_pod_options_init(TomboloPodOptions *options);

/*
 Creates an empty pod with so many bytes for values. `spec` is a path such as "/dev/shm/pod", or
 two with a plus sign between them. `options` may be null.
 Errors: TOMBOLO_ERROR_ARGUMENT, TOMBOLO_ERROR_POD.
 */
TomboloError tombolo_pod_create(const char *spec, uint64_t bytes, const TomboloPodOptions *options);

/*
 Joins a pod. A thread of the library does the host's background work until it leaves.
 Errors: TOMBOLO_ERROR_ARGUMENT, TOMBOLO_ERROR_POD, TOMBOLO_ERROR_BUSY.
 */
TomboloError tombolo_pod_join(const char *spec, TomboloPod **pod);

/*
 Leaves the pod, and frees the handle, also on an error. Views, rooms and walks of it stay valid:
 the host leaves with the last of them.
 Errors: TOMBOLO_ERROR_ARGUMENT, and those of the pod.
 */
TomboloError tombolo_pod_leave(TomboloPod *pod);

/*
 Address and length of the pod's memory in which values lie, to be registered with a device. They
 stay as they are while the host is in the pod. Devices may write in rooms alone.
 Errors: TOMBOLO_ERROR_ARGUMENT.
 */
TomboloError tombolo_pod_mapping(const TomboloPod *pod, void **address, size_t *bytes);

/*
 Gives a key a value, whatever it had before.
 Errors: TOMBOLO_ERROR_ARGUMENT, TOMBOLO_ERROR_FULL, TOMBOLO_ERROR_BUSY, TOMBOLO_ERROR_FENCED,
 TOMBOLO_ERROR_FORKED.
 */
TomboloError tombolo_put(const TomboloPod *pod,
                         const uint8_t *key,
                         size_t key_bytes,
                         const uint8_t *value,
                         size_t value_bytes);

/*
 Gives a key a value if it has none. `version` may be null.
 Errors: TOMBOLO_ERROR_EXISTS, and those of tombolo_put.
 */
TomboloError tombolo_add(const TomboloPod *pod,
                         const uint8_t *key,
                         size_t key_bytes,
                         const uint8_t *value,
                         size_t value_bytes,
                         uint64_t *version);

/*
 Gives a key another value if that which it has is at the version `expected`, as a view tells.
 `version` gets the new version; it may be null.
 Errors: TOMBOLO_ERROR_EXISTS if the value is another or none, and those of tombolo_put.
 */
TomboloError tombolo_put_if_version(const TomboloPod *pod,
                                    const uint8_t *key,
                                    size_t key_bytes,
                                    uint64_t expected,
                                    const uint8_t *value,
                                    size_t value_bytes,
                                    uint64_t *version);

/*
 Gives `count` keys a value each, in their order. `errors` gets what became of each; it may be
 null. Returns the first error.
 Errors: those of tombolo_put.
 */
TomboloError tombolo_put_many(const TomboloPod *pod,
                              const TomboloBytes *keys,
                              const TomboloBytes *values,
                              size_t count,
                              TomboloError *errors);

/*
 Copies the value of a key into `buffer`, and stores its length in `value_bytes`.
 Errors: TOMBOLO_ERROR_ABSENT; TOMBOLO_ERROR_SHORT if it is longer than `capacity`, and then
 nothing is copied; TOMBOLO_ERROR_ARGUMENT, and those of the pod.
 */
TomboloError tombolo_get_into(const TomboloPod *pod,
                              const uint8_t *key,
                              size_t key_bytes,
                              uint8_t *buffer,
                              size_t capacity,
                              size_t *value_bytes);

/*
 Allocates room for the value of a key, and copies it there. The caller frees it by
 tombolo_value_free.
 Errors: TOMBOLO_ERROR_ABSENT, TOMBOLO_ERROR_ARGUMENT, and those of the pod.
 */
TomboloError tombolo_get(const TomboloPod *pod,
                         const uint8_t *key,
                         size_t key_bytes,
                         uint8_t **value,
                         size_t *value_bytes);

/*
 Frees a value of tombolo_get. A null pointer is none.
 */
void tombolo_value_free(uint8_t *value, size_t value_bytes);

/*
 Copies the values of `count` keys, each into its buffer. Returns TOMBOLO_ERROR_OK also if some
 have none: the buffers say so.
 Errors: TOMBOLO_ERROR_ARGUMENT, and those of the pod.
 */
TomboloError tombolo_get_many_into(const TomboloPod *pod,
                                   const TomboloBytes *keys,
                                   TomboloBuffer *buffers,
                                   size_t count);

/*
 Says of `count` keys whether they have values.
 Errors: TOMBOLO_ERROR_ARGUMENT, and those of the pod.
 */
TomboloError tombolo_exists(const TomboloPod *pod,
                            const TomboloBytes *keys,
                            size_t count,
                            bool *exist);

/*
 Removes a key.
 Errors: TOMBOLO_ERROR_ABSENT if it had no value; those of tombolo_put.
 */
TomboloError tombolo_delete(const TomboloPod *pod, const uint8_t *key, size_t key_bytes);

/*
 Begins a walk through all keys that begin with `prefix`, in no order.
 Errors: TOMBOLO_ERROR_ARGUMENT.
 */
TomboloError tombolo_keys(const TomboloPod *pod,
                          const uint8_t *prefix,
                          size_t prefix_bytes,
                          TomboloKeys **keys);

/*
 Stores the next key, which is valid until the next call. One thread may use a walk at a time.
 Errors: TOMBOLO_ERROR_ABSENT at the end; those of the pod.
 */
TomboloError tombolo_keys_next(TomboloKeys *keys, TomboloBytes *key);

/*
 Ends a walk. A null pointer is none.
 */
void tombolo_keys_free(TomboloKeys *keys);

/*
 Stores up to `capacity` numbers of the host and of the pod, as far as the host knows, and in
 `names` their names, which stay valid. Returns how many there are; 0 for null pointers.
 */
size_t tombolo_pod_stats(const TomboloPod *pod,
                         const char **names,
                         uint64_t *numbers,
                         size_t capacity);

/*
 Reserves room for a value of so many bytes. Bytes that are not filled are those that lay there
 before. Errors: TOMBOLO_ERROR_TOO_MANY, and those of tombolo_put.
 */
TomboloError tombolo_reserve(const TomboloPod *pod,
                             const uint8_t *key,
                             size_t key_bytes,
                             size_t value_bytes,
                             TomboloRoom **room);

/*
 Returns the first byte of the room, to be filled by the program or a device; all stores there
 have to be over before the room is published or abandoned. NULL if the room lies in several
 pieces, or for a null pointer: then tombolo_room_write fills it.
 */
uint8_t *tombolo_room_data(TomboloRoom *room);

/*
 Returns how many bytes can be filled; 0 for a null pointer.
 */
size_t tombolo_room_bytes(const TomboloRoom *room);

/*
 Copies bytes into the room, from `offset` on.
 Errors: TOMBOLO_ERROR_OUTSIDE, TOMBOLO_ERROR_ARGUMENT.
 */
TomboloError tombolo_room_write(TomboloRoom *room,
                                size_t offset,
                                const uint8_t *data,
                                size_t data_bytes);

/*
 Makes the room the value of its key, whatever that had before, and frees the handle, also on an
 error. `version` gets the value's version; it may be null.
 Errors: those of tombolo_put. The room is given back then, and the old value stays.
 */
TomboloError tombolo_room_publish(TomboloRoom *room, uint64_t *version);

/*
 The same, if the key has no value.
 Errors: TOMBOLO_ERROR_EXISTS, and those of tombolo_put. The room is given back then.
 */
TomboloError tombolo_room_publish_new(TomboloRoom *room, uint64_t *version);

/*
 Gives the room back, and frees the handle. A null pointer is none.
 */
void tombolo_room_abandon(TomboloRoom *room);

/*
 Shows the value of a key where it lies, without a copy if it is large and in one piece. The
 value's room is kept until the view is released.
 Errors: TOMBOLO_ERROR_ABSENT, TOMBOLO_ERROR_TOO_MANY, TOMBOLO_ERROR_ARGUMENT, and those of the
 pod.
 */
TomboloError tombolo_view(const TomboloPod *pod,
                          const uint8_t *key,
                          size_t key_bytes,
                          TomboloView **view);

/*
 Returns the first byte of the value; NULL for a null pointer. It is valid until the view is
 released.
 */
const uint8_t *tombolo_view_data(const TomboloView *view);

/*
 Returns how many bytes the value has; 0 for a null pointer.
 */
size_t tombolo_view_bytes(const TomboloView *view);

/*
 Returns the version of the value, for tombolo_put_if_version; 0 for a null pointer.
 */
uint64_t tombolo_view_version(const TomboloView *view);

/*
 Returns whether the value lies in one piece in the pod. If not, the view shows a copy.
 */
bool tombolo_view_is_contiguous(const TomboloView *view);

/*
 Ends a view, and frees the handle, also on an error. The bytes that were looked at were the
 value, unless this is an error.
 Errors: TOMBOLO_ERROR_LOST if this host has met a memory error there, TOMBOLO_ERROR_ARGUMENT.
 */
TomboloError tombolo_view_release(TomboloView *view);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TOMBOLO_H */
