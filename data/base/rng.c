#include "data/base/rng.h"

#include <math.h>

/* The finaliser of splitmix64: a bijection of 64 bits that passes for random. */
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static const uint64_t golden = 0x9e3779b97f4a7c15u;

struct rng rng_open(uint64_t seed, enum rng_purpose purpose, uint64_t step)
{
    uint64_t key = mix(seed + golden);

    key = mix(key ^ ((uint64_t)purpose + 1) * 0xd1342543de82ef95u);
    key = mix(key ^ (step + 1) * 0xaf251af3b0f025b5u);
    return (struct rng){key, 0};
}

/* Draw i of the stream: two rounds, so that nearby keys and counters do not line up. */
static uint64_t draw(uint64_t key, uint64_t i)
{
    return mix(mix(key + i * golden) ^ key);
}

uint64_t rng_next(struct rng *r)
{
    return draw(r->key, ++r->counter);
}

void rng_fill(struct rng *r, uint64_t *to, int n)
{
    const uint64_t key = r->key, first = r->counter;

    for (int i = 0; i < n; i++)
        to[i] = draw(key, first + 1 + (uint64_t)i);
    r->counter += (uint64_t)n;
}

double rng_uniform(struct rng *r)
{
    return (double)(rng_next(r) >> 11) * 0x1p-53;
}

/* Box and Muller's transform; 1 - u keeps the logarithm finite. */
double rng_normal(struct rng *r)
{
    double radius = sqrt(-2 * log(1 - rng_uniform(r)));

    return radius * cos(6.283185307179586 * rng_uniform(r));
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
    uint64_t limit = UINT64_MAX - UINT64_MAX % n, x;

    do
        x = rng_next(r);
    while (x >= limit);
    return x % n;
}

/* Twelve Feistel rounds (fewer show at small n) over 2 * half bits, the smallest even
 * number that holds n - 1. A value at or above n is put through again: the walk stays
 * inside one cycle, so it is a permutation. */
uint64_t rng_permute(const struct rng *r, uint64_t i, uint64_t n)
{
    int half = 1;

    while (half < 32 && (n - 1) >> (2 * half))
        half++;
    uint64_t mask = (UINT64_C(1) << half) - 1;

    do {
        uint64_t left = i >> half, right = i & mask;

        for (uint64_t round = 0; round < 12; round++) {
            uint64_t next = left ^ (draw(r->key + round, right) & mask);

            left = right;
            right = next;
        }
        i = left << half | right;
    } while (i >= n);
    return i;
}
