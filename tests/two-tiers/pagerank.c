// PageRank of a random graph whose degrees follow a power law. First comes the list of edges, then
// the graph is built of it, and the list is given up: so what is used most was allocated last.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t state = 88172645463325252ull;

static uint32_t next(void) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state >> 32;
}

// Most edges come from few vertices, which lie anywhere.
static uint32_t vertex(uint32_t vertices) {
  double u = next() / 4294967296.0;
  return (uint32_t)(u * u * u * vertices) * 2654435761u & (vertices - 1);
}

int main(int count, char **arguments) {
  uint32_t vertices = 1u << (count > 1 ? atoi(arguments[1]) : 18), edges = vertices * 16;
  int rounds = count > 2 ? atoi(arguments[2]) : 12;
  uint32_t *list = malloc(8ul * edges), *first = calloc(vertices + 2, 4);
  for (uint32_t edge = 0; edge < edges; edge++) {
    list[2 * edge] = vertex(vertices);
    list[2 * edge + 1] = next() & (vertices - 1);
    first[list[2 * edge + 1] + 2]++;
  }
  for (uint32_t at = 0; at < vertices; at++) first[at + 2] += first[at + 1];
  uint32_t *from = malloc(4ul * edges), *degree = calloc(vertices, 4);
  for (uint32_t edge = 0; edge < edges; edge++) {
    from[first[list[2 * edge + 1] + 1]++] = list[2 * edge];
    degree[list[2 * edge]]++;
  }
  double *rank = malloc(8ul * vertices), *share = malloc(8ul * vertices);
  for (uint32_t at = 0; at < vertices; at++) rank[at] = share[at] = 1.0 / vertices;
  free(list);
  for (int round = 0; round < rounds; round++) {
    if (round == rounds - 3) puts("begin");
    for (uint32_t at = 0; at < vertices; at++) share[at] = degree[at] ? rank[at] / degree[at] : 0;
    for (uint32_t at = 0; at < vertices; at++) {
      double sum = 0;
      for (uint32_t edge = first[at]; edge < first[at + 1]; edge++) sum += share[from[edge]];
      rank[at] = 0.15 / vertices + 0.85 * sum;
    }
  }
  puts("end");
  double sum = 0;
  for (uint32_t at = 0; at < vertices; at++) sum += rank[at] * (at % 7 + 1);
  printf("%.9f\n", sum);
}
