#include "data/stories/tale.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void tale_spend(struct tale *t, int weight, int total)
{
    t->p *= (double)weight / total;
    if (t->p < 0x1p-500) {
        t->bits -= log2(t->p);
        t->p = 1;
    }
}

bool tale_next(const struct tale *t, const char *s, size_t n)
{
    return n <= t->cap - t->at && !memcmp(t->text + t->at, s, n);
}

/* ---- why a text does not fit ---- */

/* The fault to fill in when an attempt that came to `reach` came farthest yet,
 * or NULL. */
static struct story_fault *farthest(struct tale *t, size_t at, size_t reach, bool fact)
{
    if (!t->fault || reach < *t->reach)
        return NULL;
    *t->reach = reach + 1;
    *t->fault = (struct story_fault){.at = at, .fact = fact};
    return t->fault;
}

static bool blame_text(struct tale *t, const char *s, size_t n)
{
    size_t same = 0;

    while (same < n && t->at + same < t->cap && t->text[t->at + same] == s[same])
        same++;
    size_t              at = t->at + same;
    struct story_fault *f = farthest(t, at, at, false);

    if (f)
        snprintf(f->what, sizeof f->what, "%s \"%.*s\"", at == t->cap ?
                 "the text ends before" : "expected", (int)(n - same), s + same);
    return false;
}

/* The text goes on with `wrong` where the world has `right`. */
static void blame_fact(struct tale *t, const struct node *node, const char *right,
                       const char *wrong)
{
    const struct form  *whole = story_form(node->letter, "", 0);
    struct story_fault *f = farthest(t, t->at, t->at + strlen(wrong), true);
    char                who = story_alias(&t->world, node->letter), subject[STORY_WORD];

    if (!f)
        return;
    if (node->form->truth && who &&
        story_word(&t->world, who, whole, t->world.cell[who - 'A'][MAIN], subject))
        snprintf(f->what, sizeof f->what, node->form->truth, subject, right, wrong);
    else
        snprintf(f->what, sizeof f->what, "it is %s, not %s", right, wrong);
}

/* A word that is not the right one: another of its class contradicts a fact. A thing may
 * also differ in how it looks. */
static bool blame_word(struct tale *t, const struct node *node, const char *right,
                       size_t n)
{
    const struct form *f = node->form;
    struct world       other = t->world;
    bool               whole = f->style == WHOLE || f->style == CAPITAL_WHOLE;
    int                words = f->style == NAMED ? 4 : story_classes[f->class].n;
    int                looks = whole ? story_classes[ADJECTIVE].n : 1;
    char               wrong[STORY_WORD];

    for (int i = 0; t->fault && i < words * looks; i++) {
        if (whole)
            other.cell[node->letter - 'A'][MANNER] = (int8_t)(i / words);
        size_t len = (size_t)story_word(&other, node->letter, f, i % words, wrong);

        if (len && tale_next(t, wrong, len))
            blame_fact(t, node, right, wrong);
    }
    return blame_text(t, right, n);
}

/* The text names a character who cannot be meant, or (found < 0) none of the story's. */
static bool blame_character(struct tale *t, const struct node *node, int found)
{
    char word[STORY_WORD] = "";
    int  n = t->fault && found < 0 ? story_classes[node->form->class].n : 0, v = 0;

    for (; v < n; v++) {
        int len = story_word(&t->world, 'A', node->form, v, word);

        if (len && tale_next(t, word, (size_t)len))
            break;
    }
    bool                fact = found >= 0 || v < n;
    struct story_fault *f = farthest(t, t->at, t->at + fact, fact);

    if (f && v < n)
        snprintf(f->what, sizeof f->what, "%s has no part in this story", word);
    else if (f)
        snprintf(f->what, sizeof f->what, fact ? "this character cannot be meant here"
                                               : "expected a character");
    return false;
}

/* ---- text and cells ---- */

bool tale_text(struct tale *t, const char *s, size_t n)
{
    if (t->mode != WRITE && !tale_next(t, s, n))
        return blame_text(t, s, n);
    if (t->mode == WRITE) {
        if (n > t->cap - t->at)
            return false;
        memcpy(t->out + t->at, s, n);
    }
    t->at += n;
    return true;
}

static int8_t *cell_of(struct world *w, char letter, const struct form *f)
{
    char who = story_alias(w, letter);

    return &w->cell[(who ? who : letter) - 'A'][f->attribute];
}

int8_t *tale_cell(struct tale *t, const struct node *node)
{
    return cell_of(&t->world, node->letter, node->form);
}

