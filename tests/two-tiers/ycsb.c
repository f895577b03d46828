// YCSB's workload A against a Redis server: records of ten fields of 100 bytes, half of the
// operations read a record, half write one field, and keys are chosen by scrambled Zipf (0.99).
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define RECORDS 26000ul
#define WARM_UP 50000ul
#define MEASURED 12000ul
#define THETA 0.99

static uint64_t state = 88172645463325252ull;
static double zeta, eta, half;
static FILE *to, *from;

static double uniform(void) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (state >> 11) / 9007199254740992.0;
}

static uint64_t scrambled(uint64_t value) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (int byte = 0; byte < 8; byte++, value >>= 8) hash = (hash ^ (value & 255)) * 1099511628211ull;
  return hash % RECORDS;
}

static uint64_t zipf(void) {
  double u = uniform(), scaled = u * zeta;
  if (scaled < 1) return scrambled(0);
  if (scaled < 1 + half) return scrambled(1);
  return scrambled((uint64_t)(RECORDS * pow(eta * u - eta + 1, 1 / (1 - THETA))));
}

static const char *field(void) {
  static char text[101];
  for (int at = 0; at < 100; at++) text[at] = 'a' + (int)(uniform() * 26);
  return text;
}

// One reply, whatever it is: a line, or a string, or a list of replies.
static void reply(void) {
  char line[64];
  if (!fgets(line, sizeof line, from) || line[0] == '-') {
    printf("the server says: %s\n", line);
    exit(1);
  }
  long count = atol(line + 1);
  if (line[0] == '$')
    for (count += 2; count > 0; count--) getc(from);
  if (line[0] == '*')
    while (count-- > 0) reply();
}

static void operate(uint64_t operations) {
  for (uint64_t at = 0; at < operations; at++) {
    uint64_t key = zipf();
    if (uniform() < 0.5) fprintf(to, "HGETALL user%lu\r\n", key);
    else fprintf(to, "HSET user%lu field%d %s\r\n", key, (int)(uniform() * 10), field());
    fflush(to);
    reply();
  }
}

int main(int count, char **arguments) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, arguments[count - 1], sizeof address.sun_path - 1);
  int server = socket(AF_UNIX, SOCK_STREAM, 0);
  for (int tries = 0; connect(server, (void *)&address, sizeof address); tries++) {
    if (tries == 600) return puts("there is no server"), 1;
    usleep(100000);
  }
  to = fdopen(server, "w"), from = fdopen(dup(server), "r");
  for (uint64_t at = 1; at <= RECORDS; at++) zeta += 1 / pow(at, THETA);
  half = pow(0.5, THETA);
  eta = (1 - pow(2.0 / RECORDS, 1 - THETA)) / (1 - (1 + half) / zeta);
  for (uint64_t key = 0; key < RECORDS; key++) {
    fprintf(to, "HSET user%lu", key);
    for (int at = 0; at < 10; at++) fprintf(to, " field%d %s", at, field());
    fprintf(to, "\r\n"), fflush(to), reply();
  }
  puts("loaded"), fflush(stdout);
  operate(WARM_UP);
  puts("begin"), fflush(stdout);
  operate(MEASURED);
  puts("end"), fflush(stdout);
  pause();
}
