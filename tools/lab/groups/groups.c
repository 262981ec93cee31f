#include "tools/lab/groups/groups.h"

#include <string.h>

enum { LETTERS = 5 };

static const struct kind {
    const char *name;
    int         letters;
    bool        even;           // only the even permutations
} kinds[] = {
    {"parity", 2, false}, {"z3", 3, true}, {"s3", 3, false}, {"a5", 5, true},
};

static bool is_even(const uint8_t *p, int n)
{
    int inversions = 0;

    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++)
            inversions += p[i] > p[j];
    return inversions % 2 == 0;
}

/* The next permutation in lexicographic order; false after the last. */
static bool advance(uint8_t *p, int n)
{
    int i = n - 2, j = n - 1;

    while (i >= 0 && p[i] > p[i + 1])
        i--;
    if (i < 0)
        return false;
    while (p[j] < p[i])
        j--;
    uint8_t swap = p[i];
    p[i] = p[j], p[j] = swap;
    for (int a = i + 1, b = n - 1; a < b; a++, b--)
        swap = p[a], p[a] = p[b], p[b] = swap;
    return true;
}

/* The elements in lexicographic order, so that the neutral one comes first. */
static int list(uint8_t (*element)[LETTERS], const struct kind *k)
{
    uint8_t p[LETTERS] = {0, 1, 2, 3, 4};
    int     count = 0;

    do
        if (!k->even || is_even(p, k->letters))
            memcpy(element[count++], p, LETTERS);
    while (advance(p, k->letters));
    return count;
}

static int find(uint8_t (*element)[LETTERS], const uint8_t *p, int letters)
{
    int i = 0;

    while (memcmp(element[i], p, letters))
        i++;
    return i;
}

static void fill_products(struct group *g, uint8_t (*element)[LETTERS])
{
    uint8_t both[LETTERS];

    for (int a = 0; a < g->order; a++)
        for (int b = 0; b < g->order; b++) {
            for (int i = 0; i < g->letters; i++)
                both[i] = element[b][element[a][i]];
            g->product[a][b] = (uint8_t)find(element, both, g->letters);
        }
}

/* in[c]: c = a b (b a)^-1 for some a and b. */
static void mark_commutators(const struct group *g, bool *in)
{
    for (int a = 0; a < g->order; a++)
        for (int b = 0; b < g->order; b++)
            for (int c = 0; c < g->order; c++)
                in[c] |= g->product[c][g->product[b][a]] == g->product[a][b];
}

/* The group's order over that of what its commutators generate. */
static int abelian(const struct group *g)
{
    bool in[GROUP_MAX] = {false};
    int  count = 0, before;

    mark_commutators(g, in);
    do {
        before = count;
        for (int a = 0; a < g->order; a++)
            for (int b = 0; b < g->order; b++)
                in[g->product[a][b]] |= in[a] && in[b];
        count = 0;
        for (int a = 0; a < g->order; a++)
            count += in[a];
    } while (count > before);
    return g->order / (count ? count : 1);      // the identity is always in
}

bool group_make(struct group *g, const char *name)
{
    uint8_t element[GROUP_MAX][LETTERS];

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, name)) {
            *g = (struct group){.name = kinds[i].name, .letters = kinds[i].letters};
            g->order = list(element, &kinds[i]);
            fill_products(g, element);
            g->abelian = abelian(g);
            return true;
        }
    return false;
}

void group_fill(const void *user, struct rng *r, int T, int32_t *tokens, int32_t *targets)
{
    const struct group *g = user;
    int                 sofar = 0;

    tokens[0] = g->order;
    targets[0] = -1;
    for (int t = 1; t < T; t++) {
        tokens[t] = (int32_t)rng_below(r, g->order);
        sofar = g->product[sofar][tokens[t]];
        targets[t] = sofar;
    }
}
