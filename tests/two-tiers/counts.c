// A plugin of QEMU (TCG): counts, for each NUMA node, the cache lines that programs of the guest
// miss in a small model cache, between two stores to a page that init has at a fixed address.
//
// The cache is physically indexed and direct mapped, and holds 512 KiB. Only accesses of user
// space count. All of them do, those of the client that drives a server included.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef uint64_t plugin_id;
typedef uint32_t memory_info;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id,
                                           void (*)(plugin_id, struct qemu_plugin_tb *));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *,
                                      void (*)(unsigned, memory_info, uint64_t, void *), int, int,
                                      void *);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(memory_info, uint64_t);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *);
bool qemu_plugin_mem_is_store(memory_info);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;

// As init.c has it: a store to the first byte begins, one to the second ends.
#define BELL 0x133700000000ull
#define LINES (1u << 13)
#define NO_REGISTERS 0
#define READS_AND_WRITES 3

static uint64_t far_from, misses[2], tags[LINES];
static bool is_counting;

static void access(unsigned processor, memory_info info, uint64_t address, void *unused) {
  (void)processor, (void)unused;
  if ((address & ~1ull) == BELL && qemu_plugin_mem_is_store(info)) {
    is_counting = address == BELL;
    if (is_counting) {
      misses[0] = misses[1] = 0;
    } else {
      fprintf(stderr, "\nMISSES %lu %lu\n", misses[0], misses[1]);
      fflush(stderr);
    }
    return;
  }
  if (!is_counting) return;
  struct qemu_plugin_hwaddr *where = qemu_plugin_get_hwaddr(info, address);
  if (!where || qemu_plugin_hwaddr_is_io(where)) return;
  uint64_t physical = qemu_plugin_hwaddr_phys_addr(where), line = physical >> 6;
  if (tags[line % LINES] == line) return;
  tags[line % LINES] = line;
  misses[physical >= far_from]++;
}

static void translated(plugin_id id, struct qemu_plugin_tb *block) {
  (void)id;
  if (qemu_plugin_tb_vaddr(block) >> 47) return; // the kernel's
  size_t count = qemu_plugin_tb_n_insns(block);
  for (size_t at = 0; at < count; at++) {
    qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(block, at), access, NO_REGISTERS,
                                     READS_AND_WRITES, NULL);
  }
}

// Its argument, far=MIB, says where the far node begins.
EXPORT int qemu_plugin_install(plugin_id id, const void *info, int count, char **arguments) {
  (void)info;
  unsigned long mebibytes;
  if (count != 1 || sscanf(arguments[0], "far=%lu", &mebibytes) != 1) return 1;
  far_from = (uint64_t)mebibytes << 20;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  return 0;
}
