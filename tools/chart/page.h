/* What every kind of chart shares: the frame with its title and style, and colours. */
#ifndef WEFT_TOOLS_CHART_PAGE_H
#define WEFT_TOOLS_CHART_PAGE_H
#include <stdio.h>

/* <svg ...> with style; label is for those who cannot see it. The caller closes it. */
void chart_open(FILE *f, int width, int height, int standalone, const char *label);
void chart_title(FILE *f, const char *title);

const char *chart_colour(int colour);       // class of a palette's colour; -1: neutral
double      chart_columns(const char *s);   // letters of a text
#endif
