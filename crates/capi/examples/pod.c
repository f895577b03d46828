/* A program puts values into a pod, looks at one where it lies, and fills room for another.
 *
 *   cc -o pod crates/capi/examples/pod.c $(pkg-config --cflags --libs tombolo)
 *   ./pod /dev/shm/my-pod
 */
#include <stdio.h>
#include <string.h>

#include <tombolo.h>

#define MEBIBYTE (1 << 20)

/* Says what a call has to say that failed, and ends with 1. */
#define TRY(call)                                                                                  \
  do {                                                                                             \
    TomboloError error = (call);                                                                   \
    if (error != TOMBOLO_ERROR_OK) {                                                               \
      fprintf(stderr, "%s\n  error %d: %s\n", #call, (int)error, tombolo_error_message());         \
      return 1;                                                                                    \
    }                                                                                              \
  } while (0)

#define EXPECT(condition)                                                                          \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition);                              \
      return 1;                                                                                    \
    }                                                                                              \
  } while (0)

static const uint8_t *bytes(const char *text) { return (const uint8_t *)text; }

static TomboloBytes all(const char *text) {
  TomboloBytes bytes = {(const uint8_t *)text, strlen(text)};
  return bytes;
}

/* Several keys at once. */
static int many(const TomboloPod *pod) {
  TomboloBytes keys[] = {all("a"), all("b"), all("c")};
  TomboloBytes values[] = {all("one"), all("two"), all("three")};
  TRY(tombolo_put_many(pod, keys, values, 3, NULL));
  TRY(tombolo_delete(pod, bytes("c"), 1));
  bool exist[3];
  TRY(tombolo_exists(pod, keys, 3, exist));
  EXPECT(exist[0] && exist[1] && !exist[2]);
  uint8_t room[2][3];
  TomboloBuffer buffers[3] = {{room[0], 3, 0, 0}, {room[1], 1, 0, 0}, {NULL, 0, 0, 0}};
  TRY(tombolo_get_many_into(pod, keys, buffers, 3));
  EXPECT(buffers[0].error == TOMBOLO_ERROR_OK && memcmp(room[0], "one", 3) == 0);
  EXPECT(buffers[1].error == TOMBOLO_ERROR_SHORT && buffers[1].bytes == 3);
  EXPECT(buffers[2].error == TOMBOLO_ERROR_ABSENT);
  return 0;
}

/* Room that is filled in the pod, and is the value of a key then. */
static int fill(const TomboloPod *pod) {
  TomboloRoom *room;
  TRY(tombolo_reserve(pod, bytes("block"), 5, MEBIBYTE, &room));
  EXPECT(tombolo_room_bytes(room) == MEBIBYTE);
  uint8_t *data = tombolo_room_data(room);
  EXPECT(data != NULL);
  memset(data, 7, MEBIBYTE); /* Or a device does. */
  TomboloView *view;
  EXPECT(tombolo_view(pod, bytes("block"), 5, &view) == TOMBOLO_ERROR_ABSENT);
  TRY(tombolo_room_publish(room, NULL));

  TRY(tombolo_view(pod, bytes("block"), 5, &view));
  uint64_t version = tombolo_view_version(view);
  EXPECT(tombolo_view_bytes(view) == MEBIBYTE && tombolo_view_is_contiguous(view));
  EXPECT(tombolo_view_data(view)[MEBIBYTE - 1] == 7);
  TRY(tombolo_put_if_version(pod, bytes("block"), 5, version, bytes("new"), 3, &version));
  EXPECT(tombolo_view_data(view)[0] == 7); /* A view stays as it is. */
  TRY(tombolo_view_release(view));
  EXPECT(tombolo_put_if_version(pod, bytes("block"), 5, version + 1, bytes("late"), 4, NULL) ==
         TOMBOLO_ERROR_EXISTS);

  TRY(tombolo_reserve(pod, bytes("given back"), 10, 100, &room));
  TRY(tombolo_room_write(room, 90, bytes("0123456789"), 10));
  EXPECT(tombolo_room_write(room, 91, bytes("0123456789"), 10) == TOMBOLO_ERROR_OUTSIDE);
  tombolo_room_abandon(room);
  TRY(tombolo_reserve(pod, bytes("block"), 5, 100, &room));
  EXPECT(tombolo_room_publish_new(room, NULL) == TOMBOLO_ERROR_EXISTS);
  return 0;
}

int main(int arguments, char **argument) {
  if (tombolo_abi_version() != TOMBOLO_ABI_VERSION || arguments != 2) {
    fprintf(stderr, "usage: pod PATH, with the library of this header\n");
    return 1;
  }
  TomboloPodOptions options;
  TRY(tombolo_pod_options_init(&options));
  options.chunk_bytes = 2 * MEBIBYTE;
  options.rooms = 100;
  TRY(tombolo_pod_create(argument[1], 64 * MEBIBYTE, &options));
  TomboloPod *pod;
  TRY(tombolo_pod_join(argument[1], &pod));

  TRY(tombolo_put(pod, bytes("greeting"), 8, bytes("hello"), 5));
  EXPECT(tombolo_add(pod, bytes("greeting"), 8, bytes("again"), 5, NULL) == TOMBOLO_ERROR_EXISTS);
  uint8_t *value;
  size_t length;
  TRY(tombolo_get(pod, bytes("greeting"), 8, &value, &length));
  EXPECT(length == 5 && memcmp(value, "hello", 5) == 0);
  tombolo_value_free(value, length);
  uint8_t small[4];
  EXPECT(tombolo_get_into(pod, bytes("greeting"), 8, small, 4, &length) == TOMBOLO_ERROR_SHORT);
  EXPECT(length == 5);
  if (many(pod) != 0 || fill(pod) != 0) return 1;

  TomboloKeys *keys;
  TomboloBytes key;
  int count = 0;
  TRY(tombolo_keys(pod, NULL, 0, &keys));
  TomboloError next;
  while ((next = tombolo_keys_next(keys, &key)) == TOMBOLO_ERROR_OK) count++;
  EXPECT(next == TOMBOLO_ERROR_ABSENT && count == 4);
  tombolo_keys_free(keys);

  const char *names[64];
  uint64_t numbers[64];
  size_t known = tombolo_pod_stats(pod, names, numbers, 64);
  for (size_t at = 0; at < known && at < 64; at++)
    if (strcmp(names[at], "objects") == 0) printf("%llu objects\n", (unsigned long long)numbers[at]);
  void *address;
  TRY(tombolo_pod_mapping(pod, &address, &length));
  EXPECT(address != NULL && length >= 64 * MEBIBYTE);

  EXPECT(tombolo_put(NULL, bytes("key"), 3, NULL, 0) == TOMBOLO_ERROR_ARGUMENT);
  printf("as it should be: %s\n", tombolo_error_message());
  TRY(tombolo_pod_leave(pod));
  return 0;
}
