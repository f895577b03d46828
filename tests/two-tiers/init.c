// The first program of a virtual machine with two nodes of memory: sets up who moves pages, runs a
// program that knows nothing of it, and rings a bell, for counts.c, at its lines "begin" and "end".
//
// The kernel's command line has mode=none|kernel|damon|tombolo and load=redis|pagerank|sqlite.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BELL ((void *)0x133700000000ull)
#define DAMON "/sys/kernel/mm/damon/admin/kdamonds/"

static void put(const char *path, const char *text) {
  int file = open(path, O_WRONLY);
  if (file < 0 || write(file, text, strlen(text)) < 0)
    printf("cannot write %s to %s: %s\n", text, path, strerror(errno));
  if (file >= 0) close(file);
}

static void show(const char *path) {
  char text[512];
  int file = open(path, O_RDONLY);
  ssize_t count = file < 0 ? 0 : read(file, text, sizeof text);
  printf("%s: %.*s", path, (int)(count < 0 ? 0 : count), text);
  if (file >= 0) close(file);
}

// A number of a list such as /proc/vmstat or a node's meminfo: the word behind the name.
static long number(const char *path, const char *name) {
  char line[256], *found;
  long value = -1;
  FILE *file = fopen(path, "r");
  while (file && value < 0 && fgets(line, sizeof line, file))
    if ((found = strstr(line, name))) value = strtol(found + strlen(name), NULL, 10);
  if (file) fclose(file);
  return value;
}

// The word of the kernel's command line behind a name.
static const char *word(const char *name) {
  static char line[2048];
  int file = open("/proc/cmdline", O_RDONLY);
  ssize_t count = read(file, line, sizeof line - 1);
  close(file);
  line[count < 0 ? 0 : count] = 0;
  for (char *next = strtok(line, " \n"); next; next = strtok(NULL, " \n"))
    if (!strncmp(next, name, strlen(name))) return next + strlen(name);
  return "";
}

// One monitor for each node: what is hot on the far one goes up, what is cold on the near one down.
static void damon(void) {
  static const struct {
    const char *action, *target, *least, *most, *from, *until;
  } of[2] = {{"migrate_cold", "1", "0", "0", "10", "4294967295"},
             {"migrate_hot", "0", "5", "4294967295", "0", "4294967295"}};
  char path[256], text[64];
  unsigned long start[2] = {0}, end[2] = {0};
  FILE *file = fopen("/proc/iomem", "r");
  unsigned long from, to, split = strtoul(word("near="), NULL, 10) << 20;
  while (file && fgets(path, sizeof path, file))
    if (strstr(path, "System RAM") && sscanf(path, "%lx-%lx", &from, &to) == 2 && from >= 1 << 20) {
      int node = from >= split;
      if (!start[node]) start[node] = from;
      // The range of one node may go on into the other.
      if (!node && to >= split) {
        end[0] = split;
        start[1] = split;
        end[1] = to + 1;
      } else {
        end[node] = to + 1;
      }
    }
  if (file) fclose(file);
  put(DAMON "nr_kdamonds", "2");
  for (int node = 0; node < 2; node++) {
#define AT(rest) (snprintf(path, sizeof path, DAMON "%d/" rest, node), path)
#define SCHEME(rest) AT("contexts/0/schemes/0/" rest)
    put(AT("contexts/nr_contexts"), "1");
    put(AT("contexts/0/operations"), "paddr");
    put(AT("contexts/0/monitoring_attrs/intervals/sample_us"), "10000");
    put(AT("contexts/0/monitoring_attrs/intervals/aggr_us"), "200000");
    put(AT("contexts/0/monitoring_attrs/intervals/update_us"), "1000000");
    put(AT("contexts/0/monitoring_attrs/nr_regions/min"), "100");
    put(AT("contexts/0/monitoring_attrs/nr_regions/max"), "2000");
    put(AT("contexts/0/targets/nr_targets"), "1");
    put(AT("contexts/0/targets/0/regions/nr_regions"), "1");
    snprintf(text, sizeof text, "%lu", start[node]);
    put(AT("contexts/0/targets/0/regions/0/start"), text);
    snprintf(text, sizeof text, "%lu", end[node]);
    put(AT("contexts/0/targets/0/regions/0/end"), text);
    put(AT("contexts/0/schemes/nr_schemes"), "1");
    put(SCHEME("action"), of[node].action);
    put(SCHEME("target_nid"), of[node].target);
    put(SCHEME("access_pattern/sz/min"), "4096");
    put(SCHEME("access_pattern/sz/max"), "18446744073709551615");
    put(SCHEME("access_pattern/nr_accesses/min"), of[node].least);
    put(SCHEME("access_pattern/nr_accesses/max"), of[node].most);
    put(SCHEME("access_pattern/age/min"), of[node].from);
    put(SCHEME("access_pattern/age/max"), of[node].until);
    put(SCHEME("quotas/bytes"), "16777216");
    put(SCHEME("quotas/reset_interval_ms"), "1000");
    if (!node) {
      // Down only while the near node is nearly full.
      put(SCHEME("watermarks/metric"), "none");
    }
  }
  for (int node = 0; node < 2; node++) put(AT("state"), "on");
}