int tale_draw(struct tale *t, const int *weights, int n, int total)
{
    int x = total ? (int)rng_below(t->rng, (uint64_t)total) : 0, i = 0;

    while (i < n - 1 && x >= weights[i])
        x -= weights[i++];
    return total ? i : -1;
}

bool tale_recall(struct tale *t, const struct node *node)
{
    char   word[STORY_WORD];
    int8_t v = *tale_cell(t, node);
    size_t n = (size_t)story_word(&t->world, node->letter, node->form, v, word);

    if (n && t->mode != WRITE && !tale_next(t, word, n))
        return blame_word(t, node, word, n);
    return n && tale_text(t, word, n);
}

/* The word of the class that stands in the text and has a weight, or -1. */
static int find(struct tale *t, const struct node *node, const int *weights, int n)
{
    char word[STORY_WORD];
    int  taken = -1;

    for (int v = 0; v < n; v++) {
        size_t len = (size_t)story_word(&t->world, node->letter, node->form, v, word);

        if (!tale_next(t, word, len))
            continue;
        if (weights[v])
            return v;
        taken = v;
    }
    struct story_fault *f = farthest(t, t->at, t->at + (taken >= 0), taken >= 0);

    if (f && taken >= 0)
        story_word(&t->world, node->letter, node->form, taken, word);
    if (f)
        snprintf(f->what, sizeof f->what, taken < 0 ? "expected %s" :
                 "%s has its part in the story already", taken < 0 ?
                 story_classes[node->form->class].label : word);
    return -1;
}

/* The share of word i of a class. */
static int share(int i)
{
    return 32 + (63 - i) * (63 - i) / 64;
}

bool tale_learn(struct tale *t, const struct node *node)
{
    int       weights[64], total = 0, n = story_classes[node->form->class].n;
    uint64_t *used = &t->world.used[node->form->class];
    char      word[STORY_WORD];

    for (int v = 0; v < n; v++) {
        weights[v] = *used >> v & 1 ? 0 : share(v);
        total += weights[v];
    }
    int v = t->mode == WRITE ? tale_draw(t, weights, n, total)
                             : find(t, node, weights, n);

    if (v < 0)
        return false;
    tale_spend(t, weights[v], total);
    *used |= UINT64_C(1) << v;
    *tale_cell(t, node) = (int8_t)v;
    n = story_word(&t->world, node->letter, node->form, v, word);
    return tale_text(t, word, (size_t)n);
}

/* The weights of A B C D as alias node->letter. */
static int candidates(const struct world *w, const struct node *node, int weights[4])
{
    int total = 0;

    for (int c = 0; c < 4; c++) {
        bool apart = (node->letter == 'S' || c != w->cell['S' - 'A'][MAIN]) &&
                     (node->letter != 'U' || c != w->cell['O' - 'A'][MAIN]);

        weights[c] = node->n >> c & 1 && apart && w->cell[c][MAIN] >= 0;
        total += weights[c];
    }
    return total;
}

bool tale_appoint(struct tale *t, const struct node *node)
{
    int8_t *alias = &t->world.cell[node->letter - 'A'][MAIN];
    int     weights[4], total = candidates(&t->world, node, weights), found = -1;

    if (t->mode == WRITE)
        found = tale_draw(t, weights, 4, total);
    for (int c = 0; t->mode != WRITE && c < 4; c++) {
        char   word[STORY_WORD];
        int8_t v = t->world.cell[c][node->form->attribute];
        int    n = story_word(&t->world, (char)('A' + c), node->form, v, word);

        if (n && tale_next(t, word, (size_t)n)) {
            found = c;
            break;
        }
    }
    if (found < 0 || !weights[found])
        return blame_character(t, node, found);
    *alias = (int8_t)found;
    tale_spend(t, 1, total);
    return tale_recall(t, node);
}

void tale_copy(struct tale *t, const struct node *node)
{
    struct world *w = &t->world;
    char          who = story_alias(w, node->from);
    int8_t        value = *cell_of(w, node->from, node->from_form);

    if (node->from_form->class == NAME)
        value = (int8_t)(who - 'A');
    if (strchr("SOU", node->letter))
        w->cell[node->letter - 'A'][MAIN] = value;
    else
        *tale_cell(t, node) = value;
}

bool tale_end(struct tale *t)
{
    if (t->mode == WRITE || t->at == t->cap)
        return true;
    struct story_fault *f = farthest(t, t->at, t->at, false);

    if (f)
        snprintf(f->what, sizeof f->what, "expected the end of the story");
    return false;
}
