// The first program of a virtual machine that shares a PCI device's memory with another machine:
// runs tombolo's commands on that memory, and says what they say.
//
// The kernel's command line has host=a|b. Host a also tries to create pods there.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEVICES "/sys/bus/pci/devices/"
// Inter-VM shared memory, as QEMU has it.
#define VENDOR "0x1af4"
#define DEVICE "0x1110"

static int is(const char *device, const char *name, const char *wanted) {
  char path[300], text[16] = "";
  snprintf(path, sizeof path, DEVICES "%s/%s", device, name);
  int file = open(path, O_RDONLY);
  if (file < 0 || read(file, text, sizeof text - 1) < 0) return 0;
  close(file);
  return !strncmp(text, wanted, strlen(wanted));
}

// The file of the shared memory, which is switched on.
static const char *memory(void) {
  static char path[300];
  DIR *devices = opendir(DEVICES);
  for (struct dirent *entry; devices && (entry = readdir(devices));) {
    if (!is(entry->d_name, "vendor", VENDOR) || !is(entry->d_name, "device", DEVICE)) continue;
    snprintf(path, sizeof path, DEVICES "%s/enable", entry->d_name);
    int file = open(path, O_WRONLY);
    if (file < 0 || write(file, "1", 1) != 1) printf("cannot enable it: %s\n", strerror(errno));
    close(file);
    snprintf(path, sizeof path, DEVICES "%s/resource2", entry->d_name);
    return path;
  }
  return "none";
}

// Runs a command; its exit code follows what it says, under its name.
static void run(const char *name, char *const *words) {
  printf("BEGIN %s\n", name);
  pid_t child = fork();
  if (child == 0) {
    dup2(1, 2);
    execv(words[0], words);
    printf("cannot run %s: %s\n", words[0], strerror(errno));
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  printf("END %s %d\n", name, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  static const char *const mounts[][2] = {{"/proc", "proc"}, {"/sys", "sysfs"}, {"/dev", "devtmpfs"}};
  for (size_t at = 0; at < sizeof mounts / sizeof *mounts; at++) {
    mkdir(mounts[at][0], 0755);
    if (mount(mounts[at][1], mounts[at][0], mounts[at][1], 0, NULL))
      printf("cannot mount %s: %s\n", mounts[at][0], strerror(errno));
  }
  char line[1024] = "";
  int file = open("/proc/cmdline", O_RDONLY);
  if (file < 0 || read(file, line, sizeof line - 1) < 0) printf("cannot read the command line\n");
  char *host = strstr(line, "host=b") ? "b" : "a", *path = (char *)memory();
  char *qualify[] = {"/bin/tombolo", "qualify", path,       "--host", host, "--within",
                     "240",          "--format", "json", NULL};
  run("qualify", qualify);
  if (*host == 'a') {
    char *create[] = {"/bin/tombolo", "pod", "create", path, "--scr", "1MiB", NULL};
    run("create", create);
    char *trust[] = {"/bin/tombolo", "pod",     "create",      path,
                     "--force",      "--scr", "1MiB", "--trust-me", NULL};
    run("trust", trust);
    char *info[] = {"/bin/tombolo", "pod", "info", path, NULL};
    run("info", info);
  }
  printf("DONE\n");
  sync();
  reboot(RB_POWER_OFF);
  for (;;) pause();
}