static void set_up(const char *mode) {
  put("/sys/kernel/mm/transparent_hugepage/enabled", "never");
  put("/proc/sys/vm/overcommit_memory", "1");
  if (!strcmp(mode, "kernel")) {
    put("/sys/kernel/debug/sched/numa_balancing/scan_delay_ms", "100");
    put("/sys/kernel/debug/sched/numa_balancing/scan_period_min_ms", "100");
    put("/sys/kernel/debug/sched/numa_balancing/scan_period_max_ms", "200");
    put("/sys/kernel/mm/numa/demotion_enabled", "1");
    put("/proc/sys/kernel/numa_balancing", "2");
  } else {
    put("/proc/sys/kernel/numa_balancing", "0");
    if (!strcmp(mode, "damon")) damon();
  }
}

// Starts a program; its output comes from the descriptor, line by line as from a terminal.
static pid_t start(char *const *program, char *const *environment, int *output) {
  pid_t child = output ? forkpty(output, NULL, NULL, NULL) : fork();
  if (child == 0) {
    execve(program[0], program, environment);
    printf("cannot run %s: %s\n", program[0], strerror(errno));
    _exit(127);
  }
  return child;
}

static void follow(int output, volatile char *bell) {
  FILE *lines = fdopen(output, "r");
  char line[512];
  while (fgets(line, sizeof line, lines)) {
    if (!strncmp(line, "begin", 5)) bell[0] = 1;
    if (!strncmp(line, "end", 3)) {
      bell[1] = 1;
      return;
    }
    printf("> %s", line);
  }
}

static void show_tiers(pid_t process) {
  char path[64];
  snprintf(path, sizeof path, "/dev/shm/tombolo-tier.%d", process);
  char line[256];
  FILE *file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file)) printf("TIER %s", line);
  if (file) fclose(file);
}

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  static const char *const mounts[][2] = {{"/proc", "proc"},         {"/sys", "sysfs"},
                                          {"/sys/kernel/debug", "debugfs"}, {"/dev", "devtmpfs"},
                                          {"/dev/pts", "devpts"},    {"/dev/shm", "tmpfs"},
                                          {"/tmp", "tmpfs"}};
  for (size_t at = 0; at < sizeof mounts / sizeof *mounts; at++) {
    mkdir(mounts[at][0], 0755);
    if (mount(mounts[at][1], mounts[at][0], mounts[at][1], 0, NULL))
      printf("cannot mount %s: %s\n", mounts[at][0], strerror(errno));
  }
  char mode[32], load[32], tiers[128];
  snprintf(mode, sizeof mode, "%s", word("mode="));
  snprintf(load, sizeof load, "%s", word("load="));
  show("/sys/devices/virtual/memory_tiering/memory_tier4/nodelist");
  set_up(mode);
  volatile char *bell = mmap(BELL, 4096, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  bell[2] = 0;
  long free_near = number("/sys/devices/system/node/node0/meminfo", "MemFree:");
  printf("FREE %ld\n", free_near);
  // The kernel keeps some of the near node for itself; the others do not get at that either.
  snprintf(tiers, sizeof tiers, "TOMBOLO_TIER=0 1 %ld nomad", (free_near - 8192) * 1024);
  int is_ours = !strcmp(mode, "tombolo");
  char *plain[] = {"PATH=/bin", "LD_PRELOAD=/lib/libjemalloc.so.2", NULL};
  char *tiered[] = {"PATH=/bin", "LD_PRELOAD=/lib/libtombolo_preload.so /lib/libjemalloc.so.2",
                    tiers, NULL};
  char *const *environment = is_ours ? tiered : plain;
  int output = -1;
  pid_t measured;
  if (!strcmp(load, "redis")) {
    char *server[] = {"/bin/redis-server", "--unixsocket", "/tmp/redis", "--port", "0", "--save", "",
                      "--logfile", "/tmp/log", NULL};
    char *client[] = {"/bin/ycsb", "/tmp/redis", NULL};
    measured = start(server, environment, NULL);
    start(client, plain + 2, &output);
  } else {
    char *pagerank[] = {"/bin/pagerank", NULL};
    char *sqlite[] = {"/bin/sqlite3", ":memory:", ".read /bin/queries.sql", NULL};
    measured = start(!strcmp(load, "sqlite") ? sqlite : pagerank, environment, &output);
  }
  follow(output, bell);
  static const char *const counts[] = {"pgpromote_success ", "pgdemote_kswapd ", "pgmigrate_success "};
  for (size_t at = 0; at < sizeof counts / sizeof *counts; at++)
    printf("VMSTAT %s%ld\n", counts[at], number("/proc/vmstat", counts[at]));
  char statm[64];
  snprintf(statm, sizeof statm, "/proc/%d/status", measured);
  printf("RSS %ld\n", number(statm, "VmRSS:"));
  if (is_ours) show_tiers(measured);
  printf("DONE\n");
  kill(-1, SIGKILL);
  sync();
  reboot(RB_POWER_OFF);
  for (;;) pause();
}
