/* Text on a terminal, broken at spaces instead of inside words.
 *
 * A word is held until it is over, so that nothing has to be taken back: what a terminal
 * shows is a word behind. Spaces where a line breaks are dropped; a word wider than the
 * terminal is broken; between two wide characters (CJK) a line may break anywhere.
 */
#ifndef WEFT_WRAP_H
#define WEFT_WRAP_H

#include <stddef.h>
#include <stdio.h>

enum { WRAP_WORD = 1024 };      // bytes of a word; a longer one is broken

struct wrap {
    FILE  *out;                 // not owned
    int    columns;             // 0: nothing is broken, and nothing held
    int    column;              // of what is written
    int    gap;                 // spaces before the word, not yet written
    int    width;               // columns of the word
    size_t len;                 // bytes of it
    char   word[WRAP_WORD];
};

/* One whole character of UTF-8, or a few that stand for one: \x1b. */
void wrap_put(struct wrap *w, const char *bytes, size_t len);

/* Write what is held. */
void wrap_end(struct wrap *w);

/* The columns of a character: 0 (it combines), 1 or 2. */
int wrap_width(const char *bytes, size_t len);

#endif
