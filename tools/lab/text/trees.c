#include "tools/lab/text/trees.h"

static int median(const int *v, int n)
{
    int count[10] = {0}, low = -1, seen = 0;

    for (int i = 0; i < n; i++)
        count[v[i]]++;
    for (int x = 0; x < 10; x++) {
        seen += count[x];
        if (low < 0 && 2 * seen >= n)
            low = x;
        if (2 * seen > n)
            return (low + x) / 2;
    }
    return low;
}

static int apply(int op, const int *v, int n)
{
    int low = v[0], high = v[0], sum = 0;

    for (int i = 0; i < n; i++) {
        low = v[i] < low ? v[i] : low;
        high = v[i] > high ? v[i] : high;
        sum += v[i];
    }
    if (op == TREE_MED)
        return median(v, n);
    return op == TREE_MIN ? low : op == TREE_MAX ? high : sum % 10;
}

static void push(struct tree *t, int token, int value)
{
    if (t->n < TREE_LONGEST) {
        t->token[t->n] = (uint8_t)token;
        t->value[t->n] = (int8_t)value;
    }
    t->n++;
}

/* Append tree(depth); returns its value. A tree too long for t goes on counting in n. */
static int grow(const struct tree_form *f, struct rng *r, struct tree *t, int depth)
{
    int v[TREE_ARGS], op, n, value;

    if (depth >= f->depth || rng_uniform(r) >= 0.25) {
        value = (int)rng_below(r, 10);
        push(t, value, -1);
        return value;
    }
    op = TREE_MIN + (int)rng_below(r, 4);
    n = 2 + (int)rng_below(r, f->args - 1);
    push(t, op, -1);
    for (int i = 0; i < n; i++)
        v[i] = grow(f, r, t, depth + 1);
    value = apply(op, v, n);
    push(t, TREE_END, value);
    return value;
}

long tree_draw(const struct tree_form *f, struct rng *r, struct tree *t)
{
    long draws = 0;

    do {
        t->n = 0;
        grow(f, r, t, 1);
        draws++;
    } while (t->n <= f->min || t->n >= f->max);
    return draws;
}

void tree_fill(const void *user, struct rng *r, int T, int32_t *tokens, int32_t *targets)
{
    const struct tree_task *k = user;
    struct tree             t;

    tree_draw(&k->form, r, &t);
    for (int i = 0; i < T; i++) {
        bool wanted = i < t.n && (k->every || i == t.n - 1);

        tokens[i] = i < t.n ? t.token[i] : TREE_PAD;
        targets[i] = wanted ? t.value[i] : -1;
    }
}

/* ---- what can be guessed ---------------------------------------------------------- */

enum { OPS = 4, MISSED = 4 };
enum { SEEN = 11 };             // what the digits give, or that there are none

struct counts {
    long value[10], root[OPS][10], digits[OPS][SEEN][MISSED][10], every[OPS][10];
};

struct look {
    int op, seen, missed;
};

/* What the root shows without looking into its subtrees. */
static struct look look_at(const struct tree *t)
{
    struct look l = {t->token[0] - TREE_MIN, SEEN - 1, 0};
    int         v[TREE_ARGS], n = 0, depth = 0, missed = 0;

    for (int i = 1; i < t->n - 1; i++) {
        bool opens = t->token[i] >= TREE_MIN && t->token[i] < TREE_END;

        if (!depth && t->token[i] < TREE_MIN)
            v[n++] = t->token[i];
        missed += opens && !depth;
        depth += opens - (t->token[i] == TREE_END);
    }
    if (n)
        l.seen = apply(t->token[0], v, n);
    l.missed = missed < MISSED ? missed : MISSED - 1;
    return l;
}

/* op[i] = the operator, from 0, of the subtree that ends at i, wherever one does. */
static void operators(const struct tree *t, int *op)
{
    int open[TREE_LONGEST], depth = 0;

    for (int i = 0; i < t->n; i++)
        if (t->token[i] == TREE_END)
            op[i] = open[--depth];
        else if (t->token[i] >= TREE_MIN)
            open[depth++] = t->token[i] - TREE_MIN;
}

static int commonest(const long *count)
{
    int best = 0;

    for (int x = 1; x < 10; x++)
        best = count[x] > count[best] ? x : best;
    return best;
}

static void learn(struct counts *c, const struct tree *t)
{
    struct look l = look_at(t);
    int         y = tree_value(t), op[TREE_LONGEST];

    c->value[y]++;
    c->root[l.op][y]++;
    c->digits[l.op][l.seen][l.missed][y]++;
    operators(t, op);
    for (int i = 0; i < t->n; i++)
        if (t->value[i] >= 0)
            c->every[op[i]][t->value[i]]++;
}

/* The share of t's subtrees whose value is the commonest of their operator's. */
static double guess_every(const struct counts *c, const struct tree *t)
{
    int op[TREE_LONGEST], asked = 0, right = 0;

    operators(t, op);
    for (int i = 0; i < t->n; i++)
        if (t->value[i] >= 0)
            asked++, right += commonest(c->every[op[i]]) == t->value[i];
    return (double)right / asked;
}

struct tree_baselines tree_guess(const struct tree_form *f, uint64_t seed, int samples)
{
    struct rng            r = rng_open(seed, RNG_LAB, 0);
    struct tree_baselines b = {0};
    struct counts         c = {0};
    struct tree           t;
    long                  draws = 0;

    for (int i = 0; i < samples; i++) {
        draws += tree_draw(f, &r, &t);
        learn(&c, &t);
    }
    for (int i = 0; i < samples; i++) {
        tree_draw(f, &r, &t);
        struct look l = look_at(&t);
        int         y = tree_value(&t);

        b.majority += commonest(c.value) == y;
        b.root += commonest(c.root[l.op]) == y;
        b.digits += commonest(c.digits[l.op][l.seen][l.missed]) == y;
        b.every += guess_every(&c, &t);
    }
    b.majority /= samples, b.root /= samples, b.digits /= samples, b.every /= samples;
    b.kept = (double)samples / (double)draws;
    return b;
}
