#include "data/stories/tale.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

/* One walk through the grammar's program writes and reads. To write, a choice is drawn.
 * To read, every alternative is tried on the text ahead, through whatever may follow it,
 * and exactly one must fit: first for NEAR bytes, then, where that leaves several,
 * for FAR. An alternative that does not fit derives no story that goes on with this text,
 * so what is left is the only derivation, and its probability is the text's.
 */
enum { NEAR = 24, FAR = 120 };

/* What follows the rule that is walked. */
struct frame {
    int                 next;
    const struct frame *up;
};

/* May the alternative at this node be taken now? Its guards stand at its head. */
static bool allowed(struct tale *t, const struct node *node)
{
    for (;; node++) {
        if (node->op == ONCE && t->world.happened >> (node->letter - 'A') & 1)
            return false;
        if (node->op == NEED && *tale_cell(t, node) < 0)
            return false;
        if (node->op != ONCE && node->op != NEED)
            return true;
    }
}

static bool walk(struct tale *t, int i, const struct frame *up);

static bool fits(const struct tale *t, int i, const struct frame *up, size_t horizon)
{
    const struct node *first = &t->program[i];

    if (first->op == TEXT && !t->fault && !tale_next(t, first->text, (size_t)first->n))
        return false;
    struct tale ahead = *t;

    ahead.mode = TRY;
    ahead.horizon = horizon;
    return walk(&ahead, i, up);
}

/* The one alternative that fits, or -1. */
static int find_alternative(struct tale *t, const struct node *choice, const int *weights,
                            const struct frame *up)
{
    int found = -1, count = 0;

    for (size_t ahead = NEAR; ahead <= FAR && count != 1; ahead += FAR - NEAR) {
        count = 0;
        for (int a = 0; a < choice->n; a++)
            if (weights[a] && fits(t, choice[1 + a].to, up, t->at + ahead))
                found = a, count++;
        if (!count)
            return -1;
    }
    if (count > 1 && t->fault)
        *t->fault = (struct story_fault){t->at, false, "this can be read in two ways"};
    return count == 1 ? found : -1;
}

/* The node to go on with, or -1. */
static int choose(struct tale *t, const struct node *choice, const struct frame *up)
{
    int weights[MAX_ALTERNATIVES], total = 0, n = choice->n;

    for (int a = 0; a < n; a++) {
        weights[a] = allowed(t, &t->program[choice[1 + a].to]) ? choice[1 + a].n : 0;
        total += weights[a];
    }
    if (t->mode == TRY) {
        for (int a = 0; a < n; a++)
            if (weights[a] && fits(t, choice[1 + a].to, up, t->horizon))
                return choice[1 + a].to;
        return -1;
    }
    int a = t->mode == WRITE ? tale_draw(t, weights, n, total)
                             : find_alternative(t, choice, weights, up);

    if (a < 0)
        return -1;
    tale_spend(t, weights[a], total);
    return choice[1 + a].to;
}

/* Go through the program from node i, then through the frames, to the end of
 * the story. */
static bool walk(struct tale *t, int i, const struct frame *up)
{
    bool ok = true;

    for (; ok && (t->mode != TRY || t->at < t->horizon); i++) {
        const struct node *node = &t->program[i];

        switch (node->op) {
        case TEXT:
            ok = tale_text(t, node->text, (size_t)node->n);
            break;
        case CHOICE:
            i = choose(t, node, up) - 1;
            if (i < -1 || t->mode == TRY)
                return i >= -1;
            break;
        case GOTO:
            i = node->to - 1;
            break;
        case CALL: {
            struct frame after = {i + 1, up};

            return walk(t, node->to, &after);
        }
        case RECALL:
            ok = tale_recall(t, node);
            break;
        case LEARN:
            ok = tale_learn(t, node);
            break;
        case APPOINT:
            ok = tale_appoint(t, node);
            break;
        case COPY:
            tale_copy(t, node);
            break;
        case ONCE:
            t->world.happened |= UINT64_C(1) << (node->letter - 'A');
            break;
        case END:
            if (!up)
                return tale_end(t);
            i = up->next - 1;
            up = up->up;
            break;
        default:
            break;
        }
    }
    return ok;
}

static bool tell(struct tale *t, double *bits)
{
    t->program = story_program();
    memset(t->world.cell, -1, sizeof t->world.cell);
    t->p = 1;
    bool ok = t->program && walk(t, 0, NULL);

    *bits = t->bits - log2(t->p);
    return ok;
}

size_t story_write(struct rng *r, char *buf, size_t cap, double *bits)
{
    struct tale t = {.mode = WRITE, .rng = r, .out = buf, .cap = cap};

    return tell(&t, bits) ? t.at : 0;
}

static size_t without_newline(const char *text, size_t len)
{
    return len && text[len - 1] == '\n' ? len - 1 : len;
}

int story_check(const char *text, size_t len, double *bits, struct story_fault *fault)
{
    if (stories_floor(text, len, bits))
        return 1;
    size_t      reach = 0;
    struct tale t = {.mode = READ, .text = text, .cap = without_newline(text, len),
                     .reach = &reach, .fault = fault};

    *fault = (struct story_fault){0};
    tell(&t, bits);
    return 0;
}

int stories_floor(const char *text, size_t len, double *bits)
{
    struct tale t = {.mode = READ, .text = text, .cap = without_newline(text, len)};

    return tell(&t, bits);
}

/* ---- names ---- */

/* The name that is the word at the head of n bytes, or -1; *len is its length. */
static int name_at(const char *s, size_t n, size_t *len)
{
    const struct class *names = &story_classes[NAME];

    for (int v = 0; v < names->n; v++) {
        *len = strlen(names->words[v].text);
        if (*len <= n && !memcmp(s, names->words[v].text, *len) &&
            (*len == n || !isalpha((unsigned char)s[*len])))
            return v;
    }
    return -1;
}

/* Is this what follows the name of somebody new? */
static bool introduces(const char *s, size_t n)
{
    static const char *const ways[] = {", a ", ", an ", " came by, a"};

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strlen(ways[i]) <= n && !memcmp(s, ways[i], strlen(ways[i])))
            return true;
    return false;
}

struct story_names story_names(const char *text, size_t len)
{
    struct story_names count = {0};
    const char        *line = memchr(text, '\n', len);
    size_t             opening = line ? (size_t)(line - text) : len, n;
    uint64_t           said = 0;

    for (size_t at = 0; at < len; at++) {
        int v = at && isalpha((unsigned char)text[at - 1])
                    ? -1 : name_at(text + at, len - at, &n);

        if (v < 0)
            continue;
        bool known = said >> v & 1;

        said |= UINT64_C(1) << v;
        at += n - 1;
        if (at < opening || (!known && introduces(text + at + 1, len - at - 1)))
            continue;
        count.all++;
        count.known += known;
    }
    return count;
}
