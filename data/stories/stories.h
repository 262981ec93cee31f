/* The built-in corpus: short stories from a probabilistic grammar with a memory.
 *
 * The grammar (rules.c, plots.c) is text with choices in it; what a story has
 * said, who owns what, where a thing was left, what was promised, is kept in cells and
 * decides what it may say later. One walk (stories.c) goes through the grammar: to write,
 * each choice is drawn; to check, each choice is read off the text. Every text
 * has at most one derivation, so both know its exact probability, and they agree
 * to the last bit.
 */
#ifndef WEFT_STORIES_H
#define WEFT_STORIES_H

#include "data/base/rng.h"

#include <stdbool.h>
#include <stddef.h>

enum { STORY_MAX = 8192 };          // bytes of the longest story, with room to spare

/* Where and why a text is no story. */
struct story_fault {
    size_t at;                      // byte of the text
    bool   fact;                    // it contradicts itself; else its form is wrong
    char   what[160];
};

/* Write one story to buf (no newline at the end, no NUL). Story n of a corpus is drawn
 * from rng_open(seed, RNG_STORY, n). Returns its length and sets *bits to -log2 of its
 * probability; 0 when cap is too small, which STORY_MAX never is. */
size_t story_write(struct rng *r, char *buf, size_t cap, double *bits);

/* 1 when the text is one whole story (a newline at its end is allowed), with *bits as
 * story_write gave them; 0 otherwise, with *fault. */
int story_check(const char *text, size_t len, double *bits, struct story_fault *fault);

/* Who is meant: counts the names that stand after a text's first line, and those among
 * them that it had said before. The one mention that introduces somebody ("Rosa, a shy
 * fox") counts as neither. Of a story all are known. */
struct story_names {
    int all, known;
};
struct story_names story_names(const char *text, size_t len);

/* The same question as story_check's without the reason. */
int stories_floor(const char *text, size_t len, double *bits);

#endif
