/* The terminal behind stderr, for lines that are rewritten in place. */
#ifndef WEFT_LIVE_H
#define WEFT_LIVE_H

#include <stdbool.h>

bool term_live(void);               // stderr is a terminal: one rewritten line
int  term_width(void);              // columns of stderr, 80 when unknown
bool term_color(void);              // stderr is a terminal and NO_COLOR is not set

#endif
