/* The grammar of the stories as a program.
 *
 * How the rules (rules.c, plots.c) are written:
 *
 *     [a|b|c]          a choice, the first likelier than the second and so on; may nest
 *     (a|b|c)          a choice with equal odds
 *     <rule>           the body of another rule
 *     {X.at}           what a cell holds, in one of its forms (words.h)
 *     {+X.at}          a word that is not taken yet goes into the cell
 *     {S:ABC.kind}     alias S becomes one of these characters; O is another than S,
 *                      and U another than both
 *     {X.owner=B}      copies a cell, silently; a character on the right means its letter
 *     {!r}             at the head of an alternative: only once in a story
 *     {?X.at}          at the head of an alternative: only when the cell holds something
 *     `                a double quote
 *
 * The program is an array of nodes; a choice is followed by its alternatives, and each
 * alternative ends in a GOTO past the choice:
 *
 *     CHOICE 2 | ALTERNATIVE | ALTERNATIVE | first ... GOTO | second ... GOTO | the rest
 */
#ifndef WEFT_GRAMMAR_H
#define WEFT_GRAMMAR_H

#include "data/stories/words.h"

struct rule {
    const char *name, *body;
};

extern const struct rule story_rules[];     // the first is the story
extern const struct rule story_plots[];     // both end with a NULL name

enum { MAX_ALTERNATIVES = 64 };

enum op {
    TEXT,           // n bytes at text
    CHOICE,         // n alternatives
    ALTERNATIVE,    // with weight n, at node to
    GOTO,           // node to
    CALL,           // node to, until its END
    RECALL,         // {X.at}
    LEARN,          // {+X.at}
    APPOINT,        // {S:ABC.kind}: n has bit 0 for A, 1 for B ...
    COPY,           // {X.owner=B}
    ONCE,           // {!r}
    NEED,           // {?X.at}
    END,
};

struct node {
    enum op            op;
    char               letter, from;        // registers; from: the right side of COPY
    int                n, to;
    const char        *text;
    const struct form *form, *from_form;
};

/* The program, compiled at the first call; the story begins at node 0. NULL when a rule
 * is not well formed, then with its reason in story_program_error. */
const struct node *story_program(void);
const char        *story_program_error(void);

#endif
